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


def questions_needed(
    variance: float, detect: float, level: float, *, paired: bool, whole: bool = False
) -> int:
    """Return the number of questions of a two-sided t test with `POWER`, of each run if not
    `paired`.

    Source: Guenther (1981), "Sample size formulas for normal theory t tests".

    Args:
        variance: of a question's change if `paired`, else the sum of the variances in the two runs.
        whole: whether all scores are 0 or 1. Then the two changes that `change_interval` adds
            shrink the mean and widen the spread.
    """
    alpha, beta = -NormalDist().inv_cdf((1 - level) / 2), NormalDist().inv_cdf(POWER)
    size = (alpha + beta) ** 2 * variance / detect**2 + alpha**2 / (2 if paired else 4)
    if whole:
        size += 4 + 2 / variance
    return max(_least(level) if paired else 2, ceil(size))


def detectable_change(changes: Sequence[float], level: float, *, bounded: bool) -> float | None:
    """Return the smallest change of the mean that as many questions detect with a power of `POWER`.

    For this change and the spread of these changes, `questions_needed` gives their number. It is
    infinite if
    they are too few for any change, and None if all changes agree: their spread is unknown.

    Args:
        changes: of each question, from a baseline to a candidate.
        level: confidence level of the comparison, between 0 and 1.
        bounded: whether the scores are from 0 to 1.
    """
    n, size = len(changes), max(map(abs, changes)) or 1.0
    mean = fsum(change / size for change in changes) / n
    squares = fsum((change / size - mean) ** 2 for change in changes)
    if squares <= 1e-24 * n:
        return None
    alpha, beta = -NormalDist().inv_cdf((1 - level) / 2), NormalDist().inv_cdf(POWER)
    variance, left = squares / (n - 1), n - alpha**2 / 2
    if bounded and {*changes} <= {-1.0, 0.0, 1.0}:
        left -= 4 + 2 / variance
    if n < _least(level) or left <= 0:
        return inf
    change = (alpha + beta) * sqrt(variance / left) * size
    return inf if bounded and change > 1 else change


def _least(level: float) -> int:
    """The fewest paired questions that the sign-flip test can decide: 2 ** (1 - n) is its
    smallest p.
    """
    return int(1 - log2(1 - level)) + 1
