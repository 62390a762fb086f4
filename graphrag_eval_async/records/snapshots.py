"""Reads the statistics in snapshots of aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.tags import ALL_TAGS, LIMIT_IN_WORDS, tag_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_RESULTS = "all results"
"""The name of the row of all results in a table of templates."""

INTERVAL_KINDS = {
    "one_look": "for one look at a finished run",
    "anytime": "valid however often you look",
}
"""What the kinds of confidence intervals mean."""

SAME_MEAN = 1e-9
"""Means that differ by less are means of the same values, which were rounded differently."""


def counts_of(group: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of results in a group of a snapshot, and how many of them are errors."""
    errors: int = group["number_of_error_samples"]
    results = errors + group["number_of_success_samples"]
    return results, errors


def mean_of_questions(stats: Mapping[str, Any]) -> float:
    """Return the mean of a metric that pages show and gates check.

    It is the mean over questions; or over all values, if some results do not name their question.
    """
    mean: float = stats.get("mean_of_questions", stats["mean"])
    return mean


def interval_of_mean(stats: Mapping[str, Any], kind: str = "interval") -> Mapping[str, Any] | None:
    """Return the confidence interval of a metric, if it is an interval of the mean over questions.

    With several samples of a question, an interval may be of the mean of first samples instead.

    Args:
        stats: the statistics of the metric.
        kind: the key of the interval in them.

    Returns:
        None if there is no interval, or if it is of another mean.
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


def cut_note(snapshot: Mapping[str, Any], by: str | None = None) -> str:
    """Return a note that some tags are not shown, to stand below a table of tags.

    It is empty if all tags are shown.

    Args:
        snapshot: a snapshot of aggregates.
        by: the key of the tags in the table; None or `ALL_TAGS` for all keys.
    """
    if by in (None, ALL_TAGS):
        is_cut = snapshot.get("tags_are_cut", False)
    else:
        is_cut = by in snapshot.get("cut_tag_keys", ())
    if not is_cut:
        return ""
    return f"Other tags are not shown: {LIMIT_IN_WORDS}."


def tags_of(snapshot: Mapping[str, Any], by: str | None = None) -> dict[str, Any]:
    """Return the groups of results by tag, each under the name of its tag, such as ``hops=2``.

    Args:
        snapshot: a snapshot of aggregates.
        by: the key of the tags to return; None or `ALL_TAGS` for all keys.
    """
    groups: dict[str, Any] = {}
    for key, group_by_value in snapshot.get("per_tag", {}).items():
        if by in (None, ALL_TAGS, key):
            for value, group in group_by_value.items():
                groups[tag_name((key, value))] = group
    return groups
