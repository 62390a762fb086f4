"""Results that a test makes up, and their aggregates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import RunningAggregates

if TYPE_CHECKING:
    from collections.abc import Iterable


def result(template: str = "t", **keys: Any) -> dict[str, Any]:
    return {"template_id": template, "question_id": "q1", "status": "success", **keys}


def aggregated(results: Iterable[Any], **options: Any) -> RunningAggregates:
    aggregates = RunningAggregates(**options)
    for each in results:
        aggregates.add(each)
    return aggregates


def bits(aggregates: RunningAggregates) -> str:
    """Everything that snapshots show."""
    shown = [aggregates.snapshot(detail=True, interval=kind) for kind in ("anytime", "one_look")]
    return json.dumps([aggregates.snapshot(), *shown])
