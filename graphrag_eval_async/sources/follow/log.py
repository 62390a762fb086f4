"""A followed file: how far it was read, and how to check that it was not truncated."""

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
"""Number of bytes that are kept as proof of a log: its file must still have them later."""


class Place(NamedTuple):
    """The device and inode number of a file, unique while the file exists."""

    device: int
    inode: int


class Stamp(NamedTuple):
    """The size and the modification time of a file, which show whether it has changed."""

    size: int
    modified_ns: int


CLOSED = -1
"""The descriptor of a log that is not open."""

NOWHERE = Place(-1, -1)
"""The place of a log that was never opened."""

UNSEEN = Stamp(0, -1)
"""The stamp of a log that was not looked at since it was opened. No file has this time."""


def place_of(status: os.stat_result) -> Place:
    """Return the device and inode number in the status of a file."""
    return Place(status.st_dev, status.st_ino)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the size and modification time in the status of a file."""
    return Stamp(status.st_size, status.st_mtime_ns)


@dataclass(slots=True, eq=False)
class Log:
    """A followed file until it is truncated. What it has after that is a new log.

    A look takes the sizes of all files. Then the bytes that were added are read. To find out
    whether a file was truncated or rewritten, each log keeps the last bytes that were read, as a
    proof: the file must still have them at the same offset.

    Attributes:
        file: the id of the file, with which its lines name their positions.
        name: the path for which the file is followed. It may have another one since it was rotated.
        number: number of the line at which reading begins.
        offset: offset of the next byte to read.
        skipped: offset up to which lines were skipped; None if none were. A line that begins there
            may really begin earlier, so it is not delivered unless it is complete.
        descriptor: the open file; `CLOSED` if the file is not open.
        place: the device and inode of the file.
        seen: the stamp at the last look.
        changed: when a look last found a new stamp.
        nameless_since: when the file lost its followed path; None as long as it has one.
        is_unpacked: whether the file is the decompressed text of a log, to which nobody writes.
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
    # The last bytes before `offset`; the first bytes of the file if `offset` is 0.
    _proof: bytes = b""
    _proof_start: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self.descriptor != CLOSED

    @property
    def unread(self) -> int:
        """Number of bytes that the file had after `offset` at the last look."""
        return max(0, self.seen.size - self.offset)

    @property
    def unfinished_bytes(self) -> int:
        """Number of bytes that were read of the unfinished last line."""
        if self._splitter is None:
            return 0
        return self._splitter.unfinished_bytes

    @property
    def is_rotated(self) -> bool:
        """Whether the file was rotated: it has lost its path, or its path is that of an old log."""
        has_rotated_name = bool(former_names(self.name))
        return self.nameless_since is not None or has_rotated_name

    @property
    def family(self) -> str:
        """The path that the file has, or had before it was rotated.

        A log and the files into which it is rotated are one family. Their lines are read in the
        order in which they were written.
        """
        former_paths = former_names(self.name)
        if former_paths:
            return former_paths[0]
        return self.name

    def attach(self, descriptor: int, place: Place) -> None:
        """Continue reading from an open file, which must begin with all bytes read so far.

        Args:
            descriptor: the open file; `detach` closes it.
            place: the device and inode of the file.

        Raises:
            OSError: the file cannot be read. The log is not attached, and the caller has to close
                the file.
        """
        self.descriptor = descriptor
        try:
            self._keep_proof(self.offset)
        except OSError:
            self.descriptor = CLOSED
            raise
        self.place = place
        # The next look takes the size of this file.
        self.seen = UNSEEN

    def detach(self) -> None:
        """Close the file, if it is open."""
        if self.is_open:
            os.close(self.descriptor)
            self.descriptor = CLOSED

    def is_same(self, status: os.stat_result) -> bool:
        """Return whether the open file was only appended to, and not truncated or rewritten.

        Args:
            status: the present status of the file.

        Raises:
            OSError: the file cannot be read.
        """
        is_shorter = status.st_size < self.seen.size
        if is_shorter:
            return False
        is_empty = status.st_size == 0
        if not self.has_proof and not is_empty:
            # The file was empty at the last look.
            self._keep_proof(self.offset)
        return self.has_proof_in_open_file()

    def has_proof_in_open_file(self) -> bool:
        """Return whether the open file still has the bytes that are kept as proof.

        Raises:
            OSError: the file cannot be read.
        """
        return self.is_in(self.descriptor)

    def is_in(self, descriptor: int) -> bool:
        """Return whether a file has the bytes that are kept as proof of this log, at their offset.

        Args:
            descriptor: the open file; this log's own or another one.

        Raises:
            OSError: the file cannot be read.
        """
        return os.pread(descriptor, len(self._proof), self._proof_start) == self._proof

    @property
    def has_proof(self) -> bool:
        """Whether bytes of this log are kept as proof. There are none while the file is empty."""
        return bool(self._proof)

    def _keep_proof(self, offset: int) -> None:
        """Read the bytes before an offset and keep them as proof.

        At the start of the file, there are none before, so its first bytes are kept.

        Raises:
            OSError: the file cannot be read.
        """
        if offset == 0:
            start = 0
            size = PROOF_BYTES
        else:
            start = max(0, offset - PROOF_BYTES)
            size = offset - start
        self._proof = os.pread(self.descriptor, size, start)
        self._proof_start = start

    def read(self, limit: int) -> list[Record]:
        """Read the next bytes, and return the lines that they complete.

        Args:
            limit: maximum number of bytes to read.

        Raises:
            OSError: the file cannot be read.
        """
        if self._splitter is None:
            self._splitter = Splitter(file=self.file, number=self.number, offset=self.offset)
        data = os.pread(self.descriptor, min(limit, self.unread), self.offset)

        # Keep the last bytes that were read. At offset 0, the proof so far is of bytes that are
        # read now, so it is dropped.
        proof_before = b"" if self.offset == 0 else self._proof
        self.offset += len(data)
        self._proof = (proof_before + data[-PROOF_BYTES:])[-PROOF_BYTES:]
        self._proof_start = self.offset - len(self._proof)
        return self._splitter.feed(data)

    def mark_as_read(self) -> None:
        """Treat the file as read to its end until the next look, which checks it again."""
        # A look checks a file if its stamp has changed, and no file has this time.
        self.seen = Stamp(size=self.offset, modified_ns=UNSEEN.modified_ns)

    def take_unfinished_line(self) -> list[Record]:
        """Return the unfinished last line in a list; an empty list if there is none to deliver.

        It is not delivered if it begins where skipped lines end, since it may begin among these.
        Reading continues at the start of the line, so that it is read again if it grows.

        Raises:
            OSError: the file cannot be read.
        """
        if self._splitter is None:
            return []
        begins_in_skipped_lines = self._splitter.offset == self.skipped
        if begins_in_skipped_lines:
            return []

        lines = self._splitter.end()
        if self.is_open:
            self.offset = self._splitter.offset
            self._keep_proof(self.offset)
        return lines
