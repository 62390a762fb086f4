"""The sign-flip test, against plain enumeration and normal theory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async.inference.sign_flips import DRAWS, MAX_CHANGED, least_p, sign_flip_test
from tests.support.sign_flips import plain_p

CHANGES = st.lists(
    st.sampled_from([-1.0, -0.5, -0.3, 0.0, 0.1, 0.2, 0.3, 1.0]) | st.floats(-1, 1),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(CHANGES)
def test_p_by_enumeration(changes: list[float]) -> None:
    changes = [round(change, 3) for change in changes]
    assert sign_flip_test(changes) == pytest.approx(plain_p(changes))


@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize("shift", [0.0, 0.15, 0.4])
def test_p_of_many_changes_is_about_that_of_the_normal_distribution(n: int, shift: float) -> None:
    """Under random signs, the sum has the mean 0 and the variance of the sum of squares."""
    changes = np.random.default_rng(n).normal(shift, 1, n)
    expected = 2 * stats.norm.sf(abs(changes.sum()) / np.sqrt((changes**2).sum()))
    error = 5 * 2 * np.sqrt(expected / 2 / 1999) + 0.002
    assert sign_flip_test(changes.tolist()) == pytest.approx(expected, abs=error)


def test_few_changes_among_many_questions_are_exact() -> None:
    assert sign_flip_test([-1.0] * 5 + [0.0] * 45) == 0.0625
    assert sign_flip_test([-0.1 * i for i in range(1, 12)] + [0.0] * 10_000) == 2 * 0.5**11
    assert sign_flip_test([0.0] * 100) == 1.0
    # Subsets beyond the largest double.
    assert sign_flip_test([-0.5] * 1000 + [0.25] * 100) < 1e-99


def test_sampling_is_reproducible() -> None:
    numbers = random.Random(1)
    changes = [numbers.gauss(0.1, 1) for _ in range(300)]
    assert sign_flip_test(numbers.sample(changes, 300)) == sign_flip_test(changes)
    assert sign_flip_test([numbers.gauss(1, 1) for _ in range(300)]) == 2 / (DRAWS + 1)


@given(CHANGES)
def test_the_smallest_p_is_that_of_changes_with_one_sign(changes: list[float]) -> None:
    assert least_p(changes) == sign_flip_test([abs(change) for change in changes])
    assert least_p(changes) <= sign_flip_test(changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([], 1.0, id="no changes"),
        pytest.param([0.0] * 5, 1.0, id="only zeros"),
        pytest.param([-0.5], 1.0, id="one change"),
        pytest.param([0.5, -0.2, 0.0], 0.5, id="three changes"),
        # As large as the rounding errors of the others, it counts as 0.
        pytest.param([1.0, -1.0, 1.0, 1e-13], 0.25, id="rounding noise"),
        pytest.param([1.0] * 2000, 0.0, id="many equal changes"),
        # Signs are sampled, which gives no smaller p.
        pytest.param([1.0] * (MAX_CHANGED + 1), 2 / (DRAWS + 1), id="too many changes"),
    ],
)
def test_the_smallest_p_of(changes: list[float], expected: float) -> None:
    assert least_p(changes) == expected
    assert sign_flip_test([abs(change) for change in changes]) == expected
