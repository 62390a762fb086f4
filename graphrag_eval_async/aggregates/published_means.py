"""Means as the benchmarks QALD and TEXT2SPARQL publish them, to compare with their tables."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.metrics import TEXT2SPARQL_F1, VALUES_RECALL, VALUES_WRONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.aggregates.questions import QuestionScore


def published_means(scores_of: Callable[[str], Iterable[QuestionScore]]) -> dict[str, float | int]:
    """Return the means of a set of results, each over all questions that have one.

    A question whose agent failed counts as one with an empty answer, and several samples of a
    question count as their mean.

    Args:
        scores_of: returns the mean of a metric for each question, in which an error counts as 0.

    Returns:
        `questions`: how many there are; `qald_f1`: "Macro F1 QALD", the F1 of the mean precision
        and the mean recall, where an empty answer has precision 1 (Usbeck et al. 2019,
        "Benchmarking question answering systems"); `published`: what TEXT2SPARQL publishes.
    """
    recalls = [score.mean for score in scores_of(VALUES_RECALL)]
    questions = len(recalls)
    # What an agent did not return cannot be wrong, so an empty answer and an error count as 0.
    wrong_shares = [score.mean for score in scores_of(VALUES_WRONG)]
    precision = 1 - fsum(wrong_shares) / questions
    recall = fsum(recalls) / questions
    published = fsum(score.mean for score in scores_of(TEXT2SPARQL_F1)) / questions
    return {
        "questions": questions,
        "qald_f1": _f1(precision, recall),
        "published": published,
    }


def _f1(precision: float, recall: float) -> float:
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)
