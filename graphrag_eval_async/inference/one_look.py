"""Intervals for one look at a finished run: narrower than confidence sequences, which allow for many."""

from __future__ import annotations

from functools import lru_cache
from math import atan, cos, nextafter, pi, sin, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrag_eval_async.aggregates.questions import Clusters

EXACT_DF = 200
"""From this many degrees of freedom on, an expansion gives quantiles to 12 digits."""


def one_look(found: Clusters, level: float, *, bounded: bool) -> tuple[float, float] | None:
    """Return the ends of a confidence interval for the mean, for one look; None if nothing can be said.

    It is about the mean over questions like these, not over more samples of the same questions:

    - scores of 0 and 1 without repeats, or where all samples of each question agree: the score interval of
      Wilson (1927, "Probable inference, the law of succession, and statistical inference");
    - other scores from 0 to 1: the same, for as many values as shares of 0 and 1 would need for the standard
      error that is clustered by question, and with the quantile of Student's t: Korn and Graubard (1998,
      "Confidence intervals for proportions with small expected number of positive counts");
    - otherwise Student's t interval with that standard error.

    There is none for fewer than two questions, or if all values agree and are neither 0 nor 1: their spread
    is not known.

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


def upper(level: float) -> float:
    """Return the probability below the upper end; less than 1 even if the level is the highest double."""
    return min((1 + level) / 2, nextafter(1.0, 0.0))


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the ends of Wilson's score interval for a share among `n` values, with a quantile `z`."""
    middle = share + z * z / (2 * n)
    margin = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    whole = 1 + z * z / n
    return 0.0 if share == 0 else (middle - margin) / whole, 1.0 if share == 1 else (middle + margin) / whole


@lru_cache(maxsize=4096)
def student_quantile(p: float, df: int) -> float:
    """Return the quantile of Student's t distribution at `p`, above 0.5 and below 1.

    Up to `EXACT_DF` degrees of freedom, from its distribution function: formulas 26.7.3 and 26.7.4 of
    Abramowitz and Stegun (1964, "Handbook of Mathematical Functions"). Beyond, by their expansion 26.7.5.
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
    """Return the probability that Student's t with `df` degrees of freedom is at most `t`, 0 or more."""
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
