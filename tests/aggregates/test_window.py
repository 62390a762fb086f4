"""Windows of running aggregates: what may be one, what takes a place in it, and what it does not do."""

from __future__ import annotations

import gc
import json
import math
import random
import re
import weakref
from typing import Any

import pytest

from graphrag_eval_async import Last, RunningAggregates, Seconds
from graphrag_eval_async.aggregates import window
from graphrag_eval_async.errors import AggregationError, UsageError
from tests.aggregates.made import aggregated, result
from tests.cases import each


class Step(dict[str, Any]):
    """One that can be referred to weakly."""


def aggregate(*results: dict[str, Any], **options: Any) -> RunningAggregates:
    return aggregated(results, **options)


def text(aggregates: RunningAggregates) -> str:
    return json.dumps(aggregates.snapshot())


def kind(value: Any) -> str:
    return type(value).__name__


def shown(value: Any) -> str:
    """As messages have it; beyond 64 bits, printing an int may be an error itself."""
    too_long = isinstance(value, int) and not -(2**63) <= value < 2**64
    return f"an int of {value.bit_length()} bits" if too_long else repr(value)


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "2", None, -(10**5000)], ids=kind)
def test_a_count_is_a_whole_number_above_0(count: Any) -> None:
    with pytest.raises(UsageError, match=r"^count: expected an integer of 1 or more, got ") as error:
        Last(count)
    assert str(error.value).endswith(f"got {shown(count)}")


@each("seconds", [0, -1.0, True, math.nan, math.inf, 10**400, "5m", None])
def test_seconds_are_a_number_above_0(seconds: Any) -> None:
    with pytest.raises(UsageError, match=r"^seconds: expected a finite number above 0, got ") as error:
        Seconds(seconds)
    assert str(error.value).endswith(f"got {shown(seconds)}")


@pytest.mark.parametrize("wrong", [200, 300.0, "5m"])
def test_a_window_is_one_of_the_two(wrong: Any) -> None:
    told = re.escape(f"window: expected Last(...) or Seconds(...), got {wrong!r}")
    with pytest.raises(UsageError, match=f"^{told}$"):
        RunningAggregates(window=wrong)


def test_windows_are_values() -> None:
    assert Last(200) == Last(200) != Last(201)
    assert hash(Seconds(300)) == hash(Seconds(300.0))
    with pytest.raises(AttributeError):
        Last(200).count = 1  # type: ignore[misc]


@pytest.mark.parametrize("template", ["a", "b"])
def test_what_leaves_takes_its_template_metric_and_step_along(template: str) -> None:
    first = result("a", elapsed_sec=0.5, x_cost=1.5, actual_steps=[{"name": "old"}, {"name": "both"}])
    second = result(template, elapsed_sec=2, actual_steps=[{"name": "both"}])
    windowed = aggregate(first, window=Last(1))
    assert text(windowed) == text(aggregate(first))
    windowed.add(second)
    assert text(windowed) == text(aggregate(second))
    assert windowed.snapshot()["micro"]["elapsed_sec"]["max"] == 2
    assert windowed.snapshot()["micro"]["steps"]["total"] == {"both": 1}


def test_the_window_is_over_all_templates() -> None:
    results = [result(template, elapsed_sec=i) for i, template in enumerate("aaabac")]
    windowed = aggregate(*results, templates=["c", "a"], window=Last(3))
    assert list(windowed.snapshot()["per_template"]) == ["c", "a", "b"]
    windowed.add(result("a"))
    assert list(windowed.snapshot()["per_template"]) == ["c", "a"]
    windowed.order_templates(["a"])
    assert list(windowed.snapshot()["per_template"]) == ["a", "c"]


def test_what_does_not_count_takes_no_place() -> None:
    windowed = aggregate(result(elapsed_sec=1.0), result("failed", status="error"), window=Last(2))
    before = text(windowed)
    windowed.add(result(elapsed_sec=9.0, pending=["answer_correctness"]))
    with pytest.raises(AggregationError):
        windowed.add(result(elapsed_sec="9"))
    assert text(windowed) == before


def test_seconds_pass_without_results(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(window, "monotonic", lambda: now)
    windowed = aggregate(result("a"), window=Seconds(10))
    now = 55.0
    windowed.add(result("b"))
    now = 59.75
    assert list(windowed.snapshot()["per_template"]) == ["a", "b"]
    now = 60.0
    assert list(windowed.snapshot()["per_template"]) == ["b"]
    now = 1000.0
    assert text(windowed) == text(RunningAggregates())


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
