"""The values of a metric by question.

The samples of one question are not independent of each other.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from math import fsum, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE, mean, sum_numbers, to_fixed_point

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.column import Column

UNNAMED_QUESTION = ""
"""Stands for the question of all results that do not name their question."""

FIRST_SAMPLE_NUMBERS = (1, None)
"""The sample numbers that mean the first sample. Other programs may write results without one."""


def question_names(question_ids: list[Any]) -> list[str]:
    """Return the id of each result's question as a string.

    Args:
        question_ids: the id of each result's question, of any type. None, for a result that does
            not name its question, becomes `UNNAMED_QUESTION`.
    """
    all_are_strings = set(map(type, question_ids)) == {str}
    if all_are_strings:  # Nearly always, so the list need not be copied.
        return question_ids
    return [
        UNNAMED_QUESTION if question_id is None else str(question_id)
        for question_id in question_ids
    ]


def values_by_metric(
    metrics: Sequence[str], rows: Sequence[Sequence[float]]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield each metric with one value for each result.

    A result has several values of a metric if it has several retrieval steps. Then this yields
    their mean.

    Args:
        metrics: the metrics of all results, once for each of their values.
        rows: the values of each result, in the order of `metrics`.
    """
    if not rows:
        return
    has_repeated_metrics = len(set(metrics)) < len(metrics)
    if not has_repeated_metrics:
        yield from zip(metrics, zip(*rows, strict=True), strict=True)
        return

    for metric in dict.fromkeys(metrics):
        columns = [column for column, name in enumerate(metrics) if name == metric]
        means = []
        for row in rows:
            exact_sum = sum_numbers([row[column] for column in columns])
            means.append(mean(exact_sum, len(columns), integral=False))
        yield metric, means


class ValueSum(msgspec.Struct, frozen=True, gc=False):
    """The exact sum of several values of a question, and their number.

    A single value is only stored like this if it is an int that no double equals.

    Attributes:
        exact_sum: the sum, as a multiple of 2**-1074.
        count: the number of values.
    """

    exact_sum: int
    count: int

    def plus(self, added: float | ValueSum) -> ValueSum:
        """Return the exact sum of these values and `added`, which is one value or another sum."""
        if isinstance(added, ValueSum):
            return ValueSum(self.exact_sum + added.exact_sum, self.count + added.count)
        return ValueSum(self.exact_sum + to_fixed_point(added), self.count + 1)


def to_sum(value: float | ValueSum) -> ValueSum:
    """Return a single value as a sum of one value; a sum is returned unchanged."""
    if isinstance(value, ValueSum):
        return value
    return ValueSum(to_fixed_point(value), 1)


def plus(values: float | ValueSum, added: float | ValueSum) -> ValueSum:
    """Return the exact sum of two arguments, each of which is one value or a sum of several."""
    return to_sum(values).plus(added)


def mean_and_count(values: float | ValueSum) -> tuple[float, int]:
    """Return the mean of one value or of a sum of several, and the number of values.

    The mean is correctly rounded.
    """
    if isinstance(values, ValueSum):
        return values.exact_sum / (values.count * FIXED_POINT_ONE), values.count
    # Adding 0 turns -0.0 into 0.0, which is what an exact sum of 0 gives.
    return values + 0.0, 1


class QuestionScore(NamedTuple):
    """The mean of a score over the samples of a question.

    Attributes:
        mean: over the values, and 0 for each error.
        values: number of values.
        errors: number of errors, which have no value.
    """

    mean: float
    question: str
    template: str
    metric: str
    values: int
    errors: int

    @property
    def rank(self) -> tuple[float, int, str, str]:
        """Sort key that puts questions with lower means first.

        Of questions with equal means, those with more samples come first, then they are sorted by
        id.
        """
        samples = self.values + self.errors
        return self.mean, -samples, self.question, self.template


class QuestionIndices:
    """The question of each result in a batch, by the index of the question.

    A group of results numbers its questions from 0. The number of a question is its index in the
    `QuestionValues` of all metrics of the group.

    Attributes:
        indices: the index of each result's question.
        are_new: whether each result is the first one of its question. Then the indices are
            consecutive and follow those of all earlier questions.
    """

    def __init__(self, indices: Sequence[int], *, are_new: bool) -> None:
        self.indices = indices
        self.are_new = are_new

    @cached_property
    def positions_by_question(self) -> dict[int, list[int]]:
        """The positions in the batch of the results of each question, by question index."""
        positions_by_question: dict[int, list[int]] = {}
        for position, question in enumerate(self.indices):
            if question in positions_by_question:
                positions_by_question[question].append(position)
            else:
                positions_by_question[question] = [position]
        return positions_by_question


