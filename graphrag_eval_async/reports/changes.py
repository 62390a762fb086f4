"""Finds changes of scores, and of the mix of templates, in the course of a run.

The results since a checkpoint are compared with those before it, for each checkpoint. Each template
is compared with itself. All results are compared at the same mix of templates: more results of a
hard template than before are a change of the mix, not of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, log, pi
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.aggregates.histogram import BINS
from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.inference.confidence import differ
from graphrag_eval_async.reports.history import OTHER_TEMPLATES, ScoreValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.reports.history import Checkpoint, ValuesByTemplate

ERROR_RATE_SHARE = 0.1
"""The share of the error probability that the error rate gets; scores share the rest."""

LEAST_SHARE_CHANGE = 0.1
"""Least change of the share of a template that is told. Chosen: less moves a mean little."""

NO_VALUES = ScoreValues(size=0, total=0.0, squares=0.0, weights=(0.0,) * (BINS + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreChange:
    """A score, or the error rate, that clearly changed during a run.

    Attributes:
        template: the template whose score changed; None for all results.
        metric: the name of the score, or ``error_rate``.
        before: the mean over the results before the change. If `template` is None, `before` and
            `after` are weighted to the same mix of templates.
        after: the mean over the results since the change.
        since: when the first result after the change came; None if an earlier run made it.
        since_result: number of results before the change.
        is_loss: whether the change is for the worse.
    """

    template: str | None
    metric: str
    before: float
    after: float
    since: datetime | None
    since_result: int
    is_loss: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MixChange:
    """A template whose share of the results clearly changed during a run.

    Attributes:
        template: the template.
        before: its share of the results before the change, from 0 to 1.
        after: its share of the results since the change.
        since: when the first result after the change came; None if an earlier run made it.
        since_result: number of results before the change.
    """

    template: str
    before: float
    after: float
    since: datetime | None
    since_result: int


class Split(NamedTuple):
    """Values that are split in two by a checkpoint; both parts have at least one value.

    Attributes:
        start: the values up to the checkpoint.
        end: these, and the values after the checkpoint.
    """

    start: ScoreValues
    end: ScoreValues

    @property
    def size_after(self) -> int:
        """Number of values after the checkpoint."""
        return self.end.size - self.start.size

    @property
    def mean_before(self) -> float:
        """Mean of the values up to the checkpoint."""
        return self.start.total / self.start.size

    @property
    def mean_after(self) -> float:
        """Mean of the values after the checkpoint."""
        return (self.end.total - self.start.total) / self.size_after

    @property
    def precision(self) -> float:
        """How well the difference of the means is known: the inverse of its variance, if each value
        has the variance 1.
        """
        return self.start.size * self.size_after / self.end.size

    @property
    def variance(self) -> float:
        """Variance of a value around the mean of its part."""
        explained = self.start.size * self.mean_before**2 + self.size_after * self.mean_after**2
        # Rounding may leave less than nothing.
        return max(0.0, (self.end.squares - explained) / self.end.size)

    @property
    def weights_after(self) -> Weights:
        """Histogram of the values after the checkpoint."""
        pairs = zip(self.end.weights, self.start.weights, strict=True)
        # Rounding may leave less than nothing.
        return tuple(max(0.0, at_end - at_start) for at_end, at_start in pairs)


class Contrast(NamedTuple):
    """The means before and after a checkpoint, at the same mix of templates.

    Attributes:
        before: the mean before.
        after: the mean after.
        z_squared: the square of their difference, divided by its variance.
    """

    before: float
    after: float
    z_squared: float


def score_changes(
    checkpoints: Sequence[Checkpoint], scores: Sequence[str], error: float
) -> list[ScoreChange]:
    """Return the clearest change of each score and of the error rate: that of all results, and
    those of templates.

    Half of the error probability is for all results, and half for the templates, in the order in
    which they appeared.

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        scores: the scores that are watched, which are from 0 to 1.
        error: the probability of ever returning a change if each template keeps its means.
    """
    error_by_metric = {ERROR_RATE: error * ERROR_RATE_SHARE}
    for score in scores:
        error_by_metric[score] = error * (1 - ERROR_RATE_SHARE) / len(scores)

    share_by_template: dict[str | None, float] = {None: 1.0}
    if len(checkpoints[-1].values) > 1:
        share_by_template = {None: 0.5}
        for place, template in enumerate(_separate_templates(checkpoints), 1):
            share_by_template[template] = 0.5 * _share_of_place(place)

    changes = []
    for metric, error_of_metric in error_by_metric.items():
        for group, share in share_by_template.items():
            change = _clearest_change(checkpoints, group, metric, error_of_metric * share)
            if change is not None:
                changes.append(change)
    return changes


def mix_change(checkpoints: Sequence[Checkpoint], error: float) -> MixChange | None:
    """Return the template whose share of the results changed most clearly.

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        error: the probability of ever returning a change if the mix stays the same.

    Returns:
        None if no share changed beyond chance by `LEAST_SHARE_CHANGE`.
    """
    latest = checkpoints[-1]
    clearest: MixChange | None = None
    # Where some shares rise, others fall. A rise says better what the new results are.
    clearest_rank = (False, 0.0)
    for place, template in enumerate(_separate_templates(checkpoints), 1):
        share_at_end = _membership(template, latest)
        for start, error_of_start in _starts(checkpoints, error * _share_of_place(place)):
            split = Split(start=_membership(template, start), end=share_at_end)
            before, after, z_squared = _contrast([split])
            rank = (after > before, z_squared)
            is_small = abs(after - before) < LEAST_SHARE_CHANGE
            if is_small or rank <= clearest_rank or z_squared < _least_z_squared(error_of_start):
                continue
            if differ(split.start.weights, split.weights_after, error_of_start):
                clearest_rank = rank
                clearest = MixChange(
                    template=template,
                    before=before,
                    after=after,
                    since=_time_of(start),
                    since_result=start.results,
                )
    return clearest


def _separate_templates(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Return the templates that checkpoints tell apart, in the order in which they appeared."""
    return [template for template in checkpoints[-1].values if template is not OTHER_TEMPLATES]


