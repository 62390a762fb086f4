"""The paired sign-flip permutation test of a mean.

If neither run is better, each question's change could as well have had the other sign. Of all 2**n
ways to choose the signs, the share that gives a sum at least as large as the one observed is the
p-value: Fisher (1935, "The Design of Experiments", section 21).

The sum is at least as large just if the changes that become negative add up to at most those that
were observed against the majority. So only small sums of sizes need to be counted.
"""

from __future__ import annotations

from collections import Counter
from math import fsum
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_SUMS = 1 << 16
"""Most sums that an exact p-value may take; beyond, signs are sampled."""

MAX_CHANGED = 8_000
"""Most questions that may have changed for an exact p-value; beyond, signs are sampled."""

FEW_DRAWS = 1_999
"""How often signs are sampled at first."""

DRAWS = 19_999
"""How often signs are sampled in all if the first draws do not exclude a p below 0.1."""

LARGE_P = 0.1
"""A p-value above which a few draws are enough."""

BITS = 32
"""Bits to which changes are rounded for sampling, if many of them differ."""

SEED = 20
"""Seed of the sampled signs, so that a p-value can be reproduced."""

SIZE_DIGITS = 12
"""Digits to which changes are rounded, in units of the largest.

Then changes that are equal but for rounding have one size, such as 0.3 - 0.2 and 0.1.
"""

SUM_ROUNDING = 1e-11
"""Rounding error that each change may add to a sum of sizes."""

SUM_DIGITS = 11
"""Digits to which sums of sizes are rounded: one fewer, since rounding errors add up."""


class _Sizes(NamedTuple):
    """The sizes of changes, in units of the largest change.

    Attributes:
        counts: how many changes have each size, from small to large, without those of 0.
        limit: the sum of the observed changes against the majority, and a margin for rounding.
    """

    counts: Mapping[float, int]
    limit: float

    @property
    def changed(self) -> int:
        """The number of changes that are not 0."""
        return sum(self.counts.values())


def sign_flip_test(changes: Sequence[float]) -> float:
    """Return the two-sided p-value of changes under random signs; 1.0 if there are no changes.

    It is exact, unless more than `MAX_CHANGED` changes differ from 0 or have too many different
    sums. Then it is estimated from sampled signs, and not below 2 / (`DRAWS` + 1).
    """
    sizes = _sizes_of(changes)
    # The number of choices of signs whose sum is at least as extreme, on one side.
    ways = _count_subsets(sizes)
    if ways is not None:
        return min(1.0, 2 * ways / (1 << sizes.changed))

    draw = _sampler(sizes.counts)
    draws = FEW_DRAWS
    hits = sum(draw() <= sizes.limit for _ in range(FEW_DRAWS))
    # A p-value that is surely not small needs no more draws.
    if 2 * hits < LARGE_P * FEW_DRAWS:
        draws = DRAWS
        hits += sum(draw() <= sizes.limit for _ in range(DRAWS - FEW_DRAWS))
    # The observed signs count as a draw, so that the p-value is never too small.
    return min(1.0, 2 * (1 + hits) / (draws + 1))


def least_p(changes: Sequence[float]) -> float:
    """Return the smallest p-value that `sign_flip_test` can give for changes of these sizes.

    Changes have this p-value if all have the same sign. Of the 2**n choices of signs for n changes
    that are not 0, only this choice and its opposite are as extreme.
    """
    sizes = _sizes_of([abs(change) for change in changes])
    if sizes.changed > MAX_CHANGED:
        return 2 / (DRAWS + 1)
    # Sizes within the margin for rounding count as 0.
    differing = sum(count for size, count in sizes.counts.items() if size > sizes.limit)
    return min(1.0, 2.0 ** (1 - differing))


def _sizes_of(changes: Sequence[float]) -> _Sizes:
    """Return the sizes of changes in units of the largest, and the limit of the test.

    The limit is the smaller of the sum of all rises and the sum of all falls: another choice of
    signs is at least as extreme if its smaller sum is at most the limit.
    """
    largest = max(map(abs, changes), default=0.0) or 1.0
    scaled = [round(change / largest, SIZE_DIGITS) for change in changes]
    counts = Counter(sorted(abs(change) for change in scaled if change))
    rises = fsum(change for change in scaled if change > 0)
    falls = -fsum(change for change in scaled if change < 0)
    return _Sizes(counts, limit=min(rises, falls) + SUM_ROUNDING * len(changes))


def _count_subsets(sizes: _Sizes) -> int | None:
    """Return the number of subsets of changes whose sizes add up to at most the limit.

    Returns:
        None if counting takes too long.
    """
    if sizes.changed > MAX_CHANGED:
        return None
    work = 0
    # For each sum, the number of subsets of the changes whose sizes the loop has passed.
    subsets_by_sum = {0.0: 1}
    for size, count in sizes.counts.items():
        extended: Counter[float] = Counter()
        for total, subsets in subsets_by_sum.items():
            # A subset takes 0 to `count` of the changes of this size. There are as many ways to
            # choose them as the binomial coefficient says, which is updated in each round.
            ways = subsets
            for taken in range(count + 1):
                if total + taken * size > sizes.limit:
                    break
                extended[round(total + taken * size, SUM_DIGITS)] += ways
                ways = ways * (count - taken) // (taken + 1)
                work += 1
            if work > MAX_SUMS:
                return None
        subsets_by_sum = extended
    return sum(subsets_by_sum.values())


def _sampler(counts: Mapping[float, int]) -> Callable[[], float]:
    """Return a function that draws a random subset of changes, and returns the sum of their sizes.

    A subset is an integer with one bit for each change, so that the sum takes few operations: all
    changes of the same size are counted at once.

    Args:
        counts: how many changes have each size.
    """
    changed = sum(counts.values())
    random_bits = Random(SEED).getrandbits  # noqa: S311
    # Each part is a size, and a mask of the changes that have it.
    parts: list[tuple[float, int]] = []
    if len(counts) <= BITS:
        start = 0
        for size, count in counts.items():
            parts.append((size, ((1 << count) - 1) << start))
            start += count
    else:
        # There are too many sizes for a part each. Instead, sizes are rounded to binary numbers of
        # `BITS` digits, and each part is the same digit of all sizes.
        step = 1 / ((1 << BITS) - 1)
        steps = [round(size / step) for size, count in counts.items() for _ in range(count)]
        for bit in range(BITS):
            digits = "".join("1" if value >> bit & 1 else "0" for value in steps)
            parts.append((step * (1 << bit), int(digits, 2)))

    def draw() -> float:
        """Return the sum of the sizes of a random subset."""
        subset = random_bits(changed)
        return sum(size * (subset & mask).bit_count() for size, mask in parts)

    return draw
