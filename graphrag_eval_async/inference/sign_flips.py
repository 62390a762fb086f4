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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EXACT, EXACT_CHANGES = 1 << 16, 8_000
"""Maximum sums to add up, and maximum changed questions, for an exact p-value; beyond, signs are
sampled.
"""

FEW_DRAWS, DRAWS = 1_999, 19_999
"""Choices of signs that are sampled at first, and in all if p may be below 0.1."""

BITS = 32
"""Bits to which changes are rounded for sampling, if many of them differ."""

SEED = 20


def sign_flip_test(changes: Sequence[float]) -> float:
    """Return the two-sided p-value of at least one change."""
    largest = max(map(abs, changes)) or 1.0
    # Equal up to rounding: such as 0.3 - 0.2 and 0.1.
    scaled = [round(change / largest, 12) for change in changes]
    sizes = Counter(sorted(map(abs, filter(None, scaled))))
    against = min(fsum(c for c in scaled if c > 0), -fsum(c for c in scaled if c < 0))
    limit = against + 1e-11 * len(changes)
    n = sizes.total()
    if (ways := _ways(sizes, limit)) is not None:
        return min(1.0, 2 * ways / (1 << n))
    draw = _sampler(sizes)
    hits, draws = sum(draw() <= limit for _ in range(FEW_DRAWS)), FEW_DRAWS
    if 2 * hits < 0.1 * FEW_DRAWS:
        hits, draws = hits + sum(draw() <= limit for _ in range(DRAWS - FEW_DRAWS)), DRAWS
    return min(1.0, 2 * (1 + hits) / (draws + 1))


def least_p(changes: Sequence[float]) -> float:
    """Return the smallest p-value that changes of these sizes can have, whatever their signs.

    They have it if all changes have the same sign.
    """
    return sign_flip_test([abs(change) for change in changes])


def _ways(sizes: Mapping[float, int], limit: float) -> int | None:
    """Return the number of subsets of the sizes with a sum up to `limit`; None if it takes too
    long.
    """
    if sum(sizes.values()) > EXACT_CHANGES:
        return None
    sums, work = {0.0: 1}, 0
    for size, number in sizes.items():
        found: Counter[float] = Counter()
        for total, ways in sums.items():
            for taken in range(number + 1):
                if total + taken * size > limit:
                    break
                found[round(total + taken * size, 11)] += ways
                ways = ways * (number - taken) // (taken + 1)
                work += 1
            if work > EXACT:
                return None
        sums = found
    return sum(sums.values())


def _sampler(sizes: Mapping[float, int]) -> Callable[[], float]:
    """Return a function that draws a random subset of the sizes, and returns its sum.

    A subset is an integer of one bit for each change, so that summing takes few operations.
    """
    n, bits = sum(sizes.values()), Random(SEED).getrandbits  # noqa: S311
    parts, start = [], 0
    if len(sizes) <= BITS:
        for size, number in sizes.items():
            parts.append((size, ((1 << number) - 1) << start))
            start += number
    else:
        step = 1 / ((1 << BITS) - 1)
        rounded = [round(size / step) for size, number in sizes.items() for _ in range(number)]
        for bit in range(BITS):
            digits = "".join("1" if value >> bit & 1 else "0" for value in rounded)
            parts.append((step * (1 << bit), int(digits, 2)))

    def draw() -> float:
        subset = bits(n)
        return sum(size * (subset & mask).bit_count() for size, mask in parts)

    return draw
