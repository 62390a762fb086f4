"""Confidence sequences, against exact probabilities and the wealth of plainly computed bets."""

from __future__ import annotations

import math
from math import exp, log, log1p
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.histogram import BINS, Histogram
from graphrag_eval_async.inference.confidence import (
    FRACTIONS,
    SHARES,
    TOLERANCE,
    confidence_sequence,
    differ,
    seem_to_differ,
)
from tests.support.histograms import weights_of

if TYPE_CHECKING:
    from collections.abc import Iterable


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


@pytest.mark.parametrize(("chance", "level"), [(0.03, 0.95), (0.2, 0.8), (0.5, 0.95), (0.95, 0.8)])
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


@pytest.mark.parametrize(
    ("higher", "lower"),
    [
        pytest.param([1.0] * 9 + [0.0], [0.0] * 8 + [1.0] * 2, id="one failure"),
        pytest.param([1.0] * 5, [0.0] * 5, id="few"),
        pytest.param([0.9, 0.8, 0.95, 0.7] * 5, [0.4, 0.8, 0.2] * 4, id="fractions"),
        pytest.param([0.5] * 20, [0.45] * 20, id="close"),
        pytest.param([1.0] * 12 + [0.0] * 8, [1.0] * 11 + [0.0] * 9, id="overlapping"),
    ],
)
def test_means_differ_if_the_wealth_against_each_common_mean_is_large(
    higher: list[float], lower: list[float]
) -> None:
    mirrored = [1 - value for value in lower]
    places = [place / 200 for place in range(1, 200)]
    wealth = [
        slow_log_wealth(mean, higher) + slow_log_wealth(1 - mean, mirrored) for mean in places
    ]
    # Each gambler has half of a stake in `SHARES`, and the other direction gets half.
    least = min(wealth) + log(2)
    for times_less, expected in ((0.99, True), (1.01, False)):
        # The error at which the wealth is just enough, and just not.
        error = exp(-max(least, 0.01)) / times_less
        is_enough = expected and least > 0.01
        assert differ(weights_of(higher), weights_of(lower), error) == is_enough
        assert differ(weights_of(lower), weights_of(higher), error) == is_enough


@pytest.mark.parametrize("error", [0.5, 0.1])
@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_exact_probability_that_a_growing_histogram_ever_differs(
    chance: float, error: float
) -> None:
    coins_before = 12
    coins_after = 20
    wrong = 0.0
    for heads_before in range(coins_before + 1):
        first = weights_of([1.0] * heads_before + [0.0] * (coins_before - heads_before))
        # The probability of each number of heads so far, if no look has found a difference.
        chances = {0: chance_of_heads(heads_before, coins_before, chance)}
        for coins in range(1, coins_after + 1):
            tossed = dict.fromkeys(range(coins + 1), 0.0)
            for heads, chance_so_far in chances.items():
                tossed[heads + 1] += chance_so_far * chance
                tossed[heads] += chance_so_far * (1 - chance)
            chances = {}
            for heads, chance_so_far in tossed.items():
                second = weights_of([1.0] * heads + [0.0] * (coins - heads))
                if chance_so_far > 0 and differ(first, second, error):
                    wrong += chance_so_far
                else:
                    chances[heads] = chance_so_far
    assert 0 < wrong <= error


COINS = [(190, 200, 20, 30), (60, 100, 10, 40), (5, 100, 9, 40), (500, 1000, 70, 100)]
"""Heads and coins before, and heads and coins after."""


@pytest.mark.parametrize("coins", COINS, ids=str)
def test_the_best_bets_on_coins_win_their_likelihood_ratio(
    coins: tuple[int, int, int, int],
) -> None:
    heads_before, before, heads_after, after = coins
    first = weights_of([1.0] * heads_before + [0.0] * (before - heads_before))
    second = weights_of([1.0] * heads_after + [0.0] * (after - heads_after))
    log_ratio = -log_likelihood(heads_before + heads_after, before + after)
    log_ratio += log_likelihood(heads_before, before) + log_likelihood(heads_after, after)
    # There are only so many games, so the best of them wins a little less than the best bet.
    assert not seem_to_differ(first, second, p_value(log_ratio))
    assert seem_to_differ(first, second, p_value(0.9 * log_ratio))
    assert seem_to_differ(second, first, p_value(0.9 * log_ratio))
    # All games together win less than the best one.
    assert not differ(first, second, p_value(0.9 * log_ratio))


def log_likelihood(heads: int, coins: int) -> float:
    """The logarithm of the largest likelihood of that many heads."""
    chance = heads / coins
    return heads * log(chance) + (coins - heads) * log(1 - chance)


def p_value(log_ratio: float) -> float:
    """The probability that chi squared with one degree of freedom is twice as large."""
    return math.erfc(math.sqrt(log_ratio))


def chance_of_heads(heads: int, coins: int, chance: float) -> float:
    return math.comb(coins, heads) * chance**heads * (1 - chance) ** (coins - heads)


@pytest.mark.parametrize("error", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_exact_probability_that_equal_means_differ(chance: float, error: float) -> None:
    wrong = 0.0
    for before in range(31):
        for after in range(13):
            first = weights_of([1.0] * before + [0.0] * (30 - before))
            second = weights_of([1.0] * after + [0.0] * (12 - after))
            if differ(first, second, error):
                wrong += chance_of_heads(before, 30, chance) * chance_of_heads(after, 12, chance)
    assert wrong <= error
