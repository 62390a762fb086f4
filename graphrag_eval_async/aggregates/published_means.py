"""Means as the benchmarks QALD and TEXT2SPARQL publish them, to compare with their tables."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.metrics import TEXT2SPARQL_F1, VALUES_RECALL, VALUES_WRONG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from graphrag_eval_async.aggregates.group import Group

PUBLISHED_MEANS = "published_means"
"""The key of a snapshot that has these means."""


def published_means(groups: Collection[Group]) -> dict[str, float | int]:
    """Return the means of some groups of results, each over all of their questions.

    A question whose agent failed counts as one with an empty answer, and several samples of a
    question count as their mean.

    Returns:
        an empty dict if no result has the values that these means need; else

        - `questions`: how many there are;
        - `qald_f1`: "Macro F1 QALD", the F1 of the mean precision and the mean recall, where an
          empty answer has precision 1. Source: Usbeck et al., "Benchmarking question answering
          systems", Semantic Web 10 (2), 2019;
        - `published`: the mean that TEXT2SPARQL publishes, in which a question counts as 0 if its
          expected answer is empty.
    """
    recalls = list(_means_of_questions(groups, VALUES_RECALL))
    questions = len(recalls)
    if questions == 0:
        return {}
    recall = fsum(recalls) / questions
    # A value that was not returned is not wrong, so an empty answer and an error count as 0 here.
    precision = 1 - fsum(_means_of_questions(groups, VALUES_WRONG)) / questions
    published = fsum(_means_of_questions(groups, TEXT2SPARQL_F1)) / questions
    return {
        "questions": questions,
        "qald_f1": _f1(precision, recall),
        "published": published,
    }


def _means_of_questions(groups: Collection[Group], metric: str) -> Iterator[float]:
    """Yield the mean of a metric for each question, in which an error counts as 0."""
    for group in groups:
        if metric in group.series:
            # The name of the template is not used.
            for score in group.question_scores("", metric):
                yield score.mean


def _f1(precision: float, recall: float) -> float:
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)
