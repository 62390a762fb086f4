"""Coverage of metrics: how many of the samples that a mean should cover have a value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE, mean
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
"""How often each metric failed, by metric and cause, and how many results failed, by reason.

The key of a reason is `REASON` with the reason in place of a cause.
"""


def reasons(outcomes: OutcomeCounts) -> dict[str, int]:
    """Return the number of failed results by reason, sorted by name."""
    return {cause: count for (name, cause), count in sorted(outcomes.items()) if name == REASON}


def covered_metrics(
    series: Iterable[str], outcomes: Collection[Outcome], pending: Iterable[str]
) -> set[str]:
    """Return the metrics that a detailed snapshot shows: those that have a value or should have.

    Args:
        series: the metrics that have a value in some result.
        outcomes: the metrics without a value in some result, with the cause.
        pending: the metrics with a value that is still to come.
    """
    # If the agent failed, nobody knows which metrics would have applied.
    failed = {name for name, cause in outcomes if cause not in (RESPONSE_ERROR, NO_ANSWER)}
    # An output that is text in some results is not a metric, even if it failed in others.
    texts = {name for name, cause in outcomes if cause == TEXT}
    metrics = failed - texts - {REASON, OUTPUTS}
    metrics.update(series, pending)
    metrics.add("steps_score")
    # If one value of answer correctness applies, all of them do.
    values_of_correctness = JUDGED_BY_NAME["answer_correctness"].values
    if not metrics.isdisjoint(values_of_correctness):
        metrics.update(values_of_correctness)
    return metrics


def coverage(metric: str, values: int, outcomes: OutcomeCounts, pending: int) -> dict[str, Any]:
    """Return how many samples a metric applies to, and in how many of them it has a value.

    Args:
        metric: the name of the metric, or of an output of a custom evaluation.
        values: the number of its values.
        outcomes: the metrics without a value, with the cause, and how often.
        pending: the number of its values that are still to come.

    Returns:
        the number of samples that it is `applied` to, which is the sum of the others; the numbers
        of `values`, of `failed` values by cause, and of `pending` ones.
    """
    names = {metric}
    is_custom_output = not is_metric(metric)
    if is_custom_output:
        # A result without an answer does not name the outputs that it lacks. It has an outcome of
        # `OUTPUTS` instead, which stands for all of them.
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
    """Return the lowest and the highest mean that a metric could have if no value had failed.

    Args:
        series: the values of a metric from 0 to 1; None if it has none.
        failed: the number of failed values, at least 1 if there is no other value.

    Returns:
        `low`, the mean if each failed value were 0, and `high`, the mean if each were 1.
    """
    exact_sum = 0
    samples = failed
    if series is not None:
        exact_sum = series.exact_sum
        samples += len(series)
    return {
        "low": mean(exact_sum, samples, integral=False),
        "high": mean(exact_sum + failed * FIXED_POINT_ONE, samples, integral=False),
    }
