"""Statistics over the results of one template."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.coverage import Tallies, add_tallies, bounds, count, coverage, reasons
from graphrag_eval_async.aggregates.exact import mean, sum_units
from graphrag_eval_async.aggregates.series import Series
from graphrag_eval_async.aggregates.steps import (
    MOST_NAMES,
    STEP_COUNTS,
    StepCounts,
    add_steps,
    counts_of,
    trimmed,
)
from graphrag_eval_async.records.metrics import is_bounded, may_be_bounded, metric_position
from graphrag_eval_async.records.outcomes import REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.exact import Sums
    from graphrag_eval_async.aggregates.window import Sample
    from graphrag_eval_async.records.evaluation import StepKinds
    from graphrag_eval_async.records.outcomes import Tally

Detailed: TypeAlias = "tuple[dict[str, Any], dict[str, Sums]]"
"""Details without `confidence`, and the sums to compute `confidence` for each metric."""


class Detail(NamedTuple):
    """Options for the detailed snapshot of a group.

    Attributes:
        confidence: computes the confidence interval to show from sums; None to show none.
        metrics: metrics to show if they apply, even without a value.
        fractions: outputs of custom evaluations that are from 0 to 1.
        pending: number of pending values by metric.
    """

    confidence: Callable[[Sums], dict[str, float]] | None
    metrics: Collection[str]
    fractions: Collection[str]
    pending: Mapping[str, int]


class Group:
    """Counts, step counts and metrics of results.

    `tallies` counts failed metrics and reasons of failure. `expected` are the step names that are always
    counted by name.
    """

    __slots__ = ("_detailed", "_expected", "_shown", "errors", "series", "steps", "successes", "tallies")

    def __init__(self, expected: Collection[str] = ()) -> None:
        self._expected = expected
        self.errors = 0
        self.successes = 0
        self.steps: StepCounts = {}
        self.tallies: Tallies = {}
        self.series: dict[str, Series] = {}
        self._shown: dict[str, Any] | None = None
        self._detailed: tuple[Detail, Detailed] | None = None

    def count(self, failed: bool, steps: StepKinds, tallies: Sequence[Tally], times: int) -> None:
        """Count `times` results that share all these properties, but not their values."""
        self.touch()
        if failed:
            self.errors += times
        else:
            self.successes += times
        if steps:
            add_steps(self.steps, counts_of(steps), times)
            self._trim_steps()
        if tallies:
            count(self.tallies, tallies, times)

    def slide(self, new: Sequence[Sample], gone: Sequence[Sample]) -> None:
        """Add new samples and remove old ones that were added before."""
        self.touch()
        for sign, samples in ((1, new), (-1, gone)):
            for sample in samples:
                self.errors += sign * sample.failed
                self.successes += sign * (not sample.failed)
                add_steps(self.steps, sample.steps, sign)
                count(self.tallies, sample.failures, sign)
        slide(self.series, new, gone)

    def merge(self, other: Group) -> None:
        """Add the contents of `other`."""
        self.touch()
        self.errors += other.errors
        self.successes += other.successes
        add_steps(self.steps, other.steps.items())
        self._trim_steps()
        add_tallies(self.tallies, other.tallies)
        for name, series in other.series.items():
            metric(self.series, name).merge(series)

    def touch(self) -> None:
        """Invalidate cached snapshots."""
        self._shown = self._detailed = None

    def _trim_steps(self) -> None:
        if len(self.steps) > len(self._expected) + 2 * MOST_NAMES:  # Rarely: trimming sorts the names.
            self.steps = trimmed(self.steps, self._expected)

    @property
    def trimmed_steps(self) -> StepCounts:
        """The counts of steps to show and store."""
        return trimmed(self.steps, self._expected)

    def snapshot(self, detail: Detail | None = None) -> dict[str, Any]:
        """Return this group's part of a snapshot; the caller may change it."""
        if self._shown is None:
            self._shown = show(self.errors, self.successes, self.trimmed_steps, self.series)
        fresh = {key: part.copy() if type(part) is dict else part for key, part in self._shown.items()}
        if "steps" in fresh:
            fresh["steps"] = {count: names.copy() for count, names in fresh["steps"].items()}
        return fresh if detail is None else add_detail(fresh, self.series, self.tallies, detail)

    def detailed(self, detail: Detail) -> Detailed:
        """Return a detailed snapshot and its sums, cached until the next change; do not modify them."""
        if self._detailed is None or self._detailed[0] != detail:
            sums = bounded_sums(self.series, detail.fractions)
            self._detailed = detail, (self.snapshot(detail), sums)
        return self._detailed[1]


