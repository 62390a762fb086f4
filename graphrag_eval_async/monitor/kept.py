"""Keeps the latest and the worst results of a run whole, for pages of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.monitor.counting import Selection, shorten
from graphrag_eval_async.monitor.worst import Reasons
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = 200
"""How many of the latest results are kept, and how many of the worst."""

QUESTION_CHARACTERS = 300

MAX_CHARACTERS = 256 * 1024
"""Results whose steps have more text are listed, but not kept whole."""


class KeptResults:
    """The latest and the worst results of a run, by their number in it, from 1.

    Attributes:
        count: the number of results.
    """

    def __init__(self) -> None:
        self.latest = Selection("last", KEPT)
        self.worst = Selection("worst", KEPT)
        self.reasons = Reasons()
        self.count = 0

    def add(self, result: Mapping[str, Any], short: Mapping[str, Any]) -> None:
        """Keep a result, and the part of it that is shown, while it is among them."""
        self.count += 1
        whole = result if _is_small(result) else None
        entry = {**with_question(short, result), "number": self.count, "result": whole}
        self.reasons.add(entry)
        self.latest.add(entry)
        self.worst.add(entry)

    def find(self, number: int) -> Mapping[str, Any] | None:
        """The entry of the result with this number, if it is kept."""
        for entry in (*self.latest.facts(), *self.worst.facts()):
            if entry["number"] == number:
                return entry
        return None

    def of_question(self, question_id: str) -> Sequence[Mapping[str, Any]]:
        """The entries of the results of a question that are kept, the latest first."""
        entries = {each["number"]: each for each in (*self.worst.facts(), *self.latest.facts())}
        return [
            each for _, each in sorted(entries.items(), reverse=True) if each["question_id"] == question_id
        ]


def in_short(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result in short, with the text of its question.

    Raises:
        AggregationError: it is not a result.
    """
    return with_question(shorten(result, observe(result, include_errors=True).values), result)


def with_question(short: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """A result in short, with the text of its question, None if it has none."""
    text = result.get("question_text")
    return {**short, "question": text[:QUESTION_CHARACTERS] if isinstance(text, str) else None}


def _is_small(result: Mapping[str, Any]) -> bool:
    """Whether a result is small enough to be kept."""
    size = 0
    for step in result.get("actual_steps") or ():
        output = step.get("output") if isinstance(step, dict) else None
        size += len(output) if isinstance(output, str) else 1000 if output is not None else 0
    return size <= MAX_CHARACTERS
