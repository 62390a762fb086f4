from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.records.caching import MOST_BYTES, remember

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def result(number: int, **more: Any) -> dict[str, Any]:
    return {"template_id": "t", "question_id": str(number), "status": "success", **more}


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("window", [None, Last(1)], ids=str)
@pytest.mark.parametrize("where", ["keys of a retrieval step", "keys of a result", "names of steps"])
def test_large_results_are_not_kept(where: str, window: Last | None) -> None:
    aggregates = RunningAggregates(window=window)
    before = tracemalloc.get_traced_memory()[0]
    for number in range(100):
        keys = {f"{number} {i} {'x' * 1000}": 0 for i in range(250)}
        if where == "keys of a result":
            aggregates.add(result(number, **keys))
        elif where == "keys of a retrieval step":
            aggregates.add(result(number, actual_steps=[{"name": "retrieval", **keys}]))
        else:
            aggregates.add(result(number, actual_steps=[{"name": name} for name in keys]))
            aggregates.snapshot()
    del keys
    assert tracemalloc.get_traced_memory()[0] - before < 5 * MIB


def test_results_are_remembered_up_to_a_number_of_entries() -> None:
    calls: list[tuple[str, ...]] = []

    @remember(entries=2)
    def joined(key: tuple[str, ...]) -> str:
        calls.append(key)
        return "".join(key)

    for key in [("a",), ("a",), ("b",), ("a",), ("c",), ("a",)]:
        assert joined(key) == key[0]
    assert calls == [("a",), ("b",), ("c",), ("a",)]


@pytest.mark.parametrize("key", ["x" * MOST_BYTES, ("x",) * MOST_BYTES, (("x" * MOST_BYTES,),)], ids=type)
def test_a_long_key_is_not_kept(key: Any) -> None:
    calls = []

    @remember(entries=2)
    def size(key: Any) -> int:
        calls.append(key)
        return len(key)

    assert size(key) == size(key) == len(key)
    assert len(calls) == 2
