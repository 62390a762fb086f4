"""The mean of a judge's scores, corrected by labels of people."""

from __future__ import annotations

from collections import defaultdict
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.inference.one_look import student_quantile, upper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.inference.labels import Score


class Pair(NamedTuple):
    """The judge's score of a result, and the mean of its labels."""

    score: Score
    label: float


def corrected_mean(pairs: Sequence[Pair], scores: Sequence[Score], level: float) -> dict[str, Any]:
    """Return the mean that people would give all results, by PPI++, with Student's t interval.

    With f the scores and Y the labels, it is λ * (mean of f where there is no label) + (mean of Y - λ * f
    where there is one), with λ = Cov(Y, f) / ((1 + n / N) * Var(f)) from 0 to 1, n labels, and N results
    without one. Source: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient Prediction-Powered
    Inference". N leaves the labelled results out, since the two means must not share any. The variance is
    clustered by question.

    Args:
        pairs: labelled results, chosen at random from `scores`; at least two.
        scores: all results.
        level: confidence level, between 0 and 1.
    """
    labelled = {pair.score for pair in pairs}
    rest = [score for score in scores if score not in labelled]
    n, others = len(pairs), len(rest)
    weight = _weight(pairs, scores) if rest else 0.0
    mean_rest = fmean(score.value for score in rest) if rest else 0.0
    mean_rectifier = fmean(pair.label - weight * pair.score.value for pair in pairs)
    deviations: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        rectifier = pair.label - weight * pair.score.value
        deviations[pair.score.question_id].append((rectifier - mean_rectifier) / n)
    for score in rest:
        deviations[score.question_id].append(weight * (score.value - mean_rest) / others)
    questions = len({pair.score.question_id for pair in pairs})
    mean = weight * mean_rest + mean_rectifier
    found: dict[str, Any] = {"mean": min(1.0, max(0.0, mean)), "weight": weight}
    squares = fsum(fsum(values) ** 2 for values in deviations.values())
    if questions < 2 or squares <= 1e-24:
        return {**found, "reason": "no interval, since the labels do not vary"}
    se = sqrt(questions / (questions - 1) * squares)
    margin = student_quantile(upper(level), questions - 1) * se
    interval = {"level": level, "low": max(0.0, mean - margin), "high": min(1.0, mean + margin)}
    return {**found, "se": se, "interval": {**interval, "kind": "one_look"}}


def _weight(pairs: Sequence[Pair], scores: Sequence[Score]) -> float:
    """Return λ, for fewer labels than results."""
    mean_f, own = fmean(score.value for score in scores), fmean(pair.score.value for pair in pairs)
    variance = fsum((score.value - mean_f) ** 2 for score in scores) / (len(scores) - 1)
    if not variance:
        return 0.0
    mean_y, n = fmean(pair.label for pair in pairs), len(pairs)
    covariance = fsum((pair.label - mean_y) * (pair.score.value - own) for pair in pairs) / (n - 1)
    return min(1.0, max(0.0, covariance / ((1 + n / (len(scores) - n)) * variance)))
