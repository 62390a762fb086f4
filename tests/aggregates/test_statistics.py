"""Order statistics of one metric, through insertions of all shapes, and exact sums."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates.exact import sum_floats, sum_units, to_units
from graphrag_eval_async.aggregates.ordered import CHUNK, OrderedValues
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable

floats = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(floats))
def test_sums_are_exact(values: list[float]) -> None:
    assert sum_floats(values) == sum_units(values) == sum(map(to_units, values))


SHAPES: list[Callable[[random.Random, int], float]] = [
    lambda rnd, _: rnd.random(),
    lambda _, i: float(i),
    lambda _, i: float(-i),
    lambda _, __: 0.5,
    lambda rnd, _: float(rnd.randrange(3)),
    lambda rnd, _: rnd.paretovariate(0.1),
]


@each("shape", SHAPES)
def test_selection_at_every_rank_between_insertions(shape: Callable[[random.Random, int], float]) -> None:
    rnd = random.Random(1)
    store = OrderedValues()
    expected: list[float] = []
    while len(expected) < 5 * CHUNK:
        values = [shape(rnd, len(expected) + i) for i in range(rnd.choice([1, 5, 700]))]
        store.extend(values)
        expected = sorted(expected + values)
        for k in (len(expected) // 2, rnd.randrange(len(expected))):
            assert store.select(k) == expected[k]
            assert store.rank(expected[k]) == sum(value <= expected[k] for value in expected)
    assert (store.first(), store.last(), len(store)) == (expected[0], expected[-1], len(expected))
    assert [store.select(k) for k in range(len(expected))] == expected
    assert max(map(len, store.chunks)) <= CHUNK
