"""Confidence sequences: intervals for a mean that are valid at any time, however often one looks.

An interval for one look at n values is eventually wrong if one looks at each n. These intervals come from
betting: a gambler in fair games ever multiplies the stake by 20 with a probability of at most 1/20 (Ville
1939, "Étude critique de la notion de collectif"). The interval contains each mean m against which the gambler
has not yet done so, in games that are fair if the mean is m.

A fair game multiplies the wealth by ``1 + λ(x - m)`` for each value x. The games here pay less, so that the
winnings depend only on n, the sum and the sum of squares, not on the order of the values:

- ``q**x (1-q)**(1-x) / (m**x (1-m)**(1-x))`` is less by concavity, and equal if x is 0 or 1. With q drawn
  from a beta distribution about m, it is the mixture of Robbins (1970, "Statistical methods related to the
  law of the iterated logarithm"), for binary values as in Howard, Ramdas, McAuliffe and Sekhon (2021,
  "Time-uniform, nonparametric, nonasymptotic confidence sequences").
- the exponential of a quadratic function that equals ``log(1 + λ(x - m))`` at x = 0 and touches it at a point
  t: it is less from 0 on, since the third derivative of the logarithm is positive. With t = m it is the bound
  of Fan, Grama and Liu (2015, "Exponential inequalities for martingales with applications"), by which
  Waudby-Smith and Ramdas (2024, "Estimating means of bounded random variables by betting") bet.

All games share the stake of one gambler, whatever the values. Choosing a game after seeing the values, for
example whether all are 0 or 1, would void the guarantee.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, nan
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import UsageError, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.aggregates.exact import Sums

CONCENTRATION = 30.0
"""Concentration of the beta distribution; gives narrow intervals at any n from 10 to 10,000."""

BETA_SHARE = 0.4
"""The share of the stake that bets on the beta mixture."""

TOUCHING = 0.75
"""The t of half of the quadratic games, for which values of 0 or 1 lose little; the others use t = m."""

FRACTIONS = tuple(0.004 * (0.98 / 0.004) ** (i / 11) for i in range(12))
"""λm: the share of the wealth lost at a value of 0, one per game."""

_FANS_GAMES = tuple((fraction, log1p(-fraction) + fraction) for fraction in FRACTIONS)

_LOG_BETA_SHARE = log(BETA_SHARE)
_LOG_SHARE = log((1 - BETA_SHARE) / 2 / 2 / len(FRACTIONS))  # Half of the rest bets that the mean is less.

TOLERANCE = 1e-6
"""Maximum error of an end, always outward, unless finding it takes more than `SEARCHES`.

That is rare: for a few small and nearly equal values, such as 20 values near 0.04, the wealth may stay just
above the target over many means. Then an end may lie 0.001 too far outside.
"""

SEARCHES = 24
"""Maximum searches per end; each resumes where the previous one stopped refuting means."""


def check_level(level: object, *, name: str = "level") -> None:
    """Check a confidence level; messages call it `name`.

    Raises:
        UsageError: `level` is not a float between 0 and 1, both excluded.
    """
    if not isinstance(level, float) or not 0 < level < 1:
        raise UsageError(f"{name}: expected a number between 0 and 1, got {describe(level)}")


@lru_cache(maxsize=4096)
def confidence_sequence(sums: Sums, *, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the confidence interval for the mean, from 0 to 1.

    If all values have the same mean, given those before them, all intervals together contain it with a
    probability of at least `level`. A drifting mean is not covered.

    Args:
        sums: sums of the values so far, at least one.
        level: confidence level, between 0 and 1.
    """
    return _lower_end(sums, level), 1 - _lower_end(sums.mirrored(), level)


def show_confidence(sums: Sums, level: float) -> dict[str, float]:
    """Return the current interval in the layout of a snapshot."""
    low, high = confidence_sequence(sums, level=level)
    return {"level": level, "low": low, "high": high}


def is_above(mean: float, sums: Sums, *, level: float) -> bool:
    """Whether the lower end of `confidence_sequence` is above `mean`, which is between 0 and 1.

    If not, this takes a hundredth of the time of `confidence_sequence`, without searching for the end. For
    ``y <= c``, ``log(1 + y)`` is at most ``y - y**2 * (c - log(1 + c)) / c**2``. Here y is ``λ(x - mean)``.
    The sum of this bound over the values has a maximum in λ, and no game can have won more.
    """
    n, total, squares = sums
    lead, wanted = total - n * mean, -log(1 - level)
    if lead <= 0:
        return False
    most = (1 - mean) / mean
    spread = squares - 2 * mean * total + n * mean**2
    if lead**2 * most**2 < 3.999 * wanted * spread * (most - log1p(most)):  # 4, less a rounding margin.
        return False
    return log_wealth(mean, sums) >= wanted and _lower_end(sums, level) > mean


