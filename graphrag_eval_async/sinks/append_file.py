"""A file to which one process at a time appends whole lines."""

from __future__ import annotations

import os
import stat
import weakref
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked
from graphrag_eval_async.posix import IS_POSIX, after_fork, open_flags

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | open_flags("O_CLOEXEC")

NEW = os.O_EXCL | open_flags("O_NOFOLLOW")
"""Flags for a file that must not exist yet."""

_opened: weakref.WeakSet[AppendFile] = weakref.WeakSet()


class AppendFile:
    """A locked file that appends whole lines or nothing. The lock ends with the process.

    Attributes:
        size: size in bytes, whole lines only.
    """

    def __init__(self, path: str | os.PathLike[str], *, flags: int = 0) -> None:
        """Open or create the file, and lock it; `flags` are extra flags for `os.open`.

        Raises:
            JournalLocked: another process or stream writes to the file.
            JournalError: the file cannot be opened for writing, or is not a regular file.
        """
        self.path = os.fspath(path)
        try:
            self._place = os.path.realpath(self.path)
            self._descriptor, self.size = _open_locked(self.path, FLAGS | flags)
        except BlockingIOError:
            raise JournalLocked(
                f"{self.path}: another process, or another stream of this one, writes to it; "
                "use another journal, or wait until the other ends"
            ) from None
        except (OSError, ValueError) as error:
            is_link = flags & os.O_NOFOLLOW and os.path.islink(self.path)
            reason = ValueError("it is a symbolic link; remove it, or use another journal")
            raise self._error("opened for writing", reason if is_link else error) from error
        if not self.size:
            sync_directory(self.path)
        self._unsynced = True  # An earlier process may not have synced.
        _opened.add(self)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Append lines, given in pieces; on failure, append nothing.

        Raises:
            JournalError: the lines cannot be written, or the file was removed, renamed or replaced.
        """
        self._check_place()
        size = self.size
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    # The kernel may write only a part, for example if the disk is nearly full.
                    rest = rest[os.write(self._descriptor, rest) :]
                size += len(piece)
        except BaseException as error:
            with suppress(OSError):  # If this fails, the next start truncates the file.
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
        """Read at most `size` bytes from `offset`."""
        return os.pread(self._descriptor, size, offset)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Flush to disk; may run in a different thread than `write`.

        Raises:
            JournalError: the file cannot be flushed.
        """
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has fsync only.
        except OSError as error:
            self._unsynced = True
            raise self._error("flushed to disk", error) from error

    def draft(self) -> AppendFile:
        """Create an empty file for `replace_by`; remove one left by a crash."""
        path = f"{self._place}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(path)
        return AppendFile(path, flags=NEW)

    def replace_by(self, other: AppendFile) -> None:
        """Replace this file by another in the same directory, which gets its name and mode."""
        other.take_mode(self)
        other.sync()
        os.replace(other.path, self._place)
        sync_directory(self._place)
        self.close()
        self._descriptor, self.size = other._descriptor, other.size
        other._descriptor = -1

    def take_mode(self, other: AppendFile) -> None:
        """Copy the permissions of another file."""
        os.fchmod(self._descriptor, stat.S_IMODE(os.fstat(other._descriptor).st_mode))

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def draft_beside(path: str, suffix: str) -> str:
    """Return an unpredictable path in the same directory."""
    # Without the original name, which may already have the maximum length.
    name = f".graphrag-eval-async.{token_hex(8)}{suffix}"
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


@contextmanager
def drafted(path: str) -> Iterator[str]:
    """Yield the path of a draft that is to replace a file. At the end, it is removed; errors carry `path`."""
    draft = draft_beside(path, ".tmp")
    try:
        yield draft
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def open_draft(path: str, target: str) -> int:
    """Create a file at `path` to replace the one at `target`, with its mode; return the descriptor.

    First removes what is at `path`: others can predict the name and put a link there.

    Raises:
        OSError: the file cannot be created.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | open_flags("O_CLOEXEC") | NEW, 0o666)
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
    return descriptor


def sync_directory(path: str) -> None:
    """Flush the directory of a file to disk, if the file system supports that."""
    with suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _leave_to_parent() -> None:
    """Close the files in a forked child, which would otherwise hold the locks after the parent's death."""
    for file in list(_opened):
        file.close()


after_fork(_leave_to_parent)


def _open_locked(path: str, flags: int) -> tuple[int, int]:
    """Open and lock a file; return its descriptor and size."""
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
        os.close(descriptor)  # The file was replaced meanwhile.
