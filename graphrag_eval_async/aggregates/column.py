"""The values of a metric in a batch of results, which are counted together."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import DOUBLE_INTS, sum_floats, sum_ints, sum_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one metric in a batch of results, one value for each result.

    Attributes:
        numbers: the values, as floats and ints.
        stored: the values in the form in which series store them. It is an array of doubles, which
            is several times faster to add, unless no double equals some of the ints. Then it is a
            list, in which only these values are ints.
        are_ints: whether all values are ints.
        exact_sum: the exact sum of the values, as a multiple of 2**-1074.
        sum_exactly: returns the exact sum of some of the values, as a multiple of 2**-1074. It is
            the fastest function for the types of these values.
    """

    numbers: Sequence[float]
    stored: array[float] | list[float]
    are_ints: bool
    exact_sum: int
    sum_exactly: Callable[[Sequence[float]], int]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Column:
        """Return a column of floats and ints, of which there is at least one."""
        types = set(map(type, numbers))
        # Whether a double equals each value.
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
            sum_exactly = sum_numbers
        return cls(
            numbers=numbers,
            stored=stored,
            are_ints=are_ints,
            exact_sum=sum_exactly(numbers),
            sum_exactly=sum_exactly,
        )

    @classmethod
    def of_flags(cls, flags: Sequence[bool]) -> Column:
        """Return a column with a value of 1 for each flag that is true, and 0 for each other."""
        return cls(
            numbers=flags,
            stored=doubles_of(flags),
            are_ints=True,
            exact_sum=sum_ints(flags),
            sum_exactly=sum_ints,
        )

    def __len__(self) -> int:
        return len(self.numbers)


def to_double_if_equal(value: float) -> float:
    """Return the double that equals `value`, or `value` itself if no double equals it."""
    double = float(value)
    if double == value:
        return double
    return value


def doubles_of(values: Sequence[float]) -> array[float]:
    """Return an array of doubles that equal these floats and ints."""
    doubles = array("d")
    # This takes a third of the time of `array("d", values)`.
    doubles.frombytes(pack(f"{len(values)}d", *values))
    return doubles