class QuestionValues:
    """The values of one metric, summed exactly for each question.

    Questions are identified by their index in the group. A question with one value takes 8 bytes.
    """

    __slots__ = ("_correction", "_count", "_outdated", "_single_values", "_sums")

    def __init__(self) -> None:
        # By question index, the value of a question with exactly one value; NaN for others.
        self._single_values = array("d")
        # By question index, the sum of the values of a question with several.
        self._sums: dict[int, ValueSum] = {}
        # Number of questions with a value.
        self._count = 0
        # The sum of the questions' means minus the sum of all values, as a multiple of 2**-1074.
        # It is out of date for the questions in `_outdated`.
        self._correction = 0
        # The questions that have changed since `_correction` was computed, each with the sum of
        # values that `_correction` still includes.
        self._outdated: dict[int, ValueSum | None] = {}

    def sum_of_means(self, sum_of_values: int) -> int:
        """Return the sum of the questions' means, as a multiple of 2**-1074.

        Args:
            sum_of_values: the sum of all values, as a multiple of 2**-1074. The sum of means equals
                it as long as each question has one value.
        """
        for question, counted_sum in self._outdated.items():
            self._correction -= _correction_of(counted_sum)
            self._correction += _correction_of(self._sums[question])
        self._outdated.clear()
        return sum_of_values + self._correction

    def __len__(self) -> int:
        """Return the number of questions with a value."""
        return self._count

    def __contains__(self, question: object) -> bool:
        """Return whether the question with an index has a value."""
        if question in self._sums:
            return True
        if not isinstance(question, int) or question >= len(self._single_values):
            return False
        return not isnan(self._single_values[question])

    def add(self, question_indices: QuestionIndices, column: Column) -> None:
        """Add the value of each result in a batch to its question.

        Args:
            question_indices: the question of each result.
            column: the value of each result.
        """
        stored = column.stored
        are_doubles = type(stored) is array
        if are_doubles and self._can_append(question_indices):
            first_question = question_indices.indices[0]
            self._pad(first_question)
            self._single_values.extend(stored)
            self._count += len(stored)
            return

        for question, positions in question_indices.positions_by_question.items():
            has_several_results = len(positions) > 1
            if has_several_results:
                numbers = [column.numbers[position] for position in positions]
                value_sum = ValueSum(column.sum_exactly(numbers), len(positions))
                self._add_to_question(question, value_sum)
                continue
            value = stored[positions[0]]
            if are_doubles or type(value) is float:
                self._add_to_question(question, value)
            else:
                # An int that no double equals cannot be stored as a double.
                self._add_to_question(question, to_sum(value))

    def _can_append(self, question_indices: QuestionIndices) -> bool:
        """Return whether the values of these questions can be appended to the array as they are.

        The questions must be new. Even then, they may have values already: those of another
        retrieval step of the same results.
        """
        if not question_indices.are_new:
            return False
        first_question = question_indices.indices[0]
        return len(self._single_values) <= first_question

    def _pad(self, length: int) -> None:
        """Extend the array of single values with NaN up to this length."""
        self._single_values.extend(repeat(nan, length - len(self._single_values)))

    def _add_to_question(self, question: int, added: float | ValueSum) -> None:
        """Add one value, or the sum of several, to the question with an index."""
        if question >= len(self._single_values):
            self._pad(question + 1)

        sum_before = self._sums.get(question)
        value_before = self._single_values[question]
        if sum_before is not None:
            total = sum_before.plus(added)
        elif not isnan(value_before):
            # The question had one value. It becomes a part of a sum.
            total = plus(value_before, added)
            self._single_values[question] = nan
        else:
            # The question had no value.
            self._count += 1
            if not isinstance(added, ValueSum):
                self._single_values[question] = added
                return
            total = added
        self._sums[question] = total
        # `_correction` still includes the sum before the first of several changes, so that sum is
        # kept.
        self._outdated.setdefault(question, sum_before)

    def by_question(self) -> Iterator[tuple[int, float | ValueSum]]:
        """Yield the index of each question that has values, with its value or the sum of several.

        Values may be added during the iteration.
        """
        sums = self._sums
        for question, value in enumerate(self._single_values):
            if not isnan(value):
                yield question, value
            elif question in sums:
                yield question, sums[question]

    def means(self) -> list[float]:
        """Return the mean of each question that has values, in the order of question indices."""
        return [mean_and_count(values)[0] for _, values in self.by_question()]

    def merge(self, other: QuestionValues, question_indices: QuestionIndices) -> None:
        """Add the values of `other`.

        Args:
            other: the values of the same metric in another group.
            question_indices: for each question index of the other group, the index of the same
                question in this group.
        """
        new_indices = question_indices.indices
        if self._can_append(question_indices):
            first_question = new_indices[0]
            self._pad(first_question)
            self._single_values += other._single_values
            for question, value_sum in other._sums.items():
                self._sums[first_question + question] = value_sum
            self._count += other._count
            # With a sum of values of 0, the sum of means is the correction alone.
            self._correction += other.sum_of_means(0)
            return
        for question, values in other.by_question():
            self._add_to_question(new_indices[question], values)

    def dump(self, questions: Sequence[int]) -> tuple[array[float], dict[int, ValueSum]]:
        """Return the values of questions, from which `load` restores them.

        Args:
            questions: the index of each question, in the order in which to return their values.

        Returns:
            the value of each question, NaN if it has none or several; and the sums of the values of
            questions with several, by position in `questions`.
        """
        missing_length = max(0, 1 + max(questions, default=-1) - len(self._single_values))
        padded_values = self._single_values + array("d", [nan]) * missing_length
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        values = array("d", [padded_values[question] + 0.0 for question in questions])

        sums_by_position = {}
        if self._sums:
            sums_by_position = {
                position: self._sums[question]
                for position, question in enumerate(questions)
                if question in self._sums
            }
        return values, sums_by_position

    def load(self, single_values: array[float], sums: Mapping[int, ValueSum]) -> None:
        """Replace all values by those that `dump` returned."""
        self._single_values = single_values
        self._sums = dict(sums)
        questions_without_single_value = sum(map(isnan, single_values))
        questions_with_single_value = len(single_values) - questions_without_single_value
        self._count = questions_with_single_value + len(sums)
        self._correction = sum(_correction_of(value_sum) for value_sum in sums.values())


