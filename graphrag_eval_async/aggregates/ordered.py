"""Order statistics of numbers, in about 8 bytes per value."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.aggregates.column import doubles_of
from graphrag_eval_async.aggregates.exact import mean, to_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Chunk: TypeAlias = array[float] | list[float]

CHUNK = 2048
"""Maximum values of a chunk: short enough to sort in a fraction of a millisecond."""

FEW = 32
"""Values that are inserted in less time than it takes to sort a chunk again."""


class OrderedValues:
    """A multiset of finite numbers that finds the k-th smallest.

    Values are stored in chunks of at most `CHUNK`. The values of each chunk are at most those of
    the next; within a chunk, they are sorted when it is read.

    Added values wait until there are more than `CHUNK` of them, or until they are read. Chunks are
    arrays of doubles. They become lists when an int is added that no double equals; values always
    compare exactly.

    Attributes:
        wide: whether values may be ints that no double equals.
    """

    __slots__ = (
        "_bounds",
        "_chunks",
        "_is_sorted",
        "_last_chunk",
        "_size",
        "_values_before",
        "_waiting",
        "wide",
    )

    def __init__(self) -> None:
        self.wide = False
        self._waiting: Chunk = array("d")
        self._size = 0  # Number of values in chunks.
        self._chunks: list[Chunk] = [array("d")]
        # By chunk: a number that is >= every value before the chunk and <= every value in it.
        self._bounds = [-inf]
        # By chunk: whether it is sorted.
        self._is_sorted = [True]
        # The chunk last selected from, and the number of values before it.
        self._last_chunk = 0
        self._values_before = 0

    def __len__(self) -> int:
        return self._size + len(self._waiting)

    def extend(self, values: Iterable[float]) -> None:
        """Add values: floats, and ints only after `widen`."""
        self._waiting.extend(values)
        if len(self._waiting) > CHUNK:
            self._store_waiting()

    def widen(self) -> None:
        """Make room for ints that no double equals."""
        if not self.wide:
            self.wide = True
            self._waiting = list(self._waiting)
            self._chunks = [list(chunk) for chunk in self._chunks]

    @property
    def chunks(self) -> list[Chunk]:
        """All values: those of each chunk are at most those of the next."""
        if self._waiting:
            self._store_waiting()
        return self._chunks

    def _store_waiting(self) -> None:
        """Move the values that wait into the chunks that they belong to."""
        values = sorted(self._waiting)
        chunk_of_values = self._make_chunk(values)
        self._waiting = self._make_chunk([])
        self._size += len(values)

        # From last to first chunk: a split then shifts only chunks that are done.
        end = len(values)
        index = len(self._bounds)
        while end > 0:
            # The last chunk that may hold the largest value, and the values from `start` on,
            # which belong there, too.
            index = bisect_right(self._bounds, values[end - 1], 0, index) - 1
            start = 0
            if index > 0:
                start = bisect_left(values, self._bounds[index], 0, end)

            if self._is_sorted[index] and len(values) <= FEW:
                for value in values[start:end]:
                    insort(self._chunks[index], value)
            else:
                self._chunks[index].extend(chunk_of_values[start:end])
                self._is_sorted[index] = False

            if index < self._last_chunk:
                self._values_before += end - start
            if len(self._chunks[index]) > CHUNK:
                self._split(index)
            end = start

    def first(self) -> float:
        """Return the smallest of at least one value."""
        return self._sorted_chunk(0)[0]

    def last(self) -> float:
        """Return the largest of at least one value."""
        return self._sorted_chunk(len(self.chunks) - 1)[-1]

    def select(self, k: int) -> float:
        """Return the value at index `k` in ascending order, 0 <= k < len.

        Takes time proportional to the distance from the last selection, in chunks.
        """
        chunks = self.chunks
        while k < self._values_before:
            self._last_chunk -= 1
            self._values_before -= len(chunks[self._last_chunk])
        while k >= self._values_before + len(chunks[self._last_chunk]):
            self._values_before += len(chunks[self._last_chunk])
            self._last_chunk += 1
        return self._sorted_chunk(self._last_chunk)[k - self._values_before]

    def quantile(self, percent: int) -> float:
        """Return the value with `percent` of the values below it, as the function `quantile`."""
        return quantile(self.select, len(self), percent)

    def rank(self, bound: float) -> int:
        """Return how many values are at most `bound`, which may be infinite."""
        chunks = self.chunks
        index = bisect_right(self._bounds, bound) - 1
        values_before = sum(len(chunk) for chunk in chunks[:index])
        return values_before + bisect_right(self._sorted_chunk(index), bound)

    def _sorted_chunk(self, index: int) -> Chunk:
        """Sort a chunk if needed and return it."""
        chunks = self.chunks
        if not self._is_sorted[index]:
            chunks[index] = self._make_chunk(sorted(chunks[index]))
            self._is_sorted[index] = True
        return chunks[index]

    def _split(self, index: int) -> None:
        """Split a chunk that is too long.

        The first parts are two thirds full: if all were halves, they would all be full at about the
        same time.
        """
        values = sorted(self._chunks[index])
        length = CHUNK * 2 // 3
        parts = [values[start : start + length] for start in range(0, len(values), length)]
        self._chunks[index : index + 1] = [self._make_chunk(part) for part in parts]
        self._is_sorted[index : index + 1] = [True] * len(parts)
        # The bound of the first part is that of the chunk.
        self._bounds[index + 1 : index + 1] = [part[0] for part in parts[1:]]
        if index < self._last_chunk:
            self._last_chunk += len(parts) - 1

    def _make_chunk(self, values: list[float]) -> Chunk:
        """Return a chunk of these values, which may be the list itself."""
        if self.wide:
            return values
        return doubles_of(values)


def quantile(select: Callable[[int], float], size: int, percent: int) -> float:
    """Return the value with `percent` of `size` values below it.

    It is linearly interpolated between two values: the inclusive method of `statistics.quantiles`,
    type 7 of Hyndman and Fan (1996, "Sample quantiles in statistical packages"), rounded once.

    Args:
        select: returns the value at an index in ascending order.
        size: number of values, at least 1.
        percent: from 0 to 100.
    """
    index, hundredths = divmod((size - 1) * percent, 100)
    low = select(index)
    if hundredths == 0:
        return low
    high = select(index + 1)
    weighted_sum = to_units(low) * (100 - hundredths) + to_units(high) * hundredths
    return mean(weighted_sum, 100, integral=False)
