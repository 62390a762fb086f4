"""Rotated logs that gzip has compressed, which are read before the logs of their families."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections import deque
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.follow.descriptors import lacks_descriptor
from graphrag_eval_async.sources.follow.identity import GZIP_MODULUS, Start, root_of
from graphrag_eval_async.sources.follow.log import place_of
from graphrag_eval_async.sources.follow.names import GZIP
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from typing import BinaryIO

    from graphrag_eval_async.sources.follow.names import Candidate, Paths
    from graphrag_eval_async.sources.follow.rotation import Rotation
    from graphrag_eval_async.sources.follow.table import LogTable
    from graphrag_eval_async.sources.follow.unread import Unread

SIZE_BYTES = 4
"""Bytes at the end of a gzip file that have the size of its text, modulo `GZIP_MODULUS`."""

PIECE_BYTES = 1 << 18
"""Bytes that are decompressed before others get a turn."""


class PackedLogs:
    """The compressed logs that were there when following began, decompressed one after the other.

    The text of each becomes a log in a temporary file, which is read like any other.
    """

    def __init__(self, paths: Paths, table: LogTable, unread: Unread) -> None:
        self._paths = paths
        self._table = table
        self._unread = unread
        self._waiting: deque[Candidate] = deque()
        self._unpacking: _Unpacking | None = None  # Of the first one that waits.

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def names(self) -> set[str]:
        """The followed names of the logs that wait, which are the families of their texts."""
        return {candidate.name for candidate in self._waiting}

    def find(self, rotation: Rotation) -> None:
        """Find the compressed logs that have to be read: those that no earlier run has read."""
        self._waiting.extend(
            candidate
            for candidate in self._paths.packed()
            if self._must_be_read(candidate, rotation)
        )

    def _must_be_read(self, candidate: Candidate, rotation: Rotation) -> bool:
        """Return whether a compressed log has to be read, and note if it is skipped."""
        root = root_of(candidate.status, candidate.path)
        is_rotated = not candidate.is_member
        is_skipped = (rotation.skips.rotated and is_rotated) or rotation.skips.skip(candidate)
        try:
            size = self._table.open.with_room(lambda: _text_size(candidate.path))
        except OSError as error:
            if not is_skipped:
                self._give_up(candidate.path, error)
            return False

        # gzip deletes the original once it has finished.
        is_unfinished = os.path.exists(candidate.path.removesuffix(GZIP))
        if is_unfinished or rotation.identities.is_packed_read(root, size):
            return False
        if is_skipped:
            key = rotation.identities.new_key(root)
            rotation.identities.note_start(Start(key, size, is_skipped=True))
        return not is_skipped

    def unpack(self, rotation: Rotation, *, may_wait: bool) -> None:
        """Decompress a piece of the first log that waits; once its text is there, begin to read
        it.

        Args:
            rotation: finds out which log the text is.
            may_wait: whether to try again later if the process has no file descriptor left, since
                other logs are being read and can be closed then.
        """
        candidate = self._waiting[0]
        try:
            if self._unpacking is None:
                self._unpacking = self._open(candidate)
            has_ended = self._unpacking is None or self._unpacking.step()
        except OSError as error:
            if lacks_descriptor(error) and may_wait:
                return
            self._give_up(candidate.path, error)
            has_ended = True
        if not has_ended:
            return

        self._waiting.popleft()
        unpacking = self._unpacking
        self._unpacking = None
        if unpacking is not None:
            self._begin(candidate, unpacking.finish(), rotation)

    def _open(self, candidate: Candidate) -> _Unpacking | None:
        """Open the first log that waits, wherever it is now; return None if it was deleted."""
        paths_by_place = {place_of(file.status): file.path for file in self._paths.packed()}
        path = paths_by_place.get(place_of(candidate.status))
        if path is None:
            self._unread.give_up(candidate.path, "was deleted before it was read")
            return None
        return self._table.open.with_room(lambda: _Unpacking(path, self._unread))

    def _begin(self, candidate: Candidate, descriptor: int, rotation: Rotation) -> None:
        """Find out which log a text is, and read it; close the file if it is not to be read."""
        try:
            log = rotation.log_of(candidate, descriptor)
            if log is not None:
                self._table.attach(log, descriptor, candidate.status)
        except OSError as error:
            self._give_up(candidate.path, error)
            log = None
        if log is None:
            os.close(descriptor)
            return

        self._table.rename(log, candidate.name)
        log.is_unpacked = True
        log.nameless_since = self._table.now
        self._table.check(log)

    def _give_up(self, path: str, error: OSError) -> None:
        """Warn that a compressed log is not read, and name it at the end."""
        LOGGER.warning("%s: cannot be read: %s", path, error)
        self._unread.give_up(path, f"cannot be read: {error.strerror or error}")

    def close(self) -> None:
        """Close the files, and forget the logs that wait."""
        self._waiting.clear()
        if self._unpacking is not None:
            os.close(self._unpacking.finish())
            self._unpacking = None


class _Unpacking:
    """The text of a compressed log, decompressed step by step into a temporary file."""

    def __init__(self, path: str, unread: Unread) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        self._path = path
        self._unread = unread
        self._packed: BinaryIO = open(path, "rb")  # noqa: SIM115  (closed by `finish`)
        try:
            self._text, name = tempfile.mkstemp()
        except OSError:
            self._packed.close()
            raise
        os.unlink(name)
        self._size = 0
        self._reader = gzip.GzipFile(fileobj=self._packed)

    def step(self) -> bool:
        """Decompress a piece into the temporary file; return whether the end is reached.

        The end is also where the file is damaged; the text before that is kept.

        Raises:
            OSError: the compressed file cannot be read, or the text cannot be written.
        """
        try:
            piece = self._reader.read1(PIECE_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            LOGGER.warning(
                "%s: cannot be decompressed; lost the text after %d bytes: %s",
                *(self._path, self._size, error),
            )
            self._unread.give_up(self._path, f"cannot be decompressed: {error}")
            return True

        unwritten = piece
        while unwritten:
            # A write may take only a part.
            written = os.write(self._text, unwritten)
            unwritten = unwritten[written:]
        self._size += len(piece)
        return not piece

    def finish(self) -> int:
        """Close the compressed file; return the descriptor of the text, for the caller to close."""
        self._packed.close()
        return self._text


def _text_size(path: str) -> int:
    """Return the size of the text of a compressed file, modulo `GZIP_MODULUS`.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as packed:
        size = packed.seek(0, os.SEEK_END)
        packed.seek(max(0, size - SIZE_BYTES))
        return int.from_bytes(packed.read(), "little") % GZIP_MODULUS
