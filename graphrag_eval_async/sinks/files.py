"""Writes files: line by line, or whole, by replacing a file with a draft."""

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
from graphrag_eval_async.helpers.posix import IS_POSIX, after_fork, open_flags
from graphrag_eval_async.helpers.threads import run_to_end, write_in_thread

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

Writing 256 KiB takes about 70 us, as long as switching to a thread and back. So the event loop
writes fewer bytes sooner itself.
"""


class WholeFile(FileIO):
    """An unbuffered file, to which a write appends all its bytes or none.

    If a task is cancelled while a thread writes for it, the thread goes on. So `close` waits for
    the end of a write.

    Attributes:
        size: size of the file in bytes, according to the writes of this process.
    """

    def __init__(self, descriptor: int, *, size: int = 0, is_shared: bool = False) -> None:
        """Take over an open descriptor.

        Args:
            descriptor: the descriptor, opened for writing at the end of the file.
            size: bytes that are in the file already.
            is_shared: whether other programs write to the same file, such as standard output. Then
                bytes are never removed from it, and `close` leaves the descriptor open.
        """
        self.size = size
        self._is_shared = is_shared
        self._write_lock = Lock()
        super().__init__(descriptor, "wb", closefd=not is_shared)

    def write(self, data: ReadableBuffer, /) -> int:
        """Append all bytes, and return their number.

        Raises:
            OSError: they cannot be written. Those that were written are removed again.
        """
        with self._write_lock:
            unwritten = memoryview(data)
            length = len(unwritten)
            try:
                # The kernel may write only a part, for example if the disk is nearly full.
                while unwritten:
                    written = super().write(unwritten)
                    unwritten = unwritten[written:]
            except OSError:
                if not self._is_shared:
                    with suppress(OSError):
                        self.truncate(self.size)
                raise
            self.size += length
            return length

    def cut_to(self, size: int) -> None:
        """Shorten the file to `size` bytes."""
        self.truncate(size)
        self.size = size

    def close(self) -> None:
        """Close the file, after waiting for the end of a write in another thread."""
        with self._write_lock:
            super().close()

    def __del__(self) -> None:
        # A stream that was dropped leaves its files open, which is no mistake to warn of: all lines
        # are written already.
        if not self.closed:
            self.close()


class LineFile(AbstractContextManager["LineFile"]):
    """A file, pipe or terminal to which whole lines are written at once.

    It has no buffer, so lines that were written survive the end of the process. If a line cannot be
    written as a whole, its beginning is removed from a regular file. Each `OSError` has the name of
    the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: Callable[[int], object] | None = None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create the file, or empty it if it exists.

        Args:
            path: path of the file; ``-`` is standard output.
            wait: blocks until a descriptor is writable. `write` calls it if the file is a pipe that
                is full, and passes its exceptions on. By default, `write` waits without limit.
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

        # Pipes, sockets and terminals accept only as many bytes as their reader has room for.
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
            # The pipe is full.
            self._wait(self._descriptor)

    async def send(self, lines: bytes) -> None:
        """Write one or more lines without blocking the event loop for long.

        If the task is cancelled meanwhile, the lines are still written before the cancellation
        takes effect. A pipe is an exception: if its reader does not take them within
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
        """Write lines to a pipe, socket or terminal; other tasks run while its reader is slow."""
        remaining_writes = self._write_to_pipe(lines)
        try:
            await self._finish(remaining_writes)
        except anyio.get_cancelled_exc_class():
            # Give the reader some time to take the rest, so that it does not get half a line.
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await self._finish(remaining_writes)
            raise

    async def _finish(self, remaining_writes: Iterator[None]) -> None:
        """Run a generator of `_write_to_pipe` to its end, waiting for the reader at each step."""
        for _ in remaining_writes:
            await anyio.wait_writable(self._descriptor)

    def _write_to_pipe(self, lines: bytes) -> Iterator[None]:
        """Write lines to a pipe, socket or terminal in steps.

        This yields when the pipe is full. The caller waits until it is writable, and continues.
        """
        if self._escape is not None:
            lines = self._escape(lines.decode(errors="backslashreplace")).encode()
        unwritten = memoryview(lines)
        try:
            while unwritten:
                written = 0
                is_writable = bool(self._poll.poll(0))
                if is_writable:
                    # Writing at most PIPE_BUF bytes to a writable pipe does not block.
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
    """A file that this process has locked, to which a write appends all its lines or none.

    The lock ends with the process. Errors are raised as `JournalError`.

    Attributes:
        path: path of the file.
        size: size of the file in bytes.
    """

    def __init__(self, path: str | os.PathLike[str], *, flags: int = 0) -> None:
        """Open or create the file, and lock it.

        Args:
            path: path of the file.
            flags: flags for `os.open`, in addition to the usual ones.

        Raises:
            JournalLocked: another process, or another stream of this process, has locked it.
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
        """Open or create the file at `path`, and lock it.

        Raises:
            JournalLocked: another process, or another stream of this process, has locked it.
            JournalError: it cannot be opened.
        """
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
        # The size of the file when it was last flushed. It is None, not the current size, since an
        # earlier process may have written the file without flushing it.
        self._flushed_size: int | None = None

    def write(self, lines: ReadableBuffer, /) -> int:
        """Append all lines, and return the number of their bytes.

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
        """Flush to disk what was written. This may run in a different thread than `write`.

        Raises:
            JournalError: the file cannot be flushed. Then the system may lose data without another
                error.
        """
        # A thread may write more while this flushes, so the size is read first.
        size = self.size
        if size == self._flushed_size:
            return
        try:
            # macOS has no `fdatasync`.
            flush_data = getattr(os, "fdatasync", os.fsync)
            flush_data(self.fileno())
        except OSError as error:
            raise self._error("flushed to disk", error) from error
        self._flushed_size = size

    def leave_to_parent(self) -> None:
        """Close the file in a forked child, without waiting for the end of a write.

        The thread that writes is in the parent, so the child would wait forever.
        """
        FileIO.close(self)

    def _error(self, failed_action: str, error: OSError) -> JournalError:
        reason = error.strerror or error
        return JournalError(f"{self.path}: cannot be {failed_action}: {reason}")


def _open_locked(path: str, real_path: str, flags: int) -> int:
    """Open a file for appending, lock it, and return its descriptor.

    Args:
        path: path of the file.
        real_path: the same path with all links resolved.
        flags: flags for `os.open`, in addition to the usual ones.

    Raises:
        BlockingIOError: another process, or another stream of this process, has locked it.
        OSError: it cannot be opened, or it is not a regular file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(real_path, descriptor):
            # The process that had locked it has replaced it in the meantime, and locks the new one.
            raise BlockingIOError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether an open file is still the file at a path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _leave_to_parent() -> None:
    """Close all locked files in a forked child.

    Otherwise, the child would keep the locks after the end of its parent.
    """
    for file in _locked_files:
        file.leave_to_parent()


