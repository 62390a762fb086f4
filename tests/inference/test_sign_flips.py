"""The sign-flip test and its interval, against scipy and plain enumeration, and what it finds."""

from __future__ import annotations

import random
from itertools import product
from math import inf
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async.inference.sign_flips import DRAWS, SubsetMeans
from tests.cases import each

CHANGES = st.lists(
    st.sampled_from([-1.0, -0.5, -0.3, 0.0, 0.1, 0.2, 0.3, 1.0]) | st.floats(-1, 1), min_size=1, max_size=9
)


def plain_p(changes: list[float], mean: float = 0.0) -> float:
    """Of all sign flips of the changes, less a mean."""
    centred = [change - mean for change in changes]
    tolerance = 1e-9
    sums = [
        sum(sign * change for sign, change in zip(signs, centred, strict=True))
        for signs in product((1, -1), repeat=len(centred))
    ]
    found = sum(centred)
    extreme = min(sum(s >= found - tolerance for s in sums), sum(s <= found + tolerance for s in sums))
    return min(1.0, 2 * extreme / len(sums))


@given(CHANGES)
def test_p_by_enumeration(changes: list[float]) -> None:
    changes = [round(change, 3) for change in changes]
    test = SubsetMeans(changes)
    assert test.is_exact
    assert test.p == pytest.approx(plain_p(changes))


@given(CHANGES, st.sampled_from([0.05, 0.2, 0.5]))
def test_the_interval_inverts_the_test(changes: list[float], alpha: float) -> None:
    changes = [round(change, 3) for change in changes]
    test = SubsetMeans(changes)
    low, high = test.interval(alpha)
    assert (low <= 0 <= high) is (test.p >= alpha)
    assert low <= fmean(changes) + 1e-9
    assert high >= fmean(changes) - 1e-9
    for end, outward in ((low, -1e-4), (high, 1e-4)):
        if abs(end) < inf:
            assert plain_p(changes, end + outward) < alpha
            assert plain_p(changes, end - outward * 1e-3) >= alpha or low == high


@each("n", [12, 60, 400])
@each("shift", [0.0, 0.15, 0.4])
def test_p_of_scipy(n: int, shift: float) -> None:
    changes = np.random.default_rng(n).normal(shift, 1, n)
    test = SubsetMeans(changes.tolist(), thorough=True)
    expected = stats.permutation_test(
        (changes,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**14 if n > 16 else 2**16,
        rng=1,
    )
    assert test.is_exact is (n <= 16)
    error = 0.0 if test.is_exact else 5 * (test.p_error + 0.001)
    assert test.p == pytest.approx(expected.pvalue, abs=error + 1e-9)
    low, high = test.interval(0.05)
    student = stats.ttest_1samp(changes, 0).confidence_interval(0.95)
    width = student.high - student.low
    assert (low, high) == pytest.approx((student.low, student.high), abs=0.15 * width)


def test_five_losses_of_fifty_are_not_enough() -> None:
    test = SubsetMeans([-1.0] * 5 + [0.0] * 45)
    assert (test.p, test.p_error) == (0.0625, 0.0)
    assert test.interval(0.05)[1] == 0.0
    assert SubsetMeans([-1.0] * 6 + [0.0] * 44).interval(0.05)[1] < 0


def test_few_changes_among_many_questions_are_exact() -> None:
    changes = [-0.1 * i for i in range(1, 12)] + [0.0] * 10_000
    test = SubsetMeans(changes)
    assert test.is_exact
    assert test.p == 2 * 0.5**11
    low, high = test.interval(0.05)
    mean = fmean(changes)
    assert low < mean < high < 0
    for zeros in (100, 10_000):
        unchanged = SubsetMeans([0.0] * zeros)
        assert (unchanged.p, unchanged.interval(0.05)) == (1.0, (0.0, 0.0))
    # Subsets beyond the largest double.
    many = SubsetMeans([-0.5] * 1000 + [0.25] * 100)
    assert many.is_exact
    assert many.p < 1e-99
    assert -0.5 < many.interval(0.05)[0] < many.interval(0.05)[1] < -0.4


@each("size", [1e-300, 1e300])
def test_sizes_do_not_matter(size: float) -> None:
    for count in (9, 40):
        changes = [0.1 * i - 0.3 for i in range(count)]
        test, large = SubsetMeans(changes), SubsetMeans([size * change for change in changes])
        assert large.p == test.p
        expected = tuple(size * end for end in test.interval(0.05))
        assert large.interval(0.05) == pytest.approx(expected, rel=1e-9, abs=0)


def test_sampling_is_reproducible_and_its_error_is_known() -> None:
    numbers = random.Random(1)
    changes = [numbers.gauss(0.1, 1) for _ in range(300)]
    one, other = SubsetMeans(changes), SubsetMeans(changes)
    assert not one.is_exact
    assert (one.p, one.interval(0.05)) == (other.p, other.interval(0.05))
    assert one.p_error == pytest.approx((one.p * (2 - one.p) / one.total) ** 0.5)
    large = SubsetMeans([numbers.gauss(1, 1) for _ in range(300)])
    assert large.p == 2 / (DRAWS + 1)
    assert large.interval(1e-9) == (-inf, inf)


def power(draw: object, runs: int, *, seed: int) -> tuple[float, float]:
    """The shares of runs that are called worse, and better, at 95 %."""
    numbers = np.random.default_rng(seed)
    worse = better = 0
    for _ in range(runs):
        changes = draw(numbers)  # type: ignore[operator]
        test = SubsetMeans(changes.tolist())
        worse += test.p < 0.05 and changes.mean() < 0
        better += test.p < 0.05 and changes.mean() > 0
    return worse / runs, better / runs


def broken(numbers: np.random.Generator) -> np.ndarray:
    """F1 of 200 questions, a few of which break: the mean falls by 0.05."""
    noise = numbers.normal(0, 0.05, 200)
    return np.where(numbers.random(200) < 0.06, -0.8, noise) - 0.002


def skewed(numbers: np.random.Generator) -> np.ndarray:
    """60 % of 200 questions lose 0.05, 10 % gain 0.30, the mean is the same."""
    return numbers.choice([-0.05, 0.3, 0.0], 200, p=[0.6, 0.1, 0.3])


@pytest.mark.parametrize("runs", [20, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_few_questions_that_break_are_noticed(runs: int) -> None:
    worse, better = power(broken, runs, seed=1)
    print(f"a few break: worse {worse:.3f}, better {better:.3f}")  # noqa: T201
    assert worse > 0.85
    assert better == 0


@pytest.mark.parametrize("runs", [40, pytest.param(2000, marks=pytest.mark.soak)])
def test_many_small_losses_for_few_large_wins_are_no_change(runs: int) -> None:
    worse, better = power(skewed, runs, seed=2)
    print(f"mean unchanged: worse {worse:.3f}, better {better:.3f}")  # noqa: T201
    assert worse + better <= (0.08 if runs > 1000 else 0.15)
