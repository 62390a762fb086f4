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
ONE = 1 << UNIT_BITS

DOUBLE_INTS = 2**53
"""Every int up to this one equals a double."""


def to_units(value: float) -> int:
    """Return a finite float, or an int of any size, as a multiple of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


def sum_units(values: Iterable[float]) -> int:
    """Return the exact sum of finite floats and ints, as a multiple of 2**-1074."""
    values = [*values]
    others = [to_units(value) for value in values if type(value) is not float]
    return sum(others) + sum_floats([value for value in values if type(value) is float])


def sum_floats(floats: Collection[float]) -> int:
    """Return the exact sum of finite floats, as a multiple of 2**-1074.

    `math.fsum` rounds a sum correctly. Its rounding error is again summed by `fsum`, and so on
    until it is 0.
    """
    total, rest = 0, list(floats)
    try:
        while part := math.fsum(rest):
            total += to_units(part)
            rest.append(-part)
    except OverflowError:  # Partial sums exceed the largest double.
        return sum(map(to_units, floats))
    return total


def mean(units: int, count: int, *, integral: bool) -> float:
    """Return `units` * 2**-1074 / `count`, correctly rounded; if `integral`, integers are returned
    as int.

    Equals `statistics.mean` of `count` values with this sum, all of them ints if `integral`.
    """
    if integral:
        whole, remainder = divmod(units, count * ONE)
        if not remainder:
            return whole
    return units / (count * ONE)


def macro_of(metric: str, per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of the templates' means, and of their bounds, if there are any."""
    groups = [shown[metric] for shown in per_template.values() if metric in shown]
    macro: dict[str, Any] = {}
    for key in ("mean", "mean_of_questions"):
        if means := [group[key] for group in groups if key in group]:
            macro[key] = _mean(means)
    if bounds := [group["bounds"] for group in groups if "bounds" in group]:
        macro["bounds"] = {end: _mean([each[end] for each in bounds]) for end in ("low", "high")}
    return macro


def _mean(values: Sequence[float]) -> float:
    return mean(
        sum_units(values), len(values), integral=all(type(value) is int for value in values)
    )
