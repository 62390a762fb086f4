"""The sign-flip test, against scipy and plain enumeration, and what it finds."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async.inference.sign_flips import DRAWS, sign_flip_test
from tests.support.cases import each

CHANGES = st.lists(
    st.sampled_from([-1.0, -0.5, -0.3, 0.0, 0.1, 0.2, 0.3, 1.0]) | st.floats(-1, 1), min_size=1, max_size=9
)


def plain_p(changes: list[float]) -> float:
    """Of all sign flips of the changes."""
    tolerance = 1e-9
    sums = [
        sum(sign * change for sign, change in zip(signs, changes, strict=True))
        for signs in product((1, -1), repeat=len(changes))
    ]
    found = sum(changes)
    extreme = min(sum(s >= found - tolerance for s in sums), sum(s <= found + tolerance for s in sums))
    return min(1.0, 2 * extreme / len(sums))


@given(CHANGES)
def test_p_by_enumeration(changes: list[float]) -> None:
    changes = [round(change, 3) for change in changes]
    assert sign_flip_test(changes) == pytest.approx(plain_p(changes))


@each("n", [12, 60, 400])
@each("shift", [0.0, 0.15, 0.4])
def test_p_of_scipy(n: int, shift: float) -> None:
    changes = np.random.default_rng(n).normal(shift, 1, n)
    p = sign_flip_test(changes.tolist())
    expected = stats.permutation_test(
        (changes,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**14 if n > 16 else 2**16,
        rng=1,
    )
    error = 2 * (p / 2 * (1 - p / 2) / 1999) ** 0.5 + 0.001 if n > 16 else 0.0
    assert p == pytest.approx(expected.pvalue, abs=5 * error + 1e-9)


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
