from __future__ import annotations

import random
from bisect import bisect_right
from math import inf
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import ordered
from graphrag_eval_async.aggregates.ordered import OrderedValues

SMALL: dict[str, Any] = {"CHUNK": 6}
VALUE = st.integers(0, 9).map(float) | st.floats(-5, 5)
STEP = st.one_of(
    st.tuples(st.just("extend"), st.lists(VALUE, max_size=40)),
    st.tuples(st.just("select"), st.integers(0, 10**6)),
)


@given(st.lists(STEP, max_size=25), st.booleans())
@settings(deadline=None)
def test_values_are_a_sorted_list(steps: list[tuple[str, Any]], wide: bool) -> None:
    with patch.multiple(ordered, **SMALL):
        values, oracle = OrderedValues(), list[float]()
        if wide:
            values.widen()
        for name, argument in steps:
            if name == "extend":
                values.extend(argument)
                oracle += argument
            oracle.sort()
            if name == "select" and oracle:
                k = argument % len(oracle)
                assert values.select(k) == oracle[k]
                assert (values.first(), values.last()) == (oracle[0], oracle[-1])
            assert len(values) == len(oracle)
            for bound in (-inf, -1.5, 0.0, 3.0, 9.0, inf):
                assert values.rank(bound) == bisect_right(oracle, bound)
            assert sorted(value for chunk in values.chunks for value in chunk) == oracle
            assert all(len(chunk) <= SMALL["CHUNK"] for chunk in values.chunks)
        assert [values.select(k) for k in range(len(oracle))] == oracle
        assert [values.select(k) for k in reversed(range(len(oracle)))] == oracle[::-1]


@pytest.mark.parametrize("batch", [1, 50, 1000, 20_000])
def test_many_at_once_and_one_by_one(batch: int) -> None:
    draw = random.Random(batch)
    values, oracle = OrderedValues(), list[float]()
    while len(oracle) < 20_000:
        some = [draw.gauss(0, 1) for _ in range(batch)]
        values.extend(some)
        oracle += some
        if draw.random() < 0.01 or batch == 20_000:
            oracle.sort()
            middle = len(oracle) // 2
            assert values.select(middle) == oracle[middle]
    oracle.sort()
    assert [values.select(k) for k in range(0, len(oracle), 97)] == oracle[::97]
    assert max(map(len, values.chunks)) <= ordered.CHUNK
