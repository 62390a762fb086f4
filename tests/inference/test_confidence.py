"""Confidence sequences, against exact probabilities and many looks at many streams."""

from __future__ import annotations

import math
from itertools import product
from math import exp, fsum, log, log1p
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.histogram import BINS, Histogram, count_of
from graphrag_eval_async.inference.confidence import (
    FRACTIONS,
    POINTS,
    SHARES,
    TOLERANCE,
    Bet,
    confidence_sequence,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from graphrag_eval_async.aggregates.histogram import Weights

    Floats = NDArray[np.float64]


def weights_of(values: Iterable[float]) -> Weights:
    histogram = Histogram()
    histogram.add(values)
    weights = histogram.weights()
    assert weights is not None
    return weights


def slow_log_wealth(mean: float, values: Iterable[float]) -> float:
    """Game by game and value by value, each value divided between two points."""
    wealth = 0.0
    values = list(values)
    for fraction, share in zip(FRACTIONS, SHARES, strict=True):
        won = 0.0
        for value in values:
            place = min(math.floor(value * BINS), BINS - 1)
            upper = value * BINS - place
            for point, weight in ((place / BINS, 1 - upper), ((place + 1) / BINS, upper)):
                won += weight * log1p(fraction / mean * (point - mean))
        wealth += share * exp(won)
    return log(wealth)


# Fair games


@st.composite
def distributions(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Values in [0, 1] with their probabilities; the mean is not 0 or 1."""
    values = draw(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5]), min_size=2, max_size=3))
    weights = [draw(st.floats(0.01, 1)) for _ in values]
    return [(value, weight / sum(weights)) for value, weight in zip(values, weights, strict=True)]


@given(distributions(), st.integers(1, 4))
def test_no_bet_wins_on_average(distribution: list[tuple[float, float]], n: int) -> None:
    """Over all sequences of n values, each with its probability."""
    mean = sum(value * weight for value, weight in distribution)
    if not 0.001 < mean < 0.999:
        return
    above = below = 0.0
    for draw in product(distribution, repeat=n):
        weight = math.prod(weight for _, weight in draw)
        above += weight * exp(slow_log_wealth(mean, [value for value, _ in draw]))
        below += weight * exp(slow_log_wealth(1 - mean, [1 - value for value, _ in draw]))
    assert above <= 0.5 + 1e-9
    assert below <= 0.5 + 1e-9


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("chance", [0.03, 0.2, 0.5, 0.95])
def test_exact_probability_that_any_interval_is_wrong(chance: float, level: float) -> None:
    """For coins, by the exact probability of each count of heads that no interval was wrong before."""
    right = {0: 1.0}
    for n in range(1, 61):
        counts: dict[int, float] = {}
        for heads, weight in right.items():
            counts[heads] = counts.get(heads, 0.0) + weight * (1 - chance)
            counts[heads + 1] = counts.get(heads + 1, 0.0) + weight * chance
        right = {}
        for heads, weight in counts.items():
            low, high = confidence_sequence(weights_of([1.0] * heads + [0.0] * (n - heads)), level=level)
            if low <= chance <= high:
                right[heads] = weight
    assert level <= sum(right.values()) < 1


# Histograms


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 1, 0])))
def test_weights_keep_number_and_mean(values: list[float]) -> None:
    histogram, merged, other = Histogram(), Histogram(), Histogram()
    histogram.add(values)
    merged.add(values[::2])
    other.add([*values[1::2][::-1], 0.25])
    other.remove([0.25])
    merged.merge(other)
    weights = histogram.weights()
    assert merged.weights() == weights
    if weights is None:
        assert not values
    else:
        assert count_of(weights) == len(values)
        assert min(weights) >= 0
        total = fsum(point * weight for point, weight in zip(POINTS, weights, strict=True))
        assert total == pytest.approx(fsum(values), abs=1e-12)


# Ends


skewed = st.floats(0, 1).map(lambda value: value**6)


@pytest.mark.parametrize("values", [[0.02] * 12 + [1.0] * 4, [0.1, 0.5] * 8, [1.0] * 7 + [0.0]])
@example(few=[1.0, 0.9998904308304191], level=0.95)
@given(
    few=st.lists(skewed | skewed.map(lambda value: 1 - value), max_size=20),
    level=st.sampled_from([0.5, 0.95, 0.99]),
)
def test_ends_are_where_the_wealth_meets_the_target(
    values: list[float], few: list[float], level: float
) -> None:
    values = values + few
    low, high = confidence_sequence(weights_of(values), level=level)
    target = -log(1 - level)
    for side, end in ((values, low), ([1 - value for value in values], 1 - high)):
        beyond = end + 3 * TOLERANCE
        if beyond < fmean(side):
            assert slow_log_wealth(beyond, side) < target
        for mean in (end * part / 5 for part in range(1, 6) if end):
            assert slow_log_wealth(mean, side) >= target - 1e-6


@given(st.lists(st.floats(0, 1) | st.just(1.0), min_size=1, max_size=60), st.floats(0.02, 0.98))
def test_bets_refute_what_the_sequence_leaves_out(values: list[float], bound: float) -> None:
    bet = Bet(bound)
    for n, value in enumerate(values, 1):
        bet.add(value)
        low, _ = confidence_sequence(weights_of(values[:n]), level=0.8)
        if abs(low - bound) > 2 * TOLERANCE:
            assert bet.refutes(0.8) is (low > bound)


# Looked at after every value


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "coins near 0": lambda random, shape: (random.random(shape) < 0.03).astype(float),
    "three points": lambda random, shape: random.choice([0.0, 0.5, 1.0], shape, p=[0.2, 0.3, 0.5]),
    "beta(8, 2)": lambda random, shape: random.beta(8, 2, shape),
    "nearly always a coin": lambda random, shape: np.where(
        random.random(shape) < 0.995, random.random(shape) < 0.9, 0.5
    ).astype(float),
    "uniform": lambda random, shape: random.random(shape),
}
MEANS = {
    "coins near 0": 0.03,
    "three points": 0.65,
    "beta(8, 2)": 0.8,
    "nearly always a coin": 0.995 * 0.9 + 0.005 * 0.5,
}


def log_wealths(mean: float, values: Floats) -> Floats:
    """Of all streams at all times; each row is a stream."""
    points = np.array(POINTS)
    wealth: Floats = np.full(values.shape, -np.inf)
    for fraction, share in zip(FRACTIONS, SHARES, strict=True):
        won = np.interp(values, points, np.log1p(fraction / mean * (points - mean)))
        wealth = np.logaddexp(wealth, log(share) + won.cumsum(1))
    return wealth


def ever_wrong(values: Floats, mean: float, level: float) -> float:
    """The share of streams of which an interval is without the mean after any of their values."""
    target = -log(1 - level)
    above, below = log_wealths(mean, values), log_wealths(1 - mean, 1 - values)
    return float(((above >= target) | (below >= target)).any(1).mean())


def streams_of_each(draws: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with the `name` of each draw, and a `size`: how many streams of how many values."""
    sizes = [(150, 1000), pytest.param((2000, 5000), marks=pytest.mark.soak)]
    of_sizes = pytest.mark.parametrize("size", sizes, ids=str)
    of_names = pytest.mark.parametrize("name", draws)
    return lambda test: of_sizes(of_names(test))


@streams_of_each(DRAWS)
def test_coverage_at_all_times(name: str, size: tuple[int, int]) -> None:
    level = 0.95
    random = np.random.default_rng(20)
    shape = (size[0] // 10, size[1])
    mean = MEANS.get(name, 0.5)
    wrong = fmean(ever_wrong(DRAWS[name](random, shape), mean, level) for _ in range(10))
    print(f"{name}: {wrong:.4f}")  # noqa: T201
    assert wrong <= 1 - level
