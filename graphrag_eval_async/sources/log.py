"""A followed log, and reading of its file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.file_keys import BLOCK_BYTES
from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.paths import GZIP, former_names

if TYPE_CHECKING:
    from graphrag_eval_async.records import FileId, Record

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
    gone: float | None = None  # Since when it has no name that is followed; it never had one if compressed.
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

    def read(self, limit: int, max_line_bytes: int) -> list[Record]:
        """The lines that the next bytes complete."""
        if self.splitter is None:
            self.splitter = Splitter(max_line_bytes, file=self.file, number=self.number, offset=self.offset)
        data = os.pread(self.descriptor, min(limit, self.unread), self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        return self.splitter.feed(data)

    def end(self) -> list[Record]:
        """The unfinished last line, unless it began before reading did. It is read again if it grows."""
        if self.splitter is None or self.splitter.offset == self.skipped:
            return []
        lines = self.splitter.end()
        if self.descriptor != CLOSED:
            self.begin_at(self.splitter.offset)
        return lines


def open_file(path: str, flags: int) -> int:
    """Open a file; non-blocking, in case a named pipe has just replaced it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


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
