"""Keeps the latest and the worst results of a run, and why questions failed."""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from functools import lru_cache
from math import fsum, inf
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.catalogue.metrics import COST, RANKING, is_counted_cost
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, EXECUTION_ERROR, REASON
from graphrag_eval_async.reports.failures import REASON_CHARACTERS, Failures, failure_of
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records.evaluation import Evaluation

KEPT = 200  # how many of the latest results are kept, and how many of the worst

SCORES = RANKING
"""The metrics whose mean ranks results."""

KEPT_OF_REASON = 20
"""How many of the latest results of each reason of failure are kept."""

ERROR_CHARACTERS, SHOWN_CHARACTERS, QUESTION_CHARACTERS = 500, 160, 300
"""Maximum characters kept of an error, shown of it in a table, and kept of the text of a
question.
"""

MAX_CHARACTERS = 256 * 1024  # Results whose steps have more text are listed, but not kept whole.

MAX_QUESTIONS = 10_000
"""Maximum number of questions whose reasons of failure are counted: the first that fail."""

ERROR = "error"  # The key of an error.


@lru_cache(1000)
def _places(metrics: tuple[str, ...]) -> list[int]:
    """The places of `SCORES` among metrics."""
    return [place for place, metric in enumerate(metrics) if metric in SCORES]


def quality(seen: Evaluation) -> float | None:
    """The mean of the `SCORES` of a result, below all for an error; None if it has no such
    score.
    """
    if seen.failed:
        return -inf
    scores = [seen.numbers[place] for place in _places(seen.metrics)]
    return fsum(scores) / len(scores) if scores else None


def shorten(seen: Evaluation) -> dict[str, Any]:
    """The part of a result that is listed."""
    result, values = seen.as_dict(), seen.values
    short: dict[str, Any] = {
        key: result.get(key) for key in ("question_id", "template_id", "sample")
    }
    short["status"] = result.get("status", "success")
    error = ERROR if seen.failed else next((key for key in result if key.endswith("_error")), ERROR)
    if (seen.failed or error != ERROR) and result.get(error) is not None:
        short[ERROR] = str(result[error])[:ERROR_CHARACTERS]
    for key in (REASON, EXECUTION_ERROR):
        if isinstance(told := result.get(key), str):
            short[key] = told[:ERROR_CHARACTERS]
    short["metrics"] = {
        name: each for name, each in values if name in result and not name.endswith(COST)
    }
    if costs := [each for name, each in values if is_counted_cost(name)]:
        short["cost"] = fsum(costs)
    return short


class Entry(msgspec.Struct, gc=False, eq=False):
    """A result that is kept, with its number in the run, from 1; only as a row if it is too
    large.
    """

    number: int
    seen: Evaluation | None
    known: dict[str, Any] | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The part of it that is listed, with the beginning of its question, for the tables of
        pages.
        """
        if self.known is None:
            assert self.seen is not None  # noqa: S101
            failure = failure_of(self.number, self.seen)
            self.known = shorten(self.seen) | {
                "question": text_of(self.seen.as_dict()),
                "number": self.number,
                "detail": "" if failure is None else failure.text,
            }
        return self.known


def entry_of(number: int, seen: Evaluation) -> Entry:
    """A result to be kept: whole, if it is not too large."""
    entry, size = Entry(number, seen), 0
    for step in seen.as_dict().get("actual_steps") or ():
        output = step.get("output") if isinstance(step, dict) else None
        if output is not None:
            size += len(output) if isinstance(output, str) else 1000
    if size > MAX_CHARACTERS:
        entry.known, entry.seen = entry.row, None
    return entry


def text_of(result: Mapping[str, Any]) -> str:
    """The beginning of the text of a question; empty without one."""
    text = result.get("question_text")
    return text[:QUESTION_CHARACTERS] if isinstance(text, str) else ""


class Reasons:
    """Why the results of each question failed; and the text and the latest error of the
    question.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.texts: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.error = ""  # The latest.
        self.not_run = ""  # The first question with queries that could not be run, and why.

    def add(self, seen: Evaluation) -> None:
        """Count a result."""
        result = seen.as_dict()
        reason = AGENT_ERROR if seen.failed else result.get(REASON, NO_FAILURE)
        if (
            EXECUTION_ERROR in result
            and not self.not_run
            and isinstance(told := result[EXECUTION_ERROR], str)
        ):
            self.not_run = one_line(f"{seen.question_id}: {told}", limit=SHOWN_CHARACTERS)
        if reason == NO_FAILURE or not isinstance(reason, str):
            return
        if reason == AGENT_ERROR:
            error = result.get("error")
            self.error = one_line(
                "no message" if error is None else str(error), limit=SHOWN_CHARACTERS
            )
        question = seen.question_id
        if isinstance(question, str) and (
            question in self.counts or len(self.counts) < MAX_QUESTIONS
        ):
            self.counts.setdefault(question, Counter())[reason[:ERROR_CHARACTERS]] += 1
            self.texts.setdefault(question, text_of(result))
            if reason == AGENT_ERROR:
                self.errors[question] = self.error