class _Place(NamedTuple):
    """A mean under test.

    Attributes:
        mean: more than 0.
        excess: logarithm of (a lower bound on) the wealth against the mean, relative to the target.
        fans: logarithms of the wealth in each game of Fan's bound.
    """

    mean: float
    excess: float
    fans: Sequence[float]


def _lower_end(sums: Sums, level: float) -> float:
    """Return the mean below which all means are refuted.

    The wealth against a mean falls as that mean grows towards the mean of the values. The exception are the
    games of Fan's bound: there, the wealth first rises, then falls. So each of these games counts at most as
    much as at the mean up to which all means are already refuted. This bound still falls with the mean, and
    rises from search to search.
    """
    if sums.total <= sums.n * TOLERANCE:
        return 0.0
    wanted = -log(1 - level)
    low = _Place(0.0, inf, (-inf,) * len(FRACTIONS))
    top = _look(sums.total / sums.n, low, sums, wanted)
    if top.excess >= 0:
        return top.mean
    for _ in range(SEARCHES):
        low, high = _fall(low, top, sums, wanted)
        beyond = _look(high, low, sums, wanted)
        if beyond.excess < 0:
            break
        low = beyond
    return low.mean


def _fall(low: _Place, top: _Place, sums: Sums, wanted: float) -> tuple[_Place, float]:
    """Return the last place found from `low` on with nonnegative excess, and a mean beyond it."""
    above, high, below = low.excess, top.mean, top.excess
    last = nan
    while high - low.mean > TOLERANCE:
        middle = (low.mean + high) / 2
        if above < 40:  # False position; bisection while one end is far away.
            middle = high - below * (high - low.mean) / (below - above)
            middle = min(max(middle, low.mean + TOLERANCE / 2), high - TOLERANCE / 2)
        place = _look(middle, low, sums, wanted)
        if place.excess >= 0:
            low, above = place, place.excess
            below /= 2 if last >= 0 else 1  # The Illinois rule: halve if the other end moves twice.
        else:
            high, below = middle, place.excess
            above /= 2 if last < 0 else 1
        last = place.excess
    return low, high


def _look(mean: float, low: _Place, sums: Sums, wanted: float) -> _Place:
    """Test a mean, given that all means up to `low` are refuted."""
    fans = _fans_parts(mean, sums)
    return _Place(mean, _log_sum([*_log_parts(mean, sums), *map(min, fans, low.fans)]) - wanted, fans)


def log_wealth(mean: float, sums: Sums) -> float:
    """Return the logarithm of the wealth from a stake of 1 that bets on a mean above `mean`.

    `mean` is above 0 and at most the mean of the values.
    """
    return _log_sum(_log_parts(mean, sums) + _fans_parts(mean, sums))


def _log_sum(parts: list[float]) -> float:
    most = max(parts)
    return most + log(fsum([exp(part - most) for part in parts]))


def _log_parts(mean: float, sums: Sums) -> list[float]:
    """Return the logarithm of the wealth in each game except those of Fan's bound."""
    n, total, squares = sums
    parts = [
        _LOG_SHARE + n * fixed + total * slope + squares * curve
        for fixed, slope, curve in _quadratic_games(mean)
    ]
    if (wealth := _log_beta_wealth(mean, sums)) >= 0:  # Convex, and at most 0 at the mean of the values.
        parts.append(_LOG_BETA_SHARE + wealth)
    return parts


@lru_cache(maxsize=64)
def _quadratic_games(mean: float) -> list[tuple[float, float, float]]:
    """Return what each game adds per value: a constant, and factors of the value and of its square.

    Cached, since a condition tests the same mean after each value.
    """
    games = []
    for fraction in FRACTIONS:
        won = log1p(fraction * (TOUCHING / mean - 1))
        lost = 1 - (1 - fraction) * exp(-won)
        curve = log1p(-fraction) - won + lost
        games.append((won - lost + curve, (lost - 2 * curve) / TOUCHING, curve / TOUCHING**2))
    return games


def _fans_parts(mean: float, sums: Sums) -> list[float]:
    """Return the logarithm of the wealth in each game of Fan's bound, with t = m."""
    excess = sums.total / mean - sums.n
    spread = sums.squares / mean**2 - sums.n - 2 * excess
    return [_LOG_SHARE + fraction * excess + curve * spread for fraction, curve in _FANS_GAMES]


def _log_beta_wealth(mean: float, sums: Sums) -> float:
    total, rest = sums.total, sums.n - sums.total
    if 0 < total < 1 or 0 < rest < 1 or mean >= 1:  # Otherwise it may not be convex.
        return -inf
    a, b = CONCENTRATION * mean, CONCENTRATION * (1 - mean)
    of_prior = lgamma(a) + lgamma(b) - lgamma(a + b)
    of_values = lgamma(a + total) + lgamma(b + rest) - lgamma(a + b + sums.n)
    return of_values - of_prior - total * log(mean) - rest * log1p(-mean)
