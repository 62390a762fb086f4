"""Intervals for one look at a finished run: narrower than confidence sequences, which allow for
many.
"""

from __future__ import annotations

from functools import lru_cache
from math import atan, copysign, cos, fsum, nextafter, pi, sin, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.aggregates.questions import Clusters

EXACT_DF = 200
"""From this many degrees of freedom on, an expansion gives quantiles to 12 digits."""

BISECTIONS = 60
"""How often the range of a quantile is halved: its last digits no longer change."""

SAME_SIZE = 1e-12
"""Values whose spread is a smaller share of their size are equal but for rounding."""

SAME_SQUARES = SAME_SIZE**2
"""The same for squares."""

NO_SKEWNESS = 1e-9
"""With a smaller skewness, Hall's transformation is the identity but for rounding."""


def one_look(stats: Clusters, level: float, *, bounded: bool) -> tuple[float, float] | None:
    """Return the ends of a confidence interval for the mean of a metric, for one look.

    It is about the mean over questions like these, not over more samples of the same questions. The
    standard error is clustered by question.

    - For scores of 0 and 1 without repeats, or if all samples of each question agree, it is the
      score interval of Wilson (1927, "Probable inference, the law of succession, and statistical
      inference").
    - For other scores from 0 to 1, it is Wilson's interval with an effective number of values, for
      which shares of 0 and 1 would have the same standard error, and with the quantile of Student's
      t: Korn and Graubard (1998, "Confidence intervals for proportions with small expected number
      of positive counts").
    - Otherwise, it is Student's t interval.

    Args:
        stats: statistics of the questions' means.
        level: confidence level, between 0 and 1.
        bounded: whether the metric is from 0 to 1; then the ends are, too.

    Returns:
        None if there are fewer than two questions, or if all values agree and are neither 0 nor 1:
        their spread is not known.
    """
    if stats.se is None:
        return None
    if stats.unanimous is not None:
        share = stats.unanimous / stats.questions
        z = NormalDist().inv_cdf(probability_below_upper_end(level))
        return wilson_interval(share, stats.questions, z)
    if stats.se <= SAME_SIZE * abs(stats.mean):
        return None
    t = student_quantile(probability_below_upper_end(level), stats.questions - 1)
    if bounded and 0 < stats.mean < 1:
        effective_size = stats.mean * (1 - stats.mean) / stats.se**2
        return wilson_interval(stats.mean, effective_size, t)
    return stats.mean - t * stats.se, stats.mean + t * stats.se


def change_interval(
    changes: Sequence[float], level: float, *, bounded: bool
) -> tuple[float, float] | None:
    """Return the ends of a confidence interval for the mean of changes, for one look.

    - If the scores are `bounded` and the changes are all -1, 0 or 1, or all equal, see
      `_bonett_price_interval`.
    - For other changes, see `_hall_interval`.

    The interval contains the observed mean.

    Args:
        changes: the changes of the score of each question.
        level: confidence level, between 0 and 1.
        bounded: whether the scores are from 0 to 1; then the ends are from -1 to 1.

    Returns:
        None if there are fewer than two changes, or if they are all equal and not `bounded`.
    """
    if len(changes) < 2:
        return None
    are_whole = all(change in (-1.0, 0.0, 1.0) for change in changes)
    are_equal = max(changes) - min(changes) <= SAME_SIZE
    ends: tuple[float, float] | None
    if bounded and (are_whole or are_equal):
        ends = _bonett_price_interval(changes, level)
    else:
        ends = _hall_interval(changes, level)
    if ends is None or not bounded:
        return ends
    low, high = ends
    return max(low, -1.0), min(high, 1.0)


def _bonett_price_interval(changes: Sequence[float], level: float) -> tuple[float, float]:
    """Return a confidence interval for the mean of changes that are from -1 to 1.

    It is Student's t interval over the changes and two more, a -1 and a 1. Without these two, it
    would be too narrow if few questions changed, all in one direction. This is the interval of
    Bonett and Price (2012, "Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data"), with the quantile of Student's t. It is extended to the
    observed mean.
    """
    n = len(changes)
    # The two added changes cancel in the sum, and add 2 to the sum of squares.
    middle = fsum(changes) / (n + 2)
    variance = (fsum(change * change for change in changes) + 2) / (n + 2) - middle * middle
    t = student_quantile(probability_below_upper_end(level), n + 1)
    margin = t * sqrt(variance / (n + 1))
    # The middle is nearer to 0 than the mean, which may so be outside.
    mean = fsum(changes) / n
    return min(middle - margin, mean), max(middle + margin, mean)


