"""Exact sums of numbers, in fixed-point arithmetic.

Every finite double is a multiple of 2**-1074, the smallest positive double. So a number is stored
as an int, the multiple. Sums of such ints are exact, and do not depend on the order of their terms.
They are rounded once, when they are converted to a float.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

FRACTION_BITS = 1074
"""The number of binary digits after the point of the smallest positive double, 2**-1074."""

FIXED_POINT_ONE = 1 << FRACTION_BITS
"""The number 1 as a multiple of 2**-1074."""

DOUBLE_INTS = 2**53
"""Every int whose absolute value is at most this one equals a double."""


def to_fixed_point(value: float) -> int:
    """Return a finite float, or an int of any size, as a multiple of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    # The denominator is 2**k, which has a bit length of k + 1.
    k = denominator.bit_length() - 1
    return numerator << (FRACTION_BITS - k)


def sum_numbers(values: Iterable[float]) -> int:
    """Return the exact sum of finite floats and ints, as a multiple of 2**-1074."""
    floats = []
    total = 0
    for value in values:
        if type(value) is float:
            floats.append(value)
        else:
            total += to_fixed_point(value)
    return total + sum_floats(floats)


def sum_ints(ints: Iterable[float]) -> int:
    """Return the exact sum of ints, as a multiple of 2**-1074."""
    return to_fixed_point(sum(ints))


def sum_floats(floats: Collection[float]) -> int:
    """Return the exact sum of finite floats, as a multiple of 2**-1074.

    `math.fsum` returns the sum correctly rounded. This also sums the rounding error by `math.fsum`,
    then the rounding error of that sum, and so on until the error is 0.

    Args:
        floats: the numbers. Ints are allowed if each equals a double exactly.
    """
    total = 0
    terms = list(floats)
    try:
        rounded_sum = math.fsum(terms)
        while rounded_sum != 0:
            total += to_fixed_point(rounded_sum)
            # With this term, the sum of all terms is the rounding error.
            terms.append(-rounded_sum)
            rounded_sum = math.fsum(terms)
    except OverflowError:
        # A partial sum exceeds the largest double. Ints have no limit, but are slower.
        return sum(to_fixed_point(value) for value in floats)
    return total


def mean(exact_sum: int, count: int, *, integral: bool) -> float:
    """Return the mean of `count` values, correctly rounded, as `statistics.mean` does.

    Args:
        exact_sum: the exact sum of the values, as a multiple of 2**-1074.
        count: the number of values, at least 1.
        integral: whether all values are ints. Then a mean that is a whole number is an int.
    """
    divisor = count * FIXED_POINT_ONE
    if integral:
        whole, remainder = divmod(exact_sum, divisor)
        if remainder == 0:
            return whole
    return exact_sum / divisor


def macro_of(metric: str, per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the macro statistics of a metric, which are means over templates.

    Args:
        metric: the name of the metric.
        per_template: the snapshot of each template.

    Returns:
        `mean`, `mean_of_questions` and `bounds`, as far as a template has them.
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
    return mean(sum_numbers(values), len(values), integral=are_ints)