def _correction_of(value_sum: ValueSum | None) -> int:
    """Return the mean of a question's values minus their sum, as a multiple of 2**-1074.

    Args:
        value_sum: the sum of the values; None for a question with one value or none, whose mean
            equals its sum.
    """
    if value_sum is None:
        return 0
    rounded_mean, _ = mean_and_count(value_sum)
    return to_fixed_point(rounded_mean) - value_sum.exact_sum


class Clusters(NamedTuple):
    """Statistics of the means of questions, each of which is a cluster of dependent samples.

    Attributes:
        questions: number of questions with a value.
        mean: mean over the questions' means.
        se: standard error of `mean`; None for fewer than two questions.
        unanimous: the number of questions with a mean of 1, if every question has a mean of 0 or 1;
            otherwise None.
    """

    questions: int
    mean: float
    se: float | None
    unanimous: int | None


def clusters(means: Sequence[float], mean: float) -> Clusters:
    """Return statistics of the means of questions.

    Args:
        means: the mean of each question; there is at least one.
        mean: the mean of `means`, which callers have already computed.
    """
    questions = len(means)
    standard_error = None
    # There is no standard error if a square exceeds the largest double.
    with suppress(OverflowError):
        if questions > 1:
            squares = fsum([(question_mean - mean) ** 2 for question_mean in means])
            standard_error = sqrt(squares / (questions - 1) / questions)

    # If all means are 0 or 1, an interval for proportions is used, which needs their number.
    questions_with_mean_1 = None
    all_are_0_or_1 = all(question_mean in (0, 1) for question_mean in means)
    if all_are_0_or_1:
        questions_with_mean_1 = int(sum(means))
    return Clusters(
        questions=questions, mean=mean, se=standard_error, unanimous=questions_with_mean_1
    )
