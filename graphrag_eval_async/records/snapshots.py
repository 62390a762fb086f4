"""Reading of snapshots of aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.tags import ALL_TAGS, LIMIT_IN_WORDS, tag_name

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME_MEAN = 1e-9
"""Means that differ by less are of the same values: they differ by rounding only."""


def counts_of(group: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of results and of errors in a group of aggregates."""
    errors: int = group["number_of_error_samples"]
    results = errors + group["number_of_success_samples"]
    return results, errors


def mean_of_questions(stats: Mapping[str, Any]) -> float:
    """Return the mean of a metric to show or check.

    It is over questions, or over all values if some results do not name their question.
    """
    mean: float = stats.get("mean_of_questions", stats["mean"])
    return mean


def interval_of_mean(stats: Mapping[str, Any], kind: str = "interval") -> Mapping[str, Any] | None:
    """Return the interval of a metric if it is about `mean_of_questions`, or else None.

    With several samples of a question, it may be about the mean of first samples instead. `kind` is
    the key of the interval.
    """
    interval: Mapping[str, Any] | None = stats.get(kind)
    if interval is None:
        return None
    mean_of_interval = interval.get("mean", stats["mean"])
    if abs(mean_of_interval - mean_of_questions(stats)) > SAME_MEAN:
        return None
    return interval


def means_of(group: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the metrics of a group of aggregates that have a mean, each with its statistics."""
    return {
        name: stats for name, stats in group.items() if isinstance(stats, dict) and "mean" in stats
    }


def cut_note(snapshot: Mapping[str, Any]) -> str:
    """Return a note for below the groups of a snapshot; empty unless tags were left out."""
    return f"Other tags are not shown: {LIMIT_IN_WORDS}." if snapshot.get("tags_are_cut") else ""


def tags_of(snapshot: Mapping[str, Any], by: str | None = None) -> dict[str, Any]:
    """Return the groups of a snapshot by name of tag: those of the key `by`, or of all keys."""
    groups: dict[str, Any] = {}
    for key, group_by_value in snapshot.get("per_tag", {}).items():
        if by in (None, ALL_TAGS, key):
            for value, group in group_by_value.items():
                groups[tag_name((key, value))] = group
    return groups
