"""A file that whole lines are added to, by one process at a time."""

from __future__ import annotations

import os
import stat
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked
from graphrag_eval_async.posix import IS_POSIX, after_fork, open_flags

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | open_flags("O_CLOEXEC")

NEW = os.O_EXCL | open_flags("O_NOFOLLOW")
"""Flags for a file that must not be there yet."""

_opened: weakref.WeakSet[AppendFile] = weakref.WeakSet()


class AppendFile:
    """A locked file that takes lines whole or not at all. The lock dies with the process.

    Attributes:
        path: of the file.
        size: bytes in the file, all of them whole lines.
    """

    def __init__(self, path: str | os.PathLike[str], *, flags: int = 0) -> None:
        """Open or create the file, and lock it.

        Args:
            path: of the file.
            flags: of `os.open`, added to those that it needs.

        Raises:
            JournalLocked: another process, or another stream, writes to it.
            JournalError: it cannot be opened for writing, or is not a regular file.
        """
        self.path = os.fspath(path)
        try:
            self._place = os.path.realpath(self.path)
            self._descriptor, self.size = _open_locked(self.path, FLAGS | flags)
        except BlockingIOError:
            raise JournalLocked(
                f"{self.path}: another process, or another stream of this one, writes to it; "
                "use another journal, or wait until that has ended"
            ) from None
        except (OSError, ValueError) as error:
            is_link = flags & os.O_NOFOLLOW and os.path.islink(self.path)
            reason = ValueError("it is a symbolic link; remove it, or use another journal")
            raise self._error("opened for writing", reason if is_link else error) from error
        if not self.size:
            sync_directory(self.path)
        self._unsynced = True  # An earlier process may have left it so.
        _opened.add(self)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Add lines, given in pieces; if that fails, none of them stays.

        Raises:
            JournalError: they cannot be written, or the file was removed, renamed or replaced.
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
                raise self._error("written", error) from error
            raise
        self.size = size
        self._unsynced = True

    def _check_place(self) -> None:
        with suppress(OSError):
            if os.path.samestat(os.stat(self._place), os.fstat(self._descriptor)):
                return
        raise JournalError(
            f"{self.path}: was removed, renamed or replaced while it was written to; start again with it, "
            "or with another file"
        )

    def _error(self, done: str, error: Exception) -> JournalError:
        reason = (isinstance(error, OSError) and error.strerror) or error
        return JournalError(f"{self.path}: cannot be {done}: {reason}")

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` on."""
        return os.pread(self._descriptor, size, offset)

    def truncate(self, size: int) -> None:
        """Cut off everything after `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Flush to the disk. It may be called in another thread than `write`.

        Raises:
            JournalError: it cannot be flushed.
        """
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has fsync only.
        except OSError as error:
            self._unsynced = True
            raise self._error("brought to the disk", error) from error

    def draft(self) -> AppendFile:
        """An empty file for `replace_by`; what a crash has left of an earlier one is removed."""
        path = f"{self._place}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(path)
        return AppendFile(path, flags=NEW)

    def replace_by(self, other: AppendFile) -> None:
        """Give the name and the mode of this file to another one of the same directory, and become that."""
        other.take_mode(self)
        other.sync()
        os.replace(other.path, self._place)
        sync_directory(self._place)
        self.close()
        self._descriptor, self.size = other._descriptor, other.size
        other._descriptor = -1

    def take_mode(self, other: AppendFile) -> None:
        """Let those read and write it who may do so with another."""
        os.fchmod(self._descriptor, stat.S_IMODE(os.fstat(other._descriptor).st_mode))

    def close(self) -> None:
        """Close the file, and release its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_draft(path: str, target: str) -> int:
    """A descriptor of a new file at `path`, with the mode of the one at `target`, which it is to replace.

    What was at `path`, which others can foresee, is removed: a link there leads nowhere.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | open_flags("O_CLOEXEC") | NEW, 0o666)
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
    return descriptor


def sync_directory(path: str) -> None:
    """Flush the name of a file to the disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _leave_to_parent() -> None:
    """Close the files in a forked child, which would otherwise keep their locks when the parent has died."""
    for file in list(_opened):
        file.close()


after_fork(_leave_to_parent)


def _open_locked(path: str, flags: int) -> tuple[int, int]:
    """A descriptor of the file, and its size."""
    while True:
        descriptor = os.open(path, flags, 0o666)
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
