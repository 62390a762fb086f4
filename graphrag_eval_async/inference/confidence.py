"""Confidence sequences: intervals for a mean that are valid at any time, however often you look.

An interval for one look at n values is eventually wrong if you look at each n. These intervals come
from betting: a gambler in fair games ever multiplies the stake by 20 with a probability of at most
1/20 (Ville 1939, "Étude critique de la notion de collectif"). The interval contains each mean m
against which the gambler has not yet done so, in games that are fair if the mean is m: Waudby-Smith
and Ramdas (2024, "Estimating means of bounded random variables by betting").

A game multiplies its stake by ``1 + λ(x - m)`` for each value x, with a fixed λ. To bet that the
mean is above m, λ is c/m: at x = 0, the game loses the fraction c of its stake. The stake is
divided among games with fractions c from small to large before any value is seen, so that one of
them suits any n and any spread of the values. The other half of the stake bets on the other side,
with 1 - x in place of x.

The winnings are computed from a histogram that divides each value between the two nearest points.
The logarithm of ``1 + λ(x - m)`` is concave in x, so this only loses winnings, and the guarantee
holds. Histograms depend neither on the order of the values nor on how they are split and merged;
neither do the intervals.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import exp, fsum, log, log1p, sqrt
from operator import mul, truediv
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.histogram import BINS, mirrored
from graphrag_eval_async.errors import UsageError, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.aggregates.histogram import Weights

FRACTIONS = tuple(0.0007 * (0.99 / 0.0007) ** (i / 12) for i in range(13))
"""The fraction c of each game: the share of its stake that it loses at a value of 0."""

SHARES = tuple(c**0.4 / fsum(c**0.4 for c in FRACTIONS) / 2 for c in FRACTIONS)
"""The share of the whole stake that each game on one side begins with.

Larger fractions get more: they decide first, when few values are known.
"""

TOLERANCE = 1e-5
"""Error of an end, about, and always outward."""

MAX_BISECTIONS = 40
"""After so many halves of the range from 0 to 1, a mean is known to the last digit that counts."""

POINTS = tuple(place / BINS for place in range(BINS + 1))


def check_level(level: object, *, name: str = "level") -> None:
    """Check a confidence level; messages call it `name`.

    Raises:
        UsageError: `level` is not a float between 0 and 1, both excluded.
    """
    if not isinstance(level, float) or not 0 < level < 1:
        raise UsageError(f"{name}: expected a number between 0 and 1, got {describe(level)}")


@lru_cache(maxsize=4096)
def confidence_sequence(weights: Weights, *, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the confidence interval for the mean, from 0 to 1.

    If all values have the same mean, given those before them, all intervals together contain it
    with a probability of at least `level`. A drifting mean is not covered.

    Args:
        weights: weights of the points of a histogram with at least one value.
        level: confidence level, between 0 and 1.
    """
    return _lower_end(weights, level), 1 - _lower_end(mirrored(weights), level)


def mean_of(weights: Weights) -> float:
    """Return the mean of the values of a histogram."""
    return fsum(map(mul, POINTS, weights)) / fsum(weights)


def differ(weights: Weights, others: Weights, error: float) -> bool:
    """Return whether the values of two histograms have different means, beyond chance.

    A gambler bets that the mean of one histogram is above some number m, and another gambler bets
    that the mean of the other one is below m. If both means are m, the product of their winnings is
    at least ``1 / error`` with a probability of at most `error`. If the product is that large for
    each m, no common mean is left. Half of the stake is for either direction.

    This holds for one pair of histograms, and also if their values have different means, for the
    weighted means of these; see `docs/statistics.md`. A weight above 1 of a value is not allowed.

    Args:
        weights: the weights of a histogram with at least one value.
        others: the weights of another one.
        error: the probability of saying that equal means differ.
    """
    higher = weights
    lower = others
    if mean_of(lower) > mean_of(higher):
        higher, lower = lower, higher
    # `_excess` gives each gambler half a stake, so the product of two whole ones is 4 times as
    # large. The product counts half, since the other half is for the other direction.
    target = -log(error) - log(4 / 2)
    higher_points, higher_weights = _points_with_weight(higher)
    lower_points, lower_weights = _points_with_weight(mirrored(lower))

    # The logarithm of the product is convex in m. It is smallest where its slope is 0.
    smallest = TOLERANCE
    largest = 1 - TOLERANCE
    n_higher = fsum(higher_weights)
    n_lower = fsum(lower_weights)
    pooled_mean = (n_higher * mean_of(higher) + n_lower * mean_of(lower)) / (n_higher + n_lower)
    # It is near the smallest product, so equal means are found at once.
    mean = min(max(pooled_mean, smallest), largest)
    for _ in range(MAX_BISECTIONS):
        above, slope_above = _excess(mean, higher_points, higher_weights, 0.0)
        below, slope_below = _excess(1 - mean, lower_points, lower_weights, 0.0)
        winnings = above + below
        if winnings < target:
            return False
        slope = slope_above - slope_below
        if slope < 0:
            smallest = mean
        else:
            largest = mean
        # A convex function is nowhere lower than its tangent.
        if winnings - abs(slope) * (largest - smallest) >= target:
            return True
        mean = (smallest + largest) / 2
    return False


