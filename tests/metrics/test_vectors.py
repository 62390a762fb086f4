from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphrag_eval_async.metrics.vectors import cosine

numbers = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_agrees_with_exact_arithmetic(pairs: list[tuple[float, float]]) -> None:
    left, right = ([Fraction(pair[side]) for pair in pairs] for side in (0, 1))
    squares = sum(x * x for x in left) * sum(x * x for x in right)
    assume(squares)
    dot = sum(x * y for x, y in zip(left, right, strict=True))
    expected = math.copysign(math.sqrt(dot * dot / squares), 1 if dot >= 0 else -1)
    # The similarity of nearly orthogonal vectors is a difference of large terms.
    assert cosine(*zip(*pairs, strict=True)) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([3, 4], [3, 4], 1.0),
        ([3, 4], [-3, -4], -1.0),
        ([1, 0], [0, 1], 0.0),
        ([5e-324], [1.7e308], 1.0),
        ([1.7e308, 1.7e308], [1.7e308, 1.7e308], 1.0),
        ([0.1] * 1536, [0.1] * 1536, 1.0),
    ],
)
def test_cosine(left: list[float], right: list[float], expected: float) -> None:
    assert cosine(left, right) == pytest.approx(expected, abs=1e-15)
    assert -1 <= cosine(left, right) <= 1
