"""Output files: lines written one by one, and whole reports."""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio

from graphrag_eval_async.posix import open_flags
from graphrag_eval_async.sinks.append_file import drafted
from graphrag_eval_async.threads import write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDOUT = 1

PATIENCE_SECONDS = 0.5
"""How long a cancelled `send` waits for its reader to take the rest of a line."""

LARGE_BYTES = 1 << 16
"""From this size on, a thread writes to the file; below, switching threads costs more than writing."""


class LineFile:
    """Writes whole lines at once, unbuffered: written lines outlive the process.

    If a line cannot be written whole, it is removed from a regular file. Writes to a pipe, socket or terminal
    never block.

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
            wait: called by `write` to block until a descriptor is writable; its exceptions end `write`.
            escape: makes lines safe for a terminal; called only if the file is a terminal.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        self._name = os.fspath(path)
        self._own = self._name != "-"
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | open_flags("O_CLOEXEC", "O_BINARY")
        self._descriptor = os.open(path, new, 0o666) if self._own else STDOUT
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._escape = escape if os.isatty(self._descriptor) else None
        self.length = 0
        if not self._regular:
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)
        self._wait = wait or (lambda _descriptor: self._poll.poll())

    def write(self, lines: bytes) -> None:
        """Write one or more lines, including newlines.

        Raises:
            OSError: the lines cannot be written; carries the name of the file.
        """
        for _ in self._write(lines):
            self._wait(self._descriptor)

    async def send(self, lines: bytes) -> None:
        """Write one or more lines, including newlines, without blocking the event loop.

        A cancellation takes effect only after all lines are written. If nobody reads a pipe for
        `PATIENCE_SECONDS`, it may be left with half a line.

        Raises:
            OSError: the lines cannot be written; carries the name of the file.
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
        """Write lines; yields whenever the descriptor cannot take more."""
        if self._escape is not None:
            lines = self._escape(lines.decode(errors="backslashreplace")).encode()
        rest = memoryview(lines)
        try:
            while rest:
                written = self._write_some(rest)
                if not written:
                    yield
                rest = rest[written:]
        except BaseException as error:
            if self._own and self._regular:  # Remove a line that is written in part.
                os.ftruncate(self._descriptor, self.length)
                os.lseek(self._descriptor, self.length, os.SEEK_SET)
            if isinstance(error, OSError):
                error.filename = "standard output" if self._name == "-" else self._name
            raise
        self.length += len(lines)

    def _write_some(self, data: memoryview) -> int:
        """Return the number of bytes written; 0 if the descriptor is not writable now."""
        if self._regular:
            return os.write(self._descriptor, data)
        if self._poll.poll(0):
            with suppress(BlockingIOError):  # A writable pipe accepts at least PIPE_BUF bytes.
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
    """Atomically write a text file in UTF-8: readers see the old or the new content, never a part.

    Raises:
        OSError: the file cannot be written; carries `path`.
    """

    def replace() -> None:
        with drafted(os.fspath(path)) as draft:
            Path(draft).write_text(text, encoding="utf-8")

    await write_in_thread(replace)
