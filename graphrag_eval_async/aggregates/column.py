"""The values of a metric in several results, which are counted at once."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import DOUBLE_INTS, sum_floats, sum_ints, sum_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a metric in several results.

    Attributes:
        numbers: the values.
        stored: the values as they are stored: an array of doubles if these equal all values, since
            it is several times faster to add; otherwise a list of doubles, and of ints that no
            double equals.
        are_ints: whether all values are ints.
        units: the exact sum of the values, as a multiple of 2**-1074.
        sum_exactly: returns such a sum of some of the values.
    """

    numbers: Sequence[float]
    stored: array[float] | list[float]
    are_ints: bool
    units: int
    sum_exactly: Callable[[Sequence[float]], int]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Column:
        """Return a column of at least one float or int."""
        types = set(map(type, numbers))
        are_doubles = True
        if int in types:
            are_doubles = min(numbers) >= -DOUBLE_INTS and max(numbers) <= DOUBLE_INTS

        stored: array[float] | list[float]
        if are_doubles:
            stored = doubles_of(numbers)
        else:
            stored = [to_double_if_equal(number) for number in numbers]

        are_ints = types == {int}
        sum_exactly: Callable[[Sequence[float]], int]
        if are_ints:
            sum_exactly = sum_ints
        elif are_doubles:
            sum_exactly = sum_floats
        else:
            sum_exactly = sum_units
        return cls(
            numbers=numbers,
            stored=stored,
            are_ints=are_ints,
            units=sum_exactly(numbers),
            sum_exactly=sum_exactly,
        )

    @classmethod
    def of_flags(cls, flags: Sequence[bool]) -> Column:
        """Return a column of 1 for each true flag, and of 0 for each other."""
        return cls(
            numbers=flags,
            stored=doubles_of(flags),
            are_ints=True,
            units=sum_ints(flags),
            sum_exactly=sum_ints,
        )

    def __len__(self) -> int:
        return len(self.numbers)


def to_double_if_equal(value: float) -> float:
    """Return the double that equals `value`, or `value` itself if it is an int that no double
    equals.
    """
    double = float(value)
    return double if double == value else value


def doubles_of(values: Sequence[float]) -> array[float]:
    """Return numbers, all of which equal doubles, as an array of doubles."""
    doubles = array("d")
    # A third of the time of `array("d", values)`.
    doubles.frombytes(pack(f"{len(values)}d", *values))
    return doubles
