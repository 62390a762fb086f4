"""Statistics over the results of one template or tag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.column import Column
from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE
from graphrag_eval_async.aggregates.questions import (
    FIRST_SAMPLE_NUMBERS,
    UNNAMED_QUESTION,
    QuestionIndices,
    QuestionScore,
    QuestionValues,
    mean_and_count,
    question_names,
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
    """The sum of the questions' means of a metric, and the number of questions with a value.

    Attributes:
        exact_sum: the sum, as a multiple of 2**-1074.
        questions: the number of questions.
    """

    exact_sum: int
    questions: int


class QuestionMean(NamedTuple):
    """The mean of a score over those samples of a question that have a value.

    Attributes:
        question: the id of the question.
        mean: the mean of its values.
        values: the number of its values.
    """

    question: str
    mean: float
    values: int


class Group:
    """The statistics of a group of results, such as all results of one template or with one tag.

    Attributes:
        errors: number of results that are errors.
        successes: number of other results.
        outcomes: how often each metric failed, by cause, and how many results failed, by reason.
        steps: counts of actual steps.
        series: the values of each metric.
        index_by_question: the index of each question in all `QuestionValues` of the group, by the
            id of the question.
        errors_by_question: for each result, 1 if it is an error, otherwise 0.
        right_results: for each result, whether it meets the conditions of a right one.
        cached_snapshot: the plain snapshot of the group; None if it has changed since.
        cached_detailed_snapshot: the options of the last detailed snapshot, and the snapshot; None
            if the group has changed since.
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
            right_conditions: the conditions that a right result meets, such as a least F1 score.
            ordered: whether to keep all values of metrics, for medians and quantiles.
        """
        self.ordered = ordered
        self.errors = 0
        self.successes = 0
        self.outcomes: OutcomeCounts = Counter()
        self.steps = StepTable(expected)
        self.series: dict[str, Series] = {}
        self.index_by_question: dict[str, int] = {}
        self.errors_by_question = QuestionValues()
        self.right_results = RightResults(right_conditions)
        self.cached_snapshot: dict[str, Any] | None = None
        self.cached_detailed_snapshot: tuple[object, dict[str, Any]] | None = None
        # The groups that a total adds up; None if this group is no total.
        self._parts: Collection[Group] | None = None
        # A cache of what `sum_of_means` returns, by metric.
        self._sums_of_means: dict[str, SumOfMeans | None] = {}

    @classmethod
    def total_of(
        cls, parts: Collection[Group], series: dict[str, Series], expected: Collection[str]
    ) -> Self:
        """Return a group that stands for the results of several groups, to take a snapshot of.

        It does not copy values by question, which stay in `parts`.

        Args:
            parts: the groups to add up.
            series: the values of each metric in all of these groups.
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
        """The groups with the values by question: the parts of a total, or this group itself."""
        if self._parts is None:
            return [self]
        return self._parts

    @property
    def results(self) -> int:
        """Number of results."""
        return self.errors + self.successes

    def add(self, traits: Traits, batch: Batch, micro: dict[str, Series] | None) -> None:
        """Add a batch of results that have the same metrics, steps and outcomes.

        Args:
            traits: the fields that all results of the batch have in common.
            batch: the fields in which the results differ; there is at least one result.
            micro: the series of each metric over all templates, to which the values are added as
                well; None for the group of a tag.
        """
        self.invalidate()

        # Count what all results of the batch have in common.
        results = len(batch)
        if traits.failed:
            self.errors += results
        else:
            self.successes += results
        if traits.steps:
            self.steps.add(traits.steps, results)
        for outcome in traits.outcomes:
            self.outcomes[outcome] += results

        # Add the values of their metrics, one column of values for each metric.
        question_indices = self._index_questions(question_names(batch.question_ids))
        all_numbers = zip(*batch.numbers, strict=True)
        columns = [
            (metric, Column.of(numbers))
            for metric, numbers in zip(traits.metrics, all_numbers, strict=True)
        ]
        for metric, column in columns:
            series = self.metric(metric)
            series.add(column)
            if series.questions is not None:
                series.questions.add(question_indices, column)
            if micro is not None:
                series_of(micro, metric).add(column)

        # Add which results are errors and which are right, and the values of first samples.
        self.errors_by_question.add(question_indices, Column.of_flags([traits.failed] * results))
        self.right_results.add(question_indices, columns, traits.outcomes, failed=traits.failed)
        self._add_first_values(columns, batch, micro)

    def _index_questions(self, names: list[str]) -> QuestionIndices:
        """Return the index of each question in the group.

        Questions that the group does not have yet are added with the next indices.

        Args:
            names: the question of each result in a batch; a question may repeat.
        """
        index_by_question = self.index_by_question
        questions_before = len(index_by_question)
        for name in dict.fromkeys(names):
            if name not in index_by_question:
                index_by_question[name] = len(index_by_question)

        all_are_new = len(index_by_question) == questions_before + len(names)
        if names and all_are_new:
            new_indices = range(questions_before, len(index_by_question))
            return QuestionIndices(new_indices, are_new=True)
        return QuestionIndices([index_by_question[name] for name in names], are_new=False)

    def _add_first_values(
        self,
        columns: Sequence[tuple[str, Column]],
        batch: Batch,
        micro: dict[str, Series] | None,
    ) -> None:
        """Add the values of first samples to the histograms of their metrics.

        A histogram has one value of each question, since several samples of a question are not
        independent.

        Args:
            columns: each metric with its values in the results of the batch. A metric repeats if
                the results have several retrieval steps.
            batch: the results, with the numbers of their samples.
            micro: the series of each metric over all templates, whose histograms are filled as
                well; None for the group of a tag.
        """
        metrics = [metric for metric, _ in columns]
        has_repeated_metrics = len(set(metrics)) < len(metrics)
        first_samples = sum(batch.samples.count(number) for number in FIRST_SAMPLE_NUMBERS)
        all_are_first_samples = first_samples == len(batch)

        values: Iterable[tuple[str, Sequence[float]]]
        if all_are_first_samples and not has_repeated_metrics:
            values = [(metric, column.stored) for metric, column in columns]
        else:
            rows = [
                numbers
                for numbers, sample in zip(batch.numbers, batch.samples, strict=True)
                if sample in FIRST_SAMPLE_NUMBERS
            ]
            values = values_by_metric(metrics, rows)

        for metric, first_values in values:
            histogram = self.series[metric].histogram
            if histogram is not None:
                histogram.add(first_values)
            if micro is not None:
                micro_histogram = micro[metric].histogram
                if micro_histogram is not None:
                    micro_histogram.add(first_values)

    def merge(self, other: Group) -> None:
        """Add the results of another group."""
        self._add_counts(other)
        # A question may have another index in this group.
        question_indices = self._index_questions([*other.index_by_question])
        for metric, other_series in other.series.items():
            series = self.metric(metric)
            series.merge(other_series)
            if series.questions is not None and other_series.questions is not None:
                series.questions.merge(other_series.questions, question_indices)
        self.errors_by_question.merge(other.errors_by_question, question_indices)
        self.right_results.merge(other.right_results, question_indices)

    def _add_counts(self, other: Group) -> None:
        """Add the counts of another group, but not its values of metrics or of questions."""
        self.invalidate()
        self.errors += other.errors
        self.successes += other.successes
        self.steps.merge(other.steps)
        self.outcomes.update(other.outcomes)

    def metric(self, name: str) -> Series:
        """Return the series of a metric; add an empty one if the group has none."""
        return series_of(self.series, name, by_question=True, ordered=self.ordered)

    def has_unnamed_question(self, values: QuestionValues) -> bool:
        """Return whether a result that does not name its question has one of these values.

        Then means over questions are not known.
        """
        return self.index_by_question.get(UNNAMED_QUESTION) in values

    def sum_of_means(self, metric: str) -> SumOfMeans | None:
        """Return the sum of the questions' means of a metric, or of their error rates.

        The sum is cached until the group changes.

        Args:
            metric: the name of a metric, or `ERROR_RATE`.

        Returns:
            None if a result with a value does not name its question.
        """
        if metric not in self._sums_of_means:
            self._sums_of_means[metric] = self._compute_sum_of_means(metric)
        return self._sums_of_means[metric]

    def _compute_sum_of_means(self, metric: str) -> SumOfMeans | None:
        """Compute the sum of the questions' means of a metric, or of their error rates.

        Args:
            metric: the name of a metric, or `ERROR_RATE`.

        Returns:
            None if a result with a value does not name its question.
        """
        if metric == ERROR_RATE:
            question_values = self.errors_by_question
            # An error counts as 1, so their number is the sum of the values.
            sum_of_values = self.errors * FIXED_POINT_ONE
        else:
            series = self.series.get(metric)
            if series is None or series.questions is None:
                return SumOfMeans(exact_sum=0, questions=0)
            question_values = series.questions
            sum_of_values = series.exact_sum

        if self.has_unnamed_question(question_values):
            return None
        # The sum of means is the sum of values, corrected for questions with several values.
        sum_of_means = question_values.sum_of_means(sum_of_values)
        return SumOfMeans(exact_sum=sum_of_means, questions=len(question_values))

    def means_of_questions(self, metric: str) -> Iterator[QuestionMean]:
        """Yield the mean of a score for each question that has a value of it.

        Values may be added during the iteration. Questions that are added are not yielded.
        """
        series = self.series.get(metric)
        if series is None or series.questions is None:
            return
        names = [*self.index_by_question]
        for question, values in series.questions.by_question():
            was_there_at_start = question < len(names)
            if was_there_at_start:
                mean, count = mean_and_count(values)
                yield QuestionMean(question=names[question], mean=mean, values=count)

    def question_scores(self, template: str, metric: str) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question, in which each error counts as 0.

        Values may be added during the iteration.

        Args:
            template: the template of which this group has the results.
            metric: the name of the score.
        """
        names = [*self.index_by_question]
        errors_by_name: dict[str, int] = {}
        for index, error_values in self.errors_by_question.by_question():
            error_rate, results = mean_and_count(error_values)
            if error_rate > 0:
                errors_by_name[names[index]] = round(error_rate * results)

        # Questions with a value of the score.
        for question, mean_of_values, values in self.means_of_questions(metric):
            errors = errors_by_name.pop(question, 0)
            if question == UNNAMED_QUESTION:
                continue
            mean = mean_of_values
            if errors:
                mean = mean_of_values * values / (values + errors)
            yield QuestionScore(
                mean=mean,
                question=question,
                template=template,
                metric=metric,
                values=values,
                errors=errors,
            )

        # Questions of which all results are errors.
        for question, errors in errors_by_name.items():
            if question != UNNAMED_QUESTION:
                yield QuestionScore(
                    mean=0.0,
                    question=question,
                    template=template,
                    metric=metric,
                    values=0,
                    errors=errors,
                )

    def invalidate(self) -> None:
        """Clear the caches of what was computed from the results."""
        self.cached_snapshot = None
        self.cached_detailed_snapshot = None
        self._sums_of_means.clear()
