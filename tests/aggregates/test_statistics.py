"""The statistics of one metric against the standard library, with all of its chunks in use."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.exact import sum_floats, sum_units, to_units
from graphrag_eval_async.aggregates.ordered import CHUNK, OrderedValues
from graphrag_eval_async.aggregates.series import Column, Series
from tests.aggregates.oracle import statistics_of
from tests.aggregates.strategies import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

floats = st.floats(allow_nan=False, allow_infinity=False)


def stats(values: Sequence[float]) -> dict[str, float]:
    series = Series("x")
    for value in values:
        series.add(Column.of([value]))
    together = Series("x")
    together.add(Column.of(values))
    assert together.stats() == series.stats()
    return series.stats()


@settings(deadline=None)
@given(st.lists(floats, min_size=1))
@example([1e16, 1.0, -1e16, 1e-320])
@example([5e-324, 0.0])
def test_floats_are_as_the_standard_library_has_them(values: list[float]) -> None:
    got = stats(values)
    try:
        total = math.fsum(values)
    except OverflowError:  # fsum gives up on some sums that are finite after all
        total = statistics_of(values).get("sum", math.inf)
    assert got.get("sum", math.inf) == abs(total) if math.isinf(total) else got["sum"] == total
    assert got["mean"] == statistics.mean(values)
    median = statistics.median(values)
    assert got["median"] == median or math.isinf(median)
    assert (got["min"], got["max"]) == (min(values), max(values))


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1))
@example([2**53 + 1, 2**53 + 3])
def test_ints_are_as_the_standard_library_has_them(values: list[int]) -> None:
    got = stats(values)
    expected = {
        "sum": sum(values),
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }
    assert got == expected
    assert [*map(type, got.values())] == [*map(type, expected.values())]


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