def _hall_interval(changes: Sequence[float], level: float) -> tuple[float, float] | None:
    """Return the transformed t interval of two changes or more, which follows their skewness.

    Source: Hall (1992, "On the removal of skewness by transformation").

    Returns:
        None if all changes are equal.
    """
    n = len(changes)
    # Computed in units of the largest change, so that squares do not overflow.
    size = max(map(abs, changes)) or 1.0
    scaled = [change / size for change in changes]
    mean = fsum(scaled) / n
    variance = fsum((change - mean) ** 2 for change in scaled) / (n - 1)
    if variance <= SAME_SQUARES:
        return None
    skewness = fsum((change - mean) ** 3 for change in scaled) / (n * variance**1.5)
    t = student_quantile(probability_below_upper_end(level), n - 1) / sqrt(n)
    low = mean - sqrt(variance) * _invert_transformation(t, skewness, n)
    high = mean - sqrt(variance) * _invert_transformation(-t, skewness, n)
    return min(low, mean) * size, max(high, mean) * size


def _invert_transformation(transformed: float, skewness: float, n: int) -> float:
    """Return the studentized mean of `n` values that Hall's transformation maps to `transformed`.

    Without skewness, the transformation changes nothing, and its inverse would divide by 0.
    """
    if abs(skewness) < NO_SKEWNESS:
        return transformed
    cube = 1 + skewness * (transformed - skewness / (6 * n))
    cube_root = copysign(abs(cube) ** (1 / 3), cube)
    return 3 / skewness * (cube_root - 1)


def probability_below_upper_end(level: float) -> float:
    """Return the probability below the upper end of a two-sided interval.

    It is less than 1, even if the level is the highest double below 1.
    """
    return min((1 + level) / 2, nextafter(1.0, 0.0))


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the ends of Wilson's score interval for a share.

    Args:
        share: the observed share.
        n: the number of values of which it is the share.
        z: the quantile of the normal distribution that belongs to the confidence level.
    """
    middle = share + z * z / (2 * n)
    margin = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    divisor = 1 + z * z / n
    # For a share of 0 or 1, rounding would move an end past 0 or 1.
    low = 0.0 if share == 0 else (middle - margin) / divisor
    high = 1.0 if share == 1 else (middle + margin) / divisor
    return low, high


@lru_cache(maxsize=4096)
def student_quantile(p: float, df: int) -> float:
    """Return the quantile of Student's t distribution at `p`, above 0.5 and below 1.

    Up to `EXACT_DF` degrees of freedom, it is found by bisection of the distribution function.
    Beyond, it is an expansion of the normal quantile. Source: Abramowitz and Stegun (1964,
    "Handbook of Mathematical Functions"), 26.7.3 to 26.7.5.
    """
    if df > EXACT_DF:
        return _expand_quantile(NormalDist().inv_cdf(p), df)
    # Find a number above the quantile, and then halve the range in which the quantile is.
    low = 0.0
    high = 1.0
    while student_cdf(high, df) < p:
        low = high
        high *= 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if student_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return high


def student_cdf(t: float, df: int) -> float:
    """Return the probability that Student's t is at most `t`, which must not be negative.

    The two formulas, for odd and even degrees of freedom, are 26.7.3 and 26.7.4 of Abramowitz and
    Stegun.
    """
    angle = atan(t / sqrt(df))
    is_odd = df % 2 == 1
    square = cos(angle) ** 2
    # The terms of a finite series: of odd powers of the cosine if `df` is odd, else of even ones.
    term = cos(angle) if is_odd else 1.0
    series = 0.0
    for power in range(3 if is_odd else 2, df + 1, 2):
        series += term
        term *= square * (power - 1) / power
    probability_within = sin(angle) * series
    if is_odd:
        probability_within = 2 / pi * (angle + probability_within)
    return 0.5 + probability_within / 2


def _expand_quantile(z: float, df: int) -> float:
    """Return a quantile of Student's t, computed from the quantile `z` of the normal distribution.

    It is precise for many degrees of freedom. Source: formula 26.7.5 of Abramowitz and Stegun.
    """
    square = z * z
    coefficients = (
        z * (square + 1) / 4,
        z * ((5 * square + 16) * square + 3) / 96,
        z * (((3 * square + 19) * square + 17) * square - 15) / 384,
        z * ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(
        coefficient / float(df) ** power for power, coefficient in enumerate(coefficients, start=1)
    )
