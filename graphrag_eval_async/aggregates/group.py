"""The statistics of the results of one template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.aggregates.reading import is_empty, metric_position
from graphrag_eval_async.aggregates.series import Series

if TYPE_CHECKING:
    from graphrag_eval_async.aggregates.reading import Steps, Values

STEP_COUNTS = ("total", "once_per_sample", "empty_results", "errors")
TOTAL, ONCE, EMPTY, ERRORS = range(4)

# By step name, a count for each of STEP_COUNTS.
StepCounts: TypeAlias = dict[str, list[int]]


class Group:
    """Counts, step counts and metrics of results; the metrics pass their values on to those in `micro`."""

    __slots__ = ("_micro", "_shown", "errors", "series", "steps", "successes")

    def __init__(self, micro: dict[str, Series]) -> None:
        self.errors = 0
        self.successes = 0
        self.steps: StepCounts = {}
        self.series: dict[str, Series] = {}
        self._micro = micro
        self._shown: dict[str, Any] | None = None

    def add(self, values: Values, steps: Steps, *, failed: bool) -> None:
        self._shown = None
        if failed:
            self.errors += 1
        else:
            self.successes += 1
        for metric, value in values:
            series = self.series.get(metric) or self.metric(metric)
            series.add(value)
        self._count(steps)

    def flush(self) -> None:
        for series in self.series.values():
            series.flush()

    def metric(self, name: str) -> Series:
        series = self.series.get(name)
        if series is None:
            parent = self._micro.setdefault(name, Series())
            series = self.series[name] = Series(parent)
        return series

    def _count(self, steps: Steps) -> None:
        seen = set()
        for step in steps:
            name, status = step.get("name"), step.get("status")
            if not isinstance(name, str):
                continue
            counts = self.steps.get(name)
            if counts is None:
                counts = self.steps[name] = [0] * len(STEP_COUNTS)
            counts[TOTAL] += 1
            if name not in seen:
                seen.add(name)
                counts[ONCE] += 1
            if status == "error":
                counts[ERRORS] += 1
            elif is_empty(step.get("output")):
                counts[EMPTY] += 1

    def merge(self, other: Group) -> None:
        """Add what is in `other`, whose metrics have been flushed."""
        self._shown = None
        self.errors += other.errors
        self.successes += other.successes
        add_steps(self.steps, other.steps)
        for name, series in other.series.items():
            self.metric(name).merge(series)

    def snapshot(self) -> dict[str, Any]:
        """The part of a snapshot about this group; the caller may change it."""
        if self._shown is None:
            self._shown = show(self.errors, self.successes, self.steps, self.series)
        fresh = {key: part.copy() if type(part) is dict else part for key, part in self._shown.items()}
        if "steps" in fresh:
            fresh["steps"] = {count: names.copy() for count, names in fresh["steps"].items()}
        return fresh


def add_steps(steps: StepCounts, more: StepCounts) -> None:
    for name, counts in more.items():
        mine = steps.get(name, [0] * len(STEP_COUNTS))
        steps[name] = [a + b for a, b in zip(mine, counts, strict=True)]


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
