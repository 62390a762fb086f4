"""Statistics over the results of one template or tag."""

from __future__ import annotations

from array import array
from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from graphrag_eval_async.aggregates.coverage import OutcomeCounts, bounds, count, coverage, reasons
from graphrag_eval_async.aggregates.exact import ONE, mean
from graphrag_eval_async.aggregates.histogram import count_of
from graphrag_eval_async.aggregates.questions import (
    FIRST,
    UNKNOWN,
    Clusters,
    QuestionScore,
    QuestionValues,
    clusters,
    first_values,
    mean_of,
    name_of,
    rows_of,
)
from graphrag_eval_async.aggregates.repeats import Rights, pass_rates, variances
from graphrag_eval_async.aggregates.series import Column, Series
from graphrag_eval_async.aggregates.steps import (
    MOST_NAMES,
    STEP_COUNTS,
    StepCounts,
    add_steps,
    counts_of,
    trimmed,
)
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import (
    BOUNDED_METRICS,
    ERROR_RATE,
    is_score,
    metric_position,
)
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.aggregates.window import Alike, Row
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.outcomes import Outcome
    from graphrag_eval_async.records.evaluation import StepKinds

Columns: TypeAlias = "tuple[tuple[tuple[float, ...], ...], tuple[Any, ...], tuple[Any, ...]]"
"""The columns of several `Row`."""

Intervals: TypeAlias = "Callable[[Weights | None, Clusters | None, bool], dict[str, Any]]"
"""Returns the keys of intervals, from weights and clusters, if known, and whether values are
from 0 to 1.
"""


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


