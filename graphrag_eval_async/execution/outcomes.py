"""Which queries are run, what they return, and what that adds to steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from graphrag_eval_async.catalogue.media_types import GRAPHS, TABLES
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY
from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.steps.queries import QUERY_KEYS, query_of
from graphrag_eval_async.steps.tokens import (
    FORMS,
    GRAPH_FORMS,
    MAX_QUERY_CHARACTERS,
    form_of,
    mentions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps import PreparedStep

MAX_QUERIES = 50  # Maximum queries of one response that are run or parsed: the last ones.
MAX_MESSAGE = 500  # Maximum characters kept of an error's text, which may quote the query.

Kind: TypeAlias = Literal["invalid", "refused", "failed", "truncated", "unavailable"]
"""How a query failed: "invalid", it does not parse; "refused", it could fetch or change things;
"failed", it took too long or returned too much; "truncated", only a part came; "unavailable", which
is not its fault.
"""

# The indices of the group of a reference step, and of the step in it.
Place: TypeAlias = tuple[int, int]


class Answer(NamedTuple):
    """What a query returned: SPARQL results or a graph as text, its media type, and when, in
    UTC.
    """

    output: str
    media_type: str
    at: str


class QueryFailed(Exception):  # noqa: N818
    """A query has no answer. Agents write such queries, so it is caught, and the result says it."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        wait: float | None = None,  # Seconds before another attempt; None if that cannot succeed.
        is_suspect: bool = False,  # The endpoint fails as if the query took too long for it.
        is_slow: bool = False,  # It took all the time it may take.
    ) -> None:
        self.kind: Kind = kind
        self.message = in_utf8(message[:MAX_MESSAGE])
        self.wait, self.is_suspect, self.is_slow = wait, is_suspect, is_slow
        super().__init__(f"{kind}: {self.message}")


def error_of(place: str, failed: QueryFailed) -> str:
    """Return the `execution_error` of a result; it begins with the kind of failure."""
    kind = "invalid_request" if failed.kind == "invalid" else failed.kind
    return f"{kind}: {place}: {failed.message}"


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601 format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reference_queries(
    groups: Sequence[Sequence[PreparedStep]], *, replace: bool = True
) -> dict[Place, str]:
    """Return the queries that give expected outputs; without `replace`, only of steps that have
    none.
    """
    return {
        (group_index, index): query
        for group_index, group in enumerate(groups)
        for index, step in enumerate(group)
        if (query := _query_to_run(step.step)) is not None
        and (replace or step.step.get("output") is None)
    }


def actual_queries(
    groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return the queries of the steps that match reference steps with queries, by index of the
    step.
    """
    names = {
        name
        for group in groups
        for step in group
        if step.step.get("output_media_type") in (*TABLES, *GRAPHS)
        or step.step.get(REFERENCE_QUERY)
        for name in step.names
    }
    texts = (
        (index, query_of(step)) for index, step in enumerate(steps) if step.get("name") in names
    )
    return dict([(index, text) for index, text in texts if text is not None][-MAX_QUERIES:])


def queries_to_check(
    groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return the queries of all steps that are SPARQL queries, by index of the step.

    These are the `actual_queries`, and those of steps that have SPARQL in their name or in that of
    the argument, or whose text has the form of a query. SQL begins alike, but has no braces.
    """
    queries = actual_queries(groups, steps)
    for index, step in enumerate(steps):
        text = query_of(step)
        if text is None or index in queries:
            continue
        names = [str(step.get("name"))]
        args = step.get("args")
        if isinstance(args, Mapping):
            names += [key for key in QUERY_KEYS if args.get(key) == text]
        is_named_so = any("sparql" in name.lower() for name in names)
        if is_named_so or (form_of(text) in FORMS and "{" in text):
            queries[index] = text
    return dict(sorted(queries.items())[-MAX_QUERIES:])


def _query_to_run(step: Mapping[str, Any]) -> str | None:
    """The `reference_query`, or the query in the arguments if the output is the result of a
    query.
    """
    reference, media_type = step.get(REFERENCE_QUERY), step.get("output_media_type")
    if isinstance(reference, str):
        return reference
    if media_type not in (*TABLES, *GRAPHS) or (text := query_of(step)) is None:
        return None
    return (
        text
        if form_of(text) in (FORMS - GRAPH_FORMS if media_type in TABLES else GRAPH_FORMS)
        else None
    )


def check_query(query: str, *, allow_from: bool, allow_service: bool) -> None:
    """Check that a query of an agent only reads, and that it makes no server fetch anything."""
    if len(query) > MAX_QUERY_CHARACTERS:
        raise QueryFailed("refused", f"it has more than {MAX_QUERY_CHARACTERS:,} characters")
    form = form_of(query)
    if form == "UPDATE":
        raise QueryFailed("refused", "updates are not run")
    if form not in FORMS:
        raise QueryFailed("invalid", f"expected {', '.join(sorted(FORMS))}")
    if not allow_service and mentions(query, "SERVICE"):
        cure = "execute.allow_service permits it at an endpoint"
        raise QueryFailed(
            "refused", f"SERVICE is not allowed: it makes the server fetch addresses; {cure}"
        )
    if not allow_from and mentions(query, "FROM"):
        cure = "execute.allow_from permits it"
        raise QueryFailed(
            "refused", f"FROM is not allowed: it may make the server fetch addresses; {cure}"
        )


class Executed(msgspec.Struct, frozen=True):
    """The outcomes for one response; by index of the step where they are of the agent's queries."""

    expected: Mapping[Place, Answer] = {}
    actual: Mapping[int, Answer | QueryFailed] = {}
    invalid: Mapping[int, str] = {}  # Why queries do not parse.
    facts: Mapping[int, Mapping[str, Any]] = {}  # About queries, read without running them.
    error: str | None = None  # Why steps cannot be scored, which is not the agent's fault.
    provenance: Mapping[str, Any] | None = None  # Where and when queries were run.

    def reference_steps(
        self, groups: Sequence[Sequence[dict[str, Any]]]
    ) -> list[list[dict[str, Any]]]:
        """Return the reference steps, with the expected outputs that were fetched."""
        steps = [[*group] for group in groups]
        for (group, index), answer in self.expected.items():
            step = steps[group][index]
            steps[group][index] = {**step, **_fetched(answer), "executed_at": answer.at}
        return steps

    def actual_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to score, with the outputs that their queries return now."""
        replaced = [*steps]
        for index, outcome in self.actual.items():
            own: dict[str, Any] = {
                "output": None,
                "status": "error",
                "execution_error": str(outcome),
            }
            if isinstance(outcome, Answer):
                own = {"status": "success", **_fetched(outcome)}
            replaced[index] = {**steps[index], **own}
        return replaced

    def judged_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to judge: those without a recorded output get what their queries
        return now.
        """
        return [
            {**step, **_fetched(outcome)}
            if step.get("output") is None and isinstance(outcome := self.actual.get(index), Answer)
            else step
            for index, step in enumerate(steps)
        ]

    def additions(self) -> dict[int, dict[str, Any]]:
        """Return the keys that actual steps get in the result, by index of the step."""
        keys: dict[int, dict[str, Any]] = {
            i: {"query_facts": facts} for i, facts in self.facts.items()
        }
        for index, outcome in self.actual.items():
            more = {"execution_error": str(outcome)}
            if isinstance(outcome, Answer):
                more = {"executed_at": outcome.at, "executed_output": outcome.output}
            keys.setdefault(index, {}).update(more)
        return keys


def _fetched(answer: Answer) -> dict[str, str]:
    return {"output": answer.output, "output_media_type": answer.media_type}
