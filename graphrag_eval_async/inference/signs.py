"""Whether more went up than down by chance: the sign test, and Holm's correction for several of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BITS = 1300
"""After the point: what is lost is less than the smallest double."""


@lru_cache(maxsize=4096)
def sign_test(wins: int, losses: int) -> float:
    """How probable it is that wins and losses differ by this much at least, either way, if each is as likely.

    It is the exact two-sided test of Dixon and Mood (1946, "The statistical sign test"): twice the binomial
    probability of so few of the rarer kind, at most 1. Ties are left out. It is for one look only.
    """
    n, rarer = wins + losses, min(wins, losses)
    # Of the number of subsets of each size, as parts of the largest such number; by integers, since the
    # errors of doubles would add up.
    weight = 1 << BITS
    tail = lower = 0
    for size in range(n // 2, -1, -1):
        lower += weight
        if size <= rarer:
            tail += weight
        weight = weight * size // (n - size + 1)
        if not weight:
            break
    total = 2 * lower - (0 if n % 2 else 1 << BITS)
    return min(1.0, 2 * tail / total)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, so adjusted that any of those that hold is below a bound by chance with
    a probability of that bound at most, however the tests depend on each other.

    It is the step-down procedure of Holm (1979, "A simple sequentially rejective multiple test procedure").
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted
