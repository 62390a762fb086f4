"""Summaries of results that a test makes up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.judge import JudgeUsage
from graphrag_eval_async.monitor.summary import Reading, Summary
from graphrag_eval_async.records.conditions import parse_condition
from graphrag_eval_async.reference import NoReference
from graphrag_eval_async.traces.grouping import LateSpans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def result(question_id: str, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A result whose steps have a score, or none."""
    scored = (
        {} if score is None else {"steps_score": score, "failure": "none" if score == 1 else "wrong_order"}
    )
    return {"question_id": question_id, "template_id": "t", "status": "success", **scored} | more


def failed(question_id: str, error: str = "no answer", **more: Any) -> dict[str, Any]:
    return result(question_id, None, status="error", error=error, **more)


def summary_of(
    results: Iterable[Mapping[str, Any]],
    baseline: Iterable[Mapping[str, Any]] | None = None,
    *,
    pass_if: Iterable[str] = (),
    **more: Any,
) -> Summary:
    reading = Reading([*map(parse_condition, pass_if)], compares=baseline is not None)
    for each in baseline or ():
        reading.add_baseline(each)
    for each in results:
        reading.add(each)
    return reading.summary(**more)


def idle_run(aggregates: RunningAggregates | None = None) -> Any:
    """What pages show of a stream that has these results and does nothing else."""
    return SimpleNamespace(
        aggregates=aggregates or RunningAggregates(),
        reference=NoReference(),
        rejects=SimpleNamespace(counts={}),
        usage=JudgeUsage(),
        in_flight=0,
        missing=(),
        journal=None,
        skipped=0,
        late=LateSpans(),
        is_restored=True,
    )
