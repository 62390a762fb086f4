"""What is remembered of texts is small, whatever an agent writes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from graphrag_eval_async import RunningAggregates

MIB = 1 << 20


@pytest.mark.parametrize(
    "where", ["keys of a retrieval step", "keys of a result", "names of steps"]
)
def test_large_results_are_not_kept(where: str) -> None:
    aggregates = RunningAggregates()
    tracemalloc.start()
    try:
        for number in range(100):
            keys: dict[str, Any] = {f"{number} {i} {'x' * 1000}": 0 for i in range(250)}
            more = {
                "keys of a retrieval step": {"actual_steps": [{"name": "retrieval", **keys}]},
                "keys of a result": keys,
                "names of steps": {"actual_steps": [{"name": name} for name in keys]},
            }
            result = {"template_id": "t", "question_id": "q", "status": "success", **more[where]}
            aggregates.add(result)
            aggregates.snapshot()
        del keys, more, result
        assert tracemalloc.get_traced_memory()[0] < 5 * MIB
    finally:
        tracemalloc.stop()
