"""Exact sums of numbers, held as one integer.

Every finite double is a whole multiple of 2**-1074, the smallest of them. A sum counted in that unit loses
nothing, so it cannot depend on the order of its terms; it is rounded once, when it is asked for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

UNIT_BITS = 1074
ONE = 1 << UNIT_BITS


class Sums(NamedTuple):
    """Of values in [0, 1].

    Attributes:
        n: how many there are.
        total: their sum, from 0 to n.
        squares: the sum of their squares, at most their sum.
    """

    n: int
    total: float
    squares: float

    def mirrored(self) -> Sums:
        """Those of 1 - x for each value x."""
        squares = max(0.0, self.n - 2 * self.total + self.squares)
        return Sums(self.n, self.n - self.total, squares)


def to_units(value: float) -> int:
    """A finite float, or an int of any size, as a whole number of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


def sum_units(values: Iterable[float]) -> int:
    """The exact sum of finite floats and ints, as a whole number of 2**-1074."""
    floats, total = [], 0
    for value in values:
        if type(value) is float:
            floats.append(value)
        else:
            total += to_units(value)
    return total + sum_floats(floats)


def sum_floats(floats: Collection[float]) -> int:
    """The exact sum of finite floats, as a whole number of 2**-1074.

    `math.fsum` rounds a sum correctly; what that leaves out is the fsum of the rest, and so on until 0.
    """
    total, rest = 0, list(floats)
    try:
        while part := math.fsum(rest):
            total += to_units(part)
            rest.append(-part)
    except OverflowError:  # of partial sums beyond the largest double
        return sum(map(to_units, floats))
    return total


def mean(units: int, count: int, *, integral: bool) -> float:
    """`units` * 2**-1074 / `count`, correctly rounded; if `integral`, an int where it is one.

    The same as `statistics.mean` of `count` values that have this sum, all of them ints if `integral`.
    """
    if integral:
        whole, remainder = divmod(units, count * ONE)
        if not remainder:
            return whole
    return units / (count * ONE)