def _share_of_place(place: int) -> float:
    """Return the share that a place gets, from 1 on; those of all places together are 1.

    It is 6 / (pi * place)**2, since the sum of 1 / place**2 is pi**2 / 6.
    """
    return 6 / (pi * place) ** 2


def _starts(checkpoints: Sequence[Checkpoint], error: float) -> Iterator[tuple[Checkpoint, float]]:
    """Yield the checkpoints before the latest one, the last one first, each with its part of an
    error probability.

    The parts that are ever yielded in a run, whichever checkpoint is the latest, add up to `error`
    at most. So the order of results, and how often somebody looks, do not matter.
    """
    *starts, latest = [checkpoint for checkpoint in checkpoints if checkpoint.results > 0]
    # There is nothing before the first checkpoint, so the first look is at the second one.
    error_of_look = error * _share_of_place(max(1, latest.number - 1))
    for place, start in enumerate(reversed(starts), 1):
        yield start, error_of_look * _share_of_place(place)


def _time_of(checkpoint: Checkpoint) -> datetime | None:
    """Return when the first result after a checkpoint came; None if nobody knows."""
    if checkpoint.time is None:
        return None
    return datetime.fromtimestamp(checkpoint.time, UTC)


def _clearest_change(
    checkpoints: Sequence[Checkpoint], template: str | None, metric: str, error: float
) -> ScoreChange | None:
    """Return the change of a metric that splits a run most clearly in two.

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        template: the template whose results count; None for all results, at the same mix.
        metric: the name of a score, or `ERROR_RATE`.
        error: the probability of ever returning a change if there is none.

    Returns:
        None if no change is beyond chance.
    """
    latest = checkpoints[-1].values
    clearest: ScoreChange | None = None
    largest = 0.0
    for start, error_of_start in _starts(checkpoints, error):
        templates = [*start.values] if template is None else [template]
        splits = _splits(start.values, latest, templates, metric)
        if not splits:
            continue
        before, after, z_squared = _contrast(splits)
        if z_squared <= largest or z_squared < _least_z_squared(error_of_start):
            continue
        if differ(*_at_same_mix(splits), error_of_start):
            largest = z_squared
            is_rise = after > before
            clearest = ScoreChange(
                template=template,
                metric=metric,
                before=before,
                after=after,
                since=_time_of(start),
                since_result=start.results,
                is_loss=is_rise if metric == ERROR_RATE else not is_rise,
            )
    return clearest


