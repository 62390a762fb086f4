"""A followed log, and comparing of files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.paths import GZIP, former_names

if TYPE_CHECKING:
    from graphrag_eval_async.records import FileId, Record

CLOSED = -1

TRACE_BYTES = 1024
"""Number of bytes last read that are kept, to check whether the file still has them."""

BLOCK_BYTES = 1 << 16
"""Bytes read at a time to compare files."""


class Chunk(NamedTuple):
    """Lines found together, and how many bytes were read to find them."""

    size: int
    lines: list[Record]


@dataclass(slots=True, eq=False, kw_only=True)
class Log:
    """A followed file, or its content since its last truncation."""

    file: FileId
    name: str  # The last path by which it was followed.
    descriptor: int  # Open for reading, or `CLOSED`.
    place: tuple[int, int]  # Device and inode number.
    offset: int = 0  # Bytes that were read or skipped.
    number: int = 1  # Number of the line at the offset when reading begins.
    skipped: int = -1  # Bytes skipped before reading began: an unfinished line there is not ours.
    trace: bytes = b""  # The last bytes that were read.
    seen: tuple[int, int] = (-1, -1)  # Size and time stamp at the last look,
    changed: float = -inf  # and when they were found to have changed.
    gone: float | None = None  # Since when it has no name that is followed; it never had one if compressed.
    original: Log | None = None  # What it repeats, up to the offset; it is not read meanwhile.
    splitter: Splitter | None = None

    @property
    def unread(self) -> int:
        """Bytes after the offset at the last look."""
        return 0 if self.original is not None else max(0, self.seen[0] - self.offset)

    def measure(self) -> int:
        """Bytes after the offset now. The file must be open."""
        return 0 if self.original is not None else max(0, os.fstat(self.descriptor).st_size - self.offset)

    @property
    def order(self) -> tuple[bool, int]:
        """Rotated logs are read before those that have their names now, the oldest first."""
        is_current = self.gone is None and not former_names(self.name)
        return is_current, 0 if is_current or self.gone == -inf else self.seen[1]

    @property
    def family(self) -> str:
        """The name of the log before any rotation."""
        return next(iter(former_names(self.name)), self.name)

    def is_intact(self) -> bool:
        """Whether the file still contains the bytes read last."""
        return self.is_in(self.descriptor)

    def is_in(self, descriptor: int) -> bool:
        """Whether a file contains the bytes read last, at their place."""
        trace = self.trace
        return not trace or os.pread(descriptor, len(trace), self.offset - len(trace)) == trace

    def begin_at(self, offset: int) -> None:
        """Read from an offset."""
        self.offset = offset
        size = min(TRACE_BYTES, offset)
        self.trace = os.pread(self.descriptor, size, offset - size) if size else b""

    def read(self, limit: int, max_line_bytes: int) -> Chunk:
        """The lines that the next bytes complete."""
        if self.splitter is None:
            self.splitter = Splitter(max_line_bytes, file=self.file, number=self.number, offset=self.offset)
        data = os.pread(self.descriptor, min(limit, self.unread), self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        return Chunk(len(data), self.splitter.feed(data))

    def end(self) -> list[Record]:
        """The unfinished last line, unless it began before reading did. It is read again if it grows."""
        if self.splitter is None or self.splitter.offset == self.skipped:
            return []
        lines = self.splitter.end()
        if self.descriptor != CLOSED:
            self.begin_at(self.splitter.offset)
        return lines


def open_file(path: str) -> int:
    """Open a file for reading; non-blocking, in case a named pipe has just replaced it."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


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


def repeated(descriptor: int, other: int, begin: int = 0) -> int | None:
    """The size of a file if another has the same bytes from the offset `begin` to that size."""
    offset = begin
    while block := os.pread(descriptor, BLOCK_BYTES, offset):
        if os.pread(other, len(block), offset) != block:
            return None
        offset += len(block)
    return offset
