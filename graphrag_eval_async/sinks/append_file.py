"""A file that whole lines are added to, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import stat
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked

if TYPE_CHECKING:
    from collections.abc import Iterable

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

_opened: weakref.WeakSet[AppendFile] = weakref.WeakSet()


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
            self._place = os.path.realpath(self.path)
            self._descriptor, self.size = _open_locked(self.path)
        except BlockingIOError:
            raise JournalLocked(
                f"{self.path}: another process, or another stream of this one, writes to it; "
                "use another journal, or wait until that has ended"
            ) from None
        except (OSError, ValueError) as error:
            raise JournalError(f"{self.path}: cannot be opened for writing: {_reason(error)}") from error
        if not self.size:
            sync_directory(self.path)
        self._unsynced = True  # An earlier process may have left it so.
        _opened.add(self)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Add lines, given in pieces; if that fails, nothing of them stays.

        Raises:
            JournalError: they cannot be written, or the file has lost its name, where they would be found.
        """
        self._check_place()
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
        self._unsynced = True

    def _check_place(self) -> None:
        try:
            if os.path.samestat(os.stat(self._place), os.fstat(self._descriptor)):
                return
        except OSError:
            pass
        raise JournalError(
            f"{self.path}: was removed, renamed or replaced while it was written to; start again with it, "
            "or with another file"
        )

    def read(self, offset: int, size: int) -> bytes:
        """What stands at `offset`, at most `size` bytes of it.

        Raises:
            OSError: it cannot be read.
        """
        return os.pread(self._descriptor, size, offset)

    def truncate(self, size: int) -> None:
        """Cut off what stands after `size` bytes.

        Raises:
            OSError: it cannot be done.
        """
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Return when all that was written is on the disk; it may be called in another thread than `write`.

        Raises:
            JournalError: it cannot be brought there.
        """
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has fsync only.
        except OSError as error:
            self._unsynced = True
            raise JournalError(f"{self.path}: cannot be brought to the disk: {_reason(error)}") from error

    def replace_by(self, other: AppendFile) -> None:
        """Let another file of the same directory take the place, the name and the mode of this one.

        Raises:
            JournalError, OSError: it cannot.
        """
        path = self._place
        os.fchmod(other._descriptor, stat.S_IMODE(os.fstat(self._descriptor).st_mode))
        other.sync()
        os.replace(other.path, path)
        sync_directory(path)
        self.close()
        self._descriptor, self.size = other._descriptor, other.size
        other._descriptor = -1

    def close(self) -> None:
        """Close the file, and give up its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def sync_directory(path: str) -> None:
    """Bring the name of a file to the disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _leave_to_parent() -> None:
    """Close the files of a process in its child: what is open there keeps a lock when the parent has died."""
    for file in list(_opened):
        file.close()


os.register_at_fork(after_in_child=_leave_to_parent)


def _open_locked(path: str) -> tuple[int, int]:
    """A descriptor of the file, and its size."""
    while True:
        descriptor = os.open(path, FLAGS, 0o666)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                locked = os.stat(path)
                if os.path.samestat(status, locked):
                    return descriptor, locked.st_size
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # It was replaced meanwhile.


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
