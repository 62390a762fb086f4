"""The worst questions of a run, and why they are."""

from __future__ import annotations

from bisect import insort
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR
from graphrag_eval_async.helpers.text import number
from graphrag_eval_async.helpers.threads import work_in_slices
from graphrag_eval_async.reports.kept import RANKING_SCORES, Reasons
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

    The score is the first of `RANKING_SCORES` in which a question has a mean below 1. An error
    counts as 0, unless its values count.

    Args:
        aggregates: the aggregates of the run.
        count: how many questions to return at most.
    """
    lowest: list[QuestionScore] = []
    pauses = _collect_lowest(lowest, aggregates, template=None, count=count, below=1.0)
    # Nobody waits here, so run to the end at once.
    for _ in pauses:
        pass
    return lowest


async def questions_in_slices(
    aggregates: RunningAggregates, template: str | None = None
) -> list[QuestionScore]:
    """Return the questions with the lowest means of a score, and let other tasks run in between.

    Args:
        aggregates: the aggregates of the run.
        template: the template of the questions. For a template, up to `OF_TEMPLATE` questions are
            returned, even if their mean is 1. If it is None, up to `LISTED` questions of all
            templates are returned, whose means are below 1.
    """
    if template is None:
        count = LISTED
        below = 1.0
    else:
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
    """Add the questions with the lowest means of a score to `lowest`, the lowest first.

    The score is the first of `RANKING_SCORES` in which a question has a mean that counts.

    Args:
        lowest: an empty list, which is filled.
        aggregates: the aggregates of the run.
        template: the template of the questions; None for all templates.
        count: how many questions to add at most.
        below: only means below this count.

    Yields:
        nothing, after each question, so that the caller can pause.
    """
    for metric in RANKING_SCORES:
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
        """The mean and why it is low, such as "steps_score 0.5 over 2 results; missing_rows"."""
        score = self.score
        results = score.values + score.errors
        if results <= 1:
            over = "in its only result"
        elif score.errors == 0:
            over = f"over {results} results"
        elif score.errors == 1:
            over = f"over {results} results, 1 of them an error"
        else:
            over = f"over {results} results, {score.errors} of them errors"
        mean = f"{score.metric} {number(score.mean)} {over}"
        if not self.why:
            return mean
        return f"{mean}; {self.why}"


def explained(
    reasons: Reasons, scores: Iterable[QuestionScore], anchors: Mapping[str, str] | None = None
) -> list[WorstQuestion]:
    """Return the questions of `scores`, each with its text and its most frequent failure.

    Args:
        reasons: why the results of each question failed, and the texts of these questions.
        scores: the means of the questions.
        anchors: by question, the anchor of its details on the same page; None without details.
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
    """Return why a question failed most often, in words; "" if it did not fail.

    Of equally frequent reasons, it is the first in alphabetical order. If the question failed
    several times, the number of failures for the reason follows.
    """
    counts = reasons.counts.get(question)
    if not counts:
        return ""
    highest_count = max(counts.values())
    reason = min(reason for reason, count in counts.items() if count == highest_count)
    if reason == AGENT_ERROR:
        in_words = f"{AGENT_ERROR}: {reasons.errors[question]}"
    else:
        in_words = reason_in_words(reason)
    failures = counts.total()
    if failures == 1:
        return in_words
    return f"{in_words} ({highest_count} of {failures} failures)"
