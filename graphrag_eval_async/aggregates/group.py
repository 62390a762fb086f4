"""The statistics of the results of one template."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.coverage import Tallies, add_tallies, bounds, count, coverage, reasons
from graphrag_eval_async.aggregates.exact import mean, sum_units
from graphrag_eval_async.aggregates.failures import REASON
from graphrag_eval_async.aggregates.reading import is_bounded, may_be_bounded, metric_position
from graphrag_eval_async.aggregates.series import Series
from graphrag_eval_async.records.outputs import is_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.exact import Sums
    from graphrag_eval_async.aggregates.reading import Observation, Steps
    from graphrag_eval_async.aggregates.window import Sample

STEP_COUNTS = ("total", "once_per_sample", "empty_results", "errors")
TOTAL, ONCE, EMPTY, ERRORS = range(4)

# By step name, a count for each of STEP_COUNTS.
StepCounts: TypeAlias = dict[str, list[int]]

Detailed: TypeAlias = "tuple[dict[str, Any], dict[str, Sums]]"
"""What is shown in detail without `confidence`, and what that is made of for each metric."""


class Detail(NamedTuple):
    """What a detailed snapshot shows of a group.

    Attributes:
        confidence: shows the confidence sequence of sums; None where there is to be none.
        metrics: that are shown if they apply, even if they have no value.
        fractions: outputs of custom evaluations that are from 0 to 1.
        pending: how many values of each metric are to come.
    """

    confidence: Callable[[Sums], dict[str, float]] | None
    metrics: Collection[str]
    fractions: Collection[str]
    pending: Mapping[str, int]


class Group:
    """Counts, step counts and metrics of results; the metrics pass their values on to those in `micro`.

    `tallies` has the metrics that failed, and the reasons of failure.
    """

    __slots__ = ("_detailed", "_micro", "_shown", "errors", "series", "steps", "successes", "tallies")

    def __init__(self, micro: dict[str, Series]) -> None:
        self.errors = 0
        self.successes = 0
        self.steps: StepCounts = {}
        self.tallies: Tallies = {}
        self.series: dict[str, Series] = {}
        self._micro = micro
        self._shown: dict[str, Any] | None = None
        self._detailed: tuple[Detail, Detailed] | None = None

    def add(self, seen: Observation) -> None:
        """Count one result."""
        self._shown = self._detailed = None
        if seen.failed:
            self.errors += 1
        else:
            self.successes += 1
        for metric, value in seen.values:
            series = self.series.get(metric) or self.metric(metric)
            series.add(value)
        count_steps(self.steps, seen.steps)
        if seen.failures:
            count(self.tallies, seen.failures)

    def flush(self) -> None:
        for series in self.series.values():
            series.flush()

    def metric(self, name: str) -> Series:
        series = self.series.get(name)
        if series is None:
            parent = self._micro.setdefault(name, _series(name))
            series = self.series[name] = _series(name, parent)
        return series

    def slide(self, new: Sequence[Sample], gone: Sequence[Sample]) -> None:
        """Count samples, and no longer count others that were counted so."""
        self._shown = self._detailed = None
        for sign, samples in ((1, new), (-1, gone)):
            for sample in samples:
                self.errors += sign * sample.failed
                self.successes += sign * (not sample.failed)
                add_steps(self.steps, sample.steps, sign)
                count(self.tallies, sample.failures, sign)
        slide(self.series, new, gone)

    def merge(self, other: Group) -> None:
        """Add what is in `other`, whose metrics have been flushed."""
        self._shown = self._detailed = None
        self.errors += other.errors
        self.successes += other.successes
        add_steps(self.steps, other.steps.items())
        add_tallies(self.tallies, other.tallies)
        for name, series in other.series.items():
            self.metric(name).merge(series)

    def snapshot(self, detail: Detail | None = None) -> dict[str, Any]:
        """The part of a snapshot about this group; the caller may change it."""
        if self._shown is None:
            self._shown = show(self.errors, self.successes, self.steps, self.series)
        fresh = {key: part.copy() if type(part) is dict else part for key, part in self._shown.items()}
        if "steps" in fresh:
            fresh["steps"] = {count: names.copy() for count, names in fresh["steps"].items()}
        return fresh if detail is None else add_detail(fresh, self.series, self.tallies, detail)

    def detailed(self, detail: Detail) -> Detailed:
        """The same, and sums; nobody may change it, since it is made once as long as nothing is counted."""
        if self._detailed is None or self._detailed[0] != detail:
            sums = bounded_sums(self.series, detail.fractions)
            self._detailed = detail, (self.snapshot(detail), sums)
        return self._detailed[1]


def count_steps(counted: StepCounts, steps: Steps) -> StepCounts:
    seen = set()
    for step in steps:
        name, status = step.get("name"), step.get("status")
        if not isinstance(name, str):
            continue
        counts = counted.get(name)
        if counts is None:
            counts = counted[name] = [0] * len(STEP_COUNTS)
        counts[TOTAL] += 1
        if name not in seen:
            seen.add(name)
            counts[ONCE] += 1
        if status == "error":
            counts[ERRORS] += 1
        elif is_empty(step.get("output")):
            counts[EMPTY] += 1
    return counted


def add_steps(steps: StepCounts, more: Iterable[tuple[str, Sequence[int]]], sign: int = 1) -> None:
    """Add `more`, or with a `sign` of -1 subtract it; a name of which nothing is left is dropped."""
    for name, counts in more:
        mine = steps.get(name, [0] * len(STEP_COUNTS))
        summed = [a + sign * b for a, b in zip(mine, counts, strict=True)]
        if any(summed):
            steps[name] = summed
        else:
            steps.pop(name, None)


def slide(series: dict[str, Series], new: Iterable[Sample], gone: Iterable[Sample]) -> None:
    """Let values of samples come and go; a metric without any is dropped."""
    came, went = _by_metric(new), _by_metric(gone)
    for name in {**came, **went}:
        if name not in series:
            series[name] = _series(name)
        series[name].slide(came[name], went[name])
        if not series[name].values:
            del series[name]


def _by_metric(samples: Iterable[Sample]) -> defaultdict[str, list[float]]:
    numbers: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for metric, number in zip(sample.metrics, sample.numbers, strict=True):
            numbers[metric].append(number)
    return numbers


def show(errors: int, successes: int, steps: StepCounts, series: dict[str, Series]) -> dict[str, Any]:
    """Lay out statistics as a snapshot does, in an order that only the names decide."""
    shown: dict[str, Any] = {"number_of_error_samples": errors, "number_of_success_samples": successes}
    names = sorted(steps)
    tables = {
        count: table
        for i, count in enumerate(STEP_COUNTS)
        if (table := {name: steps[name][i] for name in names if steps[name][i]})
    }
    if tables:
        shown["steps"] = tables
    for metric in sorted(series, key=metric_position):
        shown[metric] = series[metric].stats()
    return shown


def tallies_of(groups: Iterable[Group]) -> Tallies:
    """Those of all groups together."""
    tallies: Tallies = {}
    for group in groups:
        add_tallies(tallies, group.tallies)
    return tallies


def show_micro(groups: Iterable[Group], series: dict[str, Series]) -> dict[str, Any]:
    """The same for several groups together, whose values are in `series`."""
    errors = successes = 0
    steps: StepCounts = {}
    for group in groups:
        errors += group.errors
        successes += group.successes
        add_steps(steps, group.steps.items())
    return show(errors, successes, steps, series)


def add_detail(
    shown: dict[str, Any], series: Mapping[str, Series], tallies: Tallies, detail: Detail
) -> dict[str, Any]:
    """What `show` has laid out, and what there is to say of how far it can be trusted."""
    whole = {key: part for key, part in shown.items() if key not in series}
    if found := reasons(tallies):
        whole[REASON] = found
    for metric in sorted(detail.metrics, key=metric_position):
        own = series.get(metric)
        values = 0 if own is None else len(own.values)
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
    """What the confidence sequences are made of, by metric."""
    bounded = (metric for metric in series if is_bounded(metric) or metric in fractions)
    sums = {metric: series[metric].sums() for metric in bounded}
    return {metric: own for metric, own in sums.items() if own is not None}


def _series(name: str, parent: Series | None = None) -> Series:
    return Series(parent, bounded=may_be_bounded(name))


def macro_of(metric: str, per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of the means of the templates, and of their bounds, where there are any."""
    groups = [shown[metric] for shown in per_template.values() if metric in shown]
    macro: dict[str, Any] = {}
    if means := [group["mean"] for group in groups if "mean" in group]:
        macro["mean"] = _mean(means)
    if bounds := [group["bounds"] for group in groups if "bounds" in group]:
        macro["bounds"] = {end: _mean([each[end] for each in bounds]) for end in ("low", "high")}
    return macro


def _mean(values: Sequence[float]) -> float:
    return mean(sum_units(values), len(values), integral=all(type(value) is int for value in values))
