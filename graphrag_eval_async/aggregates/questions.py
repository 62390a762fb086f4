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

from graphrag_eval_async.aggregates.exact import ONE, mean, sum_units, to_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.column import Column

UNKNOWN = ""
"""Stands for the question of results that name none."""

FIRST = (1, None)
"""Numbers of first samples; results of other programs may not number them."""


def names_of(question_ids: list[Any]) -> list[str]:
    """Return the names under which the values of questions are kept, by unchecked ids."""
    if set(map(type, question_ids)) == {str}:  # Nearly always.
        return question_ids
    return [UNKNOWN if question_id is None else str(question_id) for question_id in question_ids]


def values_by_metric(
    metrics: Sequence[str], rows: Sequence[Sequence[float]]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield one value of each metric for each result: of several retrieval steps, their mean.

    Args:
        metrics: the metrics of all results. Metrics of retrieval steps may repeat.
        rows: the values of each result, in the order of `metrics`.
    """
    if not rows:
        return
    if len(set(metrics)) == len(metrics):
        yield from zip(metrics, zip(*rows, strict=True), strict=True)
        return
    for metric in dict.fromkeys(metrics):
        columns = [column for column, name in enumerate(metrics) if name == metric]
        sums = [sum_units([row[column] for column in columns]) for row in rows]
        yield metric, [mean(units, len(columns), integral=False) for units in sums]


class ValueSum(msgspec.Struct, frozen=True, gc=False):
    """The exact sum of the values of a question, and their number.

    A single value is only stored like this if it is an int that no double equals.
    """

    units: int  # The sum, in units of 2**-1074.
    count: int

    def plus(self, added: float | ValueSum) -> ValueSum:
        """Return the exact sum of these values, and of another value or sum."""
        if isinstance(added, ValueSum):
            return ValueSum(self.units + added.units, self.count + added.count)
        return ValueSum(self.units + to_units(added), self.count + 1)


def to_sum(value: float | ValueSum) -> ValueSum:
    """Return a single value as a sum, and a sum as it is."""
    if isinstance(value, ValueSum):
        return value
    return ValueSum(to_units(value), 1)


def plus(values: float | ValueSum, added: float | ValueSum) -> ValueSum:
    """Return the exact sum of the values of both arguments."""
    return to_sum(values).plus(added)


def mean_of(values: float | ValueSum) -> tuple[float, int]:
    """Return the mean, correctly rounded and never -0.0, and the number of values."""
    if isinstance(values, ValueSum):
        return values.units / (values.count * ONE), values.count
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
        """Sort key: the lowest mean first; of equal ones, that of the most samples; then by id."""
        return self.mean, -self.values - self.errors, self.question, self.template


class Placement:
    """Which question each value of a batch belongs to.

    A question has a place in its group, the same for all metrics.

    Attributes:
        places: the place of the question of each value.
        are_new: whether each value is the first one of its question. Then the places are
            consecutive and follow all others.
    """

    def __init__(self, places: Sequence[int], *, are_new: bool) -> None:
        self.places = places
        self.are_new = are_new

    @cached_property
    def rows(self) -> dict[int, list[int]]:
        """The indices of the values of each question, by its place."""
        rows: dict[int, list[int]] = {}
        for index, place in enumerate(self.places):
            if place in rows:
                rows[place].append(index)
            else:
                rows[place] = [index]
        return rows


class QuestionValues:
    """The values of one metric, summed exactly by question.

    Questions are named by their place. A question with one value takes 8 bytes.
    """

    __slots__ = ("_correction", "_count", "_outdated", "_single", "_sums")

    def __init__(self) -> None:
        # By place, the value of a question with one value. NaN for others.
        self._single = array("d")
        # By place, the values of a question with several.
        self._sums: dict[int, ValueSum] = {}
        # Number of questions with a value.
        self._count = 0
        # See `sum_of_means`, which brings it up to date.
        self._correction = 0
        # By place, what `_correction` counts of questions that have changed since.
        self._outdated: dict[int, ValueSum | None] = {}

    def sum_of_means(self, sum_of_values: int) -> int:
        """Return the sum of the questions' means; both sums are in units of 2**-1074.

        They are equal as long as each question has one value.
        """
        for place, counted_sum in self._outdated.items():
            self._correction += _correction_of(self._sums[place]) - _correction_of(counted_sum)
        self._outdated.clear()
        return sum_of_values + self._correction

    def __len__(self) -> int:
        """Return the number of questions with a value."""
        return self._count

    def __contains__(self, place: object) -> bool:
        """Return whether the question at a place has a value."""
        if place in self._sums:
            return True
        single = self._single
        return isinstance(place, int) and place < len(single) and not isnan(single[place])

    def add(self, placement: Placement, column: Column) -> None:
        """Add a value to the question of each result, which `placement` has."""
        stored = column.stored
        are_doubles = type(stored) is array
        if are_doubles and self._follow_all_places(placement):
            # All values can be appended at once.
            self._pad(placement.places[0])
            self._single.extend(stored)
            self._count += len(stored)
            return

        for place, indices in placement.rows.items():
            if len(indices) > 1:  # Samples of one question, or of several that are not named.
                numbers = [column.numbers[index] for index in indices]
                self._add_to_question(place, ValueSum(column.sum_exactly(numbers), len(indices)))
                continue
            value = stored[indices[0]]
            if are_doubles or type(value) is float:
                self._add_to_question(place, value)
            else:
                self._add_to_question(place, to_sum(value))

    def _follow_all_places(self, placement: Placement) -> bool:
        """Return whether the places are consecutive and follow all that have a value so far.

        New questions can have values already: those of another retrieval step of the same results.
        """
        return placement.are_new and len(self._single) <= placement.places[0]

    def _pad(self, length: int) -> None:
        """Make room for all places below `length`."""
        self._single.extend(repeat(nan, length - len(self._single)))

    def _add_to_question(self, place: int, added: float | ValueSum) -> None:
        """Add a value, or the sum of several, to the question at a place."""
        if place >= len(self._single):
            self._pad(place + 1)

        sum_before = self._sums.get(place)
        if sum_before is not None:
            total = sum_before.plus(added)
        else:
            value_before = self._single[place]
            if isnan(value_before):
                self._count += 1
                if not isinstance(added, ValueSum):
                    self._single[place] = added
                    return
                total = added
            else:
                total = plus(value_before, added)
                self._single[place] = nan
        self._sums[place] = total
        self._outdated.setdefault(place, sum_before)

    def by_place(self) -> Iterator[tuple[int, float | ValueSum]]:
        """Yield the place of each question with values, and its value or the sum of several.

        Values may be added meanwhile.
        """
        sums = self._sums
        for place, value in enumerate(self._single):
            if not isnan(value):
                yield place, value
            elif place in sums:
                yield place, sums[place]

    def means(self) -> list[float]:
        """Return the means of the questions with values, by place."""
        return [mean_of(values)[0] for _, values in self.by_place()]

    def merge(self, other: QuestionValues, placement: Placement) -> None:
        """Add the values of `other`, whose questions have the places of `placement` here."""
        places = placement.places
        if self._follow_all_places(placement):
            first = places[0]
            self._pad(first)
            self._single += other._single
            for place, value_sum in other._sums.items():
                self._sums[first + place] = value_sum
            self._count += other._count
            self._correction += other.sum_of_means(0)
            return
        for place, values in other.by_place():
            self._add_to_question(places[place], values)

    def dump(self, places: Sequence[int]) -> tuple[array[float], dict[int, ValueSum]]:
        """Return what `load` restores, with the questions at these places in this order.

        Returns:
            for each, its value, or NaN if it has none or several; and by index in `places`, the
            sums of several.
        """
        single = self._single
        sums = self._sums
        padding = max(0, 1 + max(places, default=-1) - len(single))
        padded = single + array("d", [nan]) * padding
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        values = array("d", [padded[place] + 0.0 for place in places])
        sums_by_index = {}
        if sums:
            sums_by_index = {
                index: sums[place] for index, place in enumerate(places) if place in sums
            }
        return values, sums_by_index

    def load(self, single: array[float], sums: Mapping[int, ValueSum]) -> None:
        """Set all values, as `dump` returns them."""
        self._single = single
        self._sums = dict(sums)
        places_without_single_value = sum(map(isnan, single))
        self._count = len(single) - places_without_single_value + len(sums)
        self._correction = sum(_correction_of(value_sum) for value_sum in sums.values())


def _correction_of(value_sum: ValueSum | None) -> int:
    """Return by how much the mean of a question exceeds the sum of its values.

    The difference is in units of 2**-1074; it is 0 for a question without a sum, since it has one
    value or none.
    """
    if value_sum is None:
        return 0
    rounded_mean, _ = mean_of(value_sum)
    return to_units(rounded_mean) - value_sum.units


class Clusters(NamedTuple):
    """What the means of questions say.

    Attributes:
        questions: number of questions with a value.
        mean: mean over the questions' means.
        se: standard error of `mean`; None for fewer than two questions.
        unanimous: the questions with a mean of 1, if every question has a mean of 0 or 1; otherwise
            None.
    """

    questions: int
    mean: float
    se: float | None
    unanimous: int | None


def clusters(means: Sequence[float], mean: float) -> Clusters:
    """Return what the means of questions say.

    Args:
        means: the means of the questions, at least one.
        mean: the mean of these.
    """
    questions = len(means)
    se = None
    # The squares of an output near the largest double overflow.
    with suppress(OverflowError):
        if questions > 1:
            squares = fsum([(question_mean - mean) ** 2 for question_mean in means])
            se = sqrt(squares / (questions - 1) / questions)

    unanimous = None
    if all(question_mean in (0, 1) for question_mean in means):
        unanimous = int(sum(means))
    return Clusters(questions=questions, mean=mean, se=se, unanimous=unanimous)