class Group:
    """Counts, step counts and metrics of results.

    `outcomes` counts failed metrics and reasons of failure. `errors_by_question` has a value of
    each result: 1 for an error, otherwise 0. Results are right if they meet the conditions `right`.
    `expected` are the step names that are always counted by name. There are order statistics only
    if `ordered`.
    """

    def __init__(
        self,
        expected: Collection[str] = (),
        right: Collection[Condition] = RIGHT_CONDITIONS,
        *,
        ordered: bool = True,
    ) -> None:
        self._expected = expected
        self.ordered = ordered
        self.errors = 0
        self.errors_by_question = QuestionValues()
        self.rights = Rights(right)
        self.successes = 0
        self.steps: StepCounts = {}
        self.outcomes: OutcomeCounts = Counter()
        self.series: dict[str, Series] = {}
        self.places: dict[str, int] = {}
        self._shown: dict[str, Any] | None = None
        self._sums: dict[str, tuple[int, int] | None] = {}
        self._detailed: tuple[DetailOptions, dict[str, Any]] | None = None

    def add(self, alike: Alike, rows: Sequence[Row], micro: dict[str, Series] | None) -> None:
        """Add results with properties in common, and their values also to `micro`, if it is
        given.
        """
        _, failed, metrics, steps, outcomes, _ = alike
        self._count(failed, steps, outcomes, len(rows))
        numbers, questions, samples = cast("Columns", zip(*rows, strict=True))
        known = self.places
        first = len(known)
        places = [known.setdefault(name, len(known)) for name in map(name_of, questions)]
        # Most often each result is the first one of its question, or else none is.
        by_place = {} if len(known) == first + len(rows) else rows_of(places)
        columns = [Column.of(values) for values in zip(*numbers, strict=True)]
        errors = array("d", [failed]) * len(rows)
        moved: list[tuple[QuestionValues, Sequence[float]]] = [(self.errors_by_question, errors)]
        series: dict[str, tuple[Series, ...]] = {}
        for name, column in zip(metrics, columns, strict=True):
            own = self.metric(name)
            series[name] = (own,) if micro is None else (own, metric(micro, name))
            for each in series[name]:
                each.add(column)
            if own.questions is not None:
                moved.append((own.questions, column.values))
        named = [(name, column.values) for name, column in zip(metrics, columns, strict=True)]
        moved += self.rights.of(failed, outcomes, named, len(rows))
        for of_questions, values in moved:
            if by_place or type(values) is not array or not of_questions.append(first, values):
                of_questions.add(by_place or rows_of(places), values)
        counted: Iterable[tuple[str, Sequence[float]]] = named
        if sum(map(samples.count, FIRST)) < len(rows) or len({*metrics}) < len(metrics):
            firsts = [row for row, sample in zip(numbers, samples, strict=True) if sample in FIRST]
            counted = first_values(metrics, firsts)
        for name, values in counted:
            for each in series[name]:
                if each.histogram is not None:
                    each.histogram.add(values)

    def _count(
        self, failed: bool, steps: StepKinds, outcomes: Sequence[Outcome], times: int
    ) -> None:
        """Count `times` results that share all these properties, but not their values."""
        self.touch()
        if failed:
            self.errors += times
        else:
            self.successes += times
        if steps:
            add_steps(self.steps, counts_of(steps), times)
            self.trim_steps()
        if outcomes:
            count(self.outcomes, outcomes, times)

    def add_counts(self, other: Group) -> None:
        """Add the contents of `other`, except for values of metrics."""
        self.touch()
        self.errors += other.errors
        self.successes += other.successes
        add_steps(self.steps, other.steps.items())
        self.trim_steps()
        self.outcomes.update(other.outcomes)

    def merge(self, other: Group) -> None:
        self.add_counts(other)
        most = len(self.places) + len(other.places)
        places = [self.places.setdefault(name, len(self.places)) for name in other.places]
        fresh = len(self.places) == most and bool(places)
        for name, series in other.series.items():
            own = self.metric(name)
            own.merge(series)
            if own.questions is not None and series.questions is not None:
                own.questions.merge(series.questions, places, fresh=fresh)
        self.errors_by_question.merge(other.errors_by_question, places, fresh=fresh)
        self.rights.merge(other.rights, places, fresh=fresh)

    def metric(self, name: str) -> Series:
        """Return the series of a metric; create it if needed."""
        own = self.series.get(name)
        if own is None:
            own = self.series[name] = Series(name, by_question=True, ordered=self.ordered)
        return own

    def question_sums(self, metric: str) -> tuple[int, int] | None:
        """Return the sum of the questions' means of a metric, or of `ERROR_RATE`, and their number.

        The sum is in units of 2**-1074. None if some results do not name their questions.
        """
        if metric not in self._sums:
            series, own, units = self.series.get(metric), self.errors_by_question, self.errors * ONE
            if metric != ERROR_RATE:
                if series is None or series.questions is None:
                    return 0, 0
                own, units = series.questions, series.units
            self._sums[metric] = (
                None if self.places.get(UNKNOWN) in own else (units + own.shift, len(own))
            )
        return self._sums[metric]

    def means_of_questions(self, metric: str) -> Iterator[tuple[str, float, int]]:
        """Yield the questions with a value of a score, their means, and their numbers of values."""
        series, names = self.series.get(metric), [*self.places]
        if series is not None and series.questions is not None:
            for place, values in series.questions.by_place():
                if place < len(names):
                    yield names[place], *mean_of(values)

    def question_scores(self, template: str, metric: str) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question, with errors as 0; values may be added
        meanwhile.
        """
        names, errors = [*self.places], {}
        for place, values in self.errors_by_question.by_place():
            share, results = mean_of(values)
            if share:
                errors[names[place]] = round(share * results)
        for question, own, values in self.means_of_questions(metric):
            failed = errors.pop(question, 0)
            if question != UNKNOWN:
                mean_of_all = own * values / (values + failed) if failed else own
                yield QuestionScore(mean_of_all, question, template, metric, values, failed)
        for question, failed in errors.items():
            if question != UNKNOWN:
                yield QuestionScore(0.0, question, template, metric, 0, failed)

    def touch(self) -> None:
        """Invalidate cached snapshots."""
        self._shown = self._detailed = None
        self._sums.clear()

    def trim_steps(self) -> None:
        """Count rare steps together if there are many names; steps cannot be removed after that."""
        # Rarely: trimming sorts the names.
        if len(self.steps) > len(self._expected) + 2 * MOST_NAMES:
            self.steps = trimmed(self.steps, self._expected)

    @property
    def trimmed_steps(self) -> StepCounts:
        return trimmed(self.steps, self._expected)

    def snapshot(
        self, detail: DetailOptions | None = None, groups: Collection[Group] = ()
    ) -> dict[str, Any]:
        """Return this group's part of a snapshot; the caller may change it.

        `groups` have the values by question, if this one does not.
        """
        if self._shown is None:
            self._shown = self._show(groups or [self])
        fresh = {
            key: part.copy() if type(part) is dict else part for key, part in self._shown.items()
        }
        if "steps" in fresh:
            fresh["steps"] = {count: names.copy() for count, names in fresh["steps"].items()}
        return fresh if detail is None else self._add_detail(fresh, detail, groups or [self])

    def _show(self, groups: Collection[Group]) -> dict[str, Any]:
        """Lay out statistics for a snapshot, in an order that depends only on names."""
        shown: dict[str, Any] = {
            "number_of_error_samples": self.errors,
            "number_of_success_samples": self.successes,
        }
        if samples := self.errors + self.successes:
            rate = self.errors / samples
            shown[ERROR_RATE] = _of_questions(groups, ERROR_RATE, rate, samples).get(
                "mean_of_questions", rate
            )
        steps = self.trimmed_steps
        names = sorted(name for name in steps if name is not None)
        tables = {
            count: table
            for i, count in enumerate(STEP_COUNTS)
            if (table := {name: steps[name][i] for name in names if steps[name][i]})
        }
        if None in steps:
            tables["other"] = {
                count: n for count, n in zip(STEP_COUNTS, steps[None], strict=True) if n
            }
        if tables:
            shown["steps"] = tables
        for name in sorted(self.series, key=metric_position):
            stats = self.series[name].stats()
            shown[name] = stats | _of_questions(groups, name, stats["mean"], len(self.series[name]))
        return shown

    def _add_detail(
        self, shown: dict[str, Any], detail: DetailOptions, groups: Collection[Group]
    ) -> dict[str, Any]:
        """Return a snapshot with coverage, bounds, quantiles, intervals, repeats and reasons of
        failure.
        """
        whole = {key: part for key, part in shown.items() if key not in self.series}
        if repeats := _repeats(groups):
            whole["repeats"] = repeats
        if found := reasons(self.outcomes):
            whole[REASON] = found
        for metric in sorted(detail.metrics, key=metric_position):
            own = self.series.get(metric)
            values = 0 if own is None else len(own)
            covered = coverage(metric, values, self.outcomes, detail.pending.get(metric, 0))
            if covered["applied"]:
                failed = sum(covered["failed"].values())
                bounded = metric in BOUNDED_METRICS or metric in detail.fractions
                whole[metric] = {}
                if own is not None:
                    whole[metric] = shown[metric] | (
                        {"quantiles": own.quantiles()} if own.ordered else {}
                    )
                    weights = first_weights(own, metric, groups) if bounded else None
                    if detail.intervals is None:
                        whole[metric]["weights"] = weights
                    elif is_score(metric):
                        grouped = clusters_of(
                            groups, metric, shown[metric].get("mean_of_questions")
                        )
                        whole[metric] |= detail.intervals(weights, grouped, bounded)
                        if (variance := variance_later(own, groups, metric)) is not None:
                            whole[metric] |= variance()
                if bounded and values + failed:
                    whole[metric]["bounds"] = bounds(own, failed)
                whole[metric]["coverage"] = covered
        return whole

    def detailed(self, detail: DetailOptions) -> dict[str, Any]:
        """Return a detailed snapshot, cached until the next change; do not modify it."""
        if self._detailed is None or self._detailed[0] != detail:
            self._detailed = detail, self.snapshot(detail)
        return self._detailed[1]


def first_weights(own: Series, metric: str, groups: Collection[Group]) -> Weights | None:
    """Return the weights of first samples; None if there are more than questions, which are not
    independent.

    That is so if results of several answers to a question are not numbered, as those of shards.
    """
    weights = None if own.histogram is None else own.histogram.weights()
    if weights is None:
        return None
    most = 0
    for group in groups:
        if (series := group.series.get(metric)) is not None:
            if series.questions is None or group.places.get(UNKNOWN) in series.questions:
                return weights
            most += len(series.questions)
    return weights if count_of(weights) <= most else None


def _of_questions(
    groups: Iterable[Group], metric: str, mean_of_values: float, values: int
) -> dict[str, float]:
    """Return the mean over the questions' means of a metric, unless questions are not known."""
    units = questions = 0
    for group in groups:
        sums = group.question_sums(metric)
        if sums is None:
            return {}
        units, questions = units + sums[0], questions + sums[1]
    own = mean_of_values if questions == values else mean(units, questions, integral=False)
    return {"mean_of_questions": own}


