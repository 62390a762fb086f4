from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.records.caching import remember

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("window", [None, Last(1)], ids=str)
@pytest.mark.parametrize("where", ["keys of a retrieval step", "keys of a result", "names of steps"])
def test_large_results_are_not_kept(where: str, window: Last | None) -> None:
    aggregates = RunningAggregates(window=window)
    before = tracemalloc.get_traced_memory()[0]
    for number in range(100):
        keys = {f"{number} {i} {'x' * 1000}": 0 for i in range(250)}
        result: dict[str, Any] = {"template_id": "t", "question_id": str(number), "status": "success"}
        if where == "keys of a result":
            aggregates.add(result | keys)
        elif where == "keys of a retrieval step":
            aggregates.add(result | {"actual_steps": [{"name": "retrieval", **keys}]})
        else:
            aggregates.add(result | {"actual_steps": [{"name": name} for name in keys]})
            aggregates.snapshot()
    del keys, result
    assert tracemalloc.get_traced_memory()[0] - before < 5 * MIB


def test_few_and_short_keys_are_remembered() -> None:
    calls: list[tuple[str, ...]] = []

    @remember(entries=2)
    def joined(key: tuple[str, ...]) -> str:
        calls.append(key)
        return "".join(key)

    long = ("x" * 5000,)
    for key in [("a",), ("a",), ("b",), ("a",), ("c",), ("a",), long, long]:
        assert joined(key) == key[0]
    assert calls == [("a",), ("b",), ("c",), ("a",), long, long]
