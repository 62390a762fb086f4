"""Files that are written: line by line, by one process at a time, or as drafts that replace them
whole.
"""

from __future__ import annotations

import os
import select
import stat
import weakref
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

import anyio

from graphrag_eval_async.errors import JournalError, JournalLocked, UsageError
from graphrag_eval_async.posix import IS_POSIX, after_fork, open_flags
from graphrag_eval_async.threads import write_in_thread

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader to take the rest of a line."""

LARGE_BYTES = 1 << 16
"""From this size on, a thread writes to the file; below, switching threads costs more than
writing.
"""


class LineFile(AbstractContextManager["LineFile"]):
    """Writes whole lines at once, unbuffered: written lines outlive the process.

    If a line cannot be written whole, it is removed from a regular file. An `OSError` carries the
    name of the file. `length` is the number of bytes written so far.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: Callable[[int], object] | None = None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create or empty the file at `path`; ``-`` is standard output.

        `wait` is called by `write` to block until a descriptor is writable; its exceptions end
        `write`. `escape` makes lines safe for a terminal; it is called only if the file is a
        terminal.
        """
        self._name = os.fspath(path)
        self._own = self._name != "-"
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | open_flags("O_BINARY")
        self._descriptor = os.open(path, new, 0o666) if self._own else 1
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._escape = escape if os.isatty(self._descriptor) else None
        self.length = 0
        if not self._regular:
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)
        self._wait = wait or (lambda _descriptor: self._poll.poll())

    def write(self, lines: bytes) -> None:
        """Write one or more lines; block until they are written."""
        for _ in self._write(lines):
            self._wait(self._descriptor)

    async def send(self, lines: bytes) -> None:
        """Write one or more lines without blocking the event loop.

        A cancellation takes effect only after all lines are written. If nobody reads a pipe for
        `PATIENCE_SECONDS`, it may be left with half a line.
        """
        if self._regular and len(lines) >= LARGE_BYTES:
            await write_in_thread(partial(self.write, lines))
            return
        waits = self._write(lines)
        try:
            await self._finish(waits)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await self._finish(waits)
            raise

    async def _finish(self, waits: Iterator[None]) -> None:
        for _ in waits:
            await anyio.wait_writable(self._descriptor)

    def _write(self, lines: bytes) -> Iterator[None]:
        """Write lines; yields whenever a pipe, socket or terminal cannot take more."""
        if self._escape is not None:
            lines = self._escape(lines.decode(errors="backslashreplace")).encode()
        try:
            if self._regular:
                _write_whole(self._descriptor, lines, self.length if self._own else None)
            else:
                yield from self._write_pieces(memoryview(lines))
        except OSError as error:
            error.filename = self._name if self._own else "standard output"
            raise
        self.length += len(lines)

    def _write_pieces(self, rest: memoryview) -> Iterator[None]:
        while rest:
            written = 0
            if self._poll.poll(0):
                with suppress(BlockingIOError):  # A writable pipe accepts at least PIPE_BUF bytes.
                    written = os.write(self._descriptor, rest[: select.PIPE_BUF])
            if not written:
                yield
            rest = rest[written:]

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._own:
            self._own = False
            os.close(self._descriptor)

    def __exit__(self, *exc_info: object) -> None:
        self.close()


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
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o666
            )
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
            raise JournalError(
                f"{self.path}: was removed, renamed or replaced while it was written to"
            )
        try:
            _write_whole(self._descriptor, lines, self.size)
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
    """Close the files in a forked child, which would otherwise hold the locks after its parent's
    death.
    """
    for file in _opened:
        file.close()


after_fork(_leave_to_parent)


def _write_whole(descriptor: int, lines: bytes, size: int | None) -> None:
    """Append lines to a regular file; on failure, truncate it to its former `size`, if that is
    given.
    """
    rest = memoryview(lines)
    try:
        while rest:  # The kernel may write only a part, for example if the disk is nearly full.
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        if size is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
        raise


def check_replaceable(path: str) -> str:
    """Return the path, or raise a `UsageError` if a file there cannot be replaced by a draft."""
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
    """Yield the path of an empty file that replaces the one at `path`, with its mode, if all
    goes well.
    """
    draft = draft_beside(path, ".tmp")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
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


def flush(file: BinaryIO) -> None:
    """Flush a file to disk."""
    file.flush()
    os.fsync(file.fileno())


async def write_report(path: str | os.PathLike[str], text: str) -> None:
    """Atomically write a text file in UTF-8: readers see the old or the new content, never a
    part.
    """

    def replace() -> None:
        with drafted(os.fspath(path)) as draft:
            Path(draft).write_text(text, encoding="utf-8")

    await write_in_thread(replace)
