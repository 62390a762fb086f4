"""Keeps the latest and the worst results of a run, and why questions failed."""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from functools import lru_cache
from math import fsum, inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.catalogue.metrics import COST, RANKING, is_counted_cost
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, EXECUTION_ERROR, REASON
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.reports.failures import REASON_CHARACTERS, Failures, failure_of
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records.evaluation import Evaluation

KEPT = 200
"""How many of the latest results are kept, and how many of the worst."""

KEPT_OF_REASON = 20
"""How many of the latest results of each reason of failure are kept."""

RANKING_SCORES = RANKING
"""The metrics whose mean ranks results."""

ERROR_CHARACTERS = 500
"""Maximum number of characters that are kept of an error."""

SHOWN_CHARACTERS = 160
"""Maximum number of characters of an error that a table shows."""

QUESTION_CHARACTERS = 300
"""Maximum number of characters that are kept of the text of a question."""

MAX_CHARACTERS = 256 * 1024
"""A result whose steps have more text is listed, but not kept whole."""

CHARACTERS_OF_OUTPUT = 1000
"""About how much memory an output takes that is no text, in characters; chosen."""

MAX_QUESTIONS = 10_000
"""Maximum number of questions whose reasons of failure are counted: the first that fail."""

ERROR = "error"
"""The key of an error of the agent in a result, and of any error in a row."""


@lru_cache(1000)
def _places_of_ranking_scores(metrics: tuple[str, ...]) -> list[int]:
    """Return the indices of `RANKING_SCORES` among the names of metrics."""
    return [place for place, metric in enumerate(metrics) if metric in RANKING_SCORES]


def quality(evaluation: Evaluation) -> float | None:
    """Return the number that ranks a result: the mean of its `RANKING_SCORES`.

    Returns:
        minus infinity for an error of the agent; None if the result has no ranking score.
    """
    if evaluation.failed:
        return -inf
    places = _places_of_ranking_scores(evaluation.metrics)
    if not places:
        return None
    return fsum(evaluation.numbers[place] for place in places) / len(places)


def shorten(evaluation: Evaluation) -> dict[str, Any]:
    """Return a result as lists of results show it: without its steps, and with one error only."""
    result = evaluation.as_dict()
    row: dict[str, Any] = {
        "question_id": result.get("question_id"),
        "template_id": result.get("template_id"),
        "sample": result.get("sample"),
        "status": result.get("status", "success"),
    }
    error = _error_of(evaluation)
    if error is not None:
        row[ERROR] = str(error)[:ERROR_CHARACTERS]
    for key in (REASON, EXECUTION_ERROR):
        text = result.get(key)
        if isinstance(text, str):
            row[key] = text[:ERROR_CHARACTERS]

    # Metrics of steps are left out: they have a value for each step, and are no keys of the result.
    row["metrics"] = {
        name: value
        for name, value in evaluation.values
        if name in result and not name.endswith(COST)
    }
    costs = [value for name, value in evaluation.values if is_counted_cost(name)]
    if costs:
        row["cost"] = fsum(costs)
    return row


def _error_of(evaluation: Evaluation) -> Any:
    """Return the error of the agent or, if it did not fail, the first error of a metric.

    Returns:
        None if there is no error.
    """
    result = evaluation.as_dict()
    if evaluation.failed:
        return result.get(ERROR)
    for key, value in result.items():
        if key.endswith("_error"):
            return value
    return None


def text_of(result: Mapping[str, Any]) -> str:
    """Return the beginning of the text of a result's question; "" if the result has no text."""
    text = result.get("question_text")
    if not isinstance(text, str):
        return ""
    return text[:QUESTION_CHARACTERS]


