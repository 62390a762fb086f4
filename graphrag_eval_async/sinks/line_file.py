"""Files that are written for others to read: lines as they come, and whole reports."""

from __future__ import annotations

import errno
import os
import select
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

import anyio

from graphrag_eval_async.threads import run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from aiofiles.threadpool.binary import AsyncFileIO

STDOUT = 1

CURRENT = -1
"""The offset of a file where it is written next, which is all that a pipe has."""

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader, rather than leave half a line."""

LARGE_BYTES = 1 << 16
"""What a thread writes to a file rather than the event loop. To hand over less takes longer than writing it:
an evaluation without judges would take three times as long if a thread wrote each result.
"""


class LineFile:
    """Takes whole lines and writes each at once, so that what was written outlives whatever ends the process.

    A line that cannot be written whole is taken back from a regular file. A pipe, socket or terminal is only
    ever given what it takes without blocking.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: Callable[[int], object] | None = None) -> None:
        """Create or empty the file at `path`; ``-`` is standard output.

        Args:
            path: of the file.
            wait: what `write` blocks with until a descriptor can be written to; what it raises ends `write`.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._name = os.fspath(path)
        self._own = self._name != "-"
        self._descriptor = STDOUT
        self._length = 0
        if self._own:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o666)
        mode = os.fstat(self._descriptor).st_mode
        self._regular = stat.S_ISREG(mode)
        self._file: AsyncFileIO | None = None
        # Some kernels can; any pipe that can be written to takes PIPE_BUF bytes.
        self._nowait = stat.S_ISFIFO(mode) and hasattr(os, "RWF_NOWAIT")
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
        """Write a line, or several, newlines included; the event loop runs on while that takes long.

        Cancelled meanwhile, it still writes all of it: to a pipe, if that is read within `PATIENCE_SECONDS`.
        What of a line is in a pipe that nobody reads stays there, without its end.

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
            import aiofiles  # Here, since importing it takes some milliseconds.

            # Unbuffered, so that a line that was written is in the file; it may take less than all of it.
            self._file = await aiofiles.open(self._descriptor, "wb", buffering=0, closefd=False)
        with self._all_or_nothing():
            rest = memoryview(lines)
            while rest:
                rest = rest[await self._file.write(rest) :]
            self._length += len(lines)

    async def _finish(self, waits: Iterable[None]) -> None:
        for _ in waits:
            await anyio.wait_writable(self._descriptor)

    def _write(self, pieces: Iterable[bytes]) -> Generator[None]:
        """Write one line; yields where the descriptor has to be waited for."""
        length = self._length
        with self._all_or_nothing():
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    written = self._write_some(rest)
                    if not written:
                        yield
                    rest = rest[written:]
                length += len(piece)
        self._length = length

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what was written of a line that failed, if the file can."""
        try:
            yield
        except BaseException as error:
            if self._own and self._regular:
                os.ftruncate(self._descriptor, self._length)
                os.lseek(self._descriptor, self._length, os.SEEK_SET)
            if isinstance(error, OSError):
                error.filename = "standard output" if self._name == "-" else self._name
            raise

    def _write_some(self, data: memoryview) -> int:
        """How much was written; 0 where the descriptor has to be waited for."""
        if self._regular:
            return os.write(self._descriptor, data)
        try:
            if self._nowait:
                return os.pwritev(self._descriptor, (data,), CURRENT, os.RWF_NOWAIT)
            if self._poll.poll(0):
                return os.write(self._descriptor, data[: select.PIPE_BUF])
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._nowait = False
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
    """Write a text file, in UTF-8; who reads it meanwhile finds the old content or the new one, never a part.

    Raises:
        OSError: it cannot be written; carries `path`.
    """
    await run_to_end(_replace(os.fspath(path), text))


async def _replace(path: str, text: str) -> None:
    import aiofiles
    import aiofiles.os

    target = os.path.realpath(path)  # noqa: ASYNC240
    # Without the name of the target, which may be as long as names can be.
    draft = os.path.join(os.path.dirname(target), f".graphrag-eval-async.{os.getpid()}.tmp")
    try:
        async with aiofiles.open(draft, "w", encoding="utf-8") as file:
            await file.write(text)
        await aiofiles.os.replace(draft, target)
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
