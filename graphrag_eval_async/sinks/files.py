"""Files that are written.

They take lines as they come, from one process at a time, or are replaced whole by a draft.
"""

from __future__ import annotations

import os
import select
import stat
import weakref
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

import anyio
from aiofiles.threadpool.binary import AsyncFileIO

from graphrag_eval_async.errors import JournalError, JournalLocked, UsageError
from graphrag_eval_async.posix import IS_POSIX, after_fork, open_flags
from graphrag_eval_async.threads import run_to_end, write_in_thread

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer

STDOUT = 1
"""Descriptor of standard output, whose path is ``-``."""

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader to take the rest of a line."""

LARGE_BYTES = 1 << 18
"""From this size on, a thread writes to the file.

Less is written sooner by the event loop: 256 KiB take about 70 us, as does the switch to a thread
and back.
"""


class WholeFile(FileIO):
    """An unbuffered file that takes all bytes of a write, or none.

    A task that is cancelled while `aiofiles` writes for it leaves a thread running, so `close`
    waits for that write.

    Attributes:
        size: bytes in the file, as far as this process has written them.
    """

    def __init__(self, descriptor: int, *, size: int = 0, is_shared: bool = False) -> None:
        """Take over an open descriptor.

        Args:
            descriptor: the descriptor, opened for writing at the end of the file.
            size: bytes that are in the file already.
            is_shared: whether others write to the same file, so that nothing is ever removed from
                it, and the descriptor stays open.
        """
        self.size = size
        self._is_shared = is_shared
        self._write_lock = Lock()
        super().__init__(descriptor, "wb", closefd=not is_shared)

    def write(self, data: ReadableBuffer, /) -> int:
        """Append bytes; on failure, remove those that were written."""
        with self._write_lock:
            unwritten = memoryview(data)
            length = len(unwritten)
            try:
                # The kernel may write only a part, for example if the disk is nearly full.
                while unwritten:
                    unwritten = unwritten[super().write(unwritten) :]
            except OSError:
                if not self._is_shared:
                    with suppress(OSError):
                        self.truncate(self.size)
                raise
            self.size += length
            return length

    def cut_to(self, size: int) -> None:
        """Remove what is after the first `size` bytes."""
        self.truncate(size)
        self.size = size

    def close(self) -> None:
        """Close the file, once a write that a thread has begun is done."""
        with self._write_lock:
            super().close()

    def __del__(self) -> None:
        # A stream that was dropped leaves its files open, which is no mistake to warn of: all lines
        # are written already.
        self.close()


class LineFile(AbstractContextManager["LineFile"]):
    """Writes whole lines at once, unbuffered: written lines outlive the process.

    If a line cannot be written whole, it is removed from a regular file. An `OSError` carries the
    name of the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: Callable[[int], object] | None = None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create or empty a file.

        Args:
            path: path of the file; ``-`` is standard output.
            wait: called by `write` to block until a descriptor is writable; its exceptions end
                `write`.
            escape: makes lines safe for a terminal; called only if the file is a terminal.
        """
        is_stdout = os.fspath(path) == "-"
        if is_stdout:
            self._name = "standard output"
            self._descriptor = STDOUT
        else:
            self._name = os.fspath(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | open_flags("O_BINARY")
            self._descriptor = os.open(path, flags, 0o666)
        self._file = WholeFile(self._descriptor, is_shared=is_stdout)
        self._file_in_thread = AsyncFileIO(self._file, loop=None, executor=None)

        # Pipes, sockets and terminals take only what their reader has room for.
        self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._piped_bytes = 0
        self._escape = escape if os.isatty(self._descriptor) else None
        if not self._is_regular:
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)
        self._wait = wait or (lambda _descriptor: self._poll.poll())

    @property
    def length(self) -> int:
        """Number of bytes written so far."""
        return self._file.size + self._piped_bytes

    def write(self, lines: bytes) -> None:
        """Write one or more lines; block until they are written."""
        if self._is_regular:
            try:
                self._file.write(lines)
            except OSError as error:
                error.filename = self._name
                raise
            return
        for _ in self._write_to_pipe(lines):
            self._wait(self._descriptor)

    async def send(self, lines: bytes) -> None:
        """Write one or more lines without blocking the event loop.

        A cancellation takes effect only after all lines are written. If nobody reads a pipe for
        `PATIENCE_SECONDS`, it may be left with half a line.
        """
        if not self._is_regular:
            await self._send_to_pipe(lines)
        elif len(lines) < LARGE_BYTES:
            self.write(lines)
        else:
            try:
                await run_to_end(self._file_in_thread.write(lines))
            except OSError as error:
                error.filename = self._name
                raise

    async def _send_to_pipe(self, lines: bytes) -> None:
        """Write lines to a pipe, socket or terminal; the event loop waits for its reader."""
        waits = self._write_to_pipe(lines)
        try:
            await self._wait_each_time(waits)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await self._wait_each_time(waits)
            raise

    async def _wait_each_time(self, waits: Iterator[None]) -> None:
        for _ in waits:
            await anyio.wait_writable(self._descriptor)

    def _write_to_pipe(self, lines: bytes) -> Iterator[None]:
        """Write lines to a pipe, socket or terminal; yield whenever it cannot take more."""
        if self._escape is not None:
            lines = self._escape(lines.decode(errors="backslashreplace")).encode()
        unwritten = memoryview(lines)
        try:
            while unwritten:
                written = 0
                if self._poll.poll(0):
                    # A pipe that is writable accepts at least PIPE_BUF bytes.
                    with suppress(BlockingIOError):
                        written = os.write(self._descriptor, unwritten[: select.PIPE_BUF])
                if written == 0:
                    yield
                unwritten = unwritten[written:]
        except OSError as error:
            error.filename = self._name
            raise
        self._piped_bytes += len(lines)

    def close(self) -> None:
        """Close the file; standard output stays open."""
        self._file.close()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


_locked_files: weakref.WeakSet[LockedFile] = weakref.WeakSet()
"""The files of this process that are open and locked."""


class LockedFile(WholeFile):
    """A locked file that appends whole lines or nothing, and raises a `JournalError` if it cannot.

    The lock ends with the process.

    Attributes:
        path: path of the file.
        size: size of the file in bytes.
    """

    def __init__(self, path: str | os.PathLike[str], *, flags: int = 0) -> None:
        """Open or create the file, and lock it; `flags` are extra flags for `os.open`.

        Raises:
            JournalLocked: another process, or another stream of this one, has locked it.
            JournalError: it cannot be opened.
        """
        self.path = os.fspath(path)
        self._open(flags)
        _locked_files.add(self)

    def reopen(self) -> None:
        """Open and lock the file that has replaced this one at its path.

        Raises:
            JournalLocked: another process has locked it first.
            JournalError: it cannot be opened.
        """
        self.close()
        self._open(flags=0)

    def _open(self, flags: int) -> None:
        """Open or create the file at the path, and lock it."""
        try:
            self._real_path = os.path.realpath(self.path)
            descriptor = _open_locked(self.path, self._real_path, flags)
        except BlockingIOError:
            raise JournalLocked(
                f"{self.path}: another process, or another stream of this one, writes to it; "
                "use another journal, or wait until the other ends"
            ) from None
        except OSError as error:
            raise self._error("opened for writing", error) from error
        super().__init__(descriptor, size=os.fstat(descriptor).st_size)
        # An earlier process may not have flushed the file, not even an empty one.
        self._flushed_size: int | None = None

    def write(self, lines: ReadableBuffer, /) -> int:
        """Append lines; on failure, append nothing.

        Raises:
            JournalError: they cannot be written, or the file is no longer at its path.
        """
        if self.closed or not _is_at(self._real_path, self.fileno()):
            raise JournalError(
                f"{self.path}: was removed, renamed or replaced while it was written to"
            )
        try:
            return super().write(lines)
        except OSError as error:
            raise self._error("written", error) from error

    def flush_to_disk(self) -> None:
        """Flush what was written to disk; may run in a different thread than `write`.

        Raises:
            JournalError: that fails, after which the system may drop data silently.
        """
        size = self.size
        if size == self._flushed_size:
            return
        try:
            # macOS has fsync only.
            getattr(os, "fdatasync", os.fsync)(self.fileno())
        except OSError as error:
            raise self._error("flushed to disk", error) from error
        self._flushed_size = size

    def leave_to_parent(self) -> None:
        """Close the file in a forked child, in which no thread can end a write."""
        FileIO.close(self)

    def _error(self, failed_action: str, error: OSError) -> JournalError:
        reason = error.strerror or error
        return JournalError(f"{self.path}: cannot be {failed_action}: {reason}")


def _open_locked(path: str, real_path: str, flags: int) -> int:
    """Return the descriptor of a file, opened to append and locked.

    Raises:
        BlockingIOError: another process, or another stream of this one, has locked it.
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(real_path, descriptor):
            # Its writer has just replaced it.
            raise BlockingIOError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _leave_to_parent() -> None:
    """Close locked files in a forked child, which would hold the locks after its parent's death."""
    for file in _locked_files:
        file.leave_to_parent()


