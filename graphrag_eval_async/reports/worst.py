"""The worst questions of a run, and why they are."""

from __future__ import annotations

from bisect import insort
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR
from graphrag_eval_async.reports.kept import SCORES, Reasons
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.text import number
from graphrag_eval_async.threads import work_in_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.inference.running import RunningAggregates

LISTED, OF_TEMPLATE = 10, 200
"""How many of the worst questions are listed, and how many of a template."""


def worst_questions(aggregates: RunningAggregates, count: int = LISTED) -> list[QuestionScore]:
    """Return the questions with the lowest means of the first of `SCORES`, the lowest first, if
    below 1.

    Errors count as 0, unless their metrics count.
    """
    found: list[QuestionScore] = []
    for _ in _finding(found, aggregates, None, count, below=1.0):
        pass
    return found


async def questions_in_slices(
    aggregates: RunningAggregates, template: str | None = None
) -> list[QuestionScore]:
    """Return the same in slices for other tasks to run; of a template, also questions that are
    right.
    """
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


class WorstQuestion(NamedTuple):
    """A row of the table of the worst questions; `anchor` is that of details on the same page."""

    score: QuestionScore
    question: str
    why: str
    anchor: str | None = None

    @property
    def told(self) -> str:
        """The mean, over how many samples, how many of them are errors, and why it is low."""
        score = self.score
        results = score.values + score.errors
        of_errors = "an error" if score.errors == 1 else "errors"
        errors = f", {score.errors} of them {of_errors}" if score.errors and results > 1 else ""
        over = f"over {results} results" if results > 1 else "in its only result"
        mean = f"{score.metric} {number(score.mean)} {over}"
        return "; ".join(filter(None, (mean + errors, self.why)))


def explained(
    reasons: Reasons, scores: Iterable[QuestionScore], anchors: Mapping[str, str] | None = None
) -> list[WorstQuestion]:
    """Questions with their texts and most frequent reasons; `anchors` are those of details, by
    question.
    """
    found = []
    for score in scores:
        question, why = score.question, ""
        if counts := reasons.counts.get(question):
            reason = min(counts, key=lambda each, counts=counts: (-counts[each], each))  # type: ignore[misc]
            if reason == AGENT_ERROR:
                told = f"{AGENT_ERROR}: {reasons.errors[question]}"
            else:
                told = reason_in_words(reason)
            total = counts.total()
            why = f"{told} ({counts[reason]} of {total} failures)" if total > 1 else told
        anchor = (anchors or {}).get(question)
        found.append(WorstQuestion(score, reasons.texts.get(question, ""), why, anchor))
    return found
