"""A file to which one process at a time appends whole lines, and drafts that replace files."""

from __future__ import annotations

import os
import stat
import weakref
from contextlib import closing, contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked
from graphrag_eval_async.posix import IS_POSIX, after_fork, open_flags

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIECE_BYTES = 1 << 20

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

    def write(self, lines: bytes) -> None:
        """Append lines; on failure, append nothing.

        Raises:
            JournalError: the lines cannot be written, or the file was removed, renamed or replaced.
        """
        if not self._is_in_place():
            raise JournalError(
                f"{self.path}: was removed, renamed or replaced while it was written to; "
                "start again with it, or with another file"
            )
        try:
            rest = memoryview(lines)
            while rest:  # The kernel may write only a part, for example if the disk is nearly full.
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with suppress(OSError):  # If this fails, the next start truncates the file.
                self.truncate(self.size)
            raise self._error("written", error) from error
        self.size += len(lines)
        self._unsynced = True

    def _is_in_place(self) -> bool:
        with suppress(OSError):
            return os.path.samestat(os.stat(self._place), os.fstat(self._descriptor))
        return False

    def _error(self, done: str, error: Exception) -> JournalError:
        return JournalError(f"{self.path}: cannot be {done}: {getattr(error, 'strerror', None) or error}")

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

    def move(self, stretches: Sequence[tuple[int, int]], path: str) -> None:
        """Move the lines from each start to each end to the end of the file at `path`.

        A crash may leave some of them in both files.

        Raises:
            OSError: a file cannot be read or written.
            JournalError: likewise.
        """
        with closing(AppendFile(path, flags=os.O_NOFOLLOW)) as other:
            if not other.size:
                self._copy_mode(other)
            for start, end in stretches:
                self._copy(start, end, other)
            other.sync()
        draft = f"{self._place}.tmp"
        with suppress(FileNotFoundError):  # One left by a crash.
            os.unlink(draft)
        with closing(AppendFile(draft, flags=NEW)) as rest:
            place = 0
            for start, end in [*stretches, (self.size, self.size)]:
                self._copy(place, start, rest)
                place = end
            self._copy_mode(rest)
            rest.sync()
            os.replace(draft, self._place)
            sync_directory(self._place)
            self.close()
            self._descriptor, self.size, rest._descriptor = rest._descriptor, rest.size, -1

    def _copy(self, start: int, end: int, other: AppendFile) -> None:
        while start < end:
            piece = self.read(start, min(PIECE_BYTES, end - start))
            if not piece:
                raise OSError(f"shorter than {end} bytes")
            other.write(piece)
            start += len(piece)

    def _copy_mode(self, other: AppendFile) -> None:
        os.fchmod(other._descriptor, stat.S_IMODE(os.fstat(self._descriptor).st_mode))

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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


def _leave_to_parent() -> None:
    """Close the files in a forked child, which would otherwise hold the locks after the parent's death."""
    for file in list(_opened):
        file.close()


after_fork(_leave_to_parent)


def draft_beside(path: str, suffix: str) -> str:
    """Return an unpredictable path in the same directory."""
    # Without the original name, which may already have the maximum length.
    name = f".graphrag-eval-async.{token_hex(8)}{suffix}"
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


@contextmanager
def drafted(path: str, *, follow_links: bool = True) -> Iterator[str]:
    """Yield the path of an empty file that replaces the one at `path`, with its mode, if all goes well.

    Raises:
        OSError: the file cannot be written; carries `path`.
    """
    draft = draft_beside(path, ".tmp")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | open_flags("O_CLOEXEC") | NEW, 0o666))
        with suppress(FileNotFoundError):
            os.chmod(draft, stat.S_IMODE(os.stat(path).st_mode))
        yield draft
        os.replace(draft, os.path.realpath(path) if follow_links else path)
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def sync_directory(path: str) -> None:
    """Flush the directory of a file to disk, if the file system supports that."""
    with suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
