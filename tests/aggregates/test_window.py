"""Windows of running aggregates: what may be one, what takes a place in it, and what it does not do."""

from __future__ import annotations

import gc
import json
import random
import weakref
from typing import Any

import pytest

from graphrag_eval_async import Last, RunningAggregates, Seconds
from graphrag_eval_async.errors import AggregationError, UsageError
from tests.aggregates.made import aggregated, result


class Step(dict[str, Any]):
    """One that can be referred to weakly."""


def aggregate(*results: dict[str, Any], **options: Any) -> RunningAggregates:
    return aggregated(results, **options)


def text(aggregates: RunningAggregates) -> str:
    return json.dumps(aggregates.snapshot())


def test_what_does_not_count_takes_no_place() -> None:
    windowed = aggregate(result(elapsed_sec=1.0), result("failed", status="error"), window=Last(2))
    before = text(windowed)
    windowed.add(result(elapsed_sec=9.0, pending=["answer_correctness"]))
    with pytest.raises(AggregationError):
        windowed.add(result(elapsed_sec="9"))
    assert text(windowed) == before


def test_windows_do_not_merge() -> None:
    for into, other in [(Last(1), None), (None, Seconds(1)), (Last(1), Last(1))]:
        with pytest.raises(UsageError, match="cannot be merged"):
            aggregate(window=into).merge(aggregate(window=other))
    windowed = RunningAggregates(window=Last(1))
    with pytest.raises(UsageError, match="cannot be merged"):
        windowed.merge(windowed)
    with pytest.raises(UsageError, match="cannot be converted to bytes"):
        windowed.to_bytes()


@pytest.mark.parametrize("status", ["success", "error"])
def test_what_has_left_takes_no_memory(status: str) -> None:
    windowed = RunningAggregates(window=Last(10))
    steps = []
    for i in range(3000):
        step = Step(name="s", output="[]")
        steps.append(weakref.ref(step))
        windowed.add(result(f"t{i}", status=status, elapsed_sec=i, actual_steps=[step]))
        if i % 7 == 0:
            windowed.snapshot()
    del step
    gc.collect()
    assert not any(step() for step in steps)
    assert len(windowed.snapshot()["per_template"]) == 10


@pytest.mark.parametrize("count", [6_000, pytest.param(300_000, marks=pytest.mark.soak)])
def test_a_long_stream(count: int) -> None:
    """With enough in the window for many chunks, and values of all kinds that come and go in waves."""
    rnd = random.Random(count)
    size, some = count // 2, []
    windowed = RunningAggregates(window=Last(size))
    for i in range(2 * count):
        wave = i * 8 // count
        numbers = {
            "elapsed_sec": rnd.choice([rnd.random(), float(wave), float(i)]),
            "x_cost": rnd.choice([0, 1]),
        }
        if wave % 3 == 0:
            numbers["input_tokens"] = rnd.choice([rnd.randrange(2**63), wave, -0.0])
        if wave % 5 == 0:
            numbers["x_cost"] = rnd.choice([0.5, 1.7e308])
        some.append(result(rnd.choice("ab" if wave % 2 else "bc"), **numbers))
        windowed.add(some[-1])
        if rnd.random() < 20 / count:
            assert text(windowed) == text(aggregate(*some[-size:]))
    assert text(windowed) == text(aggregate(*some[-size:]))


def test_results_may_have_come_before_they_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("graphrag_eval_async.aggregates.window.monotonic", lambda: now)
    aggregates = RunningAggregates(window=Seconds(10))
    for age in (12.0, 9.0, 4.0, 0.0):
        aggregates.add({"template_id": "t", "steps_score": age}, age=age)
    assert aggregates.snapshot()["micro"]["steps_score"]["sum"] == 13
    now += 6
    assert aggregates.snapshot()["micro"]["steps_score"]["sum"] == 0
    assert aggregates.snapshot()["micro"]["number_of_success_samples"] == 1
