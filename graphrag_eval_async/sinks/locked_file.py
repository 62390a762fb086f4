"""A file to which one process at a time appends whole lines."""

from __future__ import annotations

import os
import stat
import weakref
from contextlib import suppress

from graphrag_eval_async.errors import JournalError, JournalLocked
from graphrag_eval_async.posix import IS_POSIX, after_fork
from graphrag_eval_async.sinks.line_file import write_whole

if IS_POSIX:
    import fcntl

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND

_opened: weakref.WeakSet[LockedFile] = weakref.WeakSet()


class LockedFile:
    """A locked file that appends whole lines or nothing, and raises a `JournalError` if it cannot.

    The lock ends with the process. `size` is that of the file in bytes.
    """

    def __init__(self, path: str | os.PathLike[str], *, flags: int = 0) -> None:
        """Open or create the file, and lock it; `flags` are extra flags for `os.open`."""
        self.path = os.fspath(path)
        self._descriptor = -1
        try:
            self._place = os.path.realpath(self.path)
            self._descriptor = os.open(self.path, FLAGS | flags, 0o666)
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise OSError("it is not a regular file")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_in_place():  # Its writer has just replaced it.
                raise BlockingIOError
        except OSError as error:
            self.close()
            if isinstance(error, BlockingIOError):
                raise JournalLocked(
                    f"{self.path}: another process, or another stream of this one, writes to it; "
                    "use another journal, or wait until the other ends"
                ) from None
            raise self._error("opened for writing", error) from error
        self._synced = -1  # An earlier process may not have synced.
        self.size = os.fstat(self._descriptor).st_size
        _opened.add(self)

    def write(self, lines: bytes) -> None:
        """Append lines; on failure, append nothing."""
        if not self._is_in_place():
            raise JournalError(f"{self.path}: was removed, renamed or replaced while it was written to")
        try:
            write_whole(self._descriptor, lines, self.size)
        except OSError as error:
            raise self._error("written", error) from error
        self.size += len(lines)

    def _is_in_place(self) -> bool:
        with suppress(OSError):
            return os.path.samestat(os.stat(self._place), os.fstat(self._descriptor))
        return False

    def _error(self, done: str, error: OSError) -> JournalError:
        return JournalError(f"{self.path}: cannot be {done}: {error.strerror or error}")

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Flush to disk; may run in a different thread than `write`."""
        size = self.size
        try:
            if size != self._synced:
                getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has fsync only.
        except OSError as error:
            raise self._error("flushed to disk", error) from error
        self._synced = size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _leave_to_parent() -> None:
    """Close the files in a forked child, which would otherwise hold the locks after its parent's death."""
    for file in _opened:
        file.close()


after_fork(_leave_to_parent)
