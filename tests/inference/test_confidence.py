"""Confidence sequences, against exact probabilities and many looks at many streams."""

from __future__ import annotations

import math
from itertools import product
from math import comb, exp, log, sqrt
from statistics import NormalDist, fmean, pstdev
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.exact import Sums
from graphrag_eval_async.inference.confidence import (
    BETA_SHARE,
    CONCENTRATION,
    FRACTIONS,
    TOLERANCE,
    TOUCHING,
    confidence_sequence,
    is_above,
    log_wealth,
)
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HALF = (1 + BETA_SHARE) / 2
"""What the bets on one side may grow to on average: all of the first mixture, and half of the rest."""


def sums_of(values: Iterable[float]) -> Sums:
    values = list(values)
    return Sums(len(values), math.fsum(values), math.fsum(value * value for value in values))


# Fair games


@st.composite
def distributions(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Values in [0, 1] with their probabilities; the mean is not 0 or 1."""
    values = draw(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5]), min_size=2, max_size=3))
    weights = [draw(st.floats(0.01, 1)) for _ in values]
    return [(value, weight / sum(weights)) for value, weight in zip(values, weights, strict=True)]


@given(distributions(), st.integers(1, 5))
def test_no_bet_wins_on_average(distribution: list[tuple[float, float]], n: int) -> None:
    """Over all sequences of n values, each with its probability."""
    mean = sum(value * weight for value, weight in distribution)
    if not 0.001 < mean < 0.999:
        return
    above = below = 0.0
    for draw in product(distribution, repeat=n):
        weight = math.prod(weight for _, weight in draw)
        sums = sums_of(value for value, _ in draw)
        above += weight * exp(log_wealth(mean, sums))
        below += weight * exp(log_wealth(1 - mean, sums.mirrored()))
    assert above <= HALF + 1e-9
    assert below <= HALF + 1e-9


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("chance", [0.03, 0.2, 0.5, 0.95])
def test_the_chance_that_any_interval_is_wrong(chance: float, level: float) -> None:
    """For coins, by the exact probability of each count of heads that no interval was wrong before."""
    right = {0: 1.0}
    for n in range(1, 61):
        counts: dict[int, float] = {}
        for heads, weight in right.items():
            counts[heads] = counts.get(heads, 0.0) + weight * (1 - chance)
            counts[heads + 1] = counts.get(heads + 1, 0.0) + weight * chance
        right = {}
        for heads, weight in counts.items():
            low, high = confidence_sequence(Sums(n, float(heads), float(heads)), level=level)
            if low <= chance <= high:
                right[heads] = weight
    assert level <= sum(right.values()) < 1


# What they are


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.5, 0.9, 0.99]))
def test_ends(values: list[float], level: float) -> None:
    sums = sums_of(values)
    low, high = confidence_sequence(sums, level=level)
    assert 0 <= low <= fmean(values) + 1e-12
    assert fmean(values) - 1e-12 <= high <= 1
    mirrored = confidence_sequence(sums_of(1 - value for value in values), level=level)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=3 * TOLERANCE)
    wider = confidence_sequence(sums, level=1 - (1 - level) / 10)
    assert wider[0] <= low + TOLERANCE
    assert wider[1] >= high - TOLERANCE


def slow_log_wealth(mean: float, sums: Sums) -> float:
    """Game by game; the beta distribution cut into slices."""
    n, total, squares = sums
    wealth = 0.0
    a, b = CONCENTRATION * mean, CONCENTRATION * (1 - mean)
    slices = [(i + 0.5) / 4000 for i in range(4000)]
    prior = [q ** (a - 1) * (1 - q) ** (b - 1) for q in slices]
    beta = sum(
        weight * (q / mean) ** total * ((1 - q) / (1 - mean)) ** (n - total)
        for q, weight in zip(slices, prior, strict=True)
    )
    wealth += BETA_SHARE * beta / sum(prior)
    for place in (TOUCHING, mean):
        for fraction in FRACTIONS:
            bet = fraction / mean
            there = 1 + bet * (place - mean)
            slope = bet / there
            # The parabola through the logarithm at 0, which touches it at the place.
            bend = (log(1 - fraction) - log(there) + slope * place) / place**2
            games = n * log(there) + slope * (total - n * place)
            games += bend * (squares - 2 * place * total + n * place**2)
            wealth += (1 - BETA_SHARE) / 4 / len(FRACTIONS) * exp(games)
    return log(wealth)


@each("mean", [0.1, 0.3, 0.5])
@each("values", [[1.0] * 20, [0.0, 1.0, 0.5, 1.0] * 30, [0.75, 0.85] * 20])
def test_the_wealth_game_by_game(mean: float, values: list[float]) -> None:
    sums = sums_of(values)
    assert log_wealth(mean, sums) == pytest.approx(slow_log_wealth(mean, sums), abs=0.01)


@pytest.mark.parametrize(
    "values", [[0.0], [1.0], [5e-324], [1e-300] * 3, [1 - 2**-53] * 3, [0.0] * 9 + [1e-9], [0.5] * 1000]
)
def test_values_at_the_edge(values: list[float]) -> None:
    low, high = confidence_sequence(sums_of(values))
    assert 0 <= low <= fmean(values) <= high <= 1


def test_all_is_refuted_in_the_end() -> None:
    widths = [1 - confidence_sequence(Sums(n, float(n), float(n)))[0] for n in (1, 10, 100, 10_000, 10**6)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1e-4


# Looked at after every value

DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "coins near 0": lambda random, shape: (random.random(shape) < 0.03).astype(float),
    "coins near 1": lambda random, shape: (random.random(shape) < 0.97).astype(float),
    "three points": lambda random, shape: random.choice([0.0, 0.5, 1.0], shape, p=[0.2, 0.3, 0.5]),
    "beta": lambda random, shape: random.beta(8, 2, shape),
    "nearly always a coin": lambda random, shape: np.where(
        random.random(shape) < 0.995, random.random(shape) < 0.9, 0.5
    ).astype(float),
}
MEANS = {
    "coins near 0": 0.03,
    "coins near 1": 0.97,
    "three points": 0.65,
    "beta": 0.8,
    "nearly always a coin": 0.995 * 0.9 + 0.005 * 0.5,
}

lgamma = np.vectorize(math.lgamma, otypes=[float])


def log_wealths(mean: float, n: Floats, total: Floats, squares: Floats) -> Floats:
    """Of all streams at all times, with all parts of the stake."""
    a, b = CONCENTRATION * mean, CONCENTRATION * (1 - mean)
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    beta = lgamma(a + total) + lgamma(b + n - total) - lgamma(a + b + n) + constant
    beta -= total * log(mean) + (n - total) * math.log1p(-mean)
    wealth: Floats = log(BETA_SHARE) + beta
    share = log((1 - BETA_SHARE) / 4 / len(FRACTIONS))
    for place in (TOUCHING, mean):
        for fraction in FRACTIONS:
            won = math.log1p(fraction * (place / mean - 1))
            lost = 1 - (1 - fraction) * exp(-won)
            curve = math.log1p(-fraction) - won + lost
            games = n * won + lost * (total / place - n)
            games += curve * (squares / place**2 - 2 * total / place + n)
            wealth = np.logaddexp(wealth, share + games)
    return wealth


def ever_wrong(values: Floats, mean: float, level: float) -> float:
    """The share of streams of which an interval is without the mean after any of their values."""
    n = np.arange(1.0, values.shape[1] + 1)
    total, squares = values.cumsum(1), (values * values).cumsum(1)
    above = log_wealths(mean, n, total, squares)
    below = log_wealths(1 - mean, n, n - total, n - 2 * total + squares)
    wanted = -log(1 - level)
    return float(((above >= wanted) | (below >= wanted)).any(1).mean())


def streams_of_each(draws: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls a test with the `name` of each draw, and a `size`: how many streams of how many values."""
    sizes = [(150, 1000), pytest.param((2000, 5000), marks=pytest.mark.soak)]

    of_sizes = pytest.mark.parametrize("size", sizes, ids=str)
    of_names = pytest.mark.parametrize("name", draws)
    return lambda test: of_sizes(of_names(test))


@streams_of_each(DRAWS)
def test_coverage_at_all_times(name: str, size: tuple[int, int]) -> None:
    level = 0.95
    random = np.random.default_rng(20)
    wrong = fmean(
        ever_wrong(DRAWS[name](random, (size[0] // 10, size[1])), MEANS[name], level) for _ in range(10)
    )
    print(f"{name}: {wrong:.4f}")  # noqa: T201
    assert wrong <= 1 - level


def test_what_is_not_covered() -> None:
    """The mean of coins that get worse: the interval is about what has been, on average."""
    random = np.random.default_rng(20)
    chances = np.linspace(0.9, 0.1, 2000)
    values = (random.random(2000) < chances).astype(float)
    low, high = confidence_sequence(sums_of(values.tolist()))
    assert low <= fmean(chances.tolist()) <= high
    assert not low <= chances[-1] <= high


@pytest.mark.parametrize("name", DRAWS)
def test_an_interval_leaves_out_no_more_than_the_wealth_refutes(name: str) -> None:
    values = DRAWS[name](np.random.default_rng(3), (1, 600))[0].tolist()
    for n in (1, 2, 3, 5, 10, 30, 100, 300, 600):
        sums = sums_of(values[:n])
        for side, end in (
            (sums, confidence_sequence(sums)[0]),
            (sums.mirrored(), 1 - confidence_sequence(sums)[1]),
        ):
            wanted = -log(0.05)
            for mean in (end * part / 50 for part in range(1, 50) if end):
                assert log_wealth(mean, side) >= wanted - 1e-6


skewed = st.floats(0, 1).map(lambda value: value**6)


@pytest.mark.parametrize("values", [[0.02] * 12 + [1.0] * 4, [0.1, 0.5] * 8, [1.0] * 7 + [0.0]])
@given(
    few=st.lists(skewed | skewed.map(lambda value: 1 - value), max_size=20),
    level=st.sampled_from([0.5, 0.95, 0.99]),
)
def test_an_interval_has_hardly_more_than_the_wealth_allows(
    values: list[float], few: list[float], level: float
) -> None:
    """Just beyond an end, a mean is not refuted, even by all games together."""
    sums = sums_of(values + few)
    low, high = confidence_sequence(sums, level=level)
    for side, end in ((sums, low), (sums.mirrored(), 1 - high)):
        beyond = end + 2 * TOLERANCE
        if beyond < side.total / side.n:
            assert log_wealth(beyond, side) < -log(1 - level)
            assert not is_above(beyond, side, level=level)
        assert not end or is_above(end / 2, side, level=level)


def test_the_most_that_an_interval_has_beyond_that() -> None:
    """Against means of 0.005 and more, the wealth is for long just what refutes them."""
    sums = Sums(19, 0.8592675502348537, 0.0389560180721385)
    low, _ = confidence_sequence(sums, level=0.99)
    assert log_wealth(low + 0.001, sums) < -log(1 - 0.99)


@pytest.mark.parametrize(
    ("name", "ratio"), [("coins near 0", 1.8), ("coins near 1", 1.8), ("three points", 2.0), ("beta", 2.5)]
)
def test_width_against_an_interval_for_one_look(name: str, ratio: float) -> None:
    normal = 2 * NormalDist().inv_cdf(0.975)
    ratios = []
    for seed in range(10):
        values = DRAWS[name](np.random.default_rng(seed), (1, 1000))[0].tolist()
        low, high = confidence_sequence(sums_of(values))
        ratios.append((high - low) / (normal * pstdev(values) / sqrt(1000)))
    assert 1 < fmean(ratios) <= ratio


def test_binomial_coefficients_agree() -> None:
    """The bet on coins is the ratio of two probabilities of the same count of heads."""
    n, heads, mean = 12, 9, 0.4
    a, b = CONCENTRATION * mean, CONCENTRATION * (1 - mean)
    under_beta = comb(n, heads) * math.exp(
        math.lgamma(a + heads)
        + math.lgamma(b + n - heads)
        - math.lgamma(a + b + n)
        - math.lgamma(a)
        - math.lgamma(b)
        + math.lgamma(a + b)
    )
    under_mean = comb(n, heads) * mean**heads * (1 - mean) ** (n - heads)
    assert exp(log_wealth(mean, Sums(n, 9.0, 9.0))) >= BETA_SHARE * under_beta / under_mean
