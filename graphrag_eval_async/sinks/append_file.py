"""A file that whole lines are added to, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked

if TYPE_CHECKING:
    from collections.abc import Iterable

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class AppendFile:
    """Holds the lock of its file, which dies with the process, and adds lines to it, whole or not at all.

    Attributes:
        path: of the file.
        size: in bytes; what stands there is whole lines.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create the file, and lock it.

        Raises:
            JournalLocked: another process, or another stream, writes to it.
            JournalError: it cannot be opened for writing, or is no regular file.
        """
        self.path = os.fspath(path)
        try:
            self._descriptor = _open_locked(self.path)
        except BlockingIOError:
            raise JournalLocked(
                f"{self.path}: another process, or another stream of this one, writes to it; "
                "use another journal, or wait until that has ended"
            ) from None
        except (OSError, ValueError) as error:
            raise JournalError(f"{self.path}: cannot be opened for writing: {_reason(error)}") from error
        self.size = os.fstat(self._descriptor).st_size

    def write(self, pieces: Iterable[bytes]) -> None:
        """Add lines, given in pieces; if that fails, nothing of them stays.

        Raises:
            JournalError: they cannot be written.
        """
        size = self.size
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    # The kernel may take less than all of it, as on a disk that is nearly full.
                    rest = rest[os.write(self._descriptor, rest) :]
                size += len(piece)
        except BaseException as error:
            with suppress(OSError):  # Then the next start cuts it off.
                self.truncate(self.size)
            if isinstance(error, OSError):
                raise JournalError(f"{self.path}: cannot be written: {_reason(error)}") from error
            raise
        self.size = size

    def truncate(self, size: int) -> None:
        """Cut off what stands after `size` bytes.

        Raises:
            OSError: it cannot be done.
        """
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Return when all that was written is on the disk.

        Raises:
            JournalError: it cannot be brought there.
        """
        try:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has fsync only.
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be brought to the disk: {_reason(error)}") from error

    def replace_by(self, other: AppendFile) -> None:
        """Let another file take the place and the name of this one.

        Raises:
            OSError: it cannot.
        """
        other.sync()
        os.replace(other.path, self.path)
        os.close(self._descriptor)
        self._descriptor, self.size = other._descriptor, other.size

    def close(self) -> None:
        """Close the file, and give up its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open_locked(path: str) -> int:
    while True:
        descriptor = os.open(path, FLAGS, 0o666)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(status, os.stat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # It was replaced meanwhile.


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
