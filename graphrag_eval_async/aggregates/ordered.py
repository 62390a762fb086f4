"""The order statistics of numbers, in about 8 bytes for each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from math import inf
from struct import pack
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection

    Chunk: TypeAlias = array[float] | list[float]

# Short enough to sort in a fraction of a millisecond; of a million values, the bounds stay in a CPU's cache.
CHUNK = 2048
# So many new values in a chunk are cheaper to insert one by one than by sorting the chunk.
FEW = 64
# So many new values for each chunk, on average, are cheaper to sort than to add one by one.
RUN = 3


class OrderedValues:
    """A multiset of finite numbers that knows the k-th smallest.

    The values lie in chunks of at most `CHUNK`. `_bounds[i]` is at least every value before chunk i and at
    most every value in it, so a new value is appended to its chunk after a bisection of the bounds. In the
    chunk, only the first `_sorted[i]` values ascend: the rest is sorted in when the chunk is read or split,
    which is less work, and touches less memory, than to insert each value in its place.

    A finger (a chunk, and the number of values before it) stays where the last selection was, so that the
    next one near by does not count from the start.

    The chunks are arrays of doubles. They become lists once an int comes that no double equals; values
    always compare exactly.
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
        """Add ascending values, all of a chunk at once."""
        data = self._chunk(values)
        bounds = self._bounds
        start, end, index = 0, len(values), len(bounds)
        # From the last chunk to the first, so that a split changes the index of no chunk to come.
        while end:
            index = bisect_right(bounds, values[end - 1], 0, index) - 1
            start = bisect_left(values, bounds[index], 0, end) if index else 0
            self.chunks[index].extend(data[start:end])
            if index < self._finger:
                self._before += end - start
            if len(self.chunks[index]) > CHUNK:
                self._split(index)
            end = start

    def insert(self, value: float) -> None:
        """Add one value, and leave nothing of the work for later."""
        index = bisect_right(self._bounds, value) - 1
        chunk = self._settled(index)
        insort(chunk, value)
        self._sorted[index] += 1
        self._size += 1
        if index < self._finger:
            self._before += 1
        if len(chunk) > CHUNK:
            self._split(index)

    def remove(self, value: float) -> None:
        """Remove one of the values that equal `value`, of which there is one at least."""
        index = bisect_right(self._bounds, value) - 1
        chunk = self._settled(index)
        place = bisect_left(chunk, value)
        while place == len(chunk) or chunk[place] != value:
            # Equal values may lie on both sides of a bound.
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
        """The value with `k` others before it in ascending order, 0 <= k < len.

        Takes time by the distance from the last selection, in chunks.
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

    def _settled(self, index: int) -> Chunk:
        """The chunk, in ascending order."""
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
            # Halves of evenly spread values would all be full again, and split, at about the same time.
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
