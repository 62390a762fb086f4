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
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.aggregates.histogram import BINS, mirrored
from graphrag_eval_async.errors import UsageError, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.aggregates.histogram import Weights

GAMES = 13
"""How many games there are on each side."""

SMALLEST_FRACTION = 0.0007
LARGEST_FRACTION = 0.99
"""The smallest and the largest fraction of its stake that a game can lose at once."""

FRACTIONS = tuple(
    SMALLEST_FRACTION * (LARGEST_FRACTION / SMALLEST_FRACTION) ** (game / (GAMES - 1))
    for game in range(GAMES)
)
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
"""The points of a histogram, from 0 to 1."""


def check_level(level: object, *, name: str = "level") -> None:
    """Check a confidence level.

    Args:
        level: the level.
        name: the name of the option or argument, for messages.

    Raises:
        UsageError: `level` is not a float above 0 and below 1.
    """
    if not isinstance(level, float) or not 0 < level < 1:
        raise UsageError(f"{name}: expected a number between 0 and 1, got {describe(level)}")


@lru_cache(maxsize=4096)
def confidence_sequence(weights: Weights, *, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of a confidence interval for a mean from 0 to 1, valid at all times.

    The interval may be computed again after each value: with a probability of at least `level`, all
    these intervals contain the mean. The expected value must stay the same, whatever the values
    before were; a drifting mean is not covered.

    Args:
        weights: weights of the points of a histogram with at least one value.
        level: confidence level, between 0 and 1.
    """
    low = _lower_end(weights, level)
    high = 1 - _lower_end(mirrored(weights), level)
    return low, high


def mean_of(weights: Weights) -> float:
    """Return the mean of the values of a histogram."""
    return fsum(map(mul, POINTS, weights)) / fsum(weights)


def differ(weights: Weights, others: Weights, error: float) -> bool:
    """Return whether the means of two histograms differ by more than chance explains.

    A gambler bets that the mean of one histogram is above some number m, and another gambler bets
    that the mean of the other histogram is below m. If both means are m, the product of their
    winnings is at least ``1 / error`` with a probability of at most `error`. If the product is that
    large for each m, the histograms have no common mean. Half of the stake is for either direction.

    The probability holds for one pair of histograms. It also holds

    - for all looks together at a first histogram that stays the same and a second one that grows,
      since the product is then the wealth of one gambler who never stops;
    - for one look at values with different means and with weights from 0 to 1, for the weighted
      means.

    See `docs/statistics.md`.

    Args:
        weights: the weights of a histogram with at least one value.
        others: the weights of another one.
        error: the probability of saying that equal means differ.
    """
    # `_wealth_against` gives each gambler half a stake, so the product of two whole ones is 4 times
    # as large. The product counts half, since the other half is for the other direction.
    target = -log(error) - log(4 / 2)
    return _is_each_common_mean_refuted(weights, others, target, _wealth_against)


def seem_to_differ(weights: Weights, others: Weights, error: float) -> bool:
    """Return whether two histograms, seen once, differ more than chance would make them.

    This is a likelihood ratio test: for each common mean, only the winnings of the best game on
    each side count. Twice the logarithm of their product is about distributed as chi squared with
    one degree of freedom if the means are equal: Owen (1988, "Empirical likelihood ratio confidence
    intervals for a single functional"). So the test needs fewer values than `differ`, but it is
    approximate, and holds for one look only.

    Args:
        weights: the weights of a histogram with at least one value.
        others: the weights of another one.
        error: about the probability of saying that equal means differ.
    """
    quantile = NormalDist().inv_cdf(1 - error / 2)
    return _is_each_common_mean_refuted(weights, others, quantile**2 / 2, _best_game_against)


def _is_each_common_mean_refuted(
    weights: Weights,
    others: Weights,
    target: float,
    wealth_against: Callable[[float, _WeightedPoints, float], _Wealth],
) -> bool:
    """Return whether bets on different means of two histograms win enough against each common mean.

    Args:
        weights: the weights of a histogram with at least one value.
        others: the weights of another one.
        target: how large the logarithm of the product of the winnings must be.
        wealth_against: returns the winnings of a gambler from a mean, values, and the logarithm of
            the winnings to which they are relative.
    """
    higher = weights
    lower = others
    if mean_of(lower) > mean_of(higher):
        higher, lower = lower, higher
    higher_values = _with_weight(higher)
    lower_values = _with_weight(mirrored(lower))

    # The logarithm of the product is convex in m. Find its minimum, where its slope is 0, by
    # halving the range from `smallest` to `largest`.
    smallest = TOLERANCE
    largest = 1 - TOLERANCE
    n_higher = fsum(higher_values.weights)
    n_lower = fsum(lower_values.weights)
    pooled_mean = (n_higher * mean_of(higher) + n_lower * mean_of(lower)) / (n_higher + n_lower)
    # The minimum is near the pooled mean, so that the search starts there: if the means do not
    # differ, the first step usually finds a common mean.
    mean = min(max(pooled_mean, smallest), largest)
    for _ in range(MAX_BISECTIONS):
        above = wealth_against(mean, higher_values, 0.0)
        below = wealth_against(1 - mean, lower_values, 0.0)
        winnings = above.excess + below.excess
        if winnings < target:
            return False
        slope = above.slope - below.slope
        if slope < 0:
            smallest = mean
        else:
            largest = mean
        # A convex function is nowhere lower than its tangent.
        if winnings - abs(slope) * (largest - smallest) >= target:
            return True
        mean = (smallest + largest) / 2
    return False


def show_confidence(weights: Weights, level: float) -> dict[str, float]:
    """Return the current interval, and the mean that it is about, in the layout of a snapshot."""
    low, high = confidence_sequence(weights, level=level)
    return {"level": level, "low": low, "high": high, "mean": mean_of(weights)}


class _WeightedPoints(NamedTuple):
    """The points of a histogram that have a weight, and their weights."""

    points: Sequence[float]
    weights: Sequence[float]


def _with_weight(weights: Weights) -> _WeightedPoints:
    """Return the points of a histogram that have a weight other than 0, with these weights."""
    return _WeightedPoints(
        points=[point for point, weight in zip(POINTS, weights, strict=True) if weight],
        weights=[weight for weight in weights if weight],
    )


def _lower_end(weights: Weights, level: float) -> float:
    """Return the lower end of the confidence interval: the mean below which all are refuted.

    A mean m is refuted if games against it have won enough. The logarithm of their wealth falls as
    m grows, and is convex. So Newton's method, started at a refuted mean, passes through refuted
    means only, and ends just before the first mean that is not refuted.
    """
    weighted = _with_weight(weights)
    n = fsum(weighted.weights)
    mean = fsum(map(mul, weighted.points, weighted.weights)) / n
    squares = [
        weight * (point - mean) ** 2
        for point, weight in zip(weighted.points, weighted.weights, strict=True)
    ]
    standard_error = sqrt(fsum(squares)) / n
    target = _log_wealth_to_refute(level)

    # Go down from the mean of the values, in growing steps, to a mean that is refuted.
    low = mean
    distance = max(4 * standard_error, mean / n)
    is_refuted = False
    while not is_refuted:
        low = max(mean - distance, low / 2)
        if low < TOLERANCE:
            return 0.0
        wealth = _wealth_against(low, weighted, target)
        is_refuted = wealth.excess >= 0
        distance *= 2

    # Go up again by Newton's method.
    while True:
        step = -wealth.excess / wealth.slope
        low += step
        # Steps shrink quadratically in the end, so that the next one would be below `TOLERANCE`. A
        # mean near 0 is near the end only if the step is also small beside it.
        if step < min(10 * TOLERANCE, low / 10):
            return low
        wealth = _wealth_against(low, weighted, target)


def _log_wealth_to_refute(level: float) -> float:
    """Return the logarithm of the wealth at which a mean is refuted; the games begin with 0."""
    return -log(1 - level)


class _Wealth(NamedTuple):
    """The wealth of all games against a mean.

    Attributes:
        excess: the logarithm of the wealth, relative to that at which the mean is refuted.
        slope: how fast `excess` changes with the mean.
    """

    excess: float
    slope: float


class _Games(NamedTuple):
    """What each game against a mean has won, in the order of `FRACTIONS`.

    Attributes:
        log_wealths: the logarithms of the wealths, if each game began with 1.
        slopes: how fast each logarithm changes with the mean, times the mean.
    """

    log_wealths: Sequence[float]
    slopes: Sequence[float]


def _games_against(mean: float, weighted: _WeightedPoints) -> _Games:
    """Return what each game against a mean, which is above 0, has won from values."""
    log_wealths = []
    slopes = []
    n = sum(weighted.weights)
    for fraction in FRACTIONS:
        # The factor of a game at a value x is 1 + λ(x - m) with λ = fraction / m.
        kept = 1 - fraction
        bet = fraction / mean
        factors = [kept + bet * point for point in weighted.points]
        log_wealths.append(sum(map(mul, weighted.weights, map(log, factors))))
        slopes.append(kept * sum(map(truediv, weighted.weights, factors)) - n)
    return _Games(log_wealths=log_wealths, slopes=slopes)


def _wealth_against(mean: float, weighted: _WeightedPoints, target: float) -> _Wealth:
    """Return the wealth that all games against a mean together have won from values.

    Args:
        mean: above 0.
        weighted: the values.
        target: the logarithm of the wealth at which the mean is refuted.
    """
    games = _games_against(mean, weighted)
    # In units of the richest game, so that exponentials do not overflow.
    most = max(games.log_wealths)
    parts = [
        share * exp(log_wealth - most)
        for share, log_wealth in zip(SHARES, games.log_wealths, strict=True)
    ]
    wealth = fsum(parts)
    return _Wealth(
        excess=most + log(wealth) - target,
        slope=fsum(map(mul, parts, games.slopes)) / (wealth * mean),
    )


def _best_game_against(mean: float, weighted: _WeightedPoints, target: float) -> _Wealth:
    """Return the wealth of the game against a mean that has won most from values.

    Args:
        mean: above 0.
        weighted: the values.
        target: the logarithm of the wealth at which the mean is refuted.
    """
    games = _games_against(mean, weighted)
    most = max(games.log_wealths)
    slope = games.slopes[games.log_wealths.index(most)]
    return _Wealth(excess=most - target, slope=slope / mean)


class Bet:
    """Bets that the mean is above a bound between 0 and 1, value by value.

    It refutes the bound as soon as the lower end of `confidence_sequence` is above it.
    """

    def __init__(self, bound: float) -> None:
        """Start games against the bound, each of which bets another fraction of its wealth.

        A value x multiplies the wealth of a game by 1 + fraction * (x / bound - 1).
        """
        log_factors_of_points = [
            [log1p(fraction * (point / bound - 1)) for fraction in FRACTIONS] for point in POINTS
        ]
        # For each bin and each game, what the game adds to the logarithm of its wealth at the lower
        # point of the bin, and how much more at the upper one.
        self._bins = [
            [(lower, upper - lower) for lower, upper in zip(*factors_of_ends, strict=True)]
            for factors_of_ends in pairwise(log_factors_of_points)
        ]
        self._log_wealths = [0.0] * len(FRACTIONS)

    def add(self, value: float) -> None:
        """Play a round of each game: update its wealth for a value from 0 to 1.

        The logarithm of the factor is interpolated between the two points of the value's bin.
        """
        place = min(int(value * BINS), BINS - 1)
        share_of_upper_point = value * BINS - place
        log_wealths = []
        for log_wealth, ends in zip(self._log_wealths, self._bins[place], strict=True):
            at_lower_point, difference = ends
            log_wealths.append(log_wealth + at_lower_point + share_of_upper_point * difference)
        self._log_wealths = log_wealths

    def refutes(self, level: float) -> bool:
        """Return whether the values refute the bound, at a confidence level.

        They do if the mean wealth of all games is so large that it is improbable by chance.
        """
        most = max(self._log_wealths)
        target = _log_wealth_to_refute(level)
        if most < target:
            # The mean wealth is at most that of the richest game.
            return False
        # In units of the richest game, so that exponentials do not overflow.
        parts = [
            share * exp(log_wealth - most)
            for share, log_wealth in zip(SHARES, self._log_wealths, strict=True)
        ]
        return most + log(fsum(parts)) >= target
