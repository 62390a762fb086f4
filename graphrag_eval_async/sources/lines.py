"""Lines of JSON text from chunks of bytes that know nothing of lines."""

from __future__ import annotations

import hashlib
import tempfile
from typing import TYPE_CHECKING, BinaryIO, cast

from graphrag_eval_async.records import BYTE_ORDER_MARK, Line, LongLine, Record
from graphrag_eval_async.records.reject import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def split_lines(
    chunks: AsyncGenerator[bytes], *, max_line_bytes: int, spool: bool
) -> AsyncGenerator[list[Record]]:
    """The lines that each chunk completes, and at the end a last one without its newline.

    A line ends at ``\\n`` and nowhere else. Blank lines are counted, not yielded. Of a line longer than
    `max_line_bytes` only the head is held; with `spool`, all of it goes to a temporary file, which is for the
    caller to close.
    """
    splitter = _Splitter(max_line_bytes, spool)
    try:
        async for chunk in chunks:
            if lines := splitter.feed(chunk):
                yield lines
        if lines := splitter.finish():
            yield lines
    finally:
        splitter.close()
        await chunks.aclose()


class _Splitter:
    """The state between two chunks: an unfinished line, short or long."""

    def __init__(self, max_line_bytes: int, spool: bool) -> None:
        self._limit = max_line_bytes
        self._spool = spool
        self._number = 1
        self._offset = 0
        self._pieces: list[bytes] = []
        self._held = 0
        self._long: _Overflow | None = None

    def feed(self, chunk: bytes) -> list[Record]:
        first, newline, rest = chunk.partition(b"\n")
        self._hold(first)
        if not newline:
            return []
        lines = self.finish()
        self._number += 1
        *whole, tail = rest.split(b"\n")
        number, offset = self._number, self._offset
        for data in whole:
            if len(data) > self._limit:
                lines.append(long_line(data, number, offset, self._limit))
            elif data and not data.isspace():
                lines.append(Line(number, offset, data))
            offset += len(data) + 1
            number += 1
        self._number, self._offset = number, offset
        self._hold(tail)
        return lines

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._long is None and self._held > self._limit:
            self._long = _Overflow(self._limit, spool=self._spool)
            for held in self._pieces:
                self._long.add(held)
            self._pieces.clear()
        if self._long is not None:
            self._long.add(piece)
        elif piece:
            self._pieces.append(piece)

    def finish(self) -> list[Record]:
        """The line held so far, ended here."""
        data = b"".join(self._pieces)
        lines: list[Record] = []
        if self._long is not None:
            lines.append(self._long.line(self._number, self._offset))
        elif not is_blank(data, self._number):
            lines.append(Line(self._number, self._offset, data))
        self._offset += self._held + 1
        self._pieces.clear()
        self._held = 0
        self._long = None
        return lines

    def close(self) -> None:
        """Give up a long line that never ended."""
        if self._long is not None:
            self._long.close()


def is_blank(data: bytes, number: int) -> bool:
    """Whether there is nothing on the line of that number, but for a byte-order mark on the first."""
    text = data.removeprefix(BYTE_ORDER_MARK) if number == 1 else data
    return not text or text.isspace()


def long_line(data: bytes, number: int, offset: int, limit: int) -> LongLine:
    """A line over the limit that came in one piece."""
    digest = hashlib.sha256(data).hexdigest()
    return LongLine(number, offset, data[:HEAD_BYTES], len(data), limit, digest, data)


class _Overflow:
    """A line too long to hold: its head, length and digest, and a spooled copy if asked for."""

    def __init__(self, limit: int, *, spool: bool) -> None:
        self._limit = limit
        self._head = b""
        self._length = 0
        self._digest = hashlib.sha256()
        self._content = cast(BinaryIO, tempfile.TemporaryFile()) if spool else None  # noqa: SIM115

    def add(self, piece: bytes) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head += piece[: HEAD_BYTES - len(self._head)]
        self._length += len(piece)
        self._digest.update(piece)
        if self._content is not None:
            self._content.write(piece)

    def line(self, number: int, offset: int) -> LongLine:
        if self._content is not None:
            self._content.seek(0)
        digest = self._digest.hexdigest()
        return LongLine(number, offset, self._head, self._length, self._limit, digest, self._content)

    def close(self) -> None:
        if self._content is not None:
            self._content.close()
