"""Histograms of values in [0, 1]: all that confidence sequences need to know about them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE, sum_floats, to_fixed_point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BINS = 32
"""Number of bins of equal width that [0, 1] is divided into."""

MANY_EQUAL = 4
"""From this number of equal values on, multiplying is faster than adding. Scores are often 0 or 1.
"""

BUFFER = 2048
"""Maximum number of values in the buffer of a histogram, before they are counted together."""

Weights: TypeAlias = tuple[float, ...]
"""The weight of each grid point: 0, 1/32, 2/32, ..., 1.

A value gives a weight of 1 in total to the two grid points next to it, more to the nearer one. So
the mean of the weighted grid points is the mean of the values, and the sum of the weights is the
number of values.
"""


class Bin(NamedTuple):
    """The values between two neighbouring grid points.

    Attributes:
        size: the number of values.
        exact_sum: the sum of the values, as a multiple of 2**-1074.
    """

    size: int
    exact_sum: int


class Histogram:
    """A histogram of values, from which the exact weights of the grid points are computed.

    The bins are the intervals between neighbouring grid points. A bin stores the number of its
    values and their exact sum. Bins without values take no memory. Values outside [0, 1] are only
    counted. Values can be removed again, and histograms be merged.
    """

    __slots__ = ("_bins", "_buffer", "_outside")

    def __init__(self, bins: Mapping[int, Bin] | None = None, outside: int = 0) -> None:
        """Start with these bins, by index, and this number of values outside [0, 1]."""
        self._bins: dict[int, Bin] = dict(bins or {})
        self._outside = outside
        # Values that were added and are not counted yet.
        self._buffer = array("d")

    def add(self, values: Iterable[float]) -> None:
        """Add values."""
        self._buffer.extend(values)
        if len(self._buffer) > BUFFER:
            self._count_buffer()

    def remove(self, values: Iterable[float]) -> None:
        """Remove values, each of which was added before."""
        self._count_buffer()
        self._count(values, sign=-1)

    def merge(self, other: Histogram) -> None:
        """Add the values of another histogram."""
        for index, added in other.bins().items():
            self._change_bin(index, added.size, added.exact_sum)
        self._outside += other.outside

    def bins(self) -> dict[int, Bin]:
        """Return the bins that have values, by index; the caller must not change the dict."""
        self._count_buffer()
        return self._bins

    @property
    def outside(self) -> int:
        """Number of values outside [0, 1]."""
        self._count_buffer()
        return self._outside

    def weights(self) -> Weights | None:
        """Return the weights of the grid points 0, 1 / `BINS`, 2 / `BINS`, ..., 1.

        Returns:
            None if there are no values, or if some are outside [0, 1].
        """
        bins = self.bins()
        if self._outside or not bins:
            return None

        # As multiples of 2**-1074, so that sums are exact.
        weights = [0] * (BINS + 1)
        for index, (size, exact_sum) in bins.items():
            # The bin is from index / BINS to (index + 1) / BINS. A value x in it gives its upper
            # grid point the weight BINS * x - index, and its lower one the rest of 1. These are the
            # sums of both over all values of the bin.
            upper_weight = BINS * exact_sum - index * size * FIXED_POINT_ONE
            lower_weight = size * FIXED_POINT_ONE - upper_weight
            weights[index] += lower_weight
            weights[index + 1] += upper_weight
        return tuple(weight / FIXED_POINT_ONE for weight in weights)

    def _count_buffer(self) -> None:
        """Add the values of the buffer to the bins, and empty the buffer."""
        buffer = self._buffer
        self._buffer = array("d")
        self._count(buffer, sign=1)

    def _count(self, values: Iterable[float], *, sign: int) -> None:
        """Add values to the bins if `sign` is 1, and remove them if it is -1."""
        rare_values: defaultdict[int, list[float]] = defaultdict(list)
        for value, times in Counter(values).items():
            if not 0 <= value <= 1:
                self._outside += sign * times
                continue
            # The last bin includes the value 1.
            index = min(int(value * BINS), BINS - 1)
            if times >= MANY_EQUAL:
                sum_of_equal_values = times * to_fixed_point(value)
                self._change_bin(index, sign * times, sign * sum_of_equal_values)
            else:
                rare_values[index] += [value] * times
        for index, values_of_bin in rare_values.items():
            self._change_bin(index, sign * len(values_of_bin), sign * sum_floats(values_of_bin))

    def _change_bin(self, index: int, size_change: int, sum_change: int) -> None:
        """Add to the number of values of a bin and to their sum; both changes may be negative."""
        before = self._bins.get(index, Bin(size=0, exact_sum=0))
        size = before.size + size_change
        if size == 0:
            # Bins without values take no memory.
            del self._bins[index]
        else:
            self._bins[index] = Bin(size=size, exact_sum=before.exact_sum + sum_change)


def count_of(weights: Weights) -> int:
    """Return the number of values of a histogram with these weights."""
    return round(sum(weights))


def mirrored(weights: Weights) -> Weights:
    """Return the weights of the values 1 - x, given the weights of the values x."""
    return weights[::-1]
