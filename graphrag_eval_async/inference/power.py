"""How many questions a comparison needs to detect a change, and which change its questions can
detect.
"""

from __future__ import annotations

from math import ceil, fsum, inf, log2, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

POWER = 0.8
"""The probability that a comparison decides a change that was planned for, or that it can
detect.
"""

SAME_SQUARES = 1e-24
"""A mean square of deviations up to this is rounding: the values are equal."""


def questions_needed(
    variance: float, detect: float, level: float, *, paired: bool, whole: bool = False
) -> int:
    """Return how many questions each run needs, to detect a change with the power `POWER`.

    The comparison is a two-sided t test. Source: Guenther (1981), "Sample size formulas for normal
    theory t tests".

    Args:
        variance: if `paired`, the variance of the change of a question; otherwise, the sum of the
            variances of a question in the two runs.
        detect: the change to detect, above 0.
        level: confidence level of the comparison, between 0 and 1.
        paired: whether both runs have the same questions.
        whole: whether all scores are 0 or 1. Then more questions are needed, since
            `change_interval` adds two changes, which shrink the mean and widen the spread.
    """
    quantile = _quantile_of_level(level)
    sum_of_quantiles = quantile + NormalDist().inv_cdf(POWER)
    correction_for_t = quantile**2 / (2 if paired else 4)
    size = sum_of_quantiles**2 * variance / detect**2 + correction_for_t
    if whole:
        size += _cost_of_added_changes(variance)
    fewest = fewest_pairs(level) if paired else 2
    return max(fewest, ceil(size))


def detectable_change(changes: Sequence[float], level: float, *, bounded: bool) -> float | None:
    """Return the smallest change of the mean that a comparison detects with the power `POWER`.

    The comparison has as many questions as there are `changes`, and their spread. It is the inverse
    of `questions_needed`.

    Args:
        changes: the change of each question, from a baseline to a candidate.
        level: confidence level of the comparison, between 0 and 1.
        bounded: whether the scores are from 0 to 1.

    Returns:
        infinity if the questions are too few to detect any change; None if all changes agree, so
        that their spread is unknown.
    """
    n = len(changes)
    # Computed in units of the largest change, so that squares do not overflow.
    size = max(map(abs, changes)) or 1.0
    mean = fsum(change / size for change in changes) / n
    squares = fsum((change / size - mean) ** 2 for change in changes)
    if squares <= SAME_SQUARES * n:
        return None

    variance = squares / (n - 1)
    quantile = _quantile_of_level(level)
    # This solves the formula of `questions_needed` for the change.
    effective_n = n - quantile**2 / 2
    if bounded and set(changes) <= {-1.0, 0.0, 1.0}:
        effective_n -= _cost_of_added_changes(variance)
    if n < fewest_pairs(level) or effective_n <= 0:
        return inf
    sum_of_quantiles = quantile + NormalDist().inv_cdf(POWER)
    change = sum_of_quantiles * sqrt(variance / effective_n) * size
    if bounded and change > 1:
        return inf
    return change


def _quantile_of_level(level: float) -> float:
    """Return the quantile of the normal distribution at the upper end of a two-sided interval."""
    return -NormalDist().inv_cdf((1 - level) / 2)


def _cost_of_added_changes(variance: float) -> float:
    """Return how many questions make up for the two changes that `change_interval` adds."""
    return 4 + 2 / variance


def fewest_pairs(level: float) -> int:
    """Return the smallest number of paired questions that the sign-flip test can decide at a level.

    The smallest p-value of n questions is 2 ** (1 - n), which must be below 1 - level.
    """
    return int(1 - log2(1 - level)) + 1
