"""A log: a followed file, how far it was read, and what proves that it is still the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.follow.names import former_names
from graphrag_eval_async.sources.lines import Splitter

if TYPE_CHECKING:
    from graphrag_eval_async.records import FileId, Record

PROOF_BYTES = 1024
"""Number of bytes that are kept of a log, to check whether the file still has them."""


class Place(NamedTuple):
    """The device and inode number of a file, unique while the file exists."""

    device: int
    inode: int


class Stamp(NamedTuple):
    """What shows that a file has changed."""

    size: int
    modified_ns: int


CLOSED = -1
"""The descriptor of a log that is not open."""

NOWHERE = Place(-1, -1)
"""The place of a log that was never opened."""

UNSEEN = Stamp(0, -1)
"""The stamp of a log at which nobody has looked since it was opened."""


def place_of(status: os.stat_result) -> Place:
    """Return where a file is."""
    return Place(status.st_dev, status.st_ino)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(status.st_size, status.st_mtime_ns)


@dataclass(slots=True, eq=False)
class Log:
    """A followed file, from its start or its last truncation to the next one.

    Attributes:
        file: the file, as its lines name it.
        name: the last path by which it was followed.
        number: number of the line at which reading begins.
        offset: bytes that were read or skipped.
        skipped: bytes before which lines were skipped, if any. A line that begins there may have
            begun before, so it is not delivered unless it is complete.
        descriptor: the open file; `CLOSED` if the file is not open.
        place: where the file is.
        seen: the stamp at the last look.
        changed: when a look found another stamp than the look before.
        nameless_since: when the file lost its name; None while it has one that is followed.
        is_unpacked: whether the file is the text of a compressed log, to which nobody writes.
    """

    file: FileId
    name: str
    number: int
    offset: int
    skipped: int | None = None
    descriptor: int = CLOSED
    place: Place = NOWHERE
    seen: Stamp = UNSEEN
    changed: float = -inf
    nameless_since: float | None = None
    is_unpacked: bool = False
    _splitter: Splitter | None = None
    # The bytes before the offset; of a log of which nothing was read, the first that were seen.
    _proof: bytes = b""
    _proof_start: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self.descriptor != CLOSED

    @property
    def unread(self) -> int:
        """Bytes after the offset at the last look."""
        return max(0, self.seen.size - self.offset)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes that were read of an unfinished line."""
        if self._splitter is None:
            return 0
        return self._splitter.held

    @property
    def is_rotated(self) -> bool:
        """Whether it was rotated: it is read before the file that has its name now."""
        return self.nameless_since is not None or bool(former_names(self.name))

    @property
    def family(self) -> str:
        """The name that the files have in common into which a log is rotated."""
        former_paths = former_names(self.name)
        if former_paths:
            return former_paths[0]
        return self.name

    def attach(self, descriptor: int, place: Place) -> None:
        """Read on from an open file, which contains what was read so far.

        Raises:
            OSError: the file cannot be read; the log is as before, and the file open.
        """
        self.descriptor = descriptor
        try:
            self._remember(self.offset)
        except OSError:
            self.descriptor = CLOSED
            raise
        self.place = place
        self.seen = UNSEEN

    def detach(self) -> None:
        """Close the file, if it is open."""
        if self.is_open:
            os.close(self.descriptor)
            self.descriptor = CLOSED

    def is_same(self, status: os.stat_result) -> bool:
        """Check whether the open file still has what was seen of it: it only grew.

        Raises:
            OSError: the file cannot be read.
        """
        if status.st_size < self.seen.size:
            return False
        if not self._proof and status.st_size:
            self._remember(self.offset)
        return self.is_in(self.descriptor)

    def is_in(self, descriptor: int) -> bool:
        """Check whether a file has the bytes that are kept of this log, at their place."""
        return os.pread(descriptor, len(self._proof), self._proof_start) == self._proof

    @property
    def has_proof(self) -> bool:
        """Whether bytes of this log are kept; there are none of an empty one."""
        return bool(self._proof)

    def _remember(self, offset: int) -> None:
        """Keep the bytes before an offset; at the start of the file, those after it."""
        if offset == 0:
            start = 0
            size = PROOF_BYTES
        else:
            start = max(0, offset - PROOF_BYTES)
            size = offset - start
        self._proof = os.pread(self.descriptor, size, start)
        self._proof_start = start

    def read(self, limit: int) -> list[Record]:
        """Return the lines that the next bytes complete.

        Raises:
            OSError: the file cannot be read.
        """
        if self._splitter is None:
            self._splitter = Splitter(file=self.file, number=self.number, offset=self.offset)
        data = os.pread(self.descriptor, min(limit, self.unread), self.offset)

        # Before anything was read, the proof is not of bytes before the offset.
        proof_before = b"" if self.offset == 0 else self._proof
        self.offset += len(data)
        self._proof = (proof_before + data[-PROOF_BYTES:])[-PROOF_BYTES:]
        self._proof_start = self.offset - len(self._proof)
        return self._splitter.feed(data)

    def end(self) -> list[Record]:
        """Return the unfinished last line, unless lines were skipped up to it.

        The line is read again if it grows.
        """
        if self._splitter is None:
            return []
        begins_in_skipped_lines = self._splitter.offset == self.skipped
        if begins_in_skipped_lines:
            return []

        lines = self._splitter.end()
        if self.is_open:
            # The next bytes to read are those of the line.
            self.offset = self._splitter.offset
            self._remember(self.offset)
        return lines
