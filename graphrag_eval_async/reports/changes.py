"""Finds changes of scores, and of the mix of templates, in the course of a run.

The results since a checkpoint are compared with those before it, for each checkpoint. Each template
is compared with itself. All results are compared at the same mix of templates: more results of a
hard template than before are a change of the mix, not of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.aggregates.histogram import BINS
from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.inference.confidence import differ, seem_to_differ
from graphrag_eval_async.reports.history import OTHER_TEMPLATES, ScoreValues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.reports.history import Checkpoint

ERROR_RATE_SHARE = 0.1
"""The share of the error probability that the error rate gets; scores share the rest."""

ALL_RESULTS_SHARE = 0.5
"""The share of the error probability that all results get; the templates share the rest."""

FIRST_LOGARITHM = 9
"""Whose logarithm the first share of `_share_of_number` begins with. Chosen: a larger number would
leave less for the first starts, and more for later ones.
"""

LEAST_SHARE_CHANGE = 0.1
"""Least change of the share of a template that is reported. Chosen: less moves a mean little."""

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

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        scores: the scores that are watched, which are from 0 to 1.
        error: the probability of ever returning a change if each template keeps its means.
    """
    latest = checkpoints[-1]

    def error_of_test(template: str | None, start: Checkpoint) -> float:
        error_of_start = error * _share_of_group(template, start) * _share_of_number(start.number)
        if template is None and len(start.values) > 1:
            # The mix at which all results are compared depends on the end. So each end is a test of
            # its own, and all of them share the error probability of the start.
            return error_of_start * _share_of_number(latest.number - start.number)
        return error_of_start

    return _clearest_changes(checkpoints, scores, error_of_test, differ)


def tentative_losses(
    checkpoints: Sequence[Checkpoint], scores: Sequence[str], error: float
) -> list[ScoreChange]:
    """Return the losses that would be clear if somebody looked at the run only now.

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        scores: the scores that are watched, which are from 0 to 1.
        error: about the probability of returning a change at one look if each template keeps its
            means.
    """
    count_of_starts = len(_starts(checkpoints))

    def error_of_test(template: str | None, start: Checkpoint) -> float:
        return error * _share_of_group(template, start) / count_of_starts

    changes = _clearest_changes(checkpoints, scores, error_of_test, seem_to_differ)
    return [change for change in changes if change.is_loss]


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
    for place, template in enumerate(_separate_templates(latest), 1):
        error_of_template = error * _share_of_number(place)
        share_at_end = _membership(template, latest)
        for start in _starts(checkpoints):
            error_of_start = error_of_template * _share_of_number(start.number)
            split = Split(start=_membership(template, start), end=share_at_end)
            contrast = _contrast([split])
            rank = (contrast.after > contrast.before, contrast.z_squared)
            is_small = abs(contrast.after - contrast.before) < LEAST_SHARE_CHANGE
            if is_small or rank <= clearest_rank or _is_surely_chance(contrast, error_of_start):
                continue
            if differ(split.start.weights, split.weights_after, error_of_start):
                clearest_rank = rank
                clearest = MixChange(
                    template=template,
                    before=contrast.before,
                    after=contrast.after,
                    since=_time_of(start),
                    since_result=start.results,
                )
    return clearest


def _separate_templates(checkpoint: Checkpoint) -> list[str]:
    """Return the templates that a checkpoint tells apart, in the order in which they appeared."""
    return [template for template in checkpoint.values if template is not OTHER_TEMPLATES]


