"""The exact p-value of paired changes, by the definition."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def plain_p(changes: Sequence[float]) -> float:
    """Of all ways to flip the signs of changes, one by one."""
    size = max(map(abs, changes)) or 1.0
    exact = [Fraction(round(change / size, 12)) for change in changes]
    sums = [
        sum(sign * change for sign, change in zip(signs, exact, strict=True))
        for signs in product((1, -1), repeat=len(exact))
    ]
    found, tolerance = sum(exact), Fraction(1, 10**11)
    extreme = min(
        sum(s >= found - tolerance for s in sums), sum(s <= found + tolerance for s in sums)
    )
    return min(1.0, 2 * extreme / len(sums))
