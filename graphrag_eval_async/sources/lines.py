"""Splits texts into lines, and JSON arrays into their objects."""

from __future__ import annotations

import hashlib
import json
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

_BRACKET = re.compile(r"\s*+\[\s*+")
_COMMA = re.compile(r"\s*+,\s*+")
"""The punctuation before the first value of an array, and before each later value."""

_decoder_of_odd_numbers = json.JSONDecoder()
"""Decodes also NaN and Infinity. Only where values end is taken from it."""


async def split_lines(
    chunks: AsyncGenerator[bytes],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    file: FileId | None = None,
    offset: int = 0,
    documents: bool = False,
    may_grow: bool = False,
) -> AsyncGenerator[list[Record]]:
    """Split a text into lines, and yield a batch for each piece of it.

    A batch has the lines that end in its piece; there may be none. Blank lines are counted, but not
    yielded.

    Args:
        chunks: the text, split anywhere; closed at the end.
        max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
        file: the file that is read; None if the text is from no file.
        offset: offset of the text in the file.
        documents: whether to yield each object as a line if the text is a JSON array of objects.
        may_grow: whether text may be added to the file later. Then a last line without a newline
            is not `whole`.
    """
    splitter = Splitter(max_line_bytes=max_line_bytes, file=file, offset=offset)
    # The text so far, as long as it may be an array of objects.
    document = bytearray()
    may_be_document = documents
    try:
        async for chunk in chunks:
            text = chunk
            if may_be_document:
                document += chunk
                is_short_enough = len(document) <= MAX_DOCUMENT_BYTES
                may_be_document = is_short_enough and _may_be_array(document)
                if may_be_document:
                    continue
                # It is no array: split the collected text, and all later chunks, into lines.
                text = bytes(document)
                document.clear()
            for piece in cut(text):
                yield splitter.feed(piece)

        if document:
            # The whole text is collected. `objects` is None if it is no valid array.
            text = bytes(document)
            objects = await in_thread(objects_of, text)
            for lines in splitter.split(text, objects):
                yield lines
        yield splitter.finish(whole=not may_grow)
    finally:
        await chunks.aclose()


async def lines_of(batches: AsyncGenerator[list[Record]]) -> AsyncGenerator[Any]:
    """Yield the lines of all batches one by one, and close the batches at the end."""
    try:
        async for batch in batches:
            for line in batch:
                yield line
    finally:
        await batches.aclose()


def is_array(start: bytes | bytearray) -> bool:
    """Return whether a text that begins with `start` is a JSON array of objects.

    Only the first brackets are checked, not whether the whole text is valid JSON.
    """
    return _ARRAY.match(start) is not None