def _repeats(groups: Collection[Group]) -> dict[str, float]:
    """Return `pass_rates` over all questions, unless some are not known.

    Metrics decide whether results are right if any has a value, or its judge failed.
    """
    if all(group.errors + group.successes <= len(group.places) for group in groups):
        return {}
    scored = {metric for group in groups for metric in group.series}
    scored |= {
        metric for group in groups for metric, kind in group.outcomes if kind not in CAUSED_BY_AGENT
    }
    samples = Counter[tuple[int, int]]()
    for group in groups:
        samples += group.rights.samples(scored, group.places.get(UNKNOWN))
    return {} if samples[0, 0] else pass_rates(samples)


def variance_later(
    own: Series, groups: Iterable[Group], metric: str
) -> Callable[[], dict[str, dict[str, float]]] | None:
    """Return a function that computes the `variance` of a score; None if no question repeats.

    `own` has the values of the score. The function has copies and may run in another thread:
    100,000 values take a third of a second.
    """
    known: list[QuestionValues] = []
    for group in groups:
        if metric in group.series and (each := group.series[metric].questions) is not None:
            if group.places.get(UNKNOWN) in each:
                return None
            known.append(each)
    if not own.ordered or sum(map(len, known)) == len(own):
        return None
    chunks = [chunk[:] for chunk in own.values.chunks]
    questions = [values for each in known for _, values in each.by_place()]

    def variance() -> dict[str, dict[str, float]]:
        with suppress(OverflowError):  # Of an output near the largest double.
            return {"variance": variances(chain.from_iterable(chunks), questions)}
        return {}

    return variance


def clusters_of(groups: Iterable[Group], metric: str, mean: float | None) -> Clusters | None:
    """Return what the means of questions say, of which this is the mean; None if it is not
    known.
    """
    if mean is None:
        return None
    return clusters(
        [own for group in groups for _, own, _ in group.means_of_questions(metric)], mean
    )


def metric(series: dict[str, Series], name: str) -> Series:
    """Return the series of a metric over all results; create it if needed."""
    own = series.get(name)
    if own is None:
        own = series[name] = Series(name)
    return own
