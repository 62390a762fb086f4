"""Outcomes of the queries of one response and of its reference steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.execution.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.execution.answer import QueryFailed

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
