"""SPARQL results for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.formats.reading import read_document
from graphrag_eval_async.steps.formats.results import SparqlResults, results_of

if TYPE_CHECKING:
    from collections.abc import Iterable

XSD = "http://www.w3.org/2001/XMLSchema#"


def read_results(output: Any) -> SparqlResults:
    return results_of(read_document(output))


def select(*bindings: Any, names: Iterable[Any] = ("x",)) -> dict[str, Any]:
    return {"head": {"vars": list(names)}, "results": {"bindings": list(bindings)}}


def cell(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "literal", "value": value, **more}
