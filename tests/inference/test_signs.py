"""The sign test against sums of exact probabilities and a published table; Holm's procedure step by step."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.inference.signs import holm, sign_test
from tests.cases import each


def exact(wins: int, losses: int) -> Fraction:
    n = wins + losses
    tail = sum(comb(n, size) for size in range(min(wins, losses) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**n))


@each("n", [*range(31), 99, 100, 537, 1000])
def test_it_is_the_exact_probability(n: int) -> None:
    for wins in {*range(0, n + 1, 1 + n // 50), n // 2, n}:
        assert sign_test(wins, n - wins) == pytest.approx(float(exact(wins, n - wins)), rel=1e-15, abs=0)


@given(st.integers(0, 300), st.integers(0, 300))
def test_it_does_not_matter_which_side_wins(wins: int, losses: int) -> None:
    assert sign_test(wins, losses) == sign_test(losses, wins)
    assert sign_test(wins, losses) == pytest.approx(float(exact(wins, losses)), rel=1e-15, abs=0)


def test_large_counts() -> None:
    """By sums that were taken from one count to the next, each exact."""
    n, rarer = 20_000, 9_900
    weight = tail = 1
    for size in range(rarer):
        weight = weight * (n - size) // (size + 1)
        tail += weight
    assert sign_test(rarer, n - rarer) == pytest.approx(float(Fraction(2 * tail, 2**n)), rel=1e-15, abs=0)
    assert sign_test(50_000, 50_000) == 1.0
    assert sign_test(100_000, 0) == 0.0
    assert sign_test(0, 1074) == 2.0**-1073


# Dixon and Mood (1946), table 1: the most of the rarer sign at which a difference is significant.
CRITICAL = [
    *((0.01, n, rarer) for n, rarer in {8: 0, 10: 0, 15: 2, 20: 3, 25: 5, 30: 7, 40: 11, 50: 15}.items()),
    *((0.05, n, rarer) for n, rarer in {6: 0, 10: 1, 15: 3, 20: 5, 25: 7, 30: 9, 40: 13, 50: 17}.items()),
]


@each(("level", "n", "rarer"), CRITICAL)
def test_published_critical_values(level: float, n: int, rarer: int) -> None:
    assert sign_test(rarer, n - rarer) <= level < sign_test(rarer + 1, n - rarer - 1)


def test_published_probability() -> None:
    assert sign_test(1, 9) == pytest.approx(0.0215, abs=5e-5)
    assert sign_test(0, 0) == 1.0


def naive_holm(p_values: list[float], bound: float) -> set[int]:
    """The hypotheses that are rejected: while the least of those left is below its share of the bound."""
    left = set(range(len(p_values)))
    while left:
        least = min(left, key=lambda i: (p_values[i], i))
        if p_values[least] * len(left) >= bound:
            break
        left.remove(least)
    return set(range(len(p_values))) - left


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, 0.03]), max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_step_by_step(p_values: list[float], bound: float) -> None:
    adjusted = holm(p_values)
    assert {i for i, p in enumerate(adjusted) if p < bound} == naive_holm(p_values, bound)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))


def test_holm_of_a_published_example() -> None:
    """The four p-values by which textbooks explain the procedure."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_all_true_hypotheses_together_are_seldom_rejected() -> None:
    """Exactly: over all outcomes of three tests of six tosses each."""
    wrong = Fraction(0)
    for outcome in product(range(7), repeat=3):
        chance = Fraction(1)
        for wins in outcome:
            chance *= Fraction(comb(6, wins), 64)
        if min(holm([sign_test(wins, 6 - wins) for wins in outcome])) < 0.1:
            wrong += chance
    assert 0 < wrong <= Fraction(1, 10)
