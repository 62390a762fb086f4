"""Reads compressed logs, which are older than the other logs of their families."""

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
    """Decompresses the logs that were already compressed when following began, one after the other.

    The text of each is written to a temporary file, which is then read like any other log.
    """

    def __init__(self, paths: Paths, table: LogTable, unread: Unread) -> None:
        """Begin without compressed logs; `find_unread` finds them.

        Args:
            paths: finds the files.
            table: the table of all logs, to which the texts are added.
            unread: gets the files that cannot be read.
        """
        self._paths = paths
        self._table = table
        self._unread = unread
        self._waiting: deque[Candidate] = deque()
        self._unpacking: _Unpacking | None = None  # Decompresses the first waiting log.

    def __len__(self) -> int:
        """Return the number of logs that are not decompressed yet."""
        return len(self._waiting)

    @property
    def names(self) -> set[str]:
        """The families of the logs that are not decompressed yet; see `Log.family`."""
        return {candidate.name for candidate in self._waiting}

    def find_unread(self, rotation: Rotation) -> None:
        """Find the compressed logs that no earlier run has read.

        Args:
            rotation: says which files earlier runs have read, and which are skipped.
        """
        self._waiting.extend(
            candidate
            for candidate in self._paths.compressed()
            if self._must_be_read(candidate, rotation)
        )

    def _must_be_read(self, candidate: Candidate, rotation: Rotation) -> bool:
        """Return whether a compressed log has to be read.

        If it is skipped, for example because of its age, that is noted for later runs.

        Args:
            candidate: the compressed log.
            rotation: says which files earlier runs have read, and which are skipped.
        """
        # The root identifies the file in all runs; it is the beginning of its key.
        root = root_of(candidate.status, candidate.path)
        is_rotated = not candidate.is_member
        is_skipped_as_rotated = rotation.skips.rotated and is_rotated
        is_skipped = is_skipped_as_rotated or rotation.skips.skip(candidate)
        try:
            size = self._table.open.call_with_room(lambda: _text_size(candidate.path))
        except OSError as error:
            if not is_skipped:
                self._give_up(candidate.path, error)
            return False

        # gzip deletes the original once it has finished. Until then, the original is read.
        is_original_there = os.path.exists(candidate.path.removesuffix(GZIP))
        if is_original_there or rotation.identities.is_packed_read(root, size):
            return False
        if is_skipped:
            # Reading began at the end of the text.
            key = rotation.identities.new_key(root)
            rotation.identities.note_start(Start(key, offset=size, is_skipped=True))
        return not is_skipped

    def unpack(self, rotation: Rotation, *, may_wait: bool) -> None:
        """Decompress a piece of the first waiting log; after the last piece, read its text.

        Args:
            rotation: finds out which log the text is.
            may_wait: whether to try again later if the process has no file descriptor left. That
                helps as long as other logs are read, which can be closed after that.
        """
        candidate = self._waiting[0]
        try:
            if self._unpacking is None:
                self._unpacking = self._open_waiting(candidate)
            # Without `_unpacking`, the log was deleted, and there is nothing to decompress.
            has_ended = self._unpacking is None or self._unpacking.step()
        except OSError as error:
            if lacks_descriptor(error) and may_wait:
                return
            self._give_up(candidate.path, error)
            has_ended = True
        if not has_ended:
            return

        # Go on with the next log, and read the text of this one.
        self._waiting.popleft()
        unpacking = self._unpacking
        self._unpacking = None
        if unpacking is not None:
            self._start_reading(candidate, unpacking.finish(), rotation)

    def _open_waiting(self, candidate: Candidate) -> _Unpacking | None:
        """Open a compressed log, even if it was renamed meanwhile; None if it was deleted.

        Raises:
            OSError: the file cannot be opened.
        """
        paths_by_place = {place_of(file.status): file.path for file in self._paths.compressed()}
        path = paths_by_place.get(place_of(candidate.status))
        if path is None:
            self._unread.give_up(candidate.path, "was deleted before it was read")
            return None
        return self._table.open.call_with_room(lambda: _Unpacking(path, self._unread))

    def _start_reading(self, candidate: Candidate, descriptor: int, rotation: Rotation) -> None:
        """Read the decompressed text as a log from now on, unless there is nothing to read in it.

        Args:
            candidate: the compressed log.
            descriptor: the temporary file with the text; closed if it is not read.
            rotation: finds out which log the text is.
        """
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
        """Warn that a compressed log is not read, and add it to the unread files."""
        LOGGER.warning("%s: cannot be read: %s", path, error)
        self._unread.give_up(path, f"cannot be read: {error.strerror or error}")

    def close(self) -> None:
        """Close the files, and forget the logs that are not decompressed yet."""
        self._waiting.clear()
        if self._unpacking is not None:
            os.close(self._unpacking.finish())
            self._unpacking = None


class _Unpacking:
    """Decompresses a log step by step into a temporary file."""

    def __init__(self, path: str, unread: Unread) -> None:
        """Open the compressed log and a temporary file.

        Args:
            path: path of the compressed log.
            unread: gets the log if it is damaged.

        Raises:
            OSError: a file cannot be opened.
        """
        self._path = path
        self._unread = unread
        self._compressed_file: BinaryIO = open(path, "rb")  # noqa: SIM115  (closed by `finish`)
        try:
            self._text, name = tempfile.mkstemp()
        except OSError:
            self._compressed_file.close()
            raise
        # The temporary file has no name any more, so it is gone once it is closed.
        os.unlink(name)
        self._size = 0
        self._reader = gzip.GzipFile(fileobj=self._compressed_file)

    def step(self) -> bool:
        """Decompress the next piece into the temporary file.

        If the compressed file is damaged, the text before the damage is kept.

        Returns:
            whether the end of the compressed file, or the damage, is reached.

        Raises:
            OSError: the compressed file cannot be read, or the text cannot be written.
        """
        try:
            piece = self._reader.read1(PIECE_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            LOGGER.warning(
                "%s: cannot be decompressed; lost the text after %d bytes: %s",
                self._path,
                self._size,
                error,
            )
            self._unread.give_up(self._path, f"cannot be decompressed: {error}")
            return True

        unwritten = piece
        while unwritten:
            # A call of `write` may write only a part.
            written = os.write(self._text, unwritten)
            unwritten = unwritten[written:]
        self._size += len(piece)
        # Only at the end, there is no piece.
        return not piece

    def finish(self) -> int:
        """Close the compressed file, and return the descriptor of the text.

        The caller has to close the text.
        """
        self._compressed_file.close()
        return self._text


def _text_size(path: str) -> int:
    """Return the size of a gzip file's decompressed text, modulo `GZIP_MODULUS`.

    The last bytes of the file have this number.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as compressed_file:
        size = compressed_file.seek(0, os.SEEK_END)
        compressed_file.seek(max(0, size - SIZE_BYTES))
        return int.from_bytes(compressed_file.read(), "little") % GZIP_MODULUS
