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


def one_look(found: Clusters, level: float, *, bounded: bool) -> tuple[float, float] | None:
    """Return the ends of a confidence interval for the mean, for one look; None if nothing can be
    said.

    It is about the mean over questions like these, not over more samples of the same questions:

    - scores of 0 and 1 without repeats, or where all samples of each question agree: the score
      interval of Wilson (1927, "Probable inference, the law of succession, and statistical
      inference");
    - other scores from 0 to 1: the same, for as many values as shares of 0 and 1 would need for the
      standard error that is clustered by question, and with the quantile of Student's t: Korn and
      Graubard (1998, "Confidence intervals for proportions with small expected number of positive
      counts");
    - otherwise Student's t interval with that standard error.

    There is none for fewer than two questions, or if all values agree and are neither 0 nor 1:
    their spread is not known.

    Args:
        found: the values, grouped by question.
        level: confidence level, between 0 and 1.
        bounded: whether the metric is from 0 to 1; then the ends are, too.
    """
    if found.se is None:
        return None
    if found.unanimous is not None:
        z = NormalDist().inv_cdf(upper(level))
        return wilson(found.unanimous / found.questions, found.questions, z)
    if found.se <= 1e-12 * abs(found.mean):
        return None
    t = student_quantile(upper(level), found.questions - 1)
    if bounded and 0 < found.mean < 1:
        return wilson(found.mean, found.mean * (1 - found.mean) / found.se**2, t)
    return found.mean - t * found.se, found.mean + t * found.se


def change_interval(
    changes: Sequence[float], level: float, *, bounded: bool
) -> tuple[float, float] | None:
    """Return the ends of a confidence interval for the mean of changes, for one look; None if there
    is none.

    - `bounded` changes that are all -1, 0 or 1, or all equal: Student's t interval over these, one
      -1 and one 1 more: Bonett and Price (2012, "Adjusted Wald confidence interval for a difference
      of binomial proportions based on paired data"), with the quantile of Student's t. Without the
      two, an interval would be too narrow if few questions changed, all in one direction;
    - other changes: the transformed t interval of Hall (1992, "On the removal of skewness by
      transformation"), which follows their skewness.

    It contains the mean that was observed.

    Args:
        changes: of one question or more.
        level: confidence level, between 0 and 1.
        bounded: whether the scores are from 0 to 1; then the ends are from -1 to 1.
    """
    n, size = len(changes), max(map(abs, changes)) or 1.0
    scaled = [change / size for change in changes]
    mean = fsum(scaled) / n
    if n < 2:
        return None
    if bounded and ({*changes} <= {-1.0, 0.0, 1.0} or max(changes) - min(changes) <= 1e-12):
        middle = fsum(changes) / (n + 2)
        variance = (fsum(change * change for change in changes) + 2) / (n + 2) - middle * middle
        margin = student_quantile(upper(level), n + 1) * sqrt(variance / (n + 1))
        low, high, size = middle - margin, middle + margin, 1.0
        mean = fsum(changes) / n
    else:
        variance = fsum((change - mean) ** 2 for change in scaled) / (n - 1)
        if variance <= 1e-24:
            return None
        skewness = fsum((change - mean) ** 3 for change in scaled) / (n * variance**1.5)
        t = student_quantile(upper(level), n - 1) / sqrt(n)
        low, high = (mean - sqrt(variance) * _untransformed(end, skewness, n) for end in (t, -t))
    low, high = min(low, mean) * size, max(high, mean) * size
    return (max(low, -1.0), min(high, 1.0)) if bounded else (low, high)


def _untransformed(end: float, skewness: float, n: int) -> float:
    """Invert Hall's transformation of a studentized mean."""
    if abs(skewness) < 1e-9:
        return end
    cube = 1 + skewness * (end - skewness / (6 * n))
    return 3 / skewness * (copysign(abs(cube) ** (1 / 3), cube) - 1)


def upper(level: float) -> float:
    """Return the probability below the upper end; less than 1 even if the level is the highest
    double.
    """
    return min((1 + level) / 2, nextafter(1.0, 0.0))


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the ends of Wilson's score interval for a share among `n` values, with a quantile
    `z`.
    """
    middle = share + z * z / (2 * n)
    margin = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    whole = 1 + z * z / n
    return 0.0 if share == 0 else (middle - margin) / whole, 1.0 if share == 1 else (
        middle + margin
    ) / whole


@lru_cache(maxsize=4096)
def student_quantile(p: float, df: int) -> float:
    """Return the quantile of Student's t distribution at `p`, above 0.5 and below 1.

    Up to `EXACT_DF` degrees of freedom, from its distribution function: formulas 26.7.3 and 26.7.4
    of Abramowitz and Stegun (1964, "Handbook of Mathematical Functions"). Beyond, by their
    expansion 26.7.5.
    """
    z = NormalDist().inv_cdf(p)
    if df > EXACT_DF:
        return _expansion(z, df)
    low, high = 0.0, 1.0
    while student_cdf(high, df) < p:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return high


def student_cdf(t: float, df: int) -> float:
    """Return the probability that Student's t with `df` degrees of freedom is at most `t`, 0 or
    more.
    """
    angle, odd = atan(t / sqrt(df)), df % 2
    square, term, total = cos(angle) ** 2, cos(angle) ** odd, 0.0
    for i in range(2 + odd, df + 1, 2):
        total += term
        term *= square * (i - 1) / i
    inside = sin(angle) * total
    return 0.5 + (2 / pi * (angle + inside) if odd else inside) / 2


def _expansion(z: float, df: int) -> float:
    square = z * z
    parts = (
        z * (square + 1) / 4,
        z * ((5 * square + 16) * square + 3) / 96,
        z * (((3 * square + 19) * square + 17) * square - 15) / 384,
        z * ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(part / float(df) ** power for power, part in enumerate(parts, 1))
