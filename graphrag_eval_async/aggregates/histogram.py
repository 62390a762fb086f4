"""Histograms of values in [0, 1]: all that confidence sequences need to know about them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, sum_floats, to_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BINS = 32
"""Number of bins of equal width that [0, 1] is divided into."""

MANY_EQUAL = 4
"""From this number of equal values on, their sum is a product. Scores are often 0 or 1."""

WAITING = 2048
"""Maximum values that wait to be counted in one batch."""

Weights: TypeAlias = tuple[float, ...]
"""The weights of the points 0, 1/32, ..., 1.

A value between two points gives each a weight that is larger the nearer it is, 1 in total. So the
mean of the weighted points is the mean of the values, and the weights sum to the number of values.
"""


class Bin(NamedTuple):
    """The values between two neighbouring points."""

    size: int
    units: int  # Their exact sum, in units of 2**-1074.


class Histogram:
    """Exact weights of values; histograms can be merged, and values removed.

    A bin stores the number of its values and their exact sum, from which the weights follow. Bins
    without values take no memory. Values outside [0, 1] are only counted.
    """

    __slots__ = ("_bins", "_outside", "_waiting")

    def __init__(self, bins: Mapping[int, Bin] | None = None, outside: int = 0) -> None:
        """Start with these bins, by their index, and this number of values outside [0, 1]."""
        self._bins: dict[int, Bin] = dict(bins or {})
        self._outside = outside
        self._waiting = array("d")  # Values that were added and are not yet counted.

    def add(self, values: Iterable[float]) -> None:
        """Add values."""
        self._waiting.extend(values)
        if len(self._waiting) > WAITING:
            self._count_waiting()

    def remove(self, values: Iterable[float]) -> None:
        """Remove values that were added."""
        self._count_waiting()
        self._count(values, sign=-1)

    def merge(self, other: Histogram) -> None:
        """Add the values of `other`."""
        for index, added in other.bins().items():
            self._change_bin(index, added.size, added.units)
        self._outside += other.outside

    def bins(self) -> dict[int, Bin]:
        """Return the bins that have values, by their index; do not change the dict."""
        self._count_waiting()
        return self._bins

    @property
    def outside(self) -> int:
        """Number of values outside [0, 1]."""
        self._count_waiting()
        return self._outside

    def weights(self) -> Weights | None:
        """Return the weights of the points; None without values, or if some are outside [0, 1]."""
        bins = self.bins()
        if self._outside or not bins:
            return None
        # The weights in units of 2**-1074.
        weights = [0] * (BINS + 1)
        for index, (size, units) in bins.items():
            # A value x of this bin gives BINS * x - index to the point above it.
            weight_above = units * BINS - index * size * ONE
            weights[index] += size * ONE - weight_above
            weights[index + 1] += weight_above
        return tuple(weight / ONE for weight in weights)

    def _count_waiting(self) -> None:
        """Count the values that wait."""
        waiting = self._waiting
        self._waiting = array("d")
        self._count(waiting, sign=1)

    def _count(self, values: Iterable[float], *, sign: int) -> None:
        """Add values to the bins if `sign` is 1, and remove them if it is -1."""
        rare_values: defaultdict[int, list[float]] = defaultdict(list)
        for value, times in Counter(values).items():
            if not 0 <= value <= 1:
                self._outside += sign * times
                continue
            # The last bin also has the value 1.
            index = min(int(value * BINS), BINS - 1)
            if times >= MANY_EQUAL:
                self._change_bin(index, sign * times, sign * times * to_units(value))
            else:
                rare_values[index] += [value] * times
        for index, members in rare_values.items():
            self._change_bin(index, sign * len(members), sign * sum_floats(members))

    def _change_bin(self, index: int, size: int, units: int) -> None:
        """Change the number and the sum of the values of a bin by `size` and `units`."""
        before = self._bins.get(index, Bin(0, 0))
        if before.size + size == 0:
            del self._bins[index]
        else:
            self._bins[index] = Bin(before.size + size, before.units + units)


def count_of(weights: Weights) -> int:
    """Return the number of values that these are the weights of."""
    return round(sum(weights))


def mirrored(weights: Weights) -> Weights:
    """Return the weights of 1 - x over all values x."""
    return weights[::-1]