def _points_with_weight(weights: Weights) -> tuple[Sequence[float], Sequence[float]]:
    """Return the grid points that have a weight, and their weights."""
    pairs = [pair for pair in zip(POINTS, weights, strict=True) if pair[1]]
    points = [point for point, _ in pairs]
    return points, [weight for _, weight in pairs]


def show_confidence(weights: Weights, level: float) -> dict[str, float]:
    """Return the current interval, and the mean that it is about, in the layout of a snapshot."""
    low, high = confidence_sequence(weights, level=level)
    return {"level": level, "low": low, "high": high, "mean": mean_of(weights)}


def _lower_end(weights: Weights, level: float) -> float:
    """Return the mean below which all means are refuted.

    The logarithm of the wealth against m falls as m grows, and is convex. So Newton's method, begun
    at a refuted mean, passes through refuted means only, and ends just before the first that is
    not.
    """
    points, known = _points_with_weight(weights)
    n = fsum(known)
    mean = fsum(map(mul, points, known)) / n
    squares = [weight * (point - mean) ** 2 for point, weight in zip(points, known, strict=True)]
    spread = sqrt(fsum(squares)) / n
    target = -log(1 - level)
    low, excess = mean, -1.0
    distance = max(4 * spread, mean / n)
    while excess < 0:
        low = max(mean - distance, low / 2)
        if low < TOLERANCE:
            return 0.0
        excess, slope = _excess(low, points, known, target)
        distance *= 2
    while True:
        step = -excess / slope
        low += step
        # Steps get smaller quadratically, near 0 only at the end.
        if step < min(10 * TOLERANCE, low / 10):
            return low
        excess, slope = _excess(low, points, known, target)


def _excess(
    mean: float, points: Sequence[float], weights: Sequence[float], target: float
) -> tuple[float, float]:
    """Return the logarithm of the wealth against `mean`, relative to the target, and its slope."""
    games, slopes = [], []
    n = sum(weights)
    for fraction in FRACTIONS:
        kept, bet = 1 - fraction, fraction / mean
        factors = [kept + bet * point for point in points]
        games.append(sum(map(mul, weights, map(log, factors))))
        slopes.append(kept * sum(map(truediv, weights, factors)) - n)
    most = max(games)
    parts = [share * exp(each - most) for share, each in zip(SHARES, games, strict=True)]
    wealth = fsum(parts)
    return most + log(wealth) - target, fsum(map(mul, parts, slopes)) / (wealth * mean)


class Bet:
    """Bets that the mean is above a bound between 0 and 1, value by value.

    It refutes the bound as soon as the lower end of `confidence_sequence` is above it.
    """

    def __init__(self, bound: float) -> None:
        games = [
            [log1p(fraction * (point / bound - 1)) for fraction in FRACTIONS] for point in POINTS
        ]
        # For each bin, what each game adds at its lower point, and how much more at its upper one.
        self._bins = [
            [(low, high - low) for low, high in zip(*ends, strict=True)] for ends in pairwise(games)
        ]
        self._won = [0.0] * len(FRACTIONS)

    def add(self, value: float) -> None:
        """Count a value from 0 to 1."""
        place = min(int(value * BINS), BINS - 1)
        upper = value * BINS - place
        parts = zip(self._won, self._bins[place], strict=True)
        self._won = [won + low + upper * more for won, (low, more) in parts]

    def refutes(self, level: float) -> bool:
        """Whether the bound is refuted, at a confidence level."""
        most, target = max(self._won), -log(1 - level)
        if most < target:
            return False
        parts = [share * exp(won - most) for share, won in zip(SHARES, self._won, strict=True)]
        return most + log(fsum(parts)) >= target
