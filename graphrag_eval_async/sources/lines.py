"""Splitting of text into lines of JSON, and of arrays into objects."""

from __future__ import annotations

import hashlib
import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.records import BYTE_ORDER_MARK, Line, LongLine, Record
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.records.reject import HEAD_BYTES
from graphrag_eval_async.sources.files import PIECE_BYTES, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from graphrag_eval_async.records import FileId

LOGGER = logging.getLogger("graphrag_eval_async.follow")

START_BYTES = 1 << 10
"""Bytes at the start of a text that tell whether it is an array of objects."""

MAX_DOCUMENT_BYTES = 1 << 28
"""Maximum size of a text that begins with an array, which is decoded whole; a longer one is read
as lines.
"""

BATCH_OBJECTS = 64

_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\{")


async def split_lines(
    chunks: AsyncGenerator[bytes],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    file: FileId | None = None,
    offset: int = 0,
    documents: bool = False,
    may_grow: bool = False,
) -> AsyncGenerator[list[Record]]:
    """The lines that each piece of a text completes, which may be none, and a last line without a
    newline.

    Blank lines are counted, not yielded. `file` is the file that is read, if any, and `offset`
    where in it. With `documents`, each object of a text that is an array is a line. If the text
    `may_grow`, a last line without a newline is not `whole`.
    """
    splitter = Splitter(max_line_bytes=max_line_bytes, file=file, offset=offset)
    held = bytearray()  # A text that is, or may be, an array of objects.
    try:
        async for chunk in chunks:
            if documents:
                held += chunk
                if documents := len(held) <= MAX_DOCUMENT_BYTES and _may_be_array(held):
                    continue
                chunk = bytes(held)
                held.clear()
            for piece in cut(chunk):
                yield splitter.feed(piece)
        text = bytes(held)
        for lines in splitter.split(text, await in_thread(objects_of, text) if text else None):
            yield lines
        yield splitter.finish(whole=not may_grow)
    finally:
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


def is_array(start: bytes | bytearray) -> bool:
    """Whether a text, judged by its start, is an array of objects."""
    return _ARRAY.match(start) is not None


def _may_be_array(text: bytearray) -> bool:
    is_short = len(text) < START_BYTES
    return is_array(text) or (
        is_short and not text.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n[")
    )


def objects_of(text: bytes) -> list[bytes] | None:
    """The objects of an array; None for other text."""
    if is_array(text):
        try:
            text = text.removeprefix(BYTE_ORDER_MARK)
            return [bytes(each) for each in msgspec.json.decode(text, type=list[msgspec.Raw])]
        except (msgspec.DecodeError, RecursionError):
            pass
    return None


class Splitter:
    """Numbers lines. Between two chunks, it holds an unfinished line, or the head of one over
    the limit.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        file: FileId | None = None,
        number: int = 1,
        offset: int = 0,
    ) -> None:
        self.number = number
        self.offset = offset
        self.held = 0  # Bytes of the unfinished line so far.
        self._limit = max_line_bytes
        self._file = file
        self._pieces: list[bytes] = []
        self._digest: hashlib._Hash | None = None  # Of a line over the limit.
        self._is_hole = offset == 0

    def feed(self, chunk: bytes) -> list[Record]:
        """The lines that this chunk completes. A line ends only at a line feed."""
        if self._is_hole and self.number == 1:
            chunk = self._skip_hole(chunk)
        start = chunk.find(b"\n") + 1
        if not start:
            self._hold(chunk)
            return []
        self._hold(chunk[: start - 1])
        lines = self.finish()
        number, offset, file = self.number, self.offset - start, self._file
        while (end := chunk.find(b"\n", start)) >= 0:  # Twice as fast as split.
            data = chunk[start:end]
            if end - start > self._limit:
                lines.append(line_of(data, number, offset + start, file, self._limit))
            elif data and not data.isspace():
                # Same as `Line(...)`, at half the cost.
                lines.append(tuple.__new__(Line, (number, offset + start, data, file, True)))
            number += 1
            start = end + 1
        self.number, self.offset = number, offset + start
        self._hold(chunk[start:])
        return lines

    def _skip_hole(self, chunk: bytes) -> bytes:
        """Skip the hole that a writer without `O_APPEND` leaves if another process truncates its
        file.
        """
        rest = chunk.lstrip(b"\0")
        self.offset += len(chunk) - len(rest)
        self._is_hole = not rest
        if rest and self.offset > MAX_NULS:
            name = "the input" if self._file is None else self._file.path
            text = "%s: skipped %d NUL bytes at its start; open logs with O_APPEND to truncate them"
            LOGGER.warning(text, name, self.offset)
        return rest

    def _hold(self, piece: bytes) -> None:
        before, self.held = self.held, self.held + len(piece)
        if self._digest is not None:
            self._digest.update(piece)
            self._pieces.append(piece[: max(0, HEAD_BYTES - before)])
            return
        self._pieces.append(piece)
        if self.held > self._limit:
            text = b"".join(self._pieces)
            self._digest = hashlib.sha256(text)
            self._pieces = [text[:HEAD_BYTES]]

    def finish(self, *, whole: bool = True) -> list[Record]:
        """The line so far, ended by a newline or by the end of the text. The next line begins
        after it.
        """
        length = self.held
        lines = self.end(whole=whole)
        self.offset += length + 1
        self.number += 1
        return lines

    def end(self, *, whole: bool = False) -> list[Record]:
        """The line so far. The next line has the same number and offset."""
        lines: list[Record] = []
        data, place = b"".join(self._pieces), (self.number, self.offset)
        if self._digest is not None:
            digest = self._digest.hexdigest()
            lines.append(LongLine(*place, data, self.held, self._limit, digest, self._file, whole))
        elif data not in _RESTS_OF_NEWLINES and not is_blank(data, self.number):
            lines.append(Line(*place, data, self._file, whole))
        self._pieces.clear()
        self._digest = None
        self.held = 0
        return lines

    def split(self, text: bytes, objects: Iterable[bytes] | None) -> Iterator[list[Record]]:
        """Batches of the lines of a text, or of its objects, each at its place; nothing may be
        held.
        """
        if objects is None:
            yield from map(self.feed, cut(text))
            return
        lines: list[Record] = []
        place = 0
        for data in objects:
            place = text.index(data, place)
            line = data.replace(b"\n", b" ")
            lines.append(line_of(line, self.number, self.offset + place, self._file, self._limit))
            self.number += 1
            place += len(data)
            if len(lines) == BATCH_OBJECTS:
                yield lines
                lines = []
        self.offset += len(text.removesuffix(b"\n")) + 1
        yield lines


MAX_NULS = 3
"""Maximum number of NULs before a text in UTF-16 or UTF-32."""

_RESTS_OF_NEWLINES = (b"\0", b"\0\0\0")
"""What is left of a newline in UTF-16 or UTF-32 after its byte, at the end of a file."""


def is_blank(data: bytes, number: int) -> bool:
    """Whether a line is only white space. The first line may have a byte order mark."""
    text = data.removeprefix(BYTE_ORDER_MARK) if number == 1 else data
    return not text or text.isspace()


def line_of(
    data: bytes, number: int, offset: int, file: FileId | None = None, limit: int = MAX_LINE_BYTES
) -> Line | LongLine:
    """A line that is available in one piece."""
    if len(data) <= limit:
        return Line(number, offset, data, file)
    digest = hashlib.sha256(data).hexdigest()
    return LongLine(number, offset, data[:HEAD_BYTES], len(data), limit, digest, file)
