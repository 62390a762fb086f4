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
from graphrag_eval_async.sources.files import cut, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from graphrag_eval_async.records import FileId

LOGGER = logging.getLogger("graphrag_eval_async.follow")

START_BYTES = 1 << 10
"""Bytes at the start of a text that tell whether it is an array of objects."""

MAX_DOCUMENT_BYTES = 1 << 28
"""Maximum size of an array, which is decoded whole; a longer text is read as lines."""

BATCH_OBJECTS = 64
"""Objects of an array in a batch."""

_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\{")
"""The beginning of an array of objects, maybe after a byte order mark."""


async def split_lines(
    chunks: AsyncGenerator[bytes],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    file: FileId | None = None,
    offset: int = 0,
    documents: bool = False,
    may_grow: bool = False,
) -> AsyncGenerator[list[Record]]:
    """Yield the lines that each chunk of a text completes, which may be none.

    Blank lines are counted, not yielded.

    Args:
        chunks: the text, split anywhere; closed at the end.
        max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
        file: the file that is read, if any.
        offset: where in the file the text begins.
        documents: whether each object of a text that is an array is a line.
        may_grow: whether the text may be continued later. A last line without a newline is then
            not `whole`.
    """
    splitter = Splitter(max_line_bytes=max_line_bytes, file=file, offset=offset)
    document = bytearray()  # A text that is, or may be, an array of objects.
    may_be_document = documents
    try:
        async for chunk in chunks:
            text = chunk
            if may_be_document:
                document += chunk
                may_be_document = len(document) <= MAX_DOCUMENT_BYTES and _may_be_array(document)
                if may_be_document:
                    continue
                # It is none, so the text so far is read as lines, and all that follows, too.
                text = bytes(document)
                document.clear()
            for piece in cut(text):
                yield splitter.feed(piece)

        if document:
            text = bytes(document)
            objects = await in_thread(objects_of, text)
            for lines in splitter.split(text, objects):
                yield lines
        yield splitter.finish(whole=not may_grow)
    finally:
        await chunks.aclose()


async def lines_of(batches: AsyncGenerator[list[Record]]) -> AsyncGenerator[Any]:
    """Yield the lines of batches one by one; close the batches at the end."""
    try:
        async for batch in batches:
            for line in batch:
                yield line
    finally:
        await batches.aclose()


def is_array(start: bytes | bytearray) -> bool:
    """Return whether a text, judged by its start, is an array of objects."""
    return _ARRAY.match(start) is not None


def _may_be_array(text: bytearray) -> bool:
    """Return whether a text of which only the start is known may be an array of objects."""
    if is_array(text):
        return True
    if len(text) >= START_BYTES:
        return False
    # So far it has nothing but what may come before the first brace.
    return not text.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n[")


def objects_of(text: bytes) -> list[bytes] | None:
    """Return the objects of an array; None if the text is not one, or has an error."""
    if not is_array(text):
        return None
    try:
        objects = msgspec.json.decode(text.removeprefix(BYTE_ORDER_MARK), type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return [bytes(raw) for raw in objects]


class Splitter:
    """Splits a text, which comes in chunks, into numbered lines.

    Between two chunks, it holds an unfinished line, or only the head of one over the limit.

    Attributes:
        number: number of the next line, from 1.
        offset: offset of the next line in its file.
        held: bytes of the unfinished line so far.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        file: FileId | None = None,
        number: int = 1,
        offset: int = 0,
    ) -> None:
        """Start at a line with this number and offset."""
        self.number = number
        self.offset = offset
        self.held = 0
        self._limit = max_line_bytes
        self._file = file
        self._pieces: list[bytes] = []
        self._long_digest: hashlib._Hash | None = None  # Of an unfinished line over the limit.
        self._may_begin_with_hole = offset == 0

    def feed(self, chunk: bytes) -> list[Record]:
        """Return the lines that a chunk completes. A line ends only at a line feed."""
        if self._may_begin_with_hole and self.number == 1:
            chunk = self._skip_hole(chunk)

        # The first line may have begun in an earlier chunk.
        start = chunk.find(b"\n") + 1
        if start == 0:
            self._hold(chunk)
            return []
        self._hold(chunk[: start - 1])
        lines = self.finish()

        # The other lines are whole. This loop runs for every line: finding the line feeds takes
        # half as long as `split`, and making the tuple half as long as calling `Line`.
        number = self.number
        chunk_offset = self.offset - start
        file = self._file
        while (end := chunk.find(b"\n", start)) >= 0:
            data = chunk[start:end]
            if end - start > self._limit:
                lines.append(line_of(data, number, chunk_offset + start, file, self._limit))
            elif data and not data.isspace():
                values = (number, chunk_offset + start, data, file, True, None)
                lines.append(tuple.__new__(Line, values))
            number += 1
            start = end + 1
        self.number = number
        self.offset = chunk_offset + start

        # What follows the last line feed is the beginning of the next line.
        self._hold(chunk[start:])
        return lines

    def _skip_hole(self, chunk: bytes) -> bytes:
        """Return a chunk at the start of a file without the hole that it may begin with.

        A writer without `O_APPEND` leaves a hole of NUL bytes if another process truncates its
        file.
        """
        text = chunk.lstrip(b"\0")
        self.offset += len(chunk) - len(text)
        self._may_begin_with_hole = not text
        if text and self.offset > MAX_NULS:
            name = "the input" if self._file is None else self._file.path
            LOGGER.warning(
                "%s: skipped %d NUL bytes at its start; open logs with O_APPEND to truncate them",
                name,
                self.offset,
            )
        return text

    def _hold(self, piece: bytes) -> None:
        """Add a piece to the unfinished line; of one over the limit, keep only the head."""
        held_before = self.held
        self.held += len(piece)
        if self._long_digest is not None:
            self._long_digest.update(piece)
            self._pieces.append(piece[: max(0, HEAD_BYTES - held_before)])
            return
        self._pieces.append(piece)
        if self.held > self._limit:
            text = b"".join(self._pieces)
            self._long_digest = hashlib.sha256(text)
            self._pieces = [text[:HEAD_BYTES]]

    def finish(self, *, whole: bool = True) -> list[Record]:
        """Return the line so far, ended by a newline or by the end of the text; none if blank.

        The next line begins after it.
        """
        length = self.held
        lines = self.end(whole=whole)
        self.offset += length + 1
        self.number += 1
        return lines

    def end(self, *, whole: bool = False) -> list[Record]:
        """Return the line so far; none if blank.

        The next line has the same number and offset: it is the same line, read again.
        """
        lines: list[Record] = []
        text = b"".join(self._pieces)
        if self._long_digest is not None:
            lines.append(
                LongLine(
                    number=self.number,
                    offset=self.offset,
                    head=text,
                    length=self.held,
                    limit=self._limit,
                    sha256=self._long_digest.hexdigest(),
                    file=self._file,
                    whole=whole,
                )
            )
        elif text not in _RESTS_OF_NEWLINES and not is_blank(text, self.number):
            lines.append(
                Line(
                    number=self.number,
                    offset=self.offset,
                    data=text,
                    file=self._file,
                    whole=whole,
                )
            )
        self._pieces.clear()
        self._long_digest = None
        self.held = 0
        return lines

    def split(self, text: bytes, objects: Iterable[bytes] | None) -> Iterator[list[Record]]:
        """Yield the lines of a whole text, in batches; no unfinished line may be held.

        Args:
            text: the text.
            objects: the objects of the text if it is an array: each is a line at its place. None
                if the text has lines.
        """
        if objects is None:
            for piece in cut(text):
                yield self.feed(piece)
            return

        lines: list[Record] = []
        object_end = 0
        for data in objects:
            start = text.index(data, object_end)
            object_end = start + len(data)
            line = data.replace(b"\n", b" ")
            lines.append(line_of(line, self.number, self.offset + start, self._file, self._limit))
            self.number += 1
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
    """Return whether a line is only white space. The first line may have a byte order mark."""
    text = data
    if number == 1:
        text = data.removeprefix(BYTE_ORDER_MARK)
    return not text or text.isspace()


def line_of(
    data: bytes, number: int, offset: int, file: FileId | None = None, limit: int = MAX_LINE_BYTES
) -> Line | LongLine:
    """Return the line of a text that is in memory; a `LongLine` if it is over the limit."""
    if len(data) <= limit:
        return Line(number, offset, data, file)
    return LongLine(
        number=number,
        offset=offset,
        head=data[:HEAD_BYTES],
        length=len(data),
        limit=limit,
        sha256=hashlib.sha256(data).hexdigest(),
        file=file,
    )
