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
"""How often each metric failed, by metric and cause; and how often results did, by reason."""


def reasons(outcomes: OutcomeCounts) -> dict[str, int]:
    """Return the number of failed results by reason, sorted by name."""
    return {cause: count for (name, cause), count in sorted(outcomes.items()) if name == REASON}


def covered_metrics(
    series: Iterable[str], outcomes: Collection[Outcome], pending: Iterable[str]
) -> set[str]:
    """Return the metrics that have a value somewhere, or should have one.

    Args:
        series: the metrics with a value.
        outcomes: the outcomes of all results.
        pending: the metrics with a value to come.
    """
    # A failed agent says nothing about which metrics apply.
    failed = {name for name, cause in outcomes if cause not in (RESPONSE_ERROR, NO_ANSWER)}
    # An output that is a text is no metric, even where it failed.
    texts = {name for name, cause in outcomes if cause == TEXT}
    metrics = failed - texts - {REASON, OUTPUTS}
    metrics.update(series, pending)
    metrics.add("steps_score")
    # The values of answer correctness come together.
    values_of_correctness = JUDGED_BY_NAME["answer_correctness"].values
    if not metrics.isdisjoint(values_of_correctness):
        metrics.update(values_of_correctness)
    return metrics


def coverage(metric: str, values: int, outcomes: OutcomeCounts, pending: int) -> dict[str, Any]:
    """Return how many samples a metric applies to, and its outcomes in them.

    Args:
        metric: the name of the metric.
        values: how many values it has.
        outcomes: the outcomes of the samples.
        pending: how many values are to come.
    """
    names = {metric}
    if not is_metric(metric):
        # It is an output of a custom evaluation: results that name no output may lack it.
        names.add(OUTPUTS)
    failed: Counter[str] = Counter()
    for (name, cause), count in outcomes.items():
        if name in names:
            failed[cause] += count
    return {
        "applied": values + failed.total() + pending,
        "values": values,
        "failed": dict(sorted(failed.items())),
        "pending": pending,
    }


def bounds(series: Series | None, failed: int) -> dict[str, float]:
    """Return the means of a metric from 0 to 1 if all `failed` values were 0, and if all were 1.

    There must be a value, or a failed one.
    """
    units = 0
    samples = failed
    if series is not None:
        units = series.units
        samples += len(series)
    return {
        "low": mean(units, samples, integral=False),
        "high": mean(units + failed * ONE, samples, integral=False),
    }
