"""What counts, what is refused, and how a snapshot is laid out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.errors import AggregationError, UsageError
from tests.aggregates.made import aggregated, result
from tests.support.cases import each


def snapshot(*results: Any, **options: Any) -> dict[str, Any]:
    return aggregated(results, **options).snapshot()


def test_nothing_counted() -> None:
    micro = {"number_of_error_samples": 0, "number_of_success_samples": 0}
    assert snapshot(templates=["a"]) == {"per_template": {}, "micro": micro, "macro": {}}


def test_order_of_templates() -> None:
    aggregates = RunningAggregates(templates=["z", "unused", "y", "z"])
    for template in "aybz":
        aggregates.add(result(template))
    assert list(aggregates.snapshot()["per_template"]) == ["z", "y", "a", "b"]
    aggregates.order_templates(["b"])
    assert list(aggregates.snapshot()["per_template"]) == ["b", "z", "y", "a"]


def test_a_snapshot_belongs_to_the_caller() -> None:
    aggregates = RunningAggregates()
    aggregates.add(result(elapsed_sec=1, actual_steps=[{"name": "a"}]))
    expected = json.dumps(aggregates.snapshot())
    for _ in range(2):
        taken = aggregates.snapshot()
        for part in (taken["per_template"]["t"], taken["micro"]):
            part["steps"]["total"]["a"] = part["elapsed_sec"]["sum"] = None
        taken["macro"]["elapsed_sec"].clear()
    assert json.dumps(aggregates.snapshot()) == expected


@each(
    "value",
    [float("nan"), float("inf"), -float("inf"), 2**64, -(2**63) - 1, 10**10_000, True, "1", [1], {}, 1j],
)
@each("place", ["elapsed_sec", "my_cost", "retrieval_context_recall", "step_cost"])
def test_a_bad_number_is_refused_and_nothing_is_counted(place: str, value: Any) -> None:
    aggregates = RunningAggregates()
    aggregates.add(result(steps_score=1.0))
    before = json.dumps(aggregates.snapshot())
    step = {"name": "retrieval", "status": "success"}
    bad = result("new", steps_score=0.5, actual_steps=[step])
    (step if "retrieval" in place or "step" in place else bad)[place] = value
    with pytest.raises(AggregationError, match=f"q1.*{place}"):
        aggregates.add(bad)
    assert json.dumps(aggregates.snapshot()) == before


def test_aggregates_that_treat_errors_differently_do_not_merge() -> None:
    aggregates = RunningAggregates(include_errors=True)
    with pytest.raises(UsageError, match="include_errors"):
        aggregates.merge(RunningAggregates())
