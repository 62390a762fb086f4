"""Reading of snapshots of aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.tags import ALL_TAGS, LIMIT_IN_WORDS, tag_name

if TYPE_CHECKING:
    from collections.abc import Mapping


def counts_of(group: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of results and of errors in a group of aggregates."""
    errors: int = group["number_of_error_samples"]
    return errors + group["number_of_success_samples"], errors


def mean_of_questions(stats: Mapping[str, Any]) -> float:
    """The mean to show or check: over questions; over all values if some results do not name
    theirs.
    """
    mean: float = stats.get("mean_of_questions", stats["mean"])
    return mean


def interval_of_mean(stats: Mapping[str, Any], kind: str = "interval") -> Mapping[str, Any] | None:
    """The interval of a metric if it is about the mean to show, not about that of first samples."""
    interval: Mapping[str, Any] | None = stats.get(kind)
    if (
        interval is None
        or abs(interval.get("mean", stats["mean"]) - mean_of_questions(stats)) > 1e-9
    ):
        return None
    return interval


def means_of(group: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The metrics of a group of aggregates that have a mean, each with its statistics."""
    return {
        name: stats for name, stats in group.items() if isinstance(stats, dict) and "mean" in stats
    }


def cut_note(snapshot: Mapping[str, Any]) -> str:
    """What to say below the groups of a snapshot, if tags were left out."""
    return f"Other tags are not shown: {LIMIT_IN_WORDS}." if snapshot.get("tags_are_cut") else ""


def tags_of(snapshot: Mapping[str, Any], by: str | None = None) -> dict[str, Any]:
    """The groups of a snapshot by name of tag: those of the key `by`, or of all keys."""
    per_tag = snapshot.get("per_tag", {})
    keys = [key for key in per_tag if by in (None, ALL_TAGS, key)]
    return {tag_name((key, value)): group for key in keys for value, group in per_tag[key].items()}
