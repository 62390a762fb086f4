"""The facts of a template, a tag or all results, made of their aggregates.

Pages, terminals and JSON show these facts. In them, a `mean` is over questions, each the mean of
its results, and so is the mean of a `window`. Only `mean_of_results` counts each result once.
"""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, RANKING, is_counted_cost, is_score
from graphrag_eval_async.catalogue.outcomes import REASON
from graphrag_eval_async.records.snapshots import counts_of, mean_of_questions, means_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.aggregates.histogram import Weights

EMPTY_GROUP: Mapping[str, Any] = {"number_of_error_samples": 0, "number_of_success_samples": 0}
"""The aggregates of no results."""


def group_facts(
    aggregates: Mapping[str, Any], recent: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts of a group of results, such as the results of a template.

    Args:
        aggregates: the aggregates of the group.
        recent: the aggregates of its recent results; None if it has no recent results.

    Returns:
        the numbers of results and of errors, the error rate, the means of metrics and, if it is
        known, the cost. Each has a value for the recent results, too: its ``window``.
    """
    if recent is None:
        recent = EMPTY_GROUP
    results, errors = counts_of(aggregates)
    recent_results, recent_errors = counts_of(recent)

    metrics = {}
    for metric, stats in means_of(aggregates).items():
        recent_stats = recent.get(metric)
        metrics[metric] = {
            "mean": mean_of_questions(stats),
            "mean_of_results": stats["mean"],
            "window": None if recent_stats is None else mean_of_questions(recent_stats),
        }
    facts: dict[str, Any] = {
        "samples": {"total": results, "window": recent_results},
        "errors": {"total": errors, "window": recent_errors},
        "error_rate": {
            "mean": aggregates.get(ERROR_RATE),
            "mean_of_results": errors / results if results else None,
            "window": recent.get(ERROR_RATE),
        },
        "metrics": metrics,
    }
    cost = _cost_of_result(aggregates)
    if cost is not None:
        facts["cost"] = {"mean": cost, "window": _cost_of_result(recent)}
    return facts


def add_detail(
    group: dict[str, Any], detail: Mapping[str, Any]
) -> list[tuple[dict[str, Any], Weights]]:
    """Add to the facts of a group what only detailed aggregates have.

    Args:
        group: the facts of the group, which are changed.
        detail: its detailed aggregates.

    Returns:
        the facts of each metric that still lacks its confidence sequence, with the histogram from
        which the caller computes the sequence.
    """
    # The statistics of metrics have a coverage; the other entries of a group are numbers.
    covered = {
        name: stats
        for name, stats in detail.items()
        if isinstance(stats, dict) and "coverage" in stats
    }
    for metric, metric_facts in group["metrics"].items():
        for key in ("quantiles", "bounds", "variance"):
            if key in detail[metric]:
                metric_facts[key] = detail[metric][key]
    group["coverage"] = {metric: stats["coverage"] for metric, stats in covered.items()}
    group[REASON] = detail.get(REASON, {})
    group["repeats"] = detail.get("repeats")

    # How many questions there are, and how many of them each mean is over.
    group["number_of_questions"] = detail.get("number_of_questions")
    group["scored_questions"] = {
        metric: stats["questions"] for metric, stats in covered.items() if "questions" in stats
    }
    return [
        (group["metrics"][metric], stats["weights"])
        for metric, stats in covered.items()
        if stats.get("weights")
    ]


def main_scores(overall: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores that a page shows first.

    These are the scores that rank results. If none of them has a value, it is only the first score
    that has a value.

    Args:
        overall: the facts of all results.
    """
    scores = [name for name in overall["metrics"] if is_score(name)]
    ranking_scores = [name for name in RANKING if name in scores]
    return ranking_scores or scores[:1]


def _cost_of_result(aggregates: Mapping[str, Any]) -> float | None:
    """Return the cost of judging in US dollars per successful result; None if nobody knows."""
    sums = [stats["sum"] for metric, stats in aggregates.items() if is_counted_cost(metric)]
    results: int = aggregates["number_of_success_samples"]
    if not sums or not results:
        return None
    return fsum(sums) / results
