"""The values of a metric by question: the samples of one question are not independent of each
other.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from itertools import repeat
from math import fsum, isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, mean, sum_floats, sum_units, to_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

UNKNOWN = ""
"""Stands for the question of results that name none."""

FIRST = (1, None)
"""Numbers of first samples; results of other programs may not number them."""


def rows_of(places: Iterable[int]) -> dict[int, list[int]]:
    """Return the indices of each place."""
    rows: dict[int, list[int]] = {}
    for index, place in enumerate(places):
        if (own := rows.get(place)) is None:
            rows[place] = [index]
        else:
            own.append(index)
    return rows


def name_of(question: object) -> str:
    """Return the name under which the values of a question are kept."""
    return question if type(question) is str else UNKNOWN if question is None else str(question)


def first_values(
    metrics: Sequence[str], rows: Sequence[Sequence[float]]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield one value of each metric for each row: the mean of several retrieval steps."""
    if rows and len(set(metrics)) == len(metrics):
        yield from zip(metrics, zip(*rows, strict=True), strict=True)
        return
    for name in dict.fromkeys(metrics if rows else ()):
        own = [place for place, other in enumerate(metrics) if other == name]
        sums = [sum_units([row[place] for place in own]) for row in rows]
        yield name, [mean(units, len(own), integral=False) for units in sums]


Several: TypeAlias = tuple[int, int]
"""Values of a question: their exact sum, in units of 2**-1074, and their number.

A single value is only stored like this if it is an int that no double equals.
"""


def plus(values: float | Several, more: float | Several) -> Several:
    """Add exactly."""
    units, count = values if isinstance(values, tuple) else (to_units(values), 1)
    more_units, more_count = more if isinstance(more, tuple) else (to_units(more), 1)
    return units + more_units, count + more_count


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


def _shift(values: float | Several) -> int:
    """Return how far the mean of a question is above the sum of its values, in units of
    2**-1074.
    """
    return to_units(mean_of(values)[0]) - values[0] if isinstance(values, tuple) else 0


class QuestionValues:
    """The values of one metric, summed exactly by question.

    A question has a place, the same for all metrics of a template. A question with one value takes
    8 bytes.
    """

    __slots__ = ("_before", "_count", "_several", "_shift", "_single")

    def __init__(self) -> None:
        self._single = array("d")  # NaN for a place without a value, or with several.
        self._several: dict[int, Several] = {}
        self._count = self._shift = 0
        # What `_shift` counts of questions that have changed.
        self._before: dict[int, float | Several] = {}

    @property
    def shift(self) -> int:
        """What the sum of all values lacks to be the sum of the questions' means, in units of
        2**-1074.

        It is 0 as long as each question has one value.
        """
        for place, values in self._before.items():
            self._shift += _shift(self._several.get(place, nan)) - _shift(values)
        self._before.clear()
        return self._shift

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: object) -> bool:
        """Whether the question at a place has a value."""
        single = self._single
        return place in self._several or (
            isinstance(place, int) and place < len(single) and not isnan(single[place])
        )

    def append(self, place: int, values: Sequence[float]) -> bool:
        """Add a value to each of the questions from `place` on, if these follow all that are known.

        `values` are doubles. Returns whether they were added.
        """
        if len(self._single) > place:
            return False
        self._pad(place)
        self._single.extend(values)
        self._count += len(values)
        return True

    def add(self, rows: Mapping[int, Sequence[int]], values: Sequence[float]) -> None:
        """Add values to questions; `rows` are the indices of the values of each question, by its
        place.
        """
        total = sum_floats if type(values) is array else sum_units
        for place, own in rows.items():
            if len(own) == 1:
                self._merge_one(place, values[own[0]])
            else:
                self._merge_one(place, (total([values[index] for index in own]), len(own)))

    def _pad(self, length: int) -> None:
        self._single.extend(repeat(nan, length - len(self._single)))

    def _merge_one(self, place: int, value: float | Several) -> None:
        """Add the value or values of one question."""
        if not isinstance(value, tuple) and float(value) != value:
            value = to_units(value), 1
        single = self._single
        self._pad(place + 1)
        known = self._several.get(place, single[place])
        is_new = known != known  # NaN.
        total = value if is_new else plus(known, value)
        self._count += is_new
        if isinstance(total, tuple):
            self._before.setdefault(place, known)
            self._several[place], single[place] = total, nan
        else:
            single[place] = total

    def by_place(self) -> Iterator[tuple[int, float | Several]]:
        """Yield the places of questions with values, and these."""
        several = self._several
        for place, value in enumerate(self._single):
            if value == value:  # Not NaN.
                yield place, value
            elif place in several:
                yield place, several[place]

    def merge(self, other: QuestionValues, places: Sequence[int], *, fresh: bool = False) -> None:
        """Add the values of `other`, whose places become `places`; if `fresh`, a range without
        values yet.
        """
        if fresh and len(self._single) <= places[0]:
            self._pad(places[0])
            self._single += other._single
            self._several |= {place + places[0]: values for place, values in other._several.items()}
            self._count += other._count
            self._shift += other.shift
        else:
            for place, values in other.by_place():
                self._merge_one(places[place], values)

    def dump(self, places: Iterable[int]) -> tuple[array[float], dict[int, Several]]:
        """Return the values at places: one, or NaN; and by index in `places`, several."""
        single, several, places = self._single, self._several, [*places]
        known = len(single)
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        ones = array("d", [single[place] + 0.0 if place < known else nan for place in places])
        found = (
            {i: several[place] for i, place in enumerate(places) if place in several}
            if several
            else {}
        )
        return ones, found

    def load(self, single: array[float], several: Mapping[int, Several]) -> None:
        """Set all values, as `dump` returns them, of valid places."""
        self._single, self._several = single, {**several}
        self._count = len(single) - sum(map(isnan, single)) + len(several)
        self._shift = sum(map(_shift, several.values()))


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
    """Return what the means of questions, at least one, and the mean of these say."""
    questions, se = len(means), None
    with suppress(OverflowError):  # Of an output near the largest double.
        if questions > 1:
            squares = fsum([(own - mean) ** 2 for own in means])
            se = sqrt(squares / (questions - 1) / questions)
    ones = [own for own in means if own in (0, 1)]
    return Clusters(questions, mean, se, int(sum(ones)) if len(ones) == questions else None)
