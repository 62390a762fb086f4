"""Statistics over the results of one template or tag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.column import Column
from graphrag_eval_async.aggregates.exact import ONE
from graphrag_eval_async.aggregates.questions import (
    FIRST,
    UNKNOWN,
    Placement,
    QuestionScore,
    QuestionValues,
    mean_of,
    names_of,
    values_by_metric,
)
from graphrag_eval_async.aggregates.repeats import RightResults
from graphrag_eval_async.aggregates.series import Series, series_of
from graphrag_eval_async.aggregates.steps import StepTable
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Self

    from graphrag_eval_async.aggregates.coverage import OutcomeCounts
    from graphrag_eval_async.aggregates.waiting import Batch
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.records.evaluation import Traits


class SumOfMeans(NamedTuple):
    """The sum of the questions' means of a metric."""

    units: int  # In units of 2**-1074.
    questions: int


class QuestionMean(NamedTuple):
    """The mean of a score over those samples of a question that have a value."""

    question: str
    mean: float
    values: int


class Group:
    """Counts, step counts and metrics of results.

    Attributes:
        errors: number of results that are errors.
        successes: number of other results.
        outcomes: number of failed metrics, and of results by reason of failure.
        steps: counts of actual steps.
        series: the values of each metric.
        places: by name of question, its place in `QuestionValues`.
        errors_by_question: a value of each result: 1 for an error, otherwise 0.
        right_results: which results are right.
        cached_snapshot: its snapshot, until the next change; None until one is taken.
        cached_detail: the same of a detailed snapshot, after the options that it was taken with.
    """

    def __init__(
        self,
        expected: Collection[str] = (),
        right_conditions: Collection[Condition] = RIGHT_CONDITIONS,
        *,
        ordered: bool = True,
    ) -> None:
        """Start without results.

        Args:
            expected: step names that are always counted by name.
            right_conditions: the conditions that right results meet.
            ordered: whether there are order statistics.
        """
        self.ordered = ordered
        self.errors = 0
        self.successes = 0
        self.outcomes: OutcomeCounts = Counter()
        self.steps = StepTable(expected)
        self.series: dict[str, Series] = {}
        self.places: dict[str, int] = {}
        self.errors_by_question = QuestionValues()
        self.right_results = RightResults(right_conditions)
        self.cached_snapshot: dict[str, Any] | None = None
        self.cached_detail: tuple[object, dict[str, Any]] | None = None
        self._parts: Collection[Group] | None = None
        self._sums_of_means: dict[str, SumOfMeans | None] = {}  # By metric, as they are read.

    @classmethod
    def total_of(
        cls, parts: Collection[Group], series: dict[str, Series], expected: Collection[str]
    ) -> Self:
        """Return a group of the results of all `parts`, to take a snapshot of.

        Args:
            parts: the groups.
            series: the values of each metric in all of them.
            expected: step names that are always counted by name.
        """
        total = cls(expected)
        for part in parts:
            total._add_counts(part)
        total.series = series
        total._parts = parts
        return total

    @property
    def parts(self) -> Collection[Group]:
        """The groups that have the values by question: of a total, its parts."""
        return [self] if self._parts is None else self._parts

    @property
    def results(self) -> int:
        """Number of results."""
        return self.errors + self.successes

    def add(self, traits: Traits, batch: Batch, micro: dict[str, Series] | None) -> None:
        """Add results with the same traits.

        Args:
            traits: what they have in common.
            batch: in what they differ; there is at least one.
            micro: the values of each metric in all groups, to which those of the results are added,
                too; None if there are no such series.
        """
        self.invalidate()

        # Count what the results have in common.
        results = len(batch)
        if traits.failed:
            self.errors += results
        else:
            self.successes += results
        if traits.steps:
            self.steps.add(traits.steps, results)
        for outcome in traits.outcomes:
            self.outcomes[outcome] += results

        # Add the values of their metrics.
        placement = self._place(names_of(batch.question_ids))
        all_numbers = zip(*batch.numbers, strict=True)
        columns = [
            (metric, Column.of(numbers))
            for metric, numbers in zip(traits.metrics, all_numbers, strict=True)
        ]
        for metric, column in columns:
            series = self.metric(metric)
            series.add(column)
            if series.questions is not None:
                series.questions.add(placement, column)
            if micro is not None:
                series_of(micro, metric).add(column)

        # Add what follows from these.
        self.errors_by_question.add(placement, Column.of_flags([traits.failed] * results))
        self.right_results.add(placement, columns, traits.outcomes, failed=traits.failed)
        self._add_first_values(columns, batch, micro)

    def _place(self, names: list[str]) -> Placement:
        """Return the places of questions by their names; new ones get the next places."""
        places = self.places
        first_new = len(places)
        for name in dict.fromkeys(names):
            if name not in places:
                places[name] = len(places)
        if names and len(places) == first_new + len(names):
            return Placement(range(first_new, len(places)), are_new=True)
        return Placement([places[name] for name in names], are_new=False)

    def _add_first_values(
        self,
        columns: Sequence[tuple[str, Column]],
        batch: Batch,
        micro: dict[str, Series] | None,
    ) -> None:
        """Add one value of each question, that of its first sample, to histograms.

        Args:
            columns: the values of each metric in all results; metrics may repeat.
            batch: the results.
            micro: as in `add`.
        """
        metrics = [metric for metric, _ in columns]
        values: Iterable[tuple[str, Sequence[float]]]
        first_samples = sum(batch.samples.count(number) for number in FIRST)
        if first_samples == len(batch) and len(set(metrics)) == len(metrics):
            values = [(metric, column.stored) for metric, column in columns]
        else:
            rows = [
                numbers
                for numbers, sample in zip(batch.numbers, batch.samples, strict=True)
                if sample in FIRST
            ]
            values = values_by_metric(metrics, rows)
        for metric, first_values in values:
            histogram = self.series[metric].histogram
            if histogram is not None:
                histogram.add(first_values)
            histogram = None if micro is None else micro[metric].histogram
            if histogram is not None:
                histogram.add(first_values)

    def merge(self, other: Group) -> None:
        """Add the results of `other`."""
        self._add_counts(other)
        placement = self._place([*other.places])
        for metric, other_series in other.series.items():
            series = self.metric(metric)
            series.merge(other_series)
            if series.questions is not None and other_series.questions is not None:
                series.questions.merge(other_series.questions, placement)
        self.errors_by_question.merge(other.errors_by_question, placement)
        self.right_results.merge(other.right_results, placement)

    def _add_counts(self, other: Group) -> None:
        """Add the results of `other`, except for what is known by metric or question."""
        self.invalidate()
        self.errors += other.errors
        self.successes += other.successes
        self.steps.merge(other.steps)
        self.outcomes.update(other.outcomes)

    def metric(self, name: str) -> Series:
        """Return the series of a metric; create it if needed."""
        return series_of(self.series, name, by_question=True, ordered=self.ordered)

    def sum_of_means(self, metric: str) -> SumOfMeans | None:
        """Return the sum of the questions' means of a metric, or of `ERROR_RATE`.

        None if some results do not name their questions.
        """
        if metric not in self._sums_of_means:
            self._sums_of_means[metric] = self._compute_sum_of_means(metric)
        return self._sums_of_means[metric]

    def _compute_sum_of_means(self, metric: str) -> SumOfMeans | None:
        """Compute what `sum_of_means` returns."""
        if metric == ERROR_RATE:
            values = self.errors_by_question
            sum_of_values = self.errors * ONE
        else:
            series = self.series.get(metric)
            if series is None or series.questions is None:
                return SumOfMeans(units=0, questions=0)
            values = series.questions
            sum_of_values = series.units
        if self.places.get(UNKNOWN) in values:
            return None
        return SumOfMeans(values.sum_of_means(sum_of_values), questions=len(values))

    def means_of_questions(self, metric: str) -> Iterator[QuestionMean]:
        """Yield the questions with a value of a score; values may be added meanwhile."""
        series = self.series.get(metric)
        if series is None or series.questions is None:
            return
        names = [*self.places]
        for place, values in series.questions.by_place():
            if place < len(names):  # Otherwise it was added meanwhile.
                mean, count = mean_of(values)
                yield QuestionMean(names[place], mean, count)

    def question_scores(self, template: str, metric: str) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question, with errors as 0.

        Values may be added meanwhile. `template` is the name of this group.
        """
        names = [*self.places]
        errors_by_name: dict[str, int] = {}
        for place, values in self.errors_by_question.by_place():
            error_rate, results = mean_of(values)
            if error_rate > 0:
                errors_by_name[names[place]] = round(error_rate * results)

        for question, mean, values in self.means_of_questions(metric):
            errors = errors_by_name.pop(question, 0)
            if question == UNKNOWN:
                continue
            if errors:
                mean = mean * values / (values + errors)
            yield QuestionScore(
                mean=mean,
                question=question,
                template=template,
                metric=metric,
                values=values,
                errors=errors,
            )
        for question, errors in errors_by_name.items():
            if question != UNKNOWN:
                yield QuestionScore(
                    mean=0.0,
                    question=question,
                    template=template,
                    metric=metric,
                    values=0,
                    errors=errors,
                )

    def invalidate(self) -> None:
        """Forget what was computed from the results."""
        self.cached_snapshot = None
        self.cached_detail = None
        self._sums_of_means.clear()
