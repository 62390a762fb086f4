"""Compact sets of known lines: by content, and by place in files."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from graphrag_eval_async.records import Known, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGEST_BYTES = 16
"""Length of stored digests: 10^12 lines have a collision with a probability of 10^-15."""

BUCKETS = 1 << 14
"""Buckets are searched linearly; with a million lines, each has a kilobyte."""

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Size of a line or a file, in bytes; a sum of two fits into 64 bits."""

Place: TypeAlias = tuple[str, str, int, int, str]
"""A `Position`, or a plain tuple of its fields, which is faster to create."""


class Numbers:
    """A compact set of numbers from 1: all up to `upto`, and a set of those beyond a gap."""

    __slots__ = ("_beyond", "upto")

    def __init__(self) -> None:
        self.upto = 0
        self._beyond: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.upto or number in self._beyond

    def take(self) -> int:
        """Add the lowest missing number and return it."""
        number = self.upto + 1
        self.add(number)
        return number

    def add(self, number: int) -> None:
        """Add a number, which may be present already."""
        if number == self.upto + 1:
            self.upto = number
            while self._beyond and self.upto + 1 in self._beyond:
                self.upto += 1
                self._beyond.remove(self.upto)
        elif number > self.upto:
            self._beyond.add(number)


class Contents:
    """Digests of lines, about 16 bytes each, and the numbers of their occurrences, counted from 1.

    Nearly all digests occur once; these are stored in buckets by first bytes, the others in a dict.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._numbers: dict[bytes, Numbers] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._numbers or self._is_single(digest)

    def has(self, digest: bytes, number: int) -> bool:
        numbers = self._numbers.get(digest)
        return number in numbers if numbers is not None else number == 1 and self._is_single(digest)

    def take(self, digest: bytes) -> int:
        """Add an occurrence and return its number: the lowest that is missing."""
        if digest not in self._numbers:
            bucket = self._buckets[_bucket(digest)]
            if not _is_in(bucket, digest):
                bucket += digest
                return 1
        return self._several(digest).take()

    def add(self, digest: bytes, number: int) -> None:
        """Add an occurrence that is not present."""
        if number == 1 and digest not in self._numbers:
            self._buckets[_bucket(digest)] += digest
        else:
            self._several(digest).add(number)

    def _several(self, digest: bytes) -> Numbers:
        numbers = self._numbers.get(digest)
        if numbers is None:
            numbers = self._numbers[digest] = Numbers()
            if self._is_single(digest):
                numbers.add(1)
        return numbers

    def _is_single(self, digest: bytes) -> bool:
        return _is_in(self._buckets.get(_bucket(digest), b""), digest)


def _is_in(bucket: bytes | bytearray, digest: bytes) -> bool:
    place = bucket.find(digest)
    while place > 0 and place % DIGEST_BYTES:
        place = bucket.find(digest, place + 1)
    return place >= 0


def _bucket(digest: bytes) -> int:
    return (digest[0] << 8 | digest[1]) % BUCKETS


class _File:
    """The lines of one file that are done.

    Attributes:
        unfinished: offset of the last line if it had no newline when it was evaluated.
        last: the last line done.
    """

    __slots__ = ("_stretches", "last", "unfinished")

    def __init__(self) -> None:
        self.unfinished: int | None = None
        self.last: Place | None = None
        # Stretches of whole lines: start, end and number of lines. Adjacent stretches are merged.
        self._stretches: list[list[int]] = []

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._stretches, offset, key=itemgetter(0)) - 1
        return offset == self.unfinished or (index >= 0 and offset < self._stretches[index][1])

    def add(self, start: int, end: int, lines: int = 1) -> None:
        """Add a stretch of `lines` lines, either all of them done already or none."""
        stretches = self._stretches
        at_the_end = stretches and stretches[-1][0] <= start  # The usual case.
        index = len(stretches) if at_the_end else bisect_right(stretches, start, key=itemgetter(0))
        if index and stretches[index - 1][1] > start:
            return
        if index and stretches[index - 1][1] == start:
            stretch = stretches[index - 1]
            stretch[1] = end
            stretch[2] += lines
        else:
            stretch = [start, end, lines]
            stretches.insert(index, stretch)
            index += 1
        if index < len(stretches) and stretches[index][0] == end:
            _, stretch[1], more = stretches.pop(index)
            stretch[2] += more

    def uncover(self, end: int) -> None:
        """Remove the stretch from the start of the file to an offset, which was added without its lines."""
        first = self._stretches[0]
        if first[1] == end:
            del self._stretches[0]
        else:
            first[0] = end

    def beginning(self) -> tuple[int, int]:
        """Return how many bytes and lines are done from the start of the file without a gap."""
        start, end, lines = self._stretches[0] if self._stretches else (0, 0, 0)
        return (end, lines) if start == 0 else (0, 0)


class Done:
    """The lines done per file, as stretches: memory grows with gaps, not with lines."""

    def __init__(self) -> None:
        self._files: defaultdict[str, _File] = defaultdict(_File)
        self._passed_over: dict[str, int] = {}

    def add(self, position: Place, *, whole: bool = True) -> None:
        """Add a line, which may be present already."""
        _, key, offset, length, _ = position
        file = self._files[key]
        if whole:
            file.add(offset, offset + length + 1)
        else:
            file.unfinished = offset
        if file.last is None or file.last[2] <= offset:
            file.last = position

    def pass_over(self, origins: Mapping[str, int]) -> None:
        """Skip the lines before an offset, given by the key of the file, instead of an earlier offset."""
        for key, offset in origins.items():
            if key in self._passed_over:
                self._files[key].uncover(self._passed_over.pop(key))
            file = self._files[key]
            if offset and not file.beginning()[0]:
                file.add(0, offset, lines=0)
                self._passed_over[key] = offset

    def passed_over(self, key: str) -> int:
        """Return the offset before which a file's lines are skipped."""
        return self._passed_over.get(key, 0)

    def __contains__(self, position: Place) -> bool:
        return position[1] in self._files and position[2] in self._files[position[1]]

    def is_unfinished(self, position: Position) -> bool:
        """Whether the line there had no newline when it was evaluated."""
        return position.file in self._files and position.offset == self._files[position.file].unfinished

    def known(self) -> dict[str, Known]:
        """Return the part of each file that need not be read again, by the file's key."""
        known = {}
        for key, file in self._files.items():
            begin, lines = file.beginning()
            known[key] = Known(begin, lines + 1, file.last and Position(*file.last))
        return known
