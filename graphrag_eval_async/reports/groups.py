"""The state of a template, a tag or all results, made of their aggregates."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, RANKING, is_counted_cost, is_score
from graphrag_eval_async.catalogue.outcomes import REASON
from graphrag_eval_async.records.snapshots import counts_of, mean_of_questions, means_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.aggregates.histogram import Weights


def add_detail(
    group: dict[str, Any], detail: Mapping[str, Any]
) -> list[tuple[dict[str, Any], Weights]]:
    """Add what is known at once to a group, and return what `complete` takes."""
    metrics = group["metrics"]
    for metric, shown in metrics.items():
        own = detail[metric]
        shown |= {key: own[key] for key in ("quantiles", "bounds", "variance") if key in own}
    stats = {
        name: each for name, each in detail.items() if isinstance(each, dict) and "coverage" in each
    }
    group["coverage"] = {metric: each["coverage"] for metric, each in stats.items()}
    group[REASON] = detail.get(REASON, {})
    group["repeats"] = detail.get("repeats")
    group["number_of_questions"] = detail.get("number_of_questions")
    group["scored_questions"] = {
        metric: each["questions"] for metric, each in stats.items() if "questions" in each
    }
    return [
        (metrics[metric], each["weights"]) for metric, each in stats.items() if each.get("weights")
    ]


def group_facts(
    total: Mapping[str, Any], recent: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The state of one template, or of all results, from its aggregates and those of the window."""
    recent = recent or {"number_of_error_samples": 0, "number_of_success_samples": 0}
    (samples, errors), (recent_samples, recent_errors) = counts_of(total), counts_of(recent)
    facts: dict[str, Any] = {
        "samples": {"total": samples, "window": recent_samples},
        "errors": {"total": errors, "window": recent_errors},
        "error_rate": {
            "mean": errors / samples if samples else None,
            "mean_of_questions": total.get(ERROR_RATE),
            "window": recent.get(ERROR_RATE),
        },
        "metrics": {
            metric: _means(stats, recent.get(metric)) for metric, stats in means_of(total).items()
        },
    }
    if (cost := _cost(total)) is not None:
        facts["cost"] = {"mean": cost, "window": _cost(recent)}
    return facts


def main_scores(overall: Mapping[str, Any]) -> list[str]:
    """Return the scores that are told first, given the facts of all results.

    These are the scores that rank results; if none of them has a value, the first score that has
    one.
    """
    scores = [name for name in overall["metrics"] if is_score(name)]
    ranking = [name for name in RANKING if name in scores]
    return ranking or scores[:1]


def _means(total: Mapping[str, Any], recent: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mean over all values, that over questions, and that over the questions in the window."""
    window = None if recent is None else mean_of_questions(recent)
    return {"mean": total["mean"], "mean_of_questions": mean_of_questions(total), "window": window}


def _cost(group: Mapping[str, Any]) -> float | None:
    """The cost of judging in US dollars per successful result; None if no cost is known."""
    sums = [stats["sum"] for metric, stats in group.items() if is_counted_cost(metric)]
    results = group["number_of_success_samples"]
    return fsum(sums) / results if sums and results else None
