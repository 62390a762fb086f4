"""One file that is followed: what was read of it, and whether that still stands there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.directory import SETTLING_SECONDS

if TYPE_CHECKING:
    from graphrag_eval_async.records import FileId, Record
    from graphrag_eval_async.sources.identity import Identity
    from graphrag_eval_async.sources.lines import Splitter

TRACE_BYTES = 1024
"""How much of what was read is kept, to see whether it still stands there."""

FINISHED_TRACE_BYTES = 64
"""The same, for files that nothing more is expected of."""

BLOCK_BYTES = 1 << 16

CLOSED = -1


class Tail:
    """A file, or what stands in it since it was truncated.

    Attributes:
        file: which its lines say they come from.
        identity: of the file that is read.
        name: the last one by which it was followed.
        descriptor: open for reading, or `CLOSED`.
        offset: how many bytes were read, or need not be.
        seen: size and time stamp when it was looked at last.
        changed: when these were found to be others than before.
        due: when it is to be looked at again in all respects.
        after: what is to be read before it.
        origin: where reading began, if not at the start: a line that begins there is none of ours before it
            is complete.
        number: of the line at the offset, when reading begins.
        finished: whether its unfinished last line was given up.
        is_copy: whether it only repeats another file.
        is_link: whether its name is a link, which may lead to another file by now.
        splitter: of its lines, once there are any; belongs to the event loop.
    """

    __slots__ = (
        "after",
        "changed",
        "descriptor",
        "due",
        "file",
        "finished",
        "identity",
        "is_copy",
        "is_link",
        "name",
        "number",
        "offset",
        "origin",
        "seen",
        "splitter",
        "trace",
        "trace_end",
    )

    def __init__(
        self,
        file: FileId,
        identity: Identity,
        descriptor: int,
        *,
        name: str,
        offset: int = 0,
        number: int = 1,
    ) -> None:
        self.file = file
        self.identity = identity
        self.name = name
        self.descriptor = descriptor
        self.offset = self.trace_end = offset
        self.number = number
        self.trace = read_before(descriptor, offset, TRACE_BYTES)
        self.seen = (-1, -1)
        self.changed = self.due = float("-inf")
        self.after: Tail | None = None
        self.origin = -1
        self.finished = self.is_copy = self.is_link = False
        self.splitter: Splitter | None = None

    @property
    def unread(self) -> int:
        """Bytes to be read that stood behind the offset when it was looked at last."""
        return 0 if self.is_copy else max(0, self.seen[0] - self.offset)

    @property
    def held(self) -> int:
        """Bytes of an unfinished line that were read."""
        return self.splitter.held if self.splitter is not None else 0

    def is_idle(self, now: float, *, is_quiet: bool) -> bool:
        """Whether a glance shows no change; `is_quiet` says that there is none in its directory."""
        if now >= self.due:
            return False
        if self.descriptor == CLOSED:
            return True
        if self.is_link or not is_quiet or now <= self.changed + SETTLING_SECONDS:
            return False
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_END) == self.seen[0]
        except OSError:
            return False

    def follow(self, other: Tail) -> None:
        """Be read only after another, unless that waits for this one."""
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
            self.trace = read_before(self.descriptor, self.offset, TRACE_BYTES)
        data = os.pread(self.descriptor, limit, self.offset)
        self.offset += len(data)
        self.trace = (self.trace + data[-TRACE_BYTES:])[-TRACE_BYTES:]
        self.trace_end = self.offset
        return data

    def suspect(self) -> None:
        """Let the next look find it changed."""
        self.seen = (self.seen[0], -1)

    def finish(self) -> None:
        """Expect no more; should there be more after all, the unfinished line is read again."""
        self.finished = True
        self.trace = self.trace[-FINISHED_TRACE_BYTES:]
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
    """By what a change of a file is noticed."""
    return status.st_size, status.st_mtime_ns


def read_before(descriptor: int, offset: int, length: int) -> bytes:
    """What stands before an offset, so many bytes of it at most."""
    length = min(length, offset)
    return os.pread(descriptor, length, offset - length) if length else b""


def has(descriptor: int, data: bytes, end: int) -> bool:
    """Whether a file has these bytes, up to that offset."""
    return os.pread(descriptor, len(data), end - len(data)) == data


def line_start(descriptor: int, size: int) -> int:
    """Where the line begins that so many bytes of a file end in."""
    while size > 0:
        block = read_before(descriptor, size, BLOCK_BYTES)
        if not block:
            return 0
        if (place := block.rfind(b"\n")) >= 0:
            return size - len(block) + place + 1
        size -= len(block)
    return 0


def is_beginning(descriptor: int, other: int) -> bool:
    """Whether all that stands in a file, a line at least, seems to stand at the start of another, too."""
    length = os.fstat(descriptor).st_size
    if not line_start(descriptor, length):
        return False
    size = min(length, TRACE_BYTES)
    return all(has(other, read_before(descriptor, end, size), end) for end in (size, length))
