"""Files that are written for others to read: lines as they come, and whole reports."""

from __future__ import annotations

import codecs
import os
import select
import stat
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Self

import anyio

from graphrag_eval_async.posix import open_flags
from graphrag_eval_async.sinks.append_file import open_draft
from graphrag_eval_async.threads import run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from aiofiles.threadpool.binary import AsyncFileIO

STDOUT = 1

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader to take the rest of a line."""

LARGE_BYTES = 1 << 16
"""From this size on, a thread writes to a file; handing over less to it would cost more than writing."""


class LineFile:
    """Writes whole lines at once, without a buffer: what was written survives the end of the process.

    A line that cannot be written whole is removed from a regular file. A pipe, socket or terminal gets only
    what it takes without blocking.

    Attributes:
        length: bytes written so far.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: Callable[[int], object] | None = None,
        escape: Callable[[str], str] | None = None,
    ) -> None:
        """Create or empty the file at `path`; ``-`` is standard output.

        Args:
            path: of the file.
            wait: called by `write` to block until a descriptor is writable; what it raises ends `write`.
            escape: makes lines safe for a terminal; it is called only if the file is one.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._name = os.fspath(path)
        self._own = self._name != "-"
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | open_flags("O_CLOEXEC", "O_BINARY")
        self._descriptor = os.open(path, new, 0o666) if self._own else STDOUT
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._escape = escape if os.isatty(self._descriptor) else None
        self.length = 0
        self._file: AsyncFileIO | None = None
        if not self._regular:
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)
        self._wait = wait or (lambda _descriptor: self._poll.poll())

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write one line that comes in pieces, the newline included.

        Raises:
            OSError: it cannot be written; carries the name of the file.
        """
        for _ in self._write(pieces):
            self._wait(self._descriptor)

    async def send(self, lines: bytes) -> None:
        """Write one or more lines, newlines included, without blocking the event loop.

        A cancellation is raised only once all is written; a pipe that nobody reads is given up after
        `PATIENCE_SECONDS`, and may then hold half a line.

        Raises:
            OSError: they cannot be written; carries the name of the file.
        """
        if self._regular and len(lines) >= LARGE_BYTES:
            await run_to_end(self._send_to_file(lines))
            return
        waits = self._write((lines,))
        try:
            await self._finish(waits)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await self._finish(waits)
            raise

    async def _send_to_file(self, lines: bytes) -> None:
        if self._file is None:
            import aiofiles  # Takes milliseconds to import.

            # Unbuffered, so that a line that was written is in the file; it may take less than all of it.
            self._file = await aiofiles.open(self._descriptor, "wb", buffering=0, closefd=False)
        with self._all_or_nothing():
            rest = memoryview(lines)
            while rest:
                rest = rest[await self._file.write(rest) :]
            self.length += len(lines)

    async def _finish(self, waits: Iterable[None]) -> None:
        for _ in waits:
            await anyio.wait_writable(self._descriptor)

    def _write(self, pieces: Iterable[bytes]) -> Generator[None]:
        """Write one line; yields whenever the descriptor cannot take more."""
        length = self.length
        if self._escape is not None:
            texts = codecs.iterdecode(pieces, "utf-8", "backslashreplace")
            pieces = (text.encode() for text in map(self._escape, texts))
        with self._all_or_nothing():
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    written = self._write_some(rest)
                    if not written:
                        yield
                    rest = rest[written:]
                length += len(piece)
        self.length = length

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Remove what was written of a line that failed, if the file can."""
        try:
            yield
        except BaseException as error:
            if self._own and self._regular:
                os.ftruncate(self._descriptor, self.length)
                os.lseek(self._descriptor, self.length, os.SEEK_SET)
            if isinstance(error, OSError):
                error.filename = "standard output" if self._name == "-" else self._name
            raise

    def _write_some(self, data: memoryview) -> int:
        """The number of bytes written; 0 if the descriptor cannot take any now."""
        if self._regular:
            return os.write(self._descriptor, data)
        if self._poll.poll(0):
            with suppress(BlockingIOError):  # Any pipe that can be written to takes PIPE_BUF bytes.
                return os.write(self._descriptor, data[: select.PIPE_BUF])
        return 0

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._own:
            self._own = False
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


async def write_report(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8; its readers see the old content or the new one, never a part.

    Raises:
        OSError: it cannot be written; carries `path`.
    """
    await run_to_end(_replace(os.fspath(path), text))


async def _replace(path: str, text: str) -> None:
    import aiofiles
    import aiofiles.os

    target = os.path.realpath(path)  # noqa: ASYNC240
    # Without the name of the target, which may be as long as names can be.
    draft = os.path.join(os.path.dirname(target), f".graphrag-eval-async.{token_hex(8)}.tmp")
    try:
        async with aiofiles.open(open_draft(draft, target), "w", encoding="utf-8") as file:
            await file.write(text)
        await aiofiles.os.replace(draft, target)
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
