"""The paired sign-flip permutation test of a mean, and the confidence interval that inverts it.

If neither run is better, each question's change could as well have had the other sign. Of all 2**n ways to
flip signs, the share that gives a sum at least as large as the one observed is the p-value: Fisher (1935,
"The Design of Experiments", section 21).

Flipping the signs of a subset of the changes, less a mean δ to be tested, gives a larger sum just if the
mean of this subset is at most δ. So p is a share of subsets, and the ends of the interval are order
statistics of their means: Hartigan (1969, "Using subsample values as typical values"). Test and interval can
never disagree.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, comb, inf, prod, sqrt
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXACT = 1 << 17
"""Maximum subsets that differ by their values; more are sampled."""

FEW_DRAWS, DRAWS = 1_999, 19_999
"""Subsets that are sampled at first, and in all if p may be below 0.1."""

MANY_ZEROS, ZERO_COUNTS = 500, 17
"""With more unchanged questions than the first, so many of their numbers stand for all."""

BITS = 32
"""Bits to which changes are rounded for sampling, if many of them differ."""

SEED = 20


class SubsetMeans:
    """The means of subsets of changes, all of them or a sample.

    Attributes:
        is_exact: whether all subsets count.
        total: number of subsets, including the empty one; of a sample, including the one that flips nothing.
    """

    def __init__(self, changes: Sequence[float], *, thorough: bool = False) -> None:
        """Find the means of subsets of `changes`, at least one; `thorough` always takes all `DRAWS`."""
        self._size = max(map(abs, changes)) or 1.0
        self._tolerance = 1e-12 * len(changes)
        changes = [change / self._size for change in changes]
        # Equal up to rounding: such as 0.3 - 0.2 and 0.1.
        values = Counter(round(change, 12) for change in changes)
        zeros = values.pop(0.0, 0)
        found = self._enumerate(values, zeros)
        self.is_exact = found is not None
        if found is None:
            draw = _sampler(changes, values, zeros)
            means = [self._snapped(*draw()) for _ in range(FEW_DRAWS)]
            hits = min(sum(mean <= 0 for mean in means), sum(mean >= 0 for mean in means))
            if thorough or 2 * hits < 0.1 * FEW_DRAWS:
                means += [self._snapped(*draw()) for _ in range(DRAWS - FEW_DRAWS)]
            found = [(mean, 1) for mean in means], 1
        self._means, self._always = sorted(found[0]), found[1]
        self.total = self._always + sum(weight for _, weight in self._means)

    def _snapped(self, total: float, count: int) -> float:
        return 0.0 if abs(total) <= self._tolerance else total / count

    def _enumerate(self, values: Counter[float], zeros: int) -> tuple[list[tuple[float, int]], int] | None:
        """Return the means of all subsets with their numbers, and how many subsets are empty."""
        size = prod(number + 1 for number in values.values())
        if size * min(zeros + 1, ZERO_COUNTS) > EXACT:
            return None
        if zeros <= MANY_ZEROS and size * (zeros + 1) <= EXACT:
            counts = [(k, comb(zeros, k)) for k in range(zeros + 1)]
        else:
            # The sign of a mean, and so p, does not depend on them.
            quantiles = (NormalDist().inv_cdf((i + 0.5) / ZERO_COUNTS) for i in range(ZERO_COUNTS))
            counts = [(max(1, round(zeros / 2 + sqrt(zeros) / 2 * z)), 1) for z in quantiles]
        subsets = [(0.0, k, weight) for k, weight in counts]
        for value, number in values.items():
            ways = [comb(number, k) for k in range(number + 1)]
            subsets = [
                (total + k * value, count + k, weight * way)
                for total, count, weight in subsets
                for k, way in enumerate(ways)
            ]
        empty = sum(weight for _, count, weight in subsets if not count)
        return [(self._snapped(total, count), weight) for total, count, weight in subsets if count], empty

    @cached_property
    def p(self) -> float:
        """The two-sided p-value: twice the smaller one-sided one, at most 1."""
        up = sum(weight for mean, weight in self._means if mean <= 0)
        down = sum(weight for mean, weight in self._means if mean >= 0)
        return min(1.0, 2 * (self._always + min(up, down)) / self.total)

    @property
    def p_error(self) -> float:
        """The standard error of p by sampling; 0 if it is exact."""
        one_sided = self.p / 2
        return 0.0 if self.is_exact else 2 * sqrt(one_sided * (1 - one_sided) / self.total)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends of the interval for the mean, which contains 0 just if ``p >= alpha``.

        An end is infinite if there are too few subsets to find it.
        """
        mirrored = [(-mean, weight) for mean, weight in reversed(self._means)]
        low, high = self._end(alpha, self._means), -self._end(alpha, mirrored)
        return low * self._size, high * self._size

    def _end(self, alpha: float, means: Sequence[tuple[float, int]]) -> float:
        wanted = ceil(Fraction(alpha) * self.total / 2)  # Of integers beyond the largest double.
        means = [(-inf, self._always), *means]
        below = accumulate(weight for _, weight in means)
        return next(mean for (mean, _), number in zip(means, below, strict=True) if number >= wanted)


def _sampler(changes: Sequence[float], values: Counter[float], zeros: int) -> Callable[[], tuple[float, int]]:
    """Return a function that draws a random subset, and returns its sum and the number of its members.

    A subset is an integer of one bit for each change, so that counting takes few operations.
    """
    n, bits = len(changes), Random(SEED).getrandbits  # noqa: S311
    least, parts = 0.0, []
    if len(values) <= BITS:
        start = zeros
        for value, number in values.items():
            parts.append((value, ((1 << number) - 1) << start))
            start += number
    else:
        least = min(changes)
        step = (max(changes) - least) / ((1 << BITS) - 1)
        rounded = [round((change - least) / step) for change in changes]
        for bit in range(BITS):
            digits = "".join("1" if value >> bit & 1 else "0" for value in rounded)
            parts.append((step * (1 << bit), int(digits, 2)))

    def draw() -> tuple[float, int]:
        subset = bits(n)
        count = subset.bit_count()
        return count * least + sum(value * (subset & mask).bit_count() for value, mask in parts), count

    return draw
