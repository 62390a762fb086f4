"""Order statistics of numbers, in about 8 bytes per value."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from math import inf
from struct import pack
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.aggregates.exact import mean, to_units

if TYPE_CHECKING:
    from collections.abc import Collection

    Chunk: TypeAlias = array[float] | list[float]

# Short enough to sort in a fraction of a millisecond; for a million values, all bounds fit in the CPU cache.
CHUNK = 2048
# Up to this many new values in a chunk are cheaper to insert one by one than by sorting the chunk.
FEW = 64
# From this many new values per chunk, on average, sorting them is cheaper than adding them one by one.
RUN = 3


class OrderedValues:
    """A multiset of finite numbers that finds the k-th smallest.

    Values are stored in chunks of at most `CHUNK`. `_bounds[i]` is >= every value before chunk i and <= every
    value in it. A new value is appended to the chunk found by bisection of the bounds. In a chunk, only the
    first `_sorted[i]` values are sorted. The rest is sorted when the chunk is read or split, which takes less
    time and memory access than inserting each value in place.

    A finger (a chunk, and the number of values before it) marks the last selection, so that the next one
    nearby does not count from the start.

    Chunks are arrays of doubles. They become lists when an int is added that no double equals; values always
    compare exactly.
    """

    __slots__ = ("_before", "_bounds", "_finger", "_size", "_sorted", "chunks", "wide")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = [array("d")]
        self.wide = False
        self._bounds = [-inf]
        self._sorted = [0]
        self._size = self._finger = self._before = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Collection[float]) -> None:
        if len(values) < RUN * len(self.chunks):
            self._extend(values)
        else:
            self._extend_in_runs(sorted(values))
        self._size += len(values)

    def _extend(self, values: Collection[float]) -> None:
        chunks, bounds, finger = self.chunks, self._bounds, self._finger
        for value in values:
            index = bisect_right(bounds, value) - 1
            chunk = chunks[index]
            chunk.append(value)
            if index < finger:
                self._before += 1
            if len(chunk) > CHUNK:
                self._split(index)
                finger = self._finger

    def _extend_in_runs(self, values: list[float]) -> None:
        """Add ascending values, chunk by chunk."""
        data = self._chunk(values)
        bounds = self._bounds
        start, end, index = 0, len(values), len(bounds)
        # From last to first chunk: a split then shifts only chunks that are done.
        while end:
            index = bisect_right(bounds, values[end - 1], 0, index) - 1
            start = bisect_left(values, bounds[index], 0, end) if index else 0
            self.chunks[index].extend(data[start:end])
            if index < self._finger:
                self._before += end - start
            if len(self.chunks[index]) > CHUNK:
                self._split(index)
            end = start

    def remove(self, value: float) -> None:
        """Remove one value that equals `value`; there must be one."""
        index = bisect_right(self._bounds, value) - 1
        chunk = self._settled(index)
        place = bisect_left(chunk, value)
        while place == len(chunk) or chunk[place] != value:
            # Equal values may be on both sides of a bound.
            index -= 1
            chunk = self._settled(index)
            place = bisect_left(chunk, value)
        del chunk[place]
        self._sorted[index] -= 1
        self._size -= 1
        if index < self._finger:
            self._before -= 1
        if not chunk and len(self.chunks) > 1:
            self._drop(index)

    def widen(self) -> None:
        """Make room for ints that no double equals."""
        if not self.wide:
            self.wide = True
            self.chunks = [list(chunk) for chunk in self.chunks]

    def first(self) -> float:
        return self._settled(0)[0]

    def last(self) -> float:
        return self._settled(len(self.chunks) - 1)[-1]

    def select(self, k: int) -> float:
        """Return the value at index `k` in ascending order, 0 <= k < len.

        Takes time proportional to the distance from the last selection, in chunks.
        """
        chunks, finger, before = self.chunks, self._finger, self._before
        while k < before:
            finger -= 1
            before -= len(chunks[finger])
        while k >= before + len(chunks[finger]):
            before += len(chunks[finger])
            finger += 1
        self._finger, self._before = finger, before
        return self._settled(finger)[k - before]

    def quantile(self, part: int, whole: int) -> float:
        """Return the value with `part` of `whole` of the values below it; there must be values.

        It is linearly interpolated between two values: the inclusive method of `statistics.quantiles`, type 7
        of Hyndman and Fan (1996, "Sample quantiles in statistical packages"), rounded once.
        """
        place, rest = divmod((len(self) - 1) * part, whole)
        low = self.select(place)
        if not rest:
            return low
        high = self.select(place + 1)
        return mean(to_units(low) * (whole - rest) + to_units(high) * rest, whole, integral=False)

    def rank(self, bound: float) -> int:
        """Return how many values are at most `bound`, which may be infinite."""
        index = bisect_right(self._bounds, bound) - 1
        return sum(map(len, self.chunks[:index])) + bisect_right(self._settled(index), bound)

    def _settled(self, index: int) -> Chunk:
        """Sort a chunk if needed and return it."""
        chunk, done = self.chunks[index], self._sorted[index]
        if len(chunk) - done > FEW:
            chunk = self.chunks[index] = self._chunk(sorted(chunk))
        elif done < len(chunk):
            new = chunk[done:]
            del chunk[done:]
            for value in new:
                insort(chunk, value)
        self._sorted[index] = len(chunk)
        return chunk

    def _drop(self, index: int) -> None:
        del self.chunks[index], self._bounds[index], self._sorted[index]
        self._bounds[0] = -inf
        if index < self._finger:
            self._finger -= 1
        elif self._finger == len(self.chunks):
            self._finger -= 1
            self._before -= len(self.chunks[self._finger])

    def _split(self, index: int) -> None:
        values = sorted(self.chunks[index])
        while len(values) > CHUNK:
            # With halves, evenly spread values would fill and split all chunks at about the same time.
            cut = len(values) - CHUNK * 2 // 3
            self.chunks.insert(index + 1, self._chunk(values[cut:]))
            self._sorted.insert(index + 1, len(values) - cut)
            self._bounds.insert(index + 1, values[cut])
            del values[cut:]
            if index < self._finger:
                self._finger += 1
        self.chunks[index] = self._chunk(values)
        self._sorted[index] = len(values)

    def _chunk(self, values: list[float]) -> Chunk:
        if self.wide:
            return values
        chunk = array("d")
        chunk.frombytes(pack(f"{len(values)}d", *values))  # A third of the time of `array("d", values)`.
        return chunk