def _starts(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints at which a change may have begun, the latest first.

    These are all but the last one, which has no results after it, and the one before all results.
    """
    return [checkpoint for checkpoint in reversed(checkpoints[:-1]) if checkpoint.results > 0]


def _share_of_number(number: int) -> float:
    """Return the share of an error probability that a number gets, from 1 on.

    The shares of all numbers add up to 1, so an error probability can be split among starts, looks
    or templates without knowing how many there will be. The share of n is the difference of two
    neighbouring terms, ``log(9) / log(n + 8)`` and ``log(9) / log(n + 9)``, where 9 is
    `FIRST_LOGARITHM`. In the sum, all terms cancel but the first one, which is 1. The share is
    about ``log(9) / (n log(n) ** 2)``, which falls more slowly than ``1 / n ** 2``.
    """
    scale = log(FIRST_LOGARITHM)
    place = FIRST_LOGARITHM + number - 1
    return scale / log(place) - scale / log(place + 1)


def _share_of_group(template: str | None, start: Checkpoint) -> float:
    """Return the share of the error probability of a start that a template gets.

    All templates with results before the start get the same. All results, whose `template` is None,
    get `ALL_RESULTS_SHARE`, unless there was only one template so far: then its results are all
    results, and there is one test only.
    """
    if len(start.values) == 1:
        return 1.0
    if template is None:
        return ALL_RESULTS_SHARE
    template_count = len(start.values)
    if OTHER_TEMPLATES in start.values:
        template_count -= 1
    return (1 - ALL_RESULTS_SHARE) / template_count


def _time_of(checkpoint: Checkpoint) -> datetime | None:
    """Return when the first result after a checkpoint came; None if nobody knows."""
    if checkpoint.time is None:
        return None
    return datetime.fromtimestamp(checkpoint.time, UTC)


def _clearest_changes(
    checkpoints: Sequence[Checkpoint],
    scores: Sequence[str],
    error_of_test: Callable[[str | None, Checkpoint], float],
    is_difference: Callable[[Weights, Weights, float], bool],
) -> list[ScoreChange]:
    """Return the clearest change of each score and of the error rate: that of all results, and
    those of templates.

    Args:
        checkpoints: the checkpoints of a run; the results up to the latest count.
        scores: the scores that are watched.
        error_of_test: returns the error probability of a template, or of None for all results, and
            of the checkpoint where a change may have begun. All metrics share it.
        is_difference: returns whether the means of two histograms differ beyond chance, given the
            error probability.
    """
    share_by_metric = {ERROR_RATE: ERROR_RATE_SHARE}
    for score in scores:
        share_by_metric[score] = (1 - ERROR_RATE_SHARE) / len(scores)

    groups: list[str | None] = [None]
    if len(checkpoints[-1].values) > 1:
        groups += _separate_templates(checkpoints[-1])

    changes = []
    for metric, share in share_by_metric.items():
        for template in groups:
            clearest_z_squared = 0.0
            change: ScoreChange | None = None
            for start in _starts(checkpoints):
                splits = _splits(start, checkpoints[-1], template, metric)
                if not splits:
                    continue
                contrast = _contrast(splits)
                error = share * error_of_test(template, start)
                is_clearer = contrast.z_squared > clearest_z_squared
                if not is_clearer or _is_surely_chance(contrast, error):
                    continue
                weights_before, weights_after = _at_same_mix(splits)
                if is_difference(weights_before, weights_after, error):
                    clearest_z_squared = contrast.z_squared
                    change = _score_change(template, metric, start, contrast)
            if change is not None:
                changes.append(change)
    return changes


def _score_change(
    template: str | None, metric: str, start: Checkpoint, contrast: Contrast
) -> ScoreChange:
    """Return a change of a metric that began at a checkpoint.

    Args:
        template: the template whose results count; None for all results.
        metric: the name of a score, or `ERROR_RATE`.
        start: the checkpoint.
        contrast: the means before and after it.
    """
    is_rise = contrast.after > contrast.before
    return ScoreChange(
        template=template,
        metric=metric,
        before=contrast.before,
        after=contrast.after,
        since=_time_of(start),
        since_result=start.results,
        is_loss=is_rise if metric == ERROR_RATE else not is_rise,
    )


def _splits(
    start: Checkpoint, latest: Checkpoint, template: str | None, metric: str
) -> list[Split]:
    """Return the values of a metric before and after a checkpoint, one split for each template that
    has values on both sides.

    Args:
        start: the checkpoint.
        latest: the latest checkpoint, up to which results count.
        template: the only template whose values are returned; None for all templates.
        metric: the name of a score, or `ERROR_RATE`.

    Returns:
        no split if all results are asked for, and those before the checkpoint are of one template:
        there is nothing else to compare than this template with itself.
    """
    templates: list[str | None] = [template]
    if template is None:
        has_new_templates = len(start.values) == 1 < len(latest.values)
        templates = [] if has_new_templates else [*start.values]

    splits = []
    for name in templates:
        values_at_start = start.values.get(name, {}).get(metric, NO_VALUES)
        values_at_end = latest.values.get(name, {}).get(metric, NO_VALUES)
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


def _is_surely_chance(contrast: Contrast, error: float) -> bool:
    """Return whether a contrast is so small that a test with this error need not be made.

    It saves time: `differ` takes a hundred times as long. The logarithm of the winnings in `differ`
    is about half of z squared, and must reach that of ``1 / error``. So a contrast with less than
    half of the z squared that is needed is taken for chance.
    """
    return contrast.z_squared < -log(error)


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
