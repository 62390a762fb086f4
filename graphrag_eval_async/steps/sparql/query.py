"""What a SPARQL query asks for: its form and its elements, read from its tokens without running it.

Elements are the predicates, classes, constants, filters and graphs of a query. Names of variables, prefixes,
white space, comments and spellings of numbers make no difference. What a query selects, groups and sorts is
no element, nor is how its patterns are nested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.sparql.elements import ElementReader
from graphrag_eval_async.steps.sparql.terms import is_iri
from graphrag_eval_async.steps.sparql.tokens import FORMS, form_of, tokens

if TYPE_CHECKING:
    from collections import Counter

    from graphrag_eval_async.steps.sparql.elements import Element


class Query(NamedTuple):
    """A query as its tokens tell.

    Attributes:
        form: SELECT, ASK, CONSTRUCT or DESCRIBE; UPDATE for an update; None for other text.
        elements: how often each element occurs.
        prefixes: IRIs by prefix, as the query declares them.
    """

    form: str | None
    elements: Counter[Element]
    prefixes: dict[str, str]

    def vocabulary(self) -> dict[str, list[str]]:
        """Return the predicates, classes and other IRIs, each once and sorted."""
        found: dict[str, set[str]] = {"predicates": set(), "classes": set(), "iris": set()}
        keys = {"predicate": "predicates", "class": "classes", "constant": "iris", "graph": "iris"}
        for kind, text in self.elements:
            key = keys.get(kind.removeprefix("template "))
            if key is not None and is_iri(text):
                found[key].add(text)
        return {key: sorted(texts) for key, texts in found.items() if texts}


def read_query(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Read a query; text that is none has elements, too, but they mean nothing.

    Args:
        text: the query.
        prefixes: IRIs of prefixes that the query need not declare, as many servers know some.
    """
    reader = ElementReader(prefixes or {})
    for token in tokens(text):
        reader.take(token)
    return Query(reader.form, reader.elements, reader.declared)


def similarity(one: Query, other: Query) -> float:
    """Return the F1 of the elements of two queries, each counted as often as it occurs; from 0 to 1."""
    total = one.elements.total() + other.elements.total()
    if not total:
        return float(one.form == other.form)
    return 2 * (one.elements & other.elements).total() / total


def sparql_of(step: Mapping[str, Any]) -> str | None:
    """Return the SPARQL query that a step carries; None if it has none, or one of another language."""
    text = query_of(step)
    return text if text is not None and form_of(text) in FORMS else None


QUERY_KEYS = ("query", "sparql", "sparql_query", "queryString")
"""The arguments of a step that may hold its query; the first that holds text counts."""


def query_of(step: Mapping[str, Any]) -> str | None:
    """Return the query that a step carries in its arguments, or else itself; None if it has none."""
    args = step.get("args")
    for place in (args, step):
        if isinstance(place, Mapping):
            for key in QUERY_KEYS:
                if isinstance(text := place.get(key), str) and text.strip():
                    return text
    return None
