"""Exact sums of numbers, stored as one integer.

Every finite double is a multiple of 2**-1074, the smallest positive double. A sum in that unit is
exact, so it does not depend on the order of its terms. It is rounded once, when read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

UNIT_BITS = 1074
"""The binary digits after the point of the smallest positive double, 2**-1074."""

ONE = 1 << UNIT_BITS
"""The number 1 in units of 2**-1074."""

DOUBLE_INTS = 2**53
"""Every int up to this one equals a double."""


def to_units(value: float) -> int:
    """Return a finite float, or an int of any size, as a multiple of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    # The denominator is a power of 2: 2**k has a bit length of k + 1.
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


def sum_units(values: Iterable[float]) -> int:
    """Return the exact sum of finite floats and ints, as a multiple of 2**-1074."""
    floats = []
    total = 0
    for value in values:
        if type(value) is float:
            floats.append(value)
        else:
            total += to_units(value)
    return total + sum_floats(floats)


def sum_ints(ints: Iterable[float]) -> int:
    """Return the exact sum of ints, as a multiple of 2**-1074. Python adds them exactly."""
    return to_units(sum(ints))


def sum_floats(floats: Collection[float]) -> int:
    """Return the exact sum of finite floats, as a multiple of 2**-1074.

    There may also be ints that doubles equal. `math.fsum` rounds a sum correctly. Its rounding
    error is again summed by `fsum`, and so on until it is 0.
    """
    total = 0
    terms = list(floats)
    try:
        rounded_sum = math.fsum(terms)
        while rounded_sum != 0:
            total += to_units(rounded_sum)
            # Now the terms sum up to the rounding error.
            terms.append(-rounded_sum)
            rounded_sum = math.fsum(terms)
    except OverflowError:  # Partial sums exceed the largest double.
        return sum(to_units(value) for value in floats)
    return total


def mean(units: int, count: int, *, integral: bool) -> float:
    """Return the mean of `count` values, correctly rounded.

    It equals that of `statistics.mean`.

    Args:
        units: the exact sum of the values, as a multiple of 2**-1074.
        count: the number of values, at least 1.
        integral: whether the values are ints; then a mean that is a whole number is an int.
    """
    if integral:
        whole, remainder = divmod(units, count * ONE)
        if remainder == 0:
            return whole
    return units / (count * ONE)


def macro_of(metric: str, per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of the templates' means of a metric, and of their bounds.

    Keys that no template has are absent.
    """
    stats_of_templates = [stats[metric] for stats in per_template.values() if metric in stats]
    macro: dict[str, Any] = {}
    for key in ("mean", "mean_of_questions"):
        means = [stats[key] for stats in stats_of_templates if key in stats]
        if means:
            macro[key] = _mean(means)
    bounds = [stats["bounds"] for stats in stats_of_templates if "bounds" in stats]
    if bounds:
        macro["bounds"] = {
            "low": _mean([bound["low"] for bound in bounds]),
            "high": _mean([bound["high"] for bound in bounds]),
        }
    return macro


def _mean(values: Sequence[float]) -> float:
    """Return the mean of at least one float or int, correctly rounded."""
    are_ints = all(type(value) is int for value in values)
    return mean(sum_units(values), len(values), integral=are_ints)
