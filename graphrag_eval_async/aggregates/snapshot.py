"""Snapshots of the statistics of a group of results, without and with details."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.coverage import bounds, coverage, reasons
from graphrag_eval_async.aggregates.exact import mean
from graphrag_eval_async.aggregates.histogram import count_of
from graphrag_eval_async.aggregates.published_means import PUBLISHED_MEANS, published_means
from graphrag_eval_async.aggregates.questions import UNNAMED_QUESTION, clusters
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
"""A function that computes the confidence intervals of the mean of a score, as keys of a snapshot.

Its arguments are the weights of first samples; the statistics of the means of questions; and
whether the score is from 0 to 1. The first two are None if they are not known.
"""

Variance: TypeAlias = "Callable[[], dict[str, Any]]"
"""A function that computes the `variance` of a score, as a key of a snapshot.

The dict that it returns is empty if the variance exceeds the largest double.
"""


class DetailOptions(NamedTuple):
    """Options for the detailed snapshot of a group.

    A detailed snapshot has all statistics of each metric; a plain one has its mean and a few more.

    Attributes:
        intervals: computes the confidence intervals of a score; None to show `weights` instead,
            from which callers compute intervals when they need them.
        metrics: the metrics to show if they apply to the group, even without a value.
        fractions: the names of outputs of custom evaluations that are from 0 to 1.
        pending: for each metric, the number of its values that are still to come.
    """

    intervals: Intervals | None
    metrics: Collection[str]
    fractions: Collection[str]
    pending: Mapping[str, int]

    def with_pending(self, pending: Mapping[str, int]) -> DetailOptions:
        """Return a copy of these options with other numbers of pending values."""
        return self._replace(pending=pending)


def plain_snapshot(group: Group) -> dict[str, Any]:
    """Return the snapshot of a group, without details. The caller may change it."""
    if group.cached_snapshot is None:
        group.cached_snapshot = _compute_plain_snapshot(group)

    # Copy the dicts of the cached snapshot. Those below `steps` are one level deeper.
    snapshot = {
        key: part.copy() if type(part) is dict else part
        for key, part in group.cached_snapshot.items()
    }
    if "steps" in snapshot:
        snapshot["steps"] = {kind: counts.copy() for kind, counts in snapshot["steps"].items()}
    return snapshot


def detailed_snapshot(group: Group, options: DetailOptions) -> dict[str, Any]:
    """Return the snapshot of a group with all statistics of each metric.

    In addition to the plain snapshot, it shows the number of questions with a result, repeats,
    reasons of failure, and metrics that apply to the group and have no value.
    """
    plain = plain_snapshot(group)
    detailed = {key: part for key, part in plain.items() if key not in group.series}
    has_unnamed_question = any(UNNAMED_QUESTION in part.index_by_question for part in group.parts)
    if not has_unnamed_question:
        detailed["number_of_questions"] = sum(len(part.index_by_question) for part in group.parts)
    repeats = _repeats(group.parts)
    if repeats:
        detailed["repeats"] = repeats
    counts_by_reason = reasons(group.outcomes)
    if counts_by_reason:
        detailed[REASON] = counts_by_reason
    for metric in sorted(options.metrics, key=metric_position):
        stats = _detailed_stats(group, metric, plain.get(metric, {}), options)
        if stats is not None:
            detailed[metric] = stats
    return detailed


def cache_detailed_snapshot(group: Group, options: DetailOptions) -> dict[str, Any]:
    """Return the detailed snapshot of a group, and cache it until the group changes.

    The caller must not change it.
    """
    if group.cached_detailed_snapshot is not None:
        cached_options, cached_snapshot = group.cached_detailed_snapshot
        if cached_options == options:
            return cached_snapshot
    snapshot = detailed_snapshot(group, options)
    group.cached_detailed_snapshot = options, snapshot
    return snapshot


def _compute_plain_snapshot(group: Group) -> dict[str, Any]:
    """Compute the snapshot of a group without details.

    The order of its keys depends only on their names, not on the order of results.
    """
    snapshot: dict[str, Any] = {
        "number_of_error_samples": group.errors,
        "number_of_success_samples": group.successes,
    }
    if group.results:
        share_of_errors = group.errors / group.results
        mean_of_questions = _mean_of_questions(
            group.parts, ERROR_RATE, share_of_errors, values=group.results
        )
        if mean_of_questions is None:
            snapshot[ERROR_RATE] = share_of_errors
        else:
            snapshot[ERROR_RATE] = mean_of_questions
    means = published_means(group.parts)
    if means:
        snapshot[PUBLISHED_MEANS] = means
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
    """Return the counts of steps that are not 0, by kind of count and then by name of step.

    The kinds are the fields of `StepCounts`. Under the key `other` are the counts of all steps that
    are not counted by name.
    """
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


def _detailed_stats(
    group: Group, metric: str, stats: Mapping[str, Any], options: DetailOptions
) -> dict[str, Any] | None:
    """Return all statistics of a metric in a group; None if it applies to no result.

    Args:
        group: the group of results.
        metric: the name of the metric.
        stats: the statistics of the metric in the plain snapshot; empty if it has no value.
        options: the options of the detailed snapshot.
    """
    series = group.series.get(metric)
    values = 0 if series is None else len(series)
    covered = coverage(metric, values, group.outcomes, options.pending.get(metric, 0))
    if covered["applied"] == 0:
        return None
    is_bounded = metric in BOUNDED_METRICS or metric in options.fractions

    detailed: dict[str, Any] = {}
    if series is not None:
        detailed.update(stats)
        if series.ordered:
            detailed["quantiles"] = series.quantiles()
        weights = None
        if is_bounded:
            weights = _weights_of_first_samples(series, metric, group.parts)
        if options.intervals is None:
            detailed["weights"] = weights
        elif is_score(metric):
            means = _clusters_of(group.parts, metric, stats.get("mean_of_questions"))
            detailed.update(options.intervals(weights, means, is_bounded))
            compute_variance = variance_of(series, group.parts, metric)
            if compute_variance is not None:
                detailed.update(compute_variance())

    failed = sum(covered["failed"].values())
    if is_bounded and values + failed > 0:
        detailed["bounds"] = bounds(series, failed)
    detailed["coverage"] = covered
    questions = _questions_with_value(group.parts, metric)
    if questions is not None:
        detailed["questions"] = questions
    return detailed


def _questions_with_value(groups: Iterable[Group], metric: str) -> int | None:
    """Return the number of questions that have a value of a metric, in some groups.

    Returns:
        None if a result with a value does not name its question.
    """
    questions = 0
    for group in groups:
        sum_of_means = group.sum_of_means(metric)
        if sum_of_means is None:
            return None
        questions += sum_of_means.questions
    return questions


def _mean_of_questions(
    groups: Iterable[Group], metric: str, mean_of_values: float, *, values: int
) -> float | None:
    """Return the mean over the questions' means of a metric.

    Args:
        groups: the groups whose questions count.
        metric: the name of the metric, or `ERROR_RATE`.
        mean_of_values: the mean over all values in these groups.
        values: the number of values in these groups.

    Returns:
        None if a result with a value does not name its question.
    """
    exact_sum = 0
    questions = 0
    for group in groups:
        sum_of_means = group.sum_of_means(metric)
        if sum_of_means is None:
            return None
        exact_sum += sum_of_means.exact_sum
        questions += sum_of_means.questions
    each_question_has_one_value = questions == values
    if each_question_has_one_value:
        # The mean of values is the same, but may be an int.
        return mean_of_values
    return mean(exact_sum, questions, integral=False)


def _repeats(groups: Collection[Group]) -> dict[str, float]:
    """Return the ``pass@k`` and ``pass^k`` rates over the questions of some groups.

    Returns:
        an empty dict if no question has two samples, or if a result that counts does not name its
        question.
    """
    no_question_repeats = all(group.results <= len(group.index_by_question) for group in groups)
    if no_question_repeats:
        return {}

    # A metric applies if it has a value, or would have one if its judge had not failed.
    applying_metrics = {metric for group in groups for metric in group.series}
    for group in groups:
        for metric, cause in group.outcomes:
            if cause not in CAUSED_BY_AGENT:
                applying_metrics.add(metric)

    samples = Counter[SampleCounts]()
    for group in groups:
        unnamed_question = group.index_by_question.get(UNNAMED_QUESTION)
        samples += group.right_results.samples(applying_metrics, unnamed_question)
    if NO_SAMPLES in samples:
        return {}
    return pass_rates(samples)


def _weights_of_first_samples(
    series: Series, metric: str, groups: Collection[Group]
) -> Weights | None:
    """Return the weights of the values of first samples.

    Args:
        series: the values of the metric in all groups.
        metric: the name of the metric.
        groups: the groups, which know the questions of the values.

    Returns:
        None if there are more first samples than questions. Then some are of the same question, so
        they are not independent. This happens if other programs do not number the samples.
    """
    if series.histogram is None:
        return None
    weights = series.histogram.weights()
    if weights is None:
        return None

    number_of_questions = 0
    for group in groups:
        series_of_group = group.series.get(metric)
        if series_of_group is None:
            continue
        question_values = series_of_group.questions
        if question_values is None or group.has_unnamed_question(question_values):
            # The number of questions is not known, so it cannot be checked.
            return weights
        number_of_questions += len(question_values)

    if count_of(weights) > number_of_questions:
        return None
    return weights


def variance_of(series: Series, groups: Iterable[Group], metric: str) -> Variance | None:
    """Return a function that computes how much a score varies between and within questions.

    The function has copies of all values, so it may run in another thread while results are added.
    For 100,000 values, it takes a third of a second.

    Args:
        series: the values of the score in all groups.
        groups: the groups, which know the questions of the values.
        metric: the name of the score.

    Returns:
        None if no question has two values, or if a result with a value does not name its question.
    """
    values_by_group = []
    for group in groups:
        series_of_group = group.series.get(metric)
        if series_of_group is None or series_of_group.questions is None:
            continue
        if group.has_unnamed_question(series_of_group.questions):
            return None
        values_by_group.append(series_of_group.questions)

    number_of_questions = sum(len(questions) for questions in values_by_group)
    no_question_repeats = number_of_questions == len(series)
    if not series.ordered or no_question_repeats:
        return None

    chunks = [chunk[:] for chunk in series.values.chunks]
    question_values = [
        values for questions in values_by_group for _, values in questions.by_question()
    ]

    def compute_variance() -> dict[str, Any]:
        # The squares of values near the largest double exceed it.
        with suppress(OverflowError):
            return {"variance": variances(chain.from_iterable(chunks), question_values)}
        return {}

    return compute_variance


def _clusters_of(
    groups: Iterable[Group], metric: str, mean_of_questions: float | None
) -> Clusters | None:
    """Return statistics of the means of questions.

    Args:
        groups: the groups whose questions count.
        metric: the name of a score.
        mean_of_questions: the mean over the questions' means.

    Returns:
        None if `mean_of_questions` is None, since the questions are not known.
    """
    if mean_of_questions is None:
        return None
    means: list[float] = []
    for group in groups:
        series = group.series.get(metric)
        if series is not None and series.questions is not None:
            means += series.questions.means()
    return clusters(means, mean_of_questions)
