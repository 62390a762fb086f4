"""A followed log: which one it is, from one run to the next, and how far it was read."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Known
from graphrag_eval_async.sources.follow.names import GZIP, former_names
from graphrag_eval_async.sources.lines import LOGGER, Splitter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import FileId, Position, Record

BLOCK_BYTES = 1 << 16
"""Bytes read at a time to compare files."""

CLOSED = -1

TRACE_BYTES = 1024
"""Number of bytes last read that are kept, to check whether the file still has them."""


@dataclass(slots=True, eq=False)
class Log:
    """A followed file, or its content since its last truncation."""

    file: FileId
    name: str  # The last path by which it was followed.
    number: int  # Number of the line at which reading begins.
    skipped: int  # Bytes skipped before reading began, or -1: an unfinished line there is not ours.
    offset: int  # Bytes that were read or skipped.
    descriptor: int = CLOSED
    place: tuple[int, int] = (-1, -1)  # Device and inode number.
    trace: bytes = b""  # The last bytes that were read.
    seen: tuple[int, int] = (-1, -1)  # Size and time stamp at the last look,
    changed: float = -inf  # and when they were found to have changed.
    gone: float | None = (
        None  # Since when it has no name that is followed; it never had one if compressed.
    )
    splitter: Splitter | None = None

    @property
    def unread(self) -> int:
        """Bytes after the offset at the last look."""
        return max(0, self.seen[0] - self.offset)

    @property
    def is_rotated(self) -> bool:
        """Whether it was rotated: it is read before the file that has its name now."""
        return self.gone is not None or bool(former_names(self.name))

    def is_in(self, descriptor: int) -> bool:
        """Whether a file contains the bytes read last, at their place."""
        trace = self.trace
        return not trace or os.pread(descriptor, len(trace), self.offset - len(trace)) == trace

    def begin_at(self, offset: int) -> None:
        """Read from an offset."""
        self.offset = offset
        size = min(TRACE_BYTES, offset)
        self.trace = os.pread(self.descriptor, size, offset - size) if size else b""

    def read(self, limit: int) -> list[Record]:
        """The lines that the next bytes complete."""
        if self.splitter is None:
            self.splitter = Splitter(file=self.file, number=self.number, offset=self.offset)
        data = os.pread(self.descriptor, min(limit, self.unread), self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        return self.splitter.feed(data)

    def end(self) -> list[Record]:
        """The unfinished last line, unless it began before reading did. It is read again if it
        grows.
        """
        if self.splitter is None or self.splitter.offset == self.skipped:
            return []
        lines = self.splitter.end()
        if self.descriptor != CLOSED:
            self.begin_at(self.splitter.offset)
        return lines


Changes = tuple[dict[str, int], dict[str, str]]
"""Where reading of files began, if not at their starts, by key; and `FileKeys.copies`."""


class Start(NamedTuple):
    """Where to begin reading the file with a key."""

    key: str
    offset: int = 0
    number: int = 1  # Number of the line at the offset.
    is_skipped: bool = False  # Whether the lines before the offset have not been read.


class FileKeys:
    """Recognises files that earlier runs have read, and assigns keys to new files.

    A file is its inode and the last line that was read, if that is still at its place. A key is the
    number of the inode (the `root`) and how many files had it before. Another file with that line
    at that place is a copy or a replacement, and resumes under the same key.

    Attributes:
        copies: keys of the originals of copies, by the roots of these.
    """

    def __init__(
        self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None
    ) -> None:
        """If `start` is given, reading begins after that line."""
        self.copies = dict(copies)
        self._origins: dict[str, int] = {}
        self._saved: Changes = {}, self.copies.copy()
        self._earlier = self._known = known
        if start is not None:
            self._known = {start.file: Known(start.offset + start.length + 1, 1, start)}
        self._taken = {*self._known, *copies.values()}
        self._claimed: set[str] = set()
        self._own: defaultdict[str, list[str]] = defaultdict(
            list
        )  # Known keys by root, the latest first.
        for key in sorted(self._known, key=lambda key: (len(key), key), reverse=True):
            self._own[key.rpartition("-")[0]].append(key)

    def is_known(self, root: str) -> bool:
        """Whether an earlier run has found a file with this root that is not a copy."""
        return root in self._own and root not in self.copies

    def new(self, root: str) -> str:
        """A key that was never used."""
        key = next(key for number in count() if (key := f"{root}-{number}") not in self._taken)
        self._taken.add(key)
        return key

    def find(self, root: str, descriptor: int, path: str) -> Start | None:
        """Where to resume a file that an earlier run has read: this one, a copy of it or its
        replacement.
        """
        own = self._own.get(root, [])
        # A former file without a line to recognise it by has nothing left to read.
        for key in [
            self.copies.get(root, ""),
            *own[:1],
            *(key for key in own[1:] if self._known[key].last),
        ]:
            if key in self._known and (start := self._claim(key, descriptor)):
                return start
        size = os.fstat(descriptor).st_size
        others = [
            (last.path == path, last.offset, key)
            for key, (_, _, last) in self._known.items()
            if key not in self._claimed and last is not None and last.offset + last.length <= size
        ]
        for _, _, key in sorted(others, reverse=True):
            if start := self._claim(key, descriptor):
                self.copies[root] = key
                if not former_names(path):
                    LOGGER.warning(
                        "%s: skipped %d bytes that an earlier run has read", path, start.offset
                    )
                return start
        return None

    def _claim(self, key: str, descriptor: int) -> Start | None:
        """Where to resume under a key; None if the file is not the one that was read."""
        begin, number, last = self._known[key]
        if key in self._claimed or (last is not None and not _has_line(descriptor, last)):
            return None
        size = os.fstat(descriptor).st_size
        if begin <= size and (not begin or os.pread(descriptor, 1, begin - 1) == b"\n"):
            start = Start(key, begin, number, is_skipped=last is None)
        elif (
            last is not None and size == begin - 1 == last.offset + last.length
        ):  # Its newline is missing.
            start = Start(key, last.offset, max(1, number - 1))
        else:
            return None
        self._claimed.add(key)
        return start

    def is_packed_read(self, root: str, size: int) -> bool:
        """Whether earlier runs have read or skipped a compressed file whose text has this size,
        mod 4 GiB.
        """
        known = self._known.get(self.copies.get(root, f"{root}-0"))
        return known is not None and known.begin % (1 << 32) == size

    def note_start(self, start: Start) -> None:
        """Record where reading of a file begins."""
        if (start.offset or start.is_skipped) and start.key not in self._earlier:
            self._origins[start.key] = start.offset

    def changes(self) -> Changes | None:
        """What later runs need, if it has changed since the last call."""
        if self._saved == (self._origins, self.copies):
            return None
        self._saved = self._origins.copy(), self.copies.copy()
        return self._saved


def _has_line(descriptor: int, line: Position) -> bool:
    digest = hashlib.sha256()
    offset, end = line.offset, line.offset + line.length
    while offset < end and (block := os.pread(descriptor, min(end - offset, BLOCK_BYTES), offset)):
        digest.update(block)
        offset += len(block)
    return offset == end and digest.hexdigest() == line.sha256


def root_of(status: os.stat_result, path: str = "") -> str:
    """The beginning of the keys of a file, without the device number, which may change at boot."""
    size = f".{status.st_size:x}" if path.endswith(GZIP) else ""  # It does not grow.
    return f"{status.st_ino:x}{size}"


def place_of(status: os.stat_result) -> tuple[int, int]:
    """Device and inode number, unique while the file is open."""
    return status.st_dev, status.st_ino


def seen_of(status: os.stat_result) -> tuple[int, int]:
    """What shows that a file has changed."""
    return status.st_size, status.st_mtime_ns


def line_start(descriptor: int, size: int) -> int:
    """The offset of the last line in the first `size` bytes of a file."""
    while size:
        begin = max(0, size - BLOCK_BYTES)
        place = os.pread(descriptor, size - begin, begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        size = begin
    return 0


def is_repeated(descriptor: int, other: int) -> bool:
    """Whether another file begins with all that a file has."""
    offset = 0
    while block := os.pread(descriptor, BLOCK_BYTES, offset):
        if os.pread(other, len(block), offset) != block:
            return False
        offset += len(block)
    return True
