"""Splitting of chunks of bytes into lines of JSON text."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records import BYTE_ORDER_MARK, Line, LongLine, Record
from graphrag_eval_async.records.line import MAX_LINE_BYTES as MAX_LINE_BYTES
from graphrag_eval_async.records.reject import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from graphrag_eval_async.records import FileId


LOGGER = logging.getLogger("graphrag_eval_async.follow")

PIECE_BYTES = 1 << 16
"""Bytes split before other tasks get a turn."""

_NEWLINES = re.compile(rb"\n+")


async def split_lines(
    chunks: AsyncGenerator[bytes],
    *,
    max_line_bytes: int,
    file: FileId | None = None,
    offset: int = 0,
) -> AsyncGenerator[list[Record]]:
    """The lines that each chunk completes and, at the end, a last line without a newline.

    A line ends only at ``\\n``. Blank lines are counted, not yielded. Only the head of a line longer than
    `max_line_bytes` is kept. `file` is the file that is read, if any, and `offset` where in it.
    """
    splitter = Splitter(max_line_bytes, file=file, offset=offset)
    try:
        async for chunk in chunks:
            for piece in cut(chunk):
                if lines := splitter.feed(piece):
                    yield lines
                else:
                    await asyncio.sleep(0)  # Else gigabytes of blank lines would block other tasks.
        if lines := splitter.finish():
            yield lines
    finally:
        splitter.close()
        await chunks.aclose()


def cut(data: bytes) -> Iterable[bytes]:
    """Bytes in pieces of at most `PIECE_BYTES`."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


async def lines_of(batches: AsyncGenerator[list[Record]]) -> AsyncGenerator[Any]:
    """The lines of batches, one by one."""
    try:
        async for batch in batches:
            for line in batch:
                yield line
    finally:
        await batches.aclose()


class Splitter:
    """The state between two chunks: an unfinished line, short or long.

    Attributes:
        offset: offset of the unfinished line in the file.
        held: number of its bytes so far.
    """

    def __init__(
        self,
        max_line_bytes: int,
        *,
        file: FileId | None = None,
        number: int = 1,
        offset: int = 0,
    ) -> None:
        self.offset = offset
        self.held = 0
        self._limit = max_line_bytes
        self._file = file
        self._number = number
        self._pieces: list[bytes] = []
        self._long: _Overflow | None = None
        self._is_hole = offset == 0

    def feed(self, chunk: bytes) -> list[Record]:
        """The lines that this chunk completes. NULs at the start of a file are skipped."""
        if self._is_hole:
            chunk = self._skip_hole(chunk)
        first, newline, rest = chunk.partition(b"\n")
        self._hold(first)
        if not newline:
            return []
        lines = self.finish()
        number, offset, file = self._number, self.offset, self._file
        start = 0
        while (end := rest.find(b"\n", start)) >= 0:  # Several times as fast as split.
            if end == start:
                end = _NEWLINES.match(rest, start).end() - 1  # type: ignore[union-attr]  # It is at one.
                number += end - start
            elif end - start > self._limit:
                lines.append(long_line(rest[start:end], number, offset, self._limit, file))
            elif not (data := rest[start:end]).isspace():
                # Same as `Line(...)`, at half the cost.
                lines.append(tuple.__new__(Line, (number, offset, data, file, True)))
            offset += end - start + 1
            number += 1
            start = end + 1
        self._number, self.offset = number, offset
        self._hold(rest[start:])
        return lines

    def _skip_hole(self, chunk: bytes) -> bytes:
        """Skip the NULs at the start of a file that another process than its writer has truncated.

        A writer without `O_APPEND` then continues at its old offset, which leaves a hole before it.
        """
        rest = chunk.lstrip(b"\0")
        self.offset += len(chunk) - len(rest)
        self._is_hole = not rest
        if rest and self.offset:
            name = "the input" if self._file is None else self._file.path
            LOGGER.warning(
                "%s: skipped %d NUL bytes at its start; open logs with O_APPEND to truncate them",
                *(name, self.offset),
            )
        return rest

    def _hold(self, piece: bytes) -> None:
        self.held += len(piece)
        self._pieces.append(piece)
        if self._long is None and self.held > self._limit:
            self._long = _Overflow(self._limit)
        if self._long is not None:
            for held in self._pieces:
                self._long.add(held)
            self._pieces.clear()

    def finish(self) -> list[Record]:
        """The line so far, ended by a newline. The next line begins after it."""
        length = self.held
        lines = self.end(whole=True)
        self.offset += length + 1
        self._number += 1
        return lines

    def end(self, *, whole: bool = False) -> list[Record]:
        """The line so far. The next line has the same number and offset."""
        lines: list[Record] = []
        if self._long is not None:
            lines.append(self._long.line(self._number, self.offset, self._file, whole=whole))
        elif not is_blank(data := b"".join(self._pieces), self._number):
            lines.append(Line(self._number, self.offset, data, self._file, whole))
        self.close()
        return lines

    def close(self) -> None:
        """Drop an unfinished line."""
        self._long = None
        self._pieces.clear()
        self.held = 0


def is_blank(data: bytes, number: int) -> bool:
    """Whether a line is only white space. The first line may have a byte order mark."""
    text = data.removeprefix(BYTE_ORDER_MARK) if number == 1 else data
    return not text or text.isspace()


def long_line(data: bytes, number: int, offset: int, limit: int, file: FileId | None = None) -> LongLine:
    """A line over the limit that is available in one piece."""
    digest = hashlib.sha256(data).hexdigest()
    return LongLine(number, offset, data[:HEAD_BYTES], len(data), limit, digest, file)


class _Overflow:
    """The head, length and digest of a line over the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = b""
        self._length = 0
        self._digest = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head += piece[: HEAD_BYTES - len(self._head)]
        self._length += len(piece)
        self._digest.update(piece)

    def line(self, number: int, offset: int, file: FileId | None, *, whole: bool) -> LongLine:
        digest = self._digest.hexdigest()
        return LongLine(number, offset, self._head, self._length, self._limit, digest, file, whole)
