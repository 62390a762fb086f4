"""The worst questions of a run, in one order for all pages and reports."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.monitor.counting import SCORES
from graphrag_eval_async.monitor.wording import reason_in_words
from graphrag_eval_async.records.outcomes import EXECUTION_ERROR, REASON
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.text import number, one_line, plural
from graphrag_eval_async.threads import work_in_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.inference.running import RunningAggregates

LISTED = 10
"""How many of the worst questions are listed."""

OF_TEMPLATE = 200
"""How many questions of a template are listed."""

MAX_QUESTIONS = 10_000
"""Maximum number of questions whose reasons of failure are counted: the first that fail."""

ERROR_CHARACTERS = 160
"""Maximum characters shown of an error."""

ERROR = "error"
"""The reason of responses that are errors."""


def worst_questions(aggregates: RunningAggregates, count: int = LISTED) -> list[QuestionScore]:
    """Return the questions with the lowest means of the first of `SCORES`, the lowest first, if below 1.

    Errors count as 0, unless their metrics count.
    """
    found: list[QuestionScore] = []
    for _ in _finding(found, aggregates, None, count, below=1.0):
        pass
    return found


async def questions_in_slices(
    aggregates: RunningAggregates, template: str | None = None
) -> list[QuestionScore]:
    """Return the same while others can run; of a template, also questions that are right."""
    found: list[QuestionScore] = []
    count, below = (LISTED, 1.0) if template is None else (OF_TEMPLATE, inf)
    await work_in_slices(_finding(found, aggregates, template, count, below))
    return found


def _finding(
    found: list[QuestionScore],
    aggregates: RunningAggregates,
    template: str | None,
    count: int,
    below: float,
) -> Iterator[None]:
    for metric in SCORES:
        for each in aggregates.question_scores(metric, template):
            if each.mean < below and (len(found) < count or each.rank < found[-1].rank):
                insort(found, each, key=attrgetter("rank"))
                del found[count:]
            yield
        if found:
            return


def score_in_words(score: QuestionScore) -> str:
    """The mean of a question, over how many samples, and how many of them are errors."""
    samples = score.values + score.errors
    errors = (
        f", {score.errors} of them {'errors' if score.errors > 1 else 'an error'}" if score.errors else ""
    )
    return f"{score.metric} {number(score.mean)} over {plural(samples, 'result')}{errors}"


class WorstQuestion(NamedTuple):
    """A row of the table of the worst questions; `anchor` is that of details on the same page."""

    score: QuestionScore
    question: str | None
    why: str
    anchor: str | None = None


class Reasons:
    """Why results of each question failed, and its text.

    Attributes:
        error: the message of the latest error.
        not_run: why the queries of a result could not be run, of the first such result.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._texts: dict[str, str | None] = {}
        self._errors: dict[str, str] = {}
        self.error = self.not_run = ""

    def add(self, short: Mapping[str, Any]) -> None:
        """Count a result, in short."""
        reason = ERROR if short["status"] == "error" else short.get(REASON, NO_FAILURE)
        question = short["question_id"]
        if reason == ERROR:
            self.error = one_line(str(short.get("error", "no message")), limit=ERROR_CHARACTERS)
        self.not_run = self.not_run or one_line(short.get(EXECUTION_ERROR, ""), limit=ERROR_CHARACTERS)
        if reason == NO_FAILURE or not isinstance(question, str):
            return
        counts = self._counts.get(question)
        if counts is None:
            if len(self._counts) >= MAX_QUESTIONS:
                return
            counts = self._counts[question] = Counter()
            self._texts[question] = short.get("question")
        counts[reason] += 1
        if reason == ERROR:
            self._errors[question] = self.error

    def rows(
        self, scores: Iterable[QuestionScore], anchors: Mapping[str, str] | None = None
    ) -> Sequence[WorstQuestion]:
        """Explain the worst questions; `anchors` are those of their details, by question."""
        return [
            WorstQuestion(
                score,
                self._texts.get(score.question),
                self._why(score.question),
                (anchors or {}).get(score.question),
            )
            for score in scores
        ]

    def _why(self, question: str) -> str:
        """The most frequent reason, in words."""
        counts = self._counts.get(question)
        if not counts:
            return ""
        reason = min(counts, key=lambda each: (-counts[each], each))
        told = f"error: {self._errors[question]}" if reason == ERROR else reason_in_words(reason)
        return f"{told} ({counts[reason]} of {counts.total()} failures)"
