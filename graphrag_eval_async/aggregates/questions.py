"""The values of a score by question: the samples of one question are not independent of each other."""

from __future__ import annotations

from array import array
from contextlib import suppress
from itertools import repeat
from math import fsum, isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, sum_floats, to_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNKNOWN = ""
"""Stands for the question of results that name none."""

FIRST = (1, None)
"""Numbers of first samples; results of other programs may not number them."""


def name_of(question: object) -> str:
    """Return the name under which the values of a question are kept."""
    return question if type(question) is str else UNKNOWN if question is None else str(question)


Several: TypeAlias = tuple[int, int]
"""Several values of a question: their exact sum, in units of 2**-1074, and their number."""


def plus(values: float | Several, more: float | Several, sign: int = 1) -> Several:
    """Add exactly, or with a `sign` of -1 subtract."""
    units, count = values if isinstance(values, tuple) else (to_units(values), 1)
    if isinstance(more, tuple):
        return units + sign * more[0], count + sign * more[1]
    return units + sign * to_units(more), count + sign


def mean_of(values: float | Several) -> tuple[float, int]:
    """Return the mean, correctly rounded and never -0.0, and the number of values."""
    if isinstance(values, tuple):
        units, count = values
        return units / (count * ONE), count
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
        """Sorts the lowest mean first; of equal ones, that of the most samples; then by id."""
        return self.mean, -self.values - self.errors, self.question, self.template


class QuestionValues:
    """The values of one score, summed exactly by question.

    A question has a place, the same for all scores of a template. A question with one value takes 8 bytes.
    """

    __slots__ = ("_count", "_several", "_single")

    def __init__(self) -> None:
        self._single = array("d")  # NaN for a place without a value, or with several.
        self._several: dict[int, Several] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: object) -> bool:
        """Whether the question at a place has a value."""
        single = self._single
        return place in self._several or (
            isinstance(place, int) and place < len(single) and not isnan(single[place])
        )

    def add(self, places: list[int], values: Sequence[float]) -> None:
        """Add a value to each of the questions at `places`."""
        if places == [*range(len(self._single), len(self._single) + len(places))]:  # All are new.
            self._single.extend(values)
            self._count += len(places)
            return
        by_place: dict[int, list[float]] = {}
        for place, value in zip(places, values, strict=True):
            by_place.setdefault(place, []).append(float(value))
        for place, own in by_place.items():
            self.merge_one(place, (sum_floats(own), len(own)) if len(own) > 1 else own[0])

    def merge_one(self, place: int, value: float | Several, sign: int = 1) -> None:
        """Add the value or values of one question, or with a `sign` of -1 remove them."""
        single = self._single
        if place >= len(single):
            single.extend(repeat(nan, place + 1 - len(single)))
        known = self._several.get(place, None if isnan(single[place]) else single[place])
        if known is None:
            total = value
            self._count += 1
        else:
            total = plus(known, value, sign)
            if total[1] < 2:  # After a removal.
                self._count -= not total[1]
                total = mean_of(total)[0] if total[1] else nan
        if isinstance(total, tuple):
            self._several[place], single[place] = total, nan
        else:
            self._several.pop(place, None)
            single[place] = total

    def remove(self, places: Iterable[int], values: Iterable[float]) -> None:
        """Remove values that were added."""
        for place, value in zip(places, values, strict=True):
            self.merge_one(place, float(value), -1)

    def by_place(self) -> Iterator[tuple[int, float | Several]]:
        """Yield the places of questions with values, and these."""
        several = self._several
        for place, value in enumerate(self._single):
            if value == value:  # Not NaN.
                yield place, value
            elif place in several:
                yield place, several[place]

    def merge(self, other: QuestionValues, places: Sequence[int]) -> None:
        """Add the values of `other`, whose places become `places`."""
        for place, values in other.by_place():
            self.merge_one(places[place], values)


class Clusters(NamedTuple):
    """What the values of a score say when they are grouped by question.

    Attributes:
        questions: number of questions with a value.
        mean: mean over all values.
        mean_of_questions: mean over the questions' means.
        se: standard error of `mean`; None for fewer than two questions.
        unanimous: the questions with a mean of 1, if every question has a mean of 0 or 1 and all have the
            same number of values; otherwise None.
    """

    questions: int
    mean: float
    mean_of_questions: float
    se: float | None
    unanimous: int | None


def clusters(means: Sequence[tuple[float, int]], mean: float) -> Clusters:
    """Group values by question; `means` has the mean and the number of values of each question, at least one.

    The standard error is that of a ratio of two sums over independent questions, the sum of the values and
    their number: Cochran (1977, "Sampling Techniques", 3rd edition, section 6.3). For equal numbers of values
    it is that of the mean of the questions' means.
    """
    questions, values = len(means), sum(count for _, count in means)
    se = None
    with suppress(OverflowError):  # Of an output near the largest double.
        if questions > 1:
            squares = fsum([((own - mean) * count) ** 2 for own, count in means])
            se = sqrt(questions / (questions - 1) * squares) / values
    repeated = values > questions
    ones = [own for own, _ in means if own in (0, 1)]
    even = not repeated or len({count for _, count in means}) == 1
    unanimous = int(sum(ones)) if len(ones) == questions and even else None
    of_questions = sum_floats([own for own, _ in means]) / (questions * ONE) if repeated else mean
    return Clusters(questions, mean, of_questions, se, unanimous)
