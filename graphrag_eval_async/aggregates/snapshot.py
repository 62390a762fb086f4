"""What a snapshot shows of a group of results, plainly or in detail."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.coverage import bounds, coverage, reasons
from graphrag_eval_async.aggregates.exact import mean
from graphrag_eval_async.aggregates.histogram import count_of
from graphrag_eval_async.aggregates.questions import UNKNOWN, clusters
from graphrag_eval_async.aggregates.repeats import NO_SAMPLES, SampleCounts, pass_rates, variances
from graphrag_eval_async.aggregates.steps import NO_STEPS, STEP_COUNTS
from graphrag_eval_async.catalogue.metrics import (
    BOUNDED_METRICS,
    ERROR_RATE,
    is_score,
    metric_position,
)
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from graphrag_eval_async.aggregates.group import Group
    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.aggregates.questions import Clusters
    from graphrag_eval_async.aggregates.series import Series
    from graphrag_eval_async.aggregates.steps import StepTable

Intervals: TypeAlias = "Callable[[Weights | None, Clusters | None, bool], dict[str, Any]]"
"""A function that returns what a snapshot says about the mean of a score.

Its arguments are the weights of first samples and the means of questions, each None if it is not
known, and whether the values are from 0 to 1.
"""

Variance: TypeAlias = "Callable[[], dict[str, Any]]"
"""A function that returns a dict with the `variance` of a score, which is absent if too large."""


class DetailOptions(NamedTuple):
    """Options for the detailed snapshot of a group.

    Attributes:
        intervals: returns the intervals of a score; None to show `weights` to compute a confidence
            sequence.
        metrics: metrics to show if they apply, even without a value.
        fractions: outputs of custom evaluations that are from 0 to 1.
        pending: number of pending values by metric.
    """

    intervals: Intervals | None
    metrics: Collection[str]
    fractions: Collection[str]
    pending: Mapping[str, int]

    def with_pending(self, pending: Mapping[str, int]) -> DetailOptions:
        """Return these options for a group with these pending values."""
        return self._replace(pending=pending)


def snapshot_of(group: Group, detail: DetailOptions | None = None) -> dict[str, Any]:
    """Return a group's part of a snapshot; the caller may change it.

    It is a detailed one if there are options for it.
    """
    if group.cached_snapshot is None:
        group.cached_snapshot = _compute_snapshot(group)
    snapshot = {
        key: part.copy() if type(part) is dict else part
        for key, part in group.cached_snapshot.items()
    }
    if "steps" in snapshot:
        snapshot["steps"] = {key: counts.copy() for key, counts in snapshot["steps"].items()}
    if detail is None:
        return snapshot
    return _add_detail(group, snapshot, detail)


def cached_detail_of(group: Group, detail: DetailOptions) -> dict[str, Any]:
    """Return a detailed snapshot, cached until the next change; do not modify it."""
    if group.cached_detail is not None:
        cached_options, snapshot = group.cached_detail
        if cached_options == detail:
            return snapshot
    snapshot = snapshot_of(group, detail)
    group.cached_detail = detail, snapshot
    return snapshot


def _compute_snapshot(group: Group) -> dict[str, Any]:
    """Compute the statistics of a plain snapshot, in an order that depends only on names."""
    snapshot: dict[str, Any] = {
        "number_of_error_samples": group.errors,
        "number_of_success_samples": group.successes,
    }
    if group.results:
        share = group.errors / group.results
        mean_of_questions = _mean_of_questions(group.parts, ERROR_RATE, share, values=group.results)
        snapshot[ERROR_RATE] = share if mean_of_questions is None else mean_of_questions
    step_counts = _step_counts(group.steps)
    if step_counts:
        snapshot["steps"] = step_counts
    for metric in sorted(group.series, key=metric_position):
        series = group.series[metric]
        stats = series.stats()
        mean_of_questions = _mean_of_questions(
            group.parts, metric, stats["mean"], values=len(series)
        )
        if mean_of_questions is not None:
            stats["mean_of_questions"] = mean_of_questions
        snapshot[metric] = stats
    return snapshot


def _step_counts(steps: StepTable) -> dict[str, dict[str, int]]:
    """Return the counts of steps that are not 0: by kind and name, and by kind of other names."""
    trimmed = steps.trimmed()
    names = sorted(trimmed.by_name)
    step_counts: dict[str, dict[str, int]] = {}
    for kind in STEP_COUNTS:
        counts = {name: getattr(trimmed.by_name[name], kind) for name in names}
        if any(counts.values()):
            step_counts[kind] = {name: count for name, count in counts.items() if count}
    if trimmed.other != NO_STEPS:
        counts = trimmed.other._asdict()
        step_counts["other"] = {kind: count for kind, count in counts.items() if count}
    return step_counts


def _add_detail(group: Group, snapshot: dict[str, Any], detail: DetailOptions) -> dict[str, Any]:
    """Return a snapshot with more statistics of each metric, repeats and reasons of failure.

    It also has metrics that apply and have no value.
    """
    detailed = {key: part for key, part in snapshot.items() if key not in group.series}
    repeats = _repeats(group.parts)
    if repeats:
        detailed["repeats"] = repeats
    counts_by_reason = reasons(group.outcomes)
    if counts_by_reason:
        detailed[REASON] = counts_by_reason
    for metric in sorted(detail.metrics, key=metric_position):
        stats = _detailed_stats(group, metric, snapshot.get(metric, {}), detail)
        if stats is not None:
            detailed[metric] = stats
    return detailed


def _detailed_stats(
    group: Group, metric: str, stats: Mapping[str, Any], detail: DetailOptions
) -> dict[str, Any] | None:
    """Return all statistics of a metric in a group; None if it applies to no result.

    Args:
        group: the group.
        metric: the name of the metric.
        stats: its statistics in the plain snapshot; empty if it has no value.
        detail: the options.
    """
    series = group.series.get(metric)
    values = 0 if series is None else len(series)
    covered = coverage(metric, values, group.outcomes, detail.pending.get(metric, 0))
    if covered["applied"] == 0:
        return None
    is_bounded = metric in BOUNDED_METRICS or metric in detail.fractions

    detailed: dict[str, Any] = {}
    if series is not None:
        detailed.update(stats)
        if series.ordered:
            detailed["quantiles"] = series.quantiles()
        # What is known of the mean, or what computes that later.
        weights = _first_weights(series, metric, group.parts) if is_bounded else None
        if detail.intervals is None:
            detailed["weights"] = weights
        elif is_score(metric):
            means = _clusters_of(group.parts, metric, stats.get("mean_of_questions"))
            detailed.update(detail.intervals(weights, means, is_bounded))
            compute_variance = variance_of(series, group.parts, metric)
            if compute_variance is not None:
                detailed.update(compute_variance())
    failed = sum(covered["failed"].values())
    if is_bounded and values + failed > 0:
        detailed["bounds"] = bounds(series, failed)
    detailed["coverage"] = covered
    return detailed


def _mean_of_questions(
    groups: Iterable[Group], metric: str, mean_of_values: float, *, values: int
) -> float | None:
    """Return the mean over the questions' means of a metric; None if some are not known.

    Args:
        groups: the groups whose questions count.
        metric: the name of the metric, or `ERROR_RATE`.
        mean_of_values: the mean over all values.
        values: the number of values.
    """
    units = 0
    questions = 0
    for group in groups:
        sum_of_means = group.sum_of_means(metric)
        if sum_of_means is None:
            return None
        units += sum_of_means.units
        questions += sum_of_means.questions
    if questions == values:
        # Each question has one value. The mean of values may be an int.
        return mean_of_values
    return mean(units, questions, integral=False)


def _repeats(groups: Collection[Group]) -> dict[str, float]:
    """Return `pass_rates` over all questions; nothing if some are not known, or none repeats."""
    if all(group.results <= len(group.places) for group in groups):
        return {}
    # Metrics decide whether results are right if any has a value, or its judge failed.
    metrics = {metric for group in groups for metric in group.series}
    metrics |= {
        metric
        for group in groups
        for metric, cause in group.outcomes
        if cause not in CAUSED_BY_AGENT
    }
    samples = Counter[SampleCounts]()
    for group in groups:
        samples += group.right_results.samples(metrics, group.places.get(UNKNOWN))
    if NO_SAMPLES in samples:
        return {}
    return pass_rates(samples)


def _first_weights(series: Series, metric: str, groups: Collection[Group]) -> Weights | None:
    """Return the weights of first samples; None if there are more of them than questions.

    Then they are not independent. That is so if results of several answers to a question are not
    numbered, as those of shards.

    Args:
        series: the values of the metric in all groups.
        metric: the name of the metric.
        groups: the groups.
    """
    weights = None if series.histogram is None else series.histogram.weights()
    if weights is None:
        return None
    number_of_questions = 0
    for group in groups:
        series_of_group = group.series.get(metric)
        if series_of_group is None:
            continue
        questions = series_of_group.questions
        if questions is None or group.places.get(UNKNOWN) in questions:
            # The number of questions is not known.
            return weights
        number_of_questions += len(questions)
    return weights if count_of(weights) <= number_of_questions else None


def variance_of(series: Series, groups: Iterable[Group], metric: str) -> Variance | None:
    """Return a function that computes the `variance` of a score.

    It has copies of all values and may run in another thread: 100,000 values take a third of a
    second.

    Args:
        series: the values of the score in all groups.
        groups: the groups.
        metric: the name of the score.

    Returns:
        the function; None if no question repeats, or some are not known.
    """
    values_by_group = []
    for group in groups:
        series_of_group = group.series.get(metric)
        if series_of_group is None or series_of_group.questions is None:
            continue
        if group.places.get(UNKNOWN) in series_of_group.questions:
            return None
        values_by_group.append(series_of_group.questions)
    number_of_questions = sum(len(questions) for questions in values_by_group)
    if not series.ordered or number_of_questions == len(series):
        return None

    chunks = [chunk[:] for chunk in series.values.chunks]
    question_values = [
        values for questions in values_by_group for _, values in questions.by_place()
    ]

    def compute_variance() -> dict[str, Any]:
        with suppress(OverflowError):  # Of an output near the largest double.
            return {"variance": variances(chain.from_iterable(chunks), question_values)}
        return {}

    return compute_variance


def _clusters_of(
    groups: Iterable[Group], metric: str, mean_of_questions: float | None
) -> Clusters | None:
    """Return what the means of questions say, of which this is the mean; None without a mean."""
    if mean_of_questions is None:
        return None
    means: list[float] = []
    for group in groups:
        series = group.series.get(metric)
        if series is not None and series.questions is not None:
            means += series.questions.means()
    return clusters(means, mean_of_questions)
