"""The outcomes of running queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.steps.tokens import FORMS, MAX_QUERY_CHARACTERS, form_of, mentions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_MESSAGE = 500
"""Maximum characters kept of an error's text, which may quote the query."""

GRAPH_FORMS = frozenset({"CONSTRUCT", "DESCRIBE"})
"""The forms of queries that return graphs."""

Kind: TypeAlias = Literal["invalid", "refused", "failed", "truncated", "unavailable"]
"""How a query failed: "invalid", it does not parse; "refused", it could fetch or change things; "failed", it
took too long or returned too much; "truncated", only a part came; "unavailable", which is not its fault."""


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
        wait: seconds before another attempt, which may succeed; None if it cannot.
        is_suspect: whether the endpoint fails as it does if a query takes too long for it.
        is_slow: whether it took all the time that it may take.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        wait: float | None = None,
        is_suspect: bool = False,
        is_slow: bool = False,
    ) -> None:
        self.kind: Kind = kind
        self.message = in_utf8(message[:MAX_MESSAGE])
        self.wait, self.is_suspect, self.is_slow = wait, is_suspect, is_slow
        super().__init__(f"{kind}: {self.message}")


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601 format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_query(query: str, *, allow_from: bool) -> None:
    """Check that a query of an agent only reads, and that it makes no server fetch anything."""
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


Place = tuple[int, int]
"""The indices of the group of a reference step, and of the step in it."""

_KINDS = {"invalid": "invalid_request"}


class Executed(msgspec.Struct, frozen=True):
    """The outcomes for one response; inputs are never changed, so copies of steps carry them.

    Attributes:
        expected: what the reference queries returned.
        actual: what the agent's queries returned, or why they have no answer, by index of the step.
        invalid: why the agent's queries do not parse, by index of the step.
        facts: facts about the query of a step, read without running it, by index of the step.
        error: why the steps cannot be scored, which is not the agent's fault; begins with the kind.
        provenance: where and when queries were run, as the result says it.
    """

    expected: Mapping[Place, Answer] = {}
    actual: Mapping[int, Answer | QueryFailed] = {}
    invalid: Mapping[int, str] = {}
    facts: Mapping[int, Mapping[str, Any]] = {}
    error: str | None = None
    provenance: Mapping[str, Any] | None = None

    def reference_steps(self, groups: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        """Return the reference steps, with the expected outputs that were fetched."""
        steps = [[*group] for group in groups]
        for (group, index), answer in self.expected.items():
            steps[group][index] = {
                **steps[group][index],
                "output": answer.output,
                "output_media_type": answer.media_type,
                "executed_at": answer.at,
            }
        return steps

    def actual_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to score, with the outputs that their queries return now."""
        replaced = [*steps]
        own: dict[str, Any]
        for index, outcome in self.actual.items():
            if isinstance(outcome, Answer):
                own = {"output": outcome.output, "output_media_type": outcome.media_type, "status": "success"}
            else:
                own = {"output": None, "status": "error", "error": str(outcome)}
            replaced[index] = {**steps[index], **own}
        return replaced

    def judged_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to judge: an answer comes from what the agent saw, so that recorded outputs count.

        Steps without an output get what their queries return now.
        """
        return [
            {**step, "output": outcome.output, "output_media_type": outcome.media_type}
            if step.get("output") is None and isinstance(outcome := self.actual.get(index), Answer)
            else step
            for index, step in enumerate(steps)
        ]

    def additions(self) -> dict[int, dict[str, Any]]:
        """Return the keys that actual steps get in the result, by index of the step."""
        keys: dict[int, dict[str, Any]] = {}
        for index, facts in self.facts.items():
            keys.setdefault(index, {})["query_facts"] = facts
        for index, outcome in self.actual.items():
            if isinstance(outcome, Answer):
                more = {"executed_at": outcome.at, "executed_output": outcome.output}
            else:
                more = {"execution_error": str(outcome)}
            keys.setdefault(index, {}).update(more)
        return keys


def error_of(place: str, failed: QueryFailed) -> str:
    """Return the `execution_error` of a result; it begins with the kind of failure."""
    return f"{_KINDS.get(failed.kind, failed.kind)}: {place}: {failed.message}"
