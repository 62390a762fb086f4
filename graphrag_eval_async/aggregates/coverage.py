"""Coverage of metrics: how many of the samples that a mean should cover have a value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, mean
from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import is_metric
from graphrag_eval_async.catalogue.outcomes import (
    NO_ANSWER,
    OUTPUTS,
    REASON,
    RESPONSE_ERROR,
    TEXT,
    Outcome,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphrag_eval_async.aggregates.series import Series

OutcomeCounts: TypeAlias = Counter[Outcome]
"""Counts of metric failures by metric and kind, and of failures by reason."""


def count(outcomes: OutcomeCounts, more: Iterable[Outcome], times: int = 1) -> None:
    """Add `more` to the outcomes `times` times."""
    for outcome in more:
        outcomes[outcome] += times


def reasons(outcomes: OutcomeCounts) -> dict[str, int]:
    """Return the number of failures by reason, sorted by name."""
    return {kind: total for (what, kind), total in sorted(outcomes.items()) if what == REASON}


def covered_metrics(
    series: Iterable[str], outcomes: Collection[Outcome], pending: Iterable[str]
) -> set[str]:
    """Return the metrics that have a value somewhere, or should have one.

    A failed agent says nothing about which metrics apply. Outputs with only texts are not metrics.
    """
    failed = {what for what, kind in outcomes if kind not in (RESPONSE_ERROR, NO_ANSWER)}
    texts = {what for what, kind in outcomes if kind == TEXT}
    known = (failed - texts - {REASON, OUTPUTS}) | {*series, *pending, "steps_score"}
    correctness = JUDGED_BY_NAME["answer_correctness"].values
    return known | ({*correctness} if known.intersection(correctness) else set())


def coverage(metric: str, values: int, outcomes: OutcomeCounts, pending: int) -> dict[str, Any]:
    """Return how many samples a metric applies to, and its outcomes in them."""
    names = {metric} if is_metric(metric) else {metric, OUTPUTS}
    failed: Counter[str] = Counter()
    for (what, kind), total in sorted(outcomes.items()):
        if what in names:
            failed[kind] += total
    applied = values + failed.total() + pending
    return {
        "applied": applied,
        "values": values,
        "failed": dict(sorted(failed.items())),
        "pending": pending,
    }


def bounds(series: Series | None, failed: int) -> dict[str, float]:
    """Return the means of a metric from 0 to 1 if all `failed` values were 0, and if all were 1."""
    total, values = (0, 0) if series is None else (series.units, len(series))
    low, high = (mean(total + most, values + failed, integral=False) for most in (0, failed * ONE))
    return {"low": low, "high": high}
