"""A file that whole lines are added to, by one process at a time, and how it is read after a crash."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import stat
import threading
import weakref
from contextlib import closing, suppress
from functools import partial
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import AggregationError, JournalError, JournalLocked
from graphrag_eval_async.threads import SLICE_SECONDS, run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

logger = logging.getLogger("graphrag_eval_async.journal")

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

PIECE_BYTES = 1 << 20
NEWLINE = ord("\n")

Span = tuple[int, int]
"""Where a line begins and ends."""

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
        """What stands at `offset`, at most `size` bytes of it."""
        return os.pread(self._descriptor, size, offset)

    def truncate(self, size: int) -> None:
        """Cut off what stands after `size` bytes."""
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
        """Give the place, the name and the mode of this file to another one of the same directory."""
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


async def read_lines(
    file: AppendFile, add: Callable[[Any], object], *, aside: str, threads: Executor
) -> tuple[int, int]:
    """Hand over each line as JSON value.

    A last line without its newline is cut off; what is no JSON, or what `add` refuses by a ValueError,
    TypeError, KeyError or AggregationError, is moved to the file at `aside`.

    Returns:
        how many lines were handed over, and how many were moved.

    Raises:
        JournalError: the file cannot be read or mended.
    """
    damaged: list[Span] = []
    total = end = 0
    rest = b""
    due = monotonic() + SLICE_SECONDS
    try:
        while piece := await run_in_thread(
            partial(file.read, end + len(rest), max(PIECE_BYTES, len(rest))), threads=threads
        ):
            lines, rest = BytesIO(rest + piece), b""
            for line in lines:
                if line[-1] != NEWLINE:
                    rest = line
                    break
                start, end = end, end + len(line)
                total += 1
                try:
                    add(orjson.loads(line))
                except (ValueError, TypeError, KeyError, AggregationError) as error:
                    text = "%s: byte %d: is no result or reject, and is set aside: %r"
                    logger.warning(text, file.path, start, error)
                    damaged.append((start, end))
                if monotonic() >= due:
                    await asyncio.sleep(0)
                    due = monotonic() + SLICE_SECONDS
        mending = _Mending(file, end, damaged, aside)
        await run_in_thread(mending.run, mending.stop.set, threads=threads)
    except OSError as error:
        raise JournalError(f"{file.path}: cannot be mended: {error.strerror or error}") from error
    return total - len(damaged), len(damaged)


class _Mending:
    """Cuts a file off at `end`, and moves its damaged lines to another, unless it is stopped before."""

    def __init__(self, file: AppendFile, end: int, damaged: Sequence[Span], aside: str) -> None:
        self._file = file
        self._end = end
        self._damaged = damaged
        self._aside = aside
        self.stop = threading.Event()

    def run(self) -> None:
        if self._end < self._file.size:
            self._file.truncate(self._end)
        if not self._damaged:
            return
        with closing(AppendFile(self._aside)) as kept:
            for span in self._damaged:
                self._copy(span, kept)
            kept.sync()
        with closing(AppendFile(f"{os.path.realpath(self._file.path)}.tmp")) as draft:
            draft.truncate(0)
            begin = 0
            for start, end in [*self._damaged, (self._end, self._end)]:
                self._copy((begin, start), draft)
                begin = end
            self._file.replace_by(draft)

    def _copy(self, span: Span, target: AppendFile) -> None:
        place, end = span
        while place < end:
            piece = self._file.read(place, min(PIECE_BYTES, end - place))
            if not piece or self.stop.is_set():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            target.write([piece])
            place += len(piece)
