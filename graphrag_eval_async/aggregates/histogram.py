"""Histograms of values in [0, 1]: all that confidence sequences need to know about them."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, sum_floats, to_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BINS = 32

MANY_EQUAL = 4
"""From this number of equal values on, their sum is a product. Scores are often 0 or 1."""

WAITING = 2048
"""Maximum values that wait to be counted in one batch."""

Weights: TypeAlias = tuple[float, ...]
"""The weights of the points 0, 1/32, ..., 1.

A value between two points gives each a weight that is larger the nearer it is, 1 in total. So the
mean of the weighted points is the mean of the values, and the weights sum to the number of values.
"""


class Histogram:
    """Exact weights of values; histograms can be merged, and values removed.

    A bin stores the number of its values and their exact sum, from which the weights follow. Bins
    without values take no memory. Values outside [0, 1] are only counted.
    """

    __slots__ = ("_bins", "_outside", "_waiting")

    def __init__(self, bins: Mapping[int, tuple[int, int]] | None = None, outside: int = 0) -> None:
        self._bins = dict(bins or {})
        self._outside = outside
        self._waiting = array("d")

    def add(self, values: Iterable[float]) -> None:
        self._waiting.extend(values)
        if len(self._waiting) > WAITING:
            self._settle()

    def remove(self, values: Iterable[float]) -> None:
        """Remove values that were added."""
        self._settle()
        self._count(values, -1)

    def merge(self, other: Histogram) -> None:
        for place, (count, units) in other.bins().items():
            self._move(place, count, units)
        self._outside += other.outside

    def bins(self) -> dict[int, tuple[int, int]]:
        """Return the number of values and their sum, in units of 2**-1074, by bin; do not change
        it.
        """
        self._settle()
        return self._bins

    @property
    def outside(self) -> int:
        self._settle()
        return self._outside

    def weights(self) -> Weights | None:
        """Return the weights of the points; None without values, or if some are outside [0, 1]."""
        bins = self.bins()
        if self._outside or not bins:
            return None
        weights = [0] * (BINS + 1)
        for place, (count, units) in bins.items():
            upper = units * BINS - place * count * ONE
            weights[place] += count * ONE - upper
            weights[place + 1] += upper
        return tuple(weight / ONE for weight in weights)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, array("d")
        self._count(waiting, 1)

    def _count(self, values: Iterable[float], sign: int) -> None:
        """Add values if `sign` is 1, and remove them if it is -1."""
        by_place: dict[int, list[float]] = {}
        for value, times in Counter(values).items():
            if not 0 <= value <= 1:
                self._outside += sign * times
                continue
            place = min(int(value * BINS), BINS - 1)
            if times >= MANY_EQUAL:
                self._move(place, sign * times, sign * times * to_units(value))
            else:
                by_place.setdefault(place, []).extend([value] * times)
        for place, members in by_place.items():
            self._move(place, sign * len(members), sign * sum_floats(members))

    def _move(self, place: int, count: int, units: int) -> None:
        known_count, known_units = self._bins.get(place, (0, 0))
        if known_count + count:
            self._bins[place] = known_count + count, known_units + units
        else:
            del self._bins[place]


def count_of(weights: Weights) -> int:
    """Return the number of values."""
    return round(sum(weights))


def mirrored(weights: Weights) -> Weights:
    """Return the weights of 1 - x over all values x."""
    return weights[::-1]
