"""A followed file, and what has been read of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.identity import TRACE_BYTES, has, read_before
from graphrag_eval_async.sources.lines import Splitter

if TYPE_CHECKING:
    from graphrag_eval_async.records import FileId, Record
    from graphrag_eval_async.sources.identity import Identity

CLOSED = -1


@dataclass(slots=True, eq=False, kw_only=True)
class Tail:
    """A file, or its content since its last truncation."""

    file: FileId
    identity: Identity
    name: str  # The last one by which it was followed.
    descriptor: int  # Open for reading, or `CLOSED`.
    offset: int = 0  # Bytes that were read or skipped.
    number: int = 1  # Number of the line at the offset when reading begins.
    trace: bytes = field(init=False)  # The last bytes that were read,
    trace_end: int = field(init=False)  # and the offset of their end.
    seen: tuple[int, int] = (-1, -1)  # Size and time stamp at the last look,
    changed: float = float("-inf")  # and when they were found to have changed.
    after: Tail | None = None  # Is read before it.
    origin: int = -1  # Where reading began, if not at the start: an unfinished line there is not ours.
    begin: int = 0  # Where reading begins should it prove to be no copy.
    finished: bool = False  # Whether its unfinished last line was given up.
    original: Tail | None = None  # What it repeats, up to the offset; nothing of it is read meanwhile.
    splitter: Splitter | None = None  # Once there is something to split; belongs to the event loop.

    def __post_init__(self) -> None:
        self.trace = read_before(self.descriptor, self.offset, TRACE_BYTES)
        self.trace_end = self.offset

    @property
    def unread(self) -> int:
        """Bytes after the offset at the last poll."""
        return 0 if self.original is not None else max(0, self.seen[0] - self.offset)

    def measure(self) -> int:
        """Bytes after the offset now. The file must be open."""
        return 0 if self.original is not None else max(0, os.fstat(self.descriptor).st_size - self.offset)

    @property
    def held(self) -> int:
        """Bytes of an unfinished line."""
        return self.splitter.held if self.splitter is not None else 0

    def follow(self, other: Tail) -> None:
        """Read this tail only after another, unless the other waits for this one."""
        before: Tail | None = other
        while before is not None:
            if before is self:
                return
            before = before.after
        self.after = other

    def earliest(self) -> Tail:
        """The first tail to read before this one, or this one."""
        return self if self.after is None else self.after.earliest()

    def is_intact(self) -> bool:
        """Whether the file still contains the bytes read last."""
        return has(self.descriptor, self.trace, self.trace_end)

    def read(self, limit: int) -> bytes:
        """Up to `limit` bytes from the offset on."""
        if self.trace_end != self.offset:
            self.__post_init__()
        data = os.pread(self.descriptor, limit, self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        self.trace_end = self.offset
        return data

    def suspect(self) -> None:
        """Make the next poll treat the file as changed."""
        self.seen = (self.seen[0], -1)

    def finish(self) -> None:
        """Expect no more data. If more arrives after all, the unfinished line is read again."""
        self.finished = True
        if self.splitter is not None:
            self.offset = self.splitter.offset

    def end(self) -> list[Record]:
        """The unfinished last line, unless it began before reading did."""
        if self.splitter is not None and self.splitter.offset != self.origin:
            return self.splitter.end()
        self.drop()
        return []

    def drop(self) -> None:
        """Drop an unfinished line."""
        if self.splitter is not None:
            self.splitter.close()


def seen(status: os.stat_result) -> tuple[int, int]:
    """What shows that a file has changed."""
    return status.st_size, status.st_mtime_ns


class Event(NamedTuple):
    """Data read from a file; None if no more is expected."""

    tail: Tail
    data: bytes | None

    @property
    def size(self) -> int:
        return len(self.data or b"")

    def lines(self, max_line_bytes: int) -> list[Record]:
        """The lines that this event completes. Call it once, in the order of the events."""
        tail, data = self
        if data is None:
            return tail.end()
        if tail.splitter is None:
            start = tail.offset - len(data)
            tail.splitter = Splitter(max_line_bytes, file=tail.file, number=tail.number, offset=start)
        return tail.splitter.feed(data)