def _may_be_array(text: bytearray) -> bool:
    """Return whether a text may turn out to be an array of objects, judged by its start so far."""
    if is_array(text):
        return True
    if len(text) >= START_BYTES:
        return False
    # An array may begin with white space and a bracket; its first brace may still come.
    text_after_bracket = text.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n[")
    return not text_after_bracket


def objects_of(text: bytes) -> list[bytes] | None:
    """Return the objects in a JSON array, as bytes of JSON; None if the text is no valid array.

    NaN and Infinity are no JSON, but some tools write them: an object with one is returned as it
    is, so that it alone is rejected.
    """
    if not is_array(text):
        return None
    text = text.removeprefix(BYTE_ORDER_MARK)
    try:
        objects = msgspec.json.decode(text, type=list[msgspec.Raw])
    except RecursionError:
        return None
    except msgspec.DecodeError:
        if b"NaN" in text or b"Infinity" in text:
            return _objects_with_odd_numbers(text)
        return None
    return [bytes(raw) for raw in objects]


def _objects_with_odd_numbers(text: bytes) -> list[bytes] | None:
    """Return the objects in an array that may have NaN or Infinity; None if it is no such array."""
    objects: list[bytes] = []
    try:
        array = text.decode()
        end = 0
        separator = _BRACKET.match(array)
        while separator is not None:
            start = separator.end()
            _, end = _decoder_of_odd_numbers.raw_decode(array, start)
            objects.append(array[start:end].encode())
            separator = _COMMA.match(array, end)
    except (ValueError, RecursionError):
        return None
    if array[end:].strip(" \t\r\n") != "]":
        return None
    return objects


class Splitter:
    """Splits a text that comes in chunks into numbered lines.

    A chunk may end within a line. Then the splitter keeps the beginning of that line, which is
    called the unfinished line, until the next chunk comes. Of a line over the limit, it keeps only
    the head and a digest.

    Attributes:
        number: number of the next line, or of the unfinished line, from 1.
        offset: offset in the file at which this line begins.
        unfinished_bytes: length of the unfinished line so far.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        file: FileId | None = None,
        number: int = 1,
        offset: int = 0,
    ) -> None:
        """Create a splitter for a text that begins with a new line.

        Args:
            max_line_bytes: maximum length of a line; longer ones are returned as `LongLine`.
            file: the file that the text is from; None if there is none.
            number: number of the first line.
            offset: offset of the first line in the file.
        """
        self.number = number
        self.offset = offset
        self.unfinished_bytes = 0
        self._limit = max_line_bytes
        self._file = file
        self._pieces: list[bytes] = []
        # Of the whole unfinished line, if it is over the limit; otherwise None.
        self._long_digest: hashlib._Hash | None = None
        self._may_have_leading_nuls = offset == 0

    def feed(self, chunk: bytes) -> list[Record]:
        """Add a chunk of text, and return the lines that it completes, without blank ones.

        Lines end at a line feed, and at no other character.
        """
        if self._may_have_leading_nuls and self.number == 1:
            chunk = self._strip_leading_nuls(chunk)

        # Complete the unfinished line, which may have begun in an earlier chunk.
        start = chunk.find(b"\n") + 1
        has_line_feed = start > 0
        if not has_line_feed:
            self._append_to_line(chunk)
            return []
        self._append_to_line(chunk[: start - 1])
        lines = self.finish(is_end_of_text=False)

        # The next lines are all in this chunk. The loop runs for every line, so it is written for
        # speed: `find` takes half as long as `split`, and `tuple.__new__` half as long as `Line`.
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
        self._append_to_line(chunk[start:])
        return lines

    def _strip_leading_nuls(self, chunk: bytes) -> bytes:
        """Return a chunk at the start of a file without the NUL bytes at its beginning.

        If a log is truncated while its writer has it open without `O_APPEND`, the writer continues
        at its old offset. The file then begins with NUL bytes.
        """
        text = chunk.lstrip(b"\0")
        self.offset += len(chunk) - len(text)
        self._may_have_leading_nuls = not text
        if text and self.offset > MAX_NULS:
            name = "the input" if self._file is None else self._file.path
            LOGGER.warning(
                "%s: skipped %d NUL bytes at its start; open logs with O_APPEND to truncate them",
                name,
                self.offset,
            )
        return text

    def _append_to_line(self, piece: bytes) -> None:
        """Add a piece to the unfinished line. If it is over the limit, keep only its head."""
        bytes_before = self.unfinished_bytes
        self.unfinished_bytes += len(piece)
        if self._long_digest is not None:
            self._long_digest.update(piece)
            self._pieces.append(piece[: max(0, HEAD_BYTES - bytes_before)])
            return

        self._pieces.append(piece)
        if self.unfinished_bytes > self._limit:
            # From now on, it is a long line.
            text = b"".join(self._pieces)
            self._long_digest = hashlib.sha256(text)
            self._pieces = [text[:HEAD_BYTES]]

    def finish(self, *, whole: bool = True, is_end_of_text: bool = True) -> list[Record]:
        """End the unfinished line, and return it in a list; an empty list if it is blank.

        Called at a line feed or at the end of the text. The next line begins after it.

        Args:
            whole: whether the line is complete, so that its writer will not add to it.
            is_end_of_text: whether the line ends with the text, not with a line feed.
        """
        length = self.unfinished_bytes
        lines = self.end(whole=whole, is_end_of_text=is_end_of_text)
        self.offset += length + 1
        self.number += 1
        return lines

    def end(self, *, whole: bool = False, is_end_of_text: bool = True) -> list[Record]:
        """Remove the unfinished line, and return it in a list; an empty list if it is blank.

        The number and offset do not change: the caller reads the same line again later.

        Args:
            whole: whether the line is complete, so that its writer will not add to it.
            is_end_of_text: whether the line ends with the text, not with a line feed.
        """
        lines: list[Record] = []
        text = b"".join(self._pieces)
        is_rest_of_newline = is_end_of_text and text in _RESTS_OF_NEWLINES
        if self._long_digest is not None:
            # The line is over the limit, and `text` is only its head.
            lines.append(
                LongLine(
                    number=self.number,
                    offset=self.offset,
                    head=text,
                    length=self.unfinished_bytes,
                    limit=self._limit,
                    sha256=self._long_digest.hexdigest(),
                    file=self._file,
                    whole=whole,
                )
            )
        elif not is_rest_of_newline and not is_blank(text, self.number):
            lines.append(
                Line(
                    number=self.number,
                    offset=self.offset,
                    data=text,
                    file=self._file,
                    whole=whole,
                )
            )

        # Forget the line.
        self._pieces.clear()
        self._long_digest = None
        self.unfinished_bytes = 0
        return lines

    def split(self, text: bytes, objects: Iterable[bytes] | None) -> Iterator[list[Record]]:
        """Yield the lines of a whole text in batches. There must be no unfinished line before.

        Args:
            text: the text.
            objects: the objects in the text if it is a JSON array. Each becomes a line with its
                offset in the text. None if the text is not an array.
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
            # In JSON, a line feed is only white space.
            line = data.replace(b"\n", b" ")
            lines.append(line_of(line, self.number, self.offset + start, self._file, self._limit))
            self.number += 1
            if len(lines) == BATCH_OBJECTS:
                yield lines
                lines = []
        self.offset += len(text.removesuffix(b"\n")) + 1
        yield lines


MAX_NULS = 3
"""Maximum number of NUL bytes with which a text in UTF-16 or UTF-32 begins."""

_RESTS_OF_NEWLINES = (b"\0", b"\0\0\0")
"""NUL bytes that follow the last line feed of a text in UTF-16 or UTF-32. They are no line."""


def is_blank(data: bytes, number: int) -> bool:
    """Return whether a line has only white space.

    Args:
        data: the line.
        number: its number. Line 1 may begin with a byte order mark, which counts as white space.
    """
    text = data
    if number == 1:
        text = data.removeprefix(BYTE_ORDER_MARK)
    return not text or text.isspace()


def line_of(
    data: bytes, number: int, offset: int, file: FileId | None = None, limit: int = MAX_LINE_BYTES
) -> Line | LongLine:
    """Return a line with this text, or a `LongLine` if the text is over the limit."""
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