class Kept:
    """The latest and the worst results of a run, and why questions failed."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[Entry] = deque(maxlen=KEPT)
        self.reasons = Reasons()
        self.failures = Failures()
        self._latest_by_reason: dict[str, deque[Entry]] = {}
        # By quality, the worst first; of equal ones, the latest.
        self._worst: list[tuple[float, int, Entry]] = []

    def add(self, seen: Evaluation) -> None:
        """Keep a complete result while it is among them."""
        self.count = count = self.count + 1
        entry, rank, worst = entry_of(count, seen), quality(seen), self._worst
        self.latest.appendleft(entry)
        if rank is not None and (len(worst) < KEPT or rank <= worst[-1][0]):
            insort(worst, (rank, -count, entry))
            del worst[KEPT:]
        result = seen.as_dict()
        if seen.failed or result.get(REASON, NO_FAILURE) != NO_FAILURE or EXECUTION_ERROR in result:
            self.reasons.add(seen)
            self._add_failure(entry, seen)

    def _add_failure(self, entry: Entry, seen: Evaluation) -> None:
        """Count why a result failed, and keep it among the latest ones of its reason."""
        failure = failure_of(entry.number, seen)
        if failure is None:
            return
        self.failures.add(failure)
        if failure.reason in self.failures.reasons:
            latest = self._latest_by_reason.setdefault(failure.reason, deque(maxlen=KEPT_OF_REASON))
            latest.appendleft(entry)

    def worst(self, below: float = inf) -> list[Entry]:
        """Errors, then results with the lowest means of `SCORES`, if below; others are none."""
        return [entry for rank, _, entry in self._worst if rank < below]

    def find(self, number: int) -> Entry | None:
        """The result with this number, if it is kept."""
        return self._entries().get(number)

    def of_question(self, question_id: str) -> list[Entry]:
        """The results of a question that are kept, the latest first."""
        entries = self._entries()
        newest_first = [entries[number] for number in sorted(entries, reverse=True)]
        return [entry for entry in newest_first if entry.row["question_id"] == question_id]

    def of_reason(self, reason: str) -> list[Entry]:
        """Return the kept results that failed for a reason, the latest first."""
        entries = self._entries()
        newest_first = [entries[number] for number in sorted(entries, reverse=True)]
        return [entry for entry in newest_first if reason_of(entry.row) == reason]

    def _entries(self) -> dict[int, Entry]:
        """Return all results that are kept, by their numbers in the run."""
        entries = {entry.number: entry for entry in (*self.worst(), *self.latest)}
        for latest in self._latest_by_reason.values():
            entries |= {entry.number: entry for entry in latest}
        return entries


def reason_of(row: Mapping[str, Any]) -> str:
    """Return why the result of a row of `Entry` failed; "none" if it did not."""
    if row["status"] == "error":
        return AGENT_ERROR
    reason: str = row.get(REASON, NO_FAILURE)
    return reason[:REASON_CHARACTERS]
