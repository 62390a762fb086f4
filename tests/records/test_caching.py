from __future__ import annotations

import tracemalloc

import pytest

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.records.caching import remember

MIB = 1 << 20


@pytest.mark.parametrize("where", ["keys of a retrieval step", "keys of a result", "names of steps"])
def test_large_results_are_not_kept(where: str) -> None:
    aggregates = RunningAggregates()
    tracemalloc.start()
    try:
        for number in range(100):
            keys: dict[str, object] = {f"{number} {i} {'x' * 1000}": 0 for i in range(250)}
            more: dict[str, object] = {"actual_steps": [{"name": name} for name in keys]}
            if where != "names of steps":
                more = {"actual_steps": [{"name": "retrieval", **keys}]} if "step" in where else keys
            aggregates.add({"template_id": "t", "question_id": "q", "status": "success", **more})
            aggregates.snapshot()
        del keys, more
        assert tracemalloc.get_traced_memory()[0] < 5 * MIB
    finally:
        tracemalloc.stop()


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
