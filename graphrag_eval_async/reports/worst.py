"""The worst questions of a run, and why they are."""

from __future__ import annotations

from bisect import insort
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR
from graphrag_eval_async.helpers.text import number
from graphrag_eval_async.helpers.threads import work_in_slices
from graphrag_eval_async.reports.kept import SCORES, Reasons
from graphrag_eval_async.reports.wording import reason_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.inference.running import RunningAggregates

LISTED = 10
"""How many of the worst questions of a run are listed."""

OF_TEMPLATE = 200
"""How many of the worst questions of a template are listed."""


def worst_questions(aggregates: RunningAggregates, count: int = LISTED) -> list[QuestionScore]:
    """Return the questions with the lowest means of a score, the lowest first.

    The score is the first of `SCORES` of which a question has a mean below 1. An error counts as 0,
    unless its values count.

    Args:
        aggregates: the aggregates of the run.
        count: how many questions to return at most.
    """
    lowest: list[QuestionScore] = []
    for _ in _collect_lowest(lowest, aggregates, template=None, count=count, below=1.0):
        pass
    return lowest


async def questions_in_slices(
    aggregates: RunningAggregates, template: str | None = None
) -> list[QuestionScore]:
    """Return the worst questions as `worst_questions` does, letting other tasks run in between.

    Args:
        aggregates: the aggregates of the run.
        template: the template of the questions, of which right ones are returned, too; None for
            those of all templates.
    """
    count = LISTED
    below = 1.0
    if template is not None:
        count = OF_TEMPLATE
        below = inf
    lowest: list[QuestionScore] = []
    await work_in_slices(
        _collect_lowest(lowest, aggregates, template=template, count=count, below=below)
    )
    return lowest


def _collect_lowest(
    lowest: list[QuestionScore],
    aggregates: RunningAggregates,
    *,
    template: str | None,
    count: int,
    below: float,
) -> Iterator[None]:
    """Add the questions with the lowest means of a score to `lowest`, and keep it sorted.

    The score is the first of `SCORES` for which there are any.

    Args:
        lowest: an empty list.
        aggregates: the aggregates of the run.
        template: the template of the questions; None for those of all templates.
        count: how many questions to add at most.
        below: only means below this count.

    Yields:
        after each question, so that the caller can pause.
    """
    for metric in SCORES:
        for score in aggregates.question_scores(metric, template):
            has_room = len(lowest) < count
            if score.mean < below and (has_room or score.rank < lowest[-1].rank):
                insort(lowest, score, key=attrgetter("rank"))
                del lowest[count:]
            yield
        if lowest:
            return


class WorstQuestion(NamedTuple):
    """A row of the table of the worst questions.

    Attributes:
        score: the mean of the question.
        question: the beginning of its text; empty if it is not known.
        why: its most frequent reason of failure, in words; empty if it has none.
        anchor: the anchor of its details on the same page; None if there are none.
    """

    score: QuestionScore
    question: str
    why: str
    anchor: str | None = None

    @property
    def told(self) -> str:
        """The mean, over how many results, how many of these are errors, and why it is low."""
        score = self.score
        results = score.values + score.errors
        over = "in its only result"
        if results > 1:
            over = f"over {results} results"
            if score.errors == 1:
                over += ", 1 of them an error"
            elif score.errors > 1:
                over += f", {score.errors} of them errors"
        mean = f"{score.metric} {number(score.mean)} {over}"
        return f"{mean}; {self.why}" if self.why else mean


def explained(
    reasons: Reasons, scores: Iterable[QuestionScore], anchors: Mapping[str, str] | None = None
) -> list[WorstQuestion]:
    """Return questions with their texts and their most frequent reasons of failure.

    Args:
        reasons: the reasons and texts of a run, by question.
        scores: the means of the questions.
        anchors: by question, the anchor of its details on the same page.
    """
    if anchors is None:
        anchors = {}
    return [
        WorstQuestion(
            score=score,
            question=reasons.texts.get(score.question, ""),
            why=_most_frequent_reason(reasons, score.question),
            anchor=anchors.get(score.question),
        )
        for score in scores
    ]


def _most_frequent_reason(reasons: Reasons, question: str) -> str:
    """Return why a question failed most often, in words; an empty text if it did not fail.

    Of equally frequent reasons, it is the first in alphabetical order.
    """
    counts = reasons.counts.get(question)
    if not counts:
        return ""
    most = max(counts.values())
    reason = min(reason for reason, count in counts.items() if count == most)
    if reason == AGENT_ERROR:
        in_words = f"{AGENT_ERROR}: {reasons.errors[question]}"
    else:
        in_words = reason_in_words(reason)
    failures = counts.total()
    if failures == 1:
        return in_words
    return f"{in_words} ({most} of {failures} failures)"
