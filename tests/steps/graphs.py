"""Graphs for tests, read from text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.steps import Budget
from graphrag_eval_async.steps.graphs.comparison import isomorphic
from graphrag_eval_async.steps.graphs.reading import read_graph

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from graphrag_eval_async.steps.graphs.reading import Graph

PREFIXES = "@prefix : <http://example.org/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"


def turtle(*statements: str) -> str:
    return PREFIXES + "\n".join(f"{statement} ." for statement in statements)


def read(output: Any, media_type: str | None = None, *, union: bool = False) -> Graph:
    return read_graph(output, media_type, Budget(), union=union)


def same(expected: Iterable[str], actual: Iterable[str]) -> bool:
    """Whether graphs of Turtle statements are isomorphic."""
    return isomorphic(read(turtle(*expected)), read(turtle(*actual)), Budget())