def slide(series: dict[str, Series], new: Iterable[Sample], gone: Iterable[Sample]) -> None:
    """Add values of new samples and remove those of old ones; drop metrics without values."""
    came, went = _by_metric(new), _by_metric(gone)
    for name in {**came, **went}:
        metric(series, name).slide(came[name], went[name])
        if not series[name]:
            del series[name]


def _by_metric(samples: Iterable[Sample]) -> defaultdict[str, list[float]]:
    numbers: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for metric, number in zip(sample.metrics, sample.numbers, strict=True):
            numbers[metric].append(number)
    return numbers


def show(errors: int, successes: int, steps: StepCounts, series: dict[str, Series]) -> dict[str, Any]:
    """Lay out statistics for a snapshot, in an order that depends only on names."""
    shown: dict[str, Any] = {"number_of_error_samples": errors, "number_of_success_samples": successes}
    names = sorted(name for name in steps if name is not None)
    tables = {
        count: table
        for i, count in enumerate(STEP_COUNTS)
        if (table := {name: steps[name][i] for name in names if steps[name][i]})
    }
    if None in steps:
        tables["other"] = {count: n for count, n in zip(STEP_COUNTS, steps[None], strict=True) if n}
    if tables:
        shown["steps"] = tables
    for name in sorted(series, key=metric_position):
        shown[name] = series[name].stats()
    return shown


def tallies_of(groups: Iterable[Group]) -> Tallies:
    """Return the combined tallies of all groups."""
    tallies: Tallies = {}
    for group in groups:
        add_tallies(tallies, group.tallies)
    return tallies


def show_micro(
    groups: Iterable[Group], series: dict[str, Series], expected: Collection[str]
) -> dict[str, Any]:
    """Lay out the combined statistics of several groups, whose values are in `series`."""
    errors = successes = 0
    steps: StepCounts = {}
    for group in groups:
        errors += group.errors
        successes += group.successes
        add_steps(steps, group.steps.items())
    return show(errors, successes, trimmed(steps, expected), series)


def add_detail(
    shown: dict[str, Any], series: Mapping[str, Series], tallies: Tallies, detail: Detail
) -> dict[str, Any]:
    """Return what `show` laid out, with coverage, bounds, quantiles, confidence and reasons of failure."""
    whole = {key: part for key, part in shown.items() if key not in series}
    if found := reasons(tallies):
        whole[REASON] = found
    for metric in sorted(detail.metrics, key=metric_position):
        own = series.get(metric)
        values = 0 if own is None else len(own)
        covered = coverage(metric, values, tallies, detail.pending.get(metric, 0))
        if covered["applied"]:
            failed = sum(covered["failed"].values())
            bounded = is_bounded(metric) or metric in detail.fractions
            confidence = detail.confidence if bounded else None
            whole[metric] = {} if own is None else shown[metric] | _detail(own, confidence)
            if bounded and values + failed:
                whole[metric]["bounds"] = bounds(own, failed)
            whole[metric]["coverage"] = covered
    return whole


def _detail(series: Series, confidence: Callable[[Sums], dict[str, float]] | None) -> dict[str, Any]:
    detail: dict[str, Any] = {"quantiles": series.quantiles()}
    if confidence is not None and (sums := series.sums()):
        detail["confidence"] = confidence(sums)
    return detail


def bounded_sums(series: Mapping[str, Series], fractions: Collection[str]) -> dict[str, Sums]:
    """Return the sums from which confidence intervals are computed, by metric."""
    bounded = (metric for metric in series if is_bounded(metric) or metric in fractions)
    sums = {metric: series[metric].sums() for metric in bounded}
    return {metric: own for metric, own in sums.items() if own is not None}


def metric(series: dict[str, Series], name: str) -> Series:
    """Return the series of a metric; create it if needed."""
    own = series.get(name)
    if own is None:
        own = series[name] = Series(bounded=may_be_bounded(name))
    return own


def macro_of(metric: str, per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean of the templates' means, and of their bounds, if there are any."""
    groups = [shown[metric] for shown in per_template.values() if metric in shown]
    macro: dict[str, Any] = {}
    if means := [group["mean"] for group in groups if "mean" in group]:
        macro["mean"] = _mean(means)
    if bounds := [group["bounds"] for group in groups if "bounds" in group]:
        macro["bounds"] = {end: _mean([each[end] for each in bounds]) for end in ("low", "high")}
    return macro


def _mean(values: Sequence[float]) -> float:
    return mean(sum_units(values), len(values), integral=all(type(value) is int for value in values))