after_fork(_leave_to_parent)


def check_replaceable(path: str) -> str:
    """Return `path` if a file can be written there, by replacing an old file or as a new one.

    Raises:
        UsageError: it is not a regular file, or its directory is missing or cannot be written.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path!r} is not a regular file")
    if not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        raise UsageError(f"{path!r}: its directory does not exist, or is not writable")
    return path


def draft_beside(path: str, suffix: str) -> str:
    """Return a random path in the directory of a file, for a draft that replaces the file.

    Args:
        path: path of the file.
        suffix: end of the name of the draft.
    """
    # The name does not include that of the file, which may already have the maximum length.
    name = f".graphrag-eval-async.{token_hex(8)}{suffix}"
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


@contextmanager
def drafted(path: str, *, follow_links: bool = True) -> Iterator[str]:
    """Yield the path of an empty draft, which replaces the file at `path` at the end.

    The draft gets the mode of the file that it replaces. If the context ends with an error, the
    draft is removed and the file stays. Each `OSError` has `path` as its file name.

    Args:
        path: path of the file to replace, or of a new one.
        follow_links: whether to replace what a link points to, not the link itself.
    """
    draft = draft_beside(path, ".tmp")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(path).st_mode)
            os.chmod(draft, mode)
        yield draft
        # The link may have changed in the meantime, so it is resolved now.
        replaced_path = os.path.realpath(path) if follow_links else path
        os.replace(draft, replaced_path)
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
    """Write a text file in UTF-8, atomically: readers see the old or the new text, never a part."""

    def replace_file() -> None:
        with drafted(os.fspath(path)) as draft:
            Path(draft).write_text(text, encoding="utf-8")

    await write_in_thread(replace_file)
