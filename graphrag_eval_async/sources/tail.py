"""One file that is followed, what was read of it, and whose turn it is to be read."""

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
    """A file, or what stands in it since it was truncated.

    Attributes:
        file: which its lines say they come from.
        identity: of the file that is read.
        name: the last one by which it was followed.
        descriptor: open for reading, or `CLOSED`.
        offset: how many bytes were read, or need not be.
        number: of the line at the offset, when reading begins.
        trace: the last bytes that were read.
        trace_end: where these end.
        seen: size and time stamp when it was looked at last.
        changed: when these were found to have changed.
        after: what is to be read before it.
        origin: where reading began, if not at the start: an unfinished line there is not ours.
        finished: whether its unfinished last line was given up.
        is_copy: whether it only repeats another file.
        splitter: of its lines, once there are any; belongs to the event loop.
    """

    file: FileId
    identity: Identity
    name: str
    descriptor: int
    offset: int = 0
    number: int = 1
    trace: bytes = field(init=False)
    trace_end: int = field(init=False)
    seen: tuple[int, int] = (-1, -1)
    changed: float = float("-inf")
    after: Tail | None = None
    origin: int = -1
    finished: bool = False
    is_copy: bool = False
    splitter: Splitter | None = None

    def __post_init__(self) -> None:
        self._trace()

    def _trace(self) -> None:
        self.trace = read_before(self.descriptor, self.offset, TRACE_BYTES)
        self.trace_end = self.offset

    @property
    def unread(self) -> int:
        """Bytes to be read that stood behind the offset when it was looked at last."""
        return 0 if self.is_copy else max(0, self.seen[0] - self.offset)

    @property
    def held(self) -> int:
        """Bytes of an unfinished line that were read."""
        return self.splitter.held if self.splitter is not None else 0

    def follow(self, other: Tail) -> None:
        """Read this only after another, unless that waits for this one."""
        before: Tail | None = other
        while before is not None:
            if before is self:
                return
            before = before.after
        self.after = other

    def is_intact(self) -> bool:
        """Whether what was read last still stands where it stood."""
        return has(self.descriptor, self.trace, self.trace_end)

    def read(self, limit: int) -> bytes:
        """What stands behind the offset, up to `limit` bytes."""
        if self.trace_end != self.offset:
            self._trace()
        data = os.pread(self.descriptor, limit, self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        self.trace_end = self.offset
        return data

    def suspect(self) -> None:
        """Make the next look find it changed."""
        self.seen = (self.seen[0], -1)

    def finish(self) -> None:
        """Expect no more; should there be more after all, the unfinished line is read again."""
        self.finished = True
        if self.splitter is not None:
            self.offset = self.splitter.offset

    def end(self) -> list[Record]:
        """The unfinished last line, unless it was there before anything was to be read."""
        splitter = self.splitter
        if splitter is None:
            return []
        if splitter.offset == self.origin:
            splitter.close()
            return []
        return splitter.end()


def seen(status: os.stat_result) -> tuple[int, int]:
    """What shows that a file has changed."""
    return status.st_size, status.st_mtime_ns


class Event(NamedTuple):
    """What was read of a file; None if no more is expected of it."""

    tail: Tail
    data: bytes | None

    @property
    def size(self) -> int:
        return len(self.data or b"")

    def lines(self, max_line_bytes: int, *, spool: bool) -> list[Record]:
        """The lines that this completes; to be asked for once, in the order of the events."""
        tail, data = self
        if data is None:
            return tail.end()
        if tail.splitter is None:
            offset = tail.offset - len(data)
            tail.splitter = Splitter(
                max_line_bytes, spool=spool, file=tail.file, number=tail.number, offset=offset
            )
        return tail.splitter.feed(data)
