"""Order statistics of numbers, in about 8 bytes per value."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from math import inf
from struct import pack
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.aggregates.exact import mean, to_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Chunk: TypeAlias = array[float] | list[float]

CHUNK = 2048
"""Short enough to sort in a fraction of a millisecond."""

FEW = 32
"""Values that are inserted in less time than it takes to sort a chunk again."""


class OrderedValues:
    """A multiset of finite numbers that finds the k-th smallest.

    Values are stored in chunks of at most `CHUNK`, each sorted when it is read. `_bounds[i]` is >=
    every value before chunk i and <= every value in it.

    Added values wait until there are `CHUNK` of them, or until they are read. Chunks are arrays of
    doubles. They become lists when an int is added that no double equals; values always compare
    exactly.
    """

    __slots__ = (
        "_before",
        "_bounds",
        "_chunks",
        "_finger",
        "_is_sorted",
        "_size",
        "_waiting",
        "wide",
    )

    def __init__(self) -> None:
        self.wide = False
        self._waiting: Chunk = array("d")
        self._chunks: list[Chunk] = [array("d")]
        self._bounds = [-inf]
        self._is_sorted = [True]
        self._size = 0
        # The chunk last selected from, and the number of values before it.
        self._finger = self._before = 0

    def __len__(self) -> int:
        return self._size + len(self._waiting)

    def extend(self, values: Iterable[float]) -> None:
        self._waiting.extend(values)
        if len(self._waiting) > CHUNK:
            self._settle()

    @property
    def chunks(self) -> list[Chunk]:
        """All values: those of each chunk are at most those of the next."""
        if self._waiting:
            self._settle()
        return self._chunks

    def _settle(self) -> None:
        ordered = sorted(self._waiting)
        data, bounds = self._chunk(ordered), self._bounds
        end, index = len(ordered), len(bounds)
        self._size += end
        self._waiting = self._chunk([])
        # From last to first chunk: a split then shifts only chunks that are done.
        while end:
            index = bisect_right(bounds, ordered[end - 1], 0, index) - 1
            start = bisect_left(ordered, bounds[index], 0, end) if index else 0
            if self._is_sorted[index] and len(ordered) <= FEW:
                for value in ordered[start:end]:
                    insort(self._chunks[index], value)
            else:
                self._chunks[index].extend(data[start:end])
                self._is_sorted[index] = False
            if index < self._finger:
                self._before += end - start
            if len(self._chunks[index]) > CHUNK:
                self._split(index)
            end = start

    def widen(self) -> None:
        """Make room for ints that no double equals."""
        if not self.wide:
            self.wide = True
            self._waiting = list(self._waiting)
            self._chunks = [list(chunk) for chunk in self._chunks]

    def first(self) -> float:
        return self._sorted(0)[0]

    def last(self) -> float:
        return self._sorted(len(self.chunks) - 1)[-1]

    def select(self, k: int) -> float:
        """Return the value at index `k` in ascending order, 0 <= k < len.

        Takes time proportional to the distance from the last selection, in chunks.
        """
        chunks = self.chunks
        while k < self._before:
            self._finger -= 1
            self._before -= len(chunks[self._finger])
        while k >= self._before + len(chunks[self._finger]):
            self._before += len(chunks[self._finger])
            self._finger += 1
        return self._sorted(self._finger)[k - self._before]

    def quantile(self, percent: int) -> float:
        """Return the value with `percent` of the values below it; see `quantile`."""
        return quantile(self.select, len(self), percent)

    def rank(self, bound: float) -> int:
        """Return how many values are at most `bound`, which may be infinite."""
        chunks = self.chunks
        index = bisect_right(self._bounds, bound) - 1
        return sum(map(len, chunks[:index])) + bisect_right(self._sorted(index), bound)

    def _sorted(self, index: int) -> Chunk:
        """Sort a chunk if needed and return it."""
        chunks = self.chunks
        if not self._is_sorted[index]:
            chunks[index] = self._chunk(sorted(chunks[index]))
            self._is_sorted[index] = True
        return chunks[index]

    def _split(self, index: int) -> None:
        """Split a chunk that is too long, at two thirds: halves would all be full at about the
        same time.
        """
        values = sorted(self._chunks[index])
        starts = range(0, len(values), CHUNK * 2 // 3)
        self._chunks[index : index + 1] = [self._chunk(values[i : i + starts.step]) for i in starts]
        self._bounds[index + 1 : index + 1] = [values[i] for i in starts[1:]]
        self._is_sorted[index : index + 1] = [True] * len(starts)
        if index < self._finger:
            self._finger += len(starts) - 1

    def _chunk(self, values: list[float]) -> Chunk:
        if self.wide:
            return values
        chunk = array("d")
        # A third of the time of `array("d", values)`.
        chunk.frombytes(pack(f"{len(values)}d", *values))
        return chunk


def quantile(select: Callable[[int], float], size: int, percent: int) -> float:
    """Return the value with `percent` of `size` values below it; `select` returns them by rank.

    It is linearly interpolated between two values: the inclusive method of `statistics.quantiles`,
    type 7 of Hyndman and Fan (1996, "Sample quantiles in statistical packages"), rounded once.
    """
    place, rest = divmod((size - 1) * percent, 100)
    low = select(place)
    if not rest:
        return low
    high = select(place + 1)
    return mean(to_units(low) * (100 - rest) + to_units(high) * rest, 100, integral=False)