after_fork(_leave_to_parent)


def check_replaceable(path: str) -> str:
    """Return `path` if a draft can replace the file there, or become it.

    Raises:
        UsageError: it is not a regular file, or its directory is missing or cannot be written.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path!r} is not a regular file")
    if not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        raise UsageError(f"{path!r}: its directory does not exist, or is not writable")
    return path


def draft_beside(path: str, suffix: str) -> str:
    """Return an unpredictable path in the same directory."""
    # Without the original name, which may already have the maximum length.
    name = f".graphrag-eval-async.{token_hex(8)}{suffix}"
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


@contextmanager
def drafted(path: str, *, follow_links: bool = True) -> Iterator[str]:
    """Yield the path of an empty file that replaces the one at `path` if the context ends well.

    It gets the mode of the file that it replaces. An `OSError` carries `path`.

    Args:
        path: path of the file to replace, or of a new one.
        follow_links: whether to replace what a link points to, not the link itself.
    """
    draft = draft_beside(path, ".tmp")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        with suppress(FileNotFoundError):
            os.chmod(draft, stat.S_IMODE(os.stat(path).st_mode))
        yield draft
        os.replace(draft, os.path.realpath(path) if follow_links else path)
    except OSError as error:
        error.filename = path
        error.filename2 = None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def flush(file: BinaryIO) -> None:
    """Flush a file to disk."""
    file.flush()
    os.fsync(file.fileno())


async def write_report(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, atomically.

    Readers see the old or the new content, never a part of it.
    """

    def replace_file() -> None:
        with drafted(os.fspath(path)) as draft:
            Path(draft).write_text(text, encoding="utf-8")

    await write_in_thread(replace_file)
