"""A file of whole lines."""

from __future__ import annotations

import errno
import os
import select
import stat
from typing import TYPE_CHECKING, Self

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

STDOUT = 1

CURRENT = -1
"""The offset of a file where it is written next, which is all that a pipe has."""

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader, rather than leave half a line."""


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

    async def send(self, line: bytes) -> None:
        """Write one line, the newline included, and let the event loop run while nobody reads.

        Cancelled meanwhile, it still writes the line if that is read within `PATIENCE_SECONDS`; what of a
        line is in a pipe that nobody reads stays there, without its end.

        Raises:
            OSError: it cannot be written; carries the name of the file.
        """
        waits = self._write((line,))
        try:
            await self._finish(waits)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await self._finish(waits)
            raise

    async def _finish(self, waits: Iterable[None]) -> None:
        for _ in waits:
            await anyio.wait_writable(self._descriptor)

    def _write(self, pieces: Iterable[bytes]) -> Generator[None]:
        """Write one line; yields where the descriptor has to be waited for."""
        length = self._length
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    written = self._write_some(rest)
                    if not written:
                        yield
                    rest = rest[written:]
                length += len(piece)
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                error.filename = "standard output" if self._name == "-" else self._name
            raise
        self._length = length

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

    def _take_back(self) -> None:
        if self._own and self._regular:
            os.ftruncate(self._descriptor, self._length)
            os.lseek(self._descriptor, self._length, os.SEEK_SET)

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._own:
            self._own = False
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