class Entry(msgspec.Struct, gc=False, eq=False):
    """A result that is kept.

    Attributes:
        number: the number of the result in the run, from 1.
        evaluation: the whole result; None if it is too large to be kept.
        cached_row: its `row`; None until somebody asks for it, unless the result is too large.
    """

    number: int
    evaluation: Evaluation | None
    cached_row: dict[str, Any] | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The result as tables of pages show it, with the beginning of its question."""
        if self.cached_row is None:
            assert self.evaluation is not None  # noqa: S101
            self.cached_row = _row(self.number, self.evaluation)
        return self.cached_row


def _row(number: int, evaluation: Evaluation) -> dict[str, Any]:
    """Return a result as tables of pages show it, with its question and why it failed.

    Args:
        number: the number of the result in the run.
        evaluation: the result.
    """
    failure = failure_of(number, evaluation)
    return {
        **shorten(evaluation),
        "question": text_of(evaluation.as_dict()),
        "number": number,
        "detail": "" if failure is None else failure.text,
    }


def entry_of(number: int, evaluation: Evaluation) -> Entry:
    """Return the entry of a result: the whole result, unless its steps have too much text.

    Args:
        number: the number of the result in the run.
        evaluation: the result.
    """
    characters = 0
    for step in evaluation.as_dict().get("actual_steps") or ():
        if not isinstance(step, dict):
            continue
        output = step.get("output")
        if isinstance(output, str):
            characters += len(output)
        elif output is not None:
            # The length of an output that is no text is estimated.
            characters += CHARACTERS_OF_OUTPUT
    if characters > MAX_CHARACTERS:
        return Entry(number, evaluation=None, cached_row=_row(number, evaluation))
    return Entry(number, evaluation)


class Reasons:
    """Why the results of each question failed.

    Attributes:
        counts: for each question, how many of its results failed, by reason.
        texts: the beginning of the text of each of these questions.
        errors: the latest error of the agent, by question.
        error: the latest error of the agent; empty without one.
        not_run: the first question with queries that could not be run, and why; empty without one.
    """

    def __init__(self) -> None:
        # By question.
        self.counts: dict[str, Counter[str]] = {}
        self.texts: dict[str, str] = {}
        self.errors: dict[str, str] = {}

        # The latest error of all questions, and the first queries that could not be run.
        self.error = ""
        self.not_run = ""

    def add(self, evaluation: Evaluation) -> None:
        """Count a result if it failed, and remember the first queries that could not be run."""
        result = evaluation.as_dict()
        why_not_run = result.get(EXECUTION_ERROR)
        if not self.not_run and isinstance(why_not_run, str):
            text = f"{evaluation.question_id}: {why_not_run}"
            self.not_run = one_line(text, limit=SHOWN_CHARACTERS)

        reason = AGENT_ERROR if evaluation.failed else result.get(REASON, NO_FAILURE)
        # Results of other programs may have a reason that is no text.
        if reason == NO_FAILURE or not isinstance(reason, str):
            return
        if reason == AGENT_ERROR:
            error = result.get(ERROR)
            text = "no message" if error is None else str(error)
            self.error = one_line(text, limit=SHOWN_CHARACTERS)
        question = evaluation.question_id
        if isinstance(question, str):
            self._count(question, reason[:ERROR_CHARACTERS], result)

    def _count(self, question: str, reason: str, result: Mapping[str, Any]) -> None:
        """Count a result that failed, if there is room for its question.

        Args:
            question: the id of the question.
            reason: why the result failed.
            result: the result.
        """
        has_room = question in self.counts or len(self.counts) < MAX_QUESTIONS
        if not has_room:
            return
        self.counts.setdefault(question, Counter())[reason] += 1
        self.texts.setdefault(question, text_of(result))
        if reason == AGENT_ERROR:
            self.errors[question] = self.error


class RankedEntry(NamedTuple):
    """An entry among the worst; they are sorted by these fields.

    Attributes:
        quality: the quality of the result.
        negative_number: its number, negated, so that the latest of equal results comes first.
        entry: the entry.
    """

    quality: float
    negative_number: int
    entry: Entry


class Kept:
    """The latest and the worst results of a run, and why questions failed.

    Attributes:
        count: number of results so far.
        latest: the latest results, the newest first.
        reasons: why questions failed.
        failures: how often results failed for each reason, with their texts.
    """

    def __init__(self) -> None:
        self.count = 0

        # The results themselves.
        self.latest: deque[Entry] = deque(maxlen=KEPT)
        self._latest_by_reason: dict[str, deque[Entry]] = {}
        # Sorted by quality, the worst first.
        self._worst: list[RankedEntry] = []

        # Why results failed: counted by question, and counted by reason.
        self.reasons = Reasons()
        self.failures = Failures()

    def add(self, evaluation: Evaluation) -> None:
        """Count a complete result, and keep it as long as it is among the latest or the worst."""
        self.count += 1
        entry = entry_of(self.count, evaluation)
        self.latest.appendleft(entry)
        self._add_to_worst(entry, quality(evaluation))

        result = evaluation.as_dict()
        has_failed = evaluation.failed or result.get(REASON, NO_FAILURE) != NO_FAILURE
        if has_failed or EXECUTION_ERROR in result:
            self.reasons.add(evaluation)
            self._add_failure(entry, evaluation)

    def _add_to_worst(self, entry: Entry, entry_quality: float | None) -> None:
        """Keep an entry among the worst, if it is one of them.

        Args:
            entry: the entry.
            entry_quality: the number that ranks it. None if it has none: then it is not kept.
        """
        if entry_quality is None:
            return
        has_room = len(self._worst) < KEPT
        # Of equal results, the latest ones are kept.
        if has_room or entry_quality <= self._worst[-1].quality:
            insort(self._worst, RankedEntry(entry_quality, -entry.number, entry))
            del self._worst[KEPT:]

    def _add_failure(self, entry: Entry, evaluation: Evaluation) -> None:
        """Count why a result failed, and keep it among the latest results with its reason."""
        failure = failure_of(entry.number, evaluation)
        if failure is None:
            return
        self.failures.add(failure)
        # Only so many reasons are counted, and only their results are kept.
        if failure.reason in self.failures.reasons:
            latest = self._latest_by_reason.setdefault(failure.reason, deque(maxlen=KEPT_OF_REASON))
            latest.appendleft(entry)

    def worst(self, below: float = inf) -> list[Entry]:
        """Return the worst results, the worst first.

        Errors of the agent come first, then the results with the lowest means of `RANKING_SCORES`.

        Args:
            below: only results with a lower quality are returned.
        """
        return [ranked.entry for ranked in self._worst if ranked.quality < below]

    def find(self, number: int) -> Entry | None:
        """Return the result with a number in the run; None if it is not kept."""
        return self._entries().get(number)

    def of_question(self, question_id: str) -> list[Entry]:
        """Return the kept results of a question, the latest first."""
        return [entry for entry in self._newest_first() if entry.row["question_id"] == question_id]

    def of_reason(self, reason: str) -> list[Entry]:
        """Return the kept results that failed for a reason, the latest first."""
        return [entry for entry in self._newest_first() if reason_of(entry.row) == reason]

    def _newest_first(self) -> list[Entry]:
        """Return all kept results, the latest first."""
        entries = self._entries()
        return [entries[number] for number in sorted(entries, reverse=True)]

    def _entries(self) -> dict[int, Entry]:
        """Return all kept results by their numbers in the run.

        A result that is kept for several reasons is in the dict once.
        """
        kept = [*self.worst(), *self.latest]
        for latest in self._latest_by_reason.values():
            kept += latest
        return {entry.number: entry for entry in kept}


def reason_of(row: Mapping[str, Any]) -> str:
    """Return the reason why a result failed; "none" if it did not.

    Args:
        row: the result as tables show it.
    """
    if row["status"] == "error":
        return AGENT_ERROR
    reason: str = row.get(REASON, NO_FAILURE)
    return reason[:REASON_CHARACTERS]
