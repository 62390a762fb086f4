"""The statistics of one metric against the standard library, with all of its chunks in use."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.exact import sum_floats, sum_units, to_units
from graphrag_eval_async.aggregates.ordered import CHUNK, OrderedValues
from graphrag_eval_async.aggregates.series import Column, Series
from tests.aggregates.strategies import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

floats = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(numbers, min_size=1), st.integers(0, 100))
def test_quantiles_are_between_their_neighbours(values: list[float], percent: int) -> None:
    series = Series("x")
    series.add(Column.of(values))
    place = Fraction(percent, 100) * (len(values) - 1)
    ascending = sorted(map(Fraction, values))
    low, high = ascending[math.floor(place)], ascending[math.ceil(place)]
    exact = low + (high - low) * (place - math.floor(place))
    assert series.quantile(percent) in (exact, exact.numerator / exact.denominator)
    assert series.quantile(50) == series.stats()["median"]


@settings(deadline=None)
@given(st.lists(floats))
def test_sums_are_exact(values: list[float]) -> None:
    assert sum_floats(values) == sum_units(values) == sum(map(to_units, values))


N = 5 * CHUNK
SHAPES: dict[str, Callable[[random.Random, int], float]] = {
    "spread": lambda rnd, _: rnd.random(),
    "ascending": lambda _, i: float(i),
    "descending": lambda _, i: float(-i),
    "equal": lambda _, __: 0.5,
    "few": lambda rnd, _: float(rnd.randrange(3)),
    "skewed": lambda rnd, _: rnd.paretovariate(0.1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_selection_at_every_rank_between_insertions(shape: str) -> None:
    rnd = random.Random(shape)
    store = OrderedValues()
    expected: list[float] = []
    while len(expected) < N:
        values = [SHAPES[shape](rnd, len(expected) + i) for i in range(rnd.choice([1, 5, 700]))]
        store.extend(values)
        expected = sorted(expected + values)
        for k in (len(expected) // 2, rnd.randrange(len(expected))):
            assert store.select(k) == expected[k]
    assert (store.first(), store.last(), len(store)) == (expected[0], expected[-1], len(expected))
    assert [store.select(k) for k in range(len(expected))] == expected
    assert max(map(len, store.chunks)) <= CHUNK
