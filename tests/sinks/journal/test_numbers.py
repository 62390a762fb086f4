from __future__ import annotations

import tracemalloc
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.sinks.journal import Numbers

NUMBER = st.integers(1, 12)


@given(st.lists(NUMBER | st.none()))
def test_numbers_are_a_set(calls: list[int | None]) -> None:
    numbers, taken = Numbers(), set[int]()
    for number in calls:
        if number is None:
            lowest = min(set(range(1, len(taken) + 2)) - taken)
            assert numbers.take() == lowest
            taken.add(lowest)
        else:
            numbers.add(number)
            taken.add(number)
        assert {n for n in range(1, 12 + len(calls)) if n in numbers} == taken
        assert numbers.upto == next(n for n in range(12 + len(calls)) if n + 1 not in taken)


def test_memory_does_not_grow_with_what_is_taken() -> None:
    numbers, random = Numbers(), Random(0)
    tracemalloc.start()
    try:
        for start in range(1, 50_001, 100):
            for number in random.sample(range(start, start + 100), 100):
                numbers.add(number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert numbers.upto == 50_000
    assert kept < 20_000
