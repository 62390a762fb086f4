"""Output files: lines written one by one, and drafts that replace whole files."""

from __future__ import annotations

import os
import select
import stat
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

import anyio

from graphrag_eval_async.posix import open_flags
from graphrag_eval_async.threads import write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader to take the rest of a line."""

LARGE_BYTES = 1 << 16
"""From this size on, a thread writes to the file; below, switching threads costs more than writing."""


class LineFile(AbstractContextManager["LineFile"]):
    """Writes whole lines at once, unbuffered: written lines outlive the process.

    If a line cannot be written whole, it is removed from a regular file. An `OSError` carries the name of the
    file. `length` is the number of bytes written so far.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: Callable[[int], object] | None = None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create or empty the file at `path`; ``-`` is standard output.

        `wait` is called by `write` to block until a descriptor is writable; its exceptions end `write`.
        `escape` makes lines safe for a terminal; it is called only if the file is a terminal.
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
                write_whole(self._descriptor, lines, self.length if self._own else None)
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


def write_whole(descriptor: int, lines: bytes, size: int | None) -> None:
    """Append lines to a regular file; on failure, truncate it to its former `size`, if that is given."""
    rest = memoryview(lines)
    try:
        while rest:  # The kernel may write only a part, for example if the disk is nearly full.
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        if size is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
        raise


def draft_beside(path: str, suffix: str) -> str:
    """Return an unpredictable path in the same directory."""
    # Without the original name, which may already have the maximum length.
    name = f".graphrag-eval-async.{token_hex(8)}{suffix}"
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


@contextmanager
def drafted(path: str, *, follow_links: bool = True) -> Iterator[str]:
    """Yield the path of an empty file that replaces the one at `path`, with its mode, if all goes well."""
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
    """Atomically write a text file in UTF-8: readers see the old or the new content, never a part."""

    def replace() -> None:
        with drafted(os.fspath(path)) as draft:
            Path(draft).write_text(text, encoding="utf-8")

    await write_in_thread(replace)
