"""Confidence sequences, against exact probabilities and the wealth of plainly computed bets."""

from __future__ import annotations

import math
from math import exp, log, log1p
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.histogram import BINS, Histogram
from graphrag_eval_async.inference.confidence import (
    FRACTIONS,
    SHARES,
    TOLERANCE,
    confidence_sequence,
    gap,
)
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.aggregates.histogram import Weights


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


@each(("chance", "level"), [(0.03, 0.95), (0.2, 0.8), (0.5, 0.95), (0.95, 0.8)])
def test_exact_probability_that_any_interval_is_wrong(chance: float, level: float) -> None:
    """For coins, by the exact probability of each count of heads that no interval was wrong
    before.
    """
    assert sum(SHARES) == pytest.approx(0.5), "the other half of the stake is for the other side"
    right = {0: 1.0}
    for n in range(1, 61):
        counts: dict[int, float] = {}
        for heads, weight in right.items():
            counts[heads] = counts.get(heads, 0.0) + weight * (1 - chance)
            counts[heads + 1] = counts.get(heads + 1, 0.0) + weight * chance
        right = {}
        for heads, weight in counts.items():
            low, high = confidence_sequence(
                weights_of([1.0] * heads + [0.0] * (n - heads)), level=level
            )
            if low <= chance <= high:
                right[heads] = weight
    assert level <= sum(right.values()) < 1


def test_values_outside_have_no_weights() -> None:
    for count in (1, 5000):  # Few values are counted otherwise than many.
        histogram = Histogram()
        histogram.add([0.5, -0.1, 1.5] * count)
        assert histogram.weights() is None
        histogram.remove([-0.1, 1.5] * count)
        assert histogram.weights() == weights_of([0.5] * count)


skewed = st.floats(0, 1).map(lambda value: value**6)
BEFORE = [[0.02] * 12 + [1.0] * 4, [0.1, 0.5] * 8, [1.0] * 7 + [0.0]]


@example(before=BEFORE[2], few=[1.0, 0.9998904308304191], level=0.95)
@given(
    before=st.sampled_from(BEFORE),
    few=st.lists(skewed | skewed.map(lambda value: 1 - value), max_size=20),
    level=st.sampled_from([0.5, 0.95, 0.99]),
)
def test_ends_are_where_the_wealth_meets_the_target(
    before: list[float], few: list[float], level: float
) -> None:
    values = before + few
    low, high = confidence_sequence(weights_of(values), level=level)
    target = -log(1 - level)
    for side, end in ((values, low), ([1 - value for value in values], 1 - high)):
        beyond = end + 3 * TOLERANCE
        if beyond < fmean(side):
            assert slow_log_wealth(beyond, side) < target
        for mean in (end * part / 5 for part in range(1, 6) if end):
            assert slow_log_wealth(mean, side) >= target - 1e-6


few = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=40)


@settings(max_examples=50)
@given(few, few, st.integers(1, 20))
def test_the_gap_between_two_intervals(one: list[float], other: list[float], times: int) -> None:
    first, second = weights_of(one * times), weights_of(other * times)
    (low, high), (least, most) = (confidence_sequence(each, level=0.8) for each in (first, second))
    assert gap(first, second, 0.8) == pytest.approx(
        max(0.0, low - most, least - high), abs=3 * TOLERANCE
    )