def _splits(
    start: ValuesByTemplate, end: ValuesByTemplate, templates: Sequence[str | None], metric: str
) -> list[Split]:
    """Return the values of a metric before and after a checkpoint, one split for each of some
    templates that has values on both sides.

    Args:
        start: the values up to the checkpoint.
        end: all values.
        templates: the templates.
        metric: the name of a score, or `ERROR_RATE`.
    """
    splits = []
    for template in templates:
        values_at_start = start.get(template, {}).get(metric, NO_VALUES)
        values_at_end = end.get(template, {}).get(metric, NO_VALUES)
        if 0 < values_at_start.size < values_at_end.size:
            splits.append(Split(start=values_at_start, end=values_at_end))
    return splits


def _contrast(splits: Sequence[Split]) -> Contrast:
    """Return the means of templates before and after a checkpoint, at the same mix.

    The mix is that in which the difference of the means is known best: each template counts as its
    `precision`. If the mix did not change, these are the means of all values.

    Args:
        splits: the values of the templates, at least one.
    """
    precision = 0.0
    sum_before = 0.0
    sum_after = 0.0
    sum_of_variances = 0.0
    for split in splits:
        weight = split.precision
        precision += weight
        sum_before += weight * split.mean_before
        sum_after += weight * split.mean_after
        sum_of_variances += weight * split.variance
    before = sum_before / precision
    after = sum_after / precision
    squared = (after - before) ** 2
    if squared == 0:
        return Contrast(before=before, after=after, z_squared=0.0)
    variance = sum_of_variances / precision**2
    z_squared = squared / variance if variance > 0 else inf
    return Contrast(before=before, after=after, z_squared=z_squared)


def _least_z_squared(error: float) -> float:
    """Return the z squared below which a contrast can hardly be beyond chance.

    It saves time: `differ` takes a hundred times as long. The logarithm of the winnings in `differ`
    is about half of z squared, and must reach that of ``1 / error``. This asks for half of that.
    """
    return -log(error)


def _at_same_mix(splits: Sequence[Split]) -> tuple[Weights, Weights]:
    """Return the histograms before and after a checkpoint, weighted to the same mix of templates.

    A template with b values before and a values after counts a * b / (a + b) in either histogram,
    which is its `precision`. So each value before weighs a / (a + b), and each value after
    b / (a + b). All weights of a histogram are then multiplied until the largest is 1, the most
    that `differ` allows. If the mix did not change, they all are 1.

    Args:
        splits: the values of the templates, at least one.
    """
    largest_before = max(split.size_after / split.end.size for split in splits)
    largest_after = max(split.start.size / split.end.size for split in splits)
    before = [0.0] * (BINS + 1)
    after = [0.0] * (BINS + 1)
    for split in splits:
        weight_before = split.size_after / split.end.size / largest_before
        weight_after = split.start.size / split.end.size / largest_after
        weights_after = split.weights_after
        for point in range(BINS + 1):
            before[point] += weight_before * split.start.weights[point]
            after[point] += weight_after * weights_after[point]
    return tuple(before), tuple(after)


def _membership(template: str, checkpoint: Checkpoint) -> ScoreValues:
    """Return the values of a score that is 1 for the results of a template, and 0 for others."""
    # Each result is an error or none, so it has a value of the error rate.
    errors = checkpoint.values.get(template, {}).get(ERROR_RATE, NO_VALUES)
    weights = [0.0] * (BINS + 1)
    weights[0] = float(checkpoint.results - errors.size)
    weights[-1] = float(errors.size)
    return ScoreValues(
        size=checkpoint.results,
        total=float(errors.size),
        squares=float(errors.size),
        weights=tuple(weights),
    )
