"""The outcomes of running one query."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records.shapes import SPARQL_RESULTS
from graphrag_eval_async.steps.sparql.tokens import FORMS, MAX_QUERY_CHARACTERS, form_of, mentions

N_TRIPLES = "application/n-triples"

MAX_MESSAGE = 500
"""Maximum characters kept of an error's text, which may quote the query."""

GRAPH_FORMS = frozenset({"CONSTRUCT", "DESCRIBE"})
"""The forms of queries that return graphs."""

Kind: TypeAlias = Literal["invalid", "refused", "failed", "unavailable"]
"""How running a query failed: "invalid", it does not parse; "refused", it is not run since it could fetch or
change something; "failed", it took too long or returned too much; "unavailable", which is not its fault."""


class Answer(NamedTuple):
    """What a query returned.

    Attributes:
        output: SPARQL results or a graph, as text.
        media_type: what `output` is.
        at: when, in UTC.
    """

    output: str
    media_type: str
    at: str


class QueryFailed(Exception):  # noqa: N818
    """A query has no answer. Agents write such queries, so it is caught, and the result says it.

    Attributes:
        kind: how it failed.
        message: what happened.
        may_pass: whether another attempt may succeed.
        is_slow: whether it took all the time that it may take.
    """

    def __init__(self, kind: Kind, message: str, *, may_pass: bool = False, is_slow: bool = False) -> None:
        self.kind: Kind = kind
        self.message = in_utf8(message[:MAX_MESSAGE])
        self.may_pass = may_pass
        self.is_slow = is_slow
        super().__init__(f"{kind}: {self.message}")


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601 format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def media_type_of(query: str) -> str:
    """Return the media type of the results of a query, by its form."""
    return N_TRIPLES if form_of(query) in GRAPH_FORMS else SPARQL_RESULTS


def check_query(query: str, *, allow_from: bool) -> None:
    """Check that a query of an agent only reads, and that it makes no server fetch anything.

    Raises:
        QueryFailed: it is invalid, or refused.
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        raise QueryFailed("refused", f"it has more than {MAX_QUERY_CHARACTERS:,} characters")
    form = form_of(query)
    if form == "UPDATE":
        raise QueryFailed("refused", "updates are not run")
    if form not in FORMS:
        raise QueryFailed("invalid", f"expected {', '.join(sorted(FORMS))}")
    if mentions(query, "SERVICE"):
        raise QueryFailed("refused", "SERVICE is not allowed: it makes the server fetch addresses")
    if not allow_from and mentions(query, "FROM"):
        raise QueryFailed("refused", "FROM is not allowed: it may make the server fetch addresses")
