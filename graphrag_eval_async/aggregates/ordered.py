"""Order statistics of numbers, in about 8 bytes per value."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.aggregates.column import doubles_of
from graphrag_eval_async.aggregates.exact import mean, to_fixed_point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Chunk: TypeAlias = array[float] | list[float]

CHUNK = 2048
"""Maximum number of values in a chunk, which takes a fraction of a millisecond to sort."""

FEW = 32
"""Up to this number of values, inserting them takes less time than sorting a chunk again."""


class OrderedValues:
    """A multiset of finite numbers that finds the k-th smallest.

    Values are stored in chunks of at most `CHUNK` values. No value of a chunk is greater than a
    value of the next chunk. A chunk is sorted when it is read.

    Added values first go to a buffer. They are moved to their chunks when there are more than
    `CHUNK` of them, or when values are read. Chunks are arrays of doubles, or lists if there may be
    ints that no double equals. Values always compare exactly.

    Attributes:
        holds_large_ints: whether there may be ints that no double equals.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_is_sorted",
        "_lower_bounds",
        "_selected_chunk",
        "_size",
        "_values_before_selected",
        "holds_large_ints",
    )

    def __init__(self) -> None:
        self.holds_large_ints = False
        self._buffer: Chunk = array("d")
        self._size = 0  # Number of values in chunks.
        self._chunks: list[Chunk] = [array("d")]
        # For each chunk, a number that no value of the chunk is below, and that no value of earlier
        # chunks exceeds.
        self._lower_bounds = [-inf]
        # For each chunk, whether it is sorted.
        self._is_sorted = [True]
        # The index of the chunk that `select` last read from, and the number of values in the
        # chunks before it. The next selection starts there, since it is often close.
        self._selected_chunk = 0
        self._values_before_selected = 0

    def __len__(self) -> int:
        return self._size + len(self._buffer)

    def extend(self, values: Iterable[float]) -> None:
        """Add values: floats, and ints only after `allow_large_ints`."""
        self._buffer.extend(values)
        if len(self._buffer) > CHUNK:
            self._store_buffer()

    def allow_large_ints(self) -> None:
        """Store values in lists from now on, since arrays of doubles cannot hold all ints."""
        if not self.holds_large_ints:
            self.holds_large_ints = True
            self._buffer = list(self._buffer)
            self._chunks = [list(chunk) for chunk in self._chunks]

    @property
    def chunks(self) -> list[Chunk]:
        """All values, in chunks. No value of a chunk is greater than a value of the next chunk."""
        if self._buffer:
            self._store_buffer()
        return self._chunks

    def _store_buffer(self) -> None:
        """Move the values of the buffer into the chunks that they belong to."""
        values = sorted(self._buffer)
        sorted_chunk = self._make_chunk(values)
        self._buffer = self._make_chunk([])
        self._size += len(values)

        # Go from the last chunk to the first, so that a split shifts only chunks that are done.
        end = len(values)
        index = len(self._lower_bounds)
        while end > 0:
            # Find the last chunk that may hold the largest remaining value. The values from
            # `start` to `end` belong into this chunk.
            index = bisect_right(self._lower_bounds, values[end - 1], 0, index) - 1
            start = 0
            if index > 0:
                start = bisect_left(values, self._lower_bounds[index], 0, end)

            if self._is_sorted[index] and len(values) <= FEW:
                for value in values[start:end]:
                    insort(self._chunks[index], value)
            else:
                self._chunks[index].extend(sorted_chunk[start:end])
                self._is_sorted[index] = False

            if index < self._selected_chunk:
                self._values_before_selected += end - start
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
        """Return the value at index `k` in ascending order, counted from 0.

        It takes time proportional to the number of chunks between this value and the one that was
        selected before.
        """
        chunks = self.chunks
        while k < self._values_before_selected:
            self._selected_chunk -= 1
            self._values_before_selected -= len(chunks[self._selected_chunk])
        while k >= self._values_before_selected + len(chunks[self._selected_chunk]):
            self._values_before_selected += len(chunks[self._selected_chunk])
            self._selected_chunk += 1
        return self._sorted_chunk(self._selected_chunk)[k - self._values_before_selected]

    def quantile(self, percent: int) -> float:
        """Return the value that `percent` of the values are below, interpolated between two values.

        The method is that of `statistics.quantiles` with ``method="inclusive"``.
        """
        return quantile(self.select, len(self), percent)

    def rank(self, bound: float) -> int:
        """Return how many values are less than or equal to `bound`, which may be infinite."""
        chunks = self.chunks
        # The last chunk that may have values up to the bound.
        index = bisect_right(self._lower_bounds, bound) - 1
        values_before = sum(len(chunk) for chunk in chunks[:index])
        return values_before + bisect_right(self._sorted_chunk(index), bound)

    def _sorted_chunk(self, index: int) -> Chunk:
        """Return the chunk at an index; sort it first if it is not sorted."""
        chunks = self.chunks
        if not self._is_sorted[index]:
            chunks[index] = self._make_chunk(sorted(chunks[index]))
            self._is_sorted[index] = True
        return chunks[index]

    def _split(self, index: int) -> None:
        """Split the chunk at an index, which is too long, into shorter ones.

        All new chunks but the last are two thirds full. If all were half full, they would be full
        again at about the same time.
        """
        values = sorted(self._chunks[index])
        length = CHUNK * 2 // 3
        parts = [values[start : start + length] for start in range(0, len(values), length)]
        self._chunks[index : index + 1] = [self._make_chunk(part) for part in parts]
        self._is_sorted[index : index + 1] = [True] * len(parts)
        # The first part keeps the lower bound of the chunk.
        self._lower_bounds[index + 1 : index + 1] = [part[0] for part in parts[1:]]
        if index < self._selected_chunk:
            self._selected_chunk += len(parts) - 1

    def _make_chunk(self, values: list[float]) -> Chunk:
        """Return a chunk with these values, which is the list itself if it may hold large ints."""
        if self.holds_large_ints:
            return values
        return doubles_of(values)


def quantile(select: Callable[[int], float], size: int, percent: int) -> float:
    """Return the value that `percent` of the values are below, interpolated between two values.

    The method is that of `statistics.quantiles` with ``method="inclusive"``, which is type 7 of
    Hyndman and Fan (1996), "Sample Quantiles in Statistical Packages". The result is computed
    exactly and rounded once.

    Args:
        select: returns the value at an index in ascending order.
        size: the number of values, at least 1.
        percent: from 0 to 100.
    """
    # The quantile lies between the values at `index` and at `index + 1`, at `hundredths` / 100 of
    # their distance.
    index, hundredths = divmod((size - 1) * percent, 100)
    low = select(index)
    if hundredths == 0:
        return low
    high = select(index + 1)
    weighted_sum = to_fixed_point(low) * (100 - hundredths) + to_fixed_point(high) * hundredths
    return mean(weighted_sum, 100, integral=False)
