"""Reads responses from any source, as batches of lines with their positions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from typing import Any

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records import Line, LongLine, Record, Unwritable, write_line, write_usual
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.sources.files import PIECE_BYTES
from graphrag_eval_async.sources.follow import Follower as Follower
from graphrag_eval_async.sources.follow import Lag as Lag
from graphrag_eval_async.sources.follow import follow_jsonl as follow_jsonl
from graphrag_eval_async.sources.lines import Splitter, is_blank, line_of, objects_of, split_lines
from graphrag_eval_async.sources.reading import JsonlFiles as JsonlFiles
from graphrag_eval_async.sources.reading import read_jsonl as read_jsonl

Item = Mapping[str, Any] | bytes | str | Line | LongLine
Stream = anyio.abc.ByteReceiveStream | TextReceiveStream | asyncio.StreamReader
Responses = (
    str | os.PathLike[str] | JsonlFiles | Follower | Iterable[Item] | AsyncIterable[Item] | Stream
)
"""A path as for `read_jsonl`, or an iterable of responses: dicts, `bytes` or `str` of complete
lines of JSON text, or lines of files; a pandas DataFrame stands for its rows. A stream of bytes or
text may be split anywhere in a line.
"""

FRAME_ROWS = 1000
"""Rows of a DataFrame that are converted at once."""

SOURCE_CLOSING_SECONDS = 5.0
"""Maximum time to wait for the caller's source to close, in seconds."""

PATH_SUFFIXES = (".jsonl", ".json", ".ndjson", ".gz")
"""Suffixes by which a text in a list is taken for a path."""


class Source:
    """Records in batches, and what must be closed after reading them.

    A batch has the records that are available without waiting.
    """

    def __init__(
        self, batches: AsyncGenerator[list[Record]], callers_source: object = None
    ) -> None:
        """Create a source.

        Args:
            batches: yields the records; closed by `aclose`.
            callers_source: what the caller passed to be read; closed by `aclose` if it has such a
                method. None if there is nothing to close.
        """
        self._batches = batches
        self._callers_source = callers_source

    def __aiter__(self) -> AsyncGenerator[list[Record]]:
        return self._batches

    async def aclose(self) -> None:
        """Close the batches, and then the caller's source, even if this task is cancelled."""
        try:
            await self._batches.aclose()
        finally:
            aclose = getattr(self._callers_source, "aclose", None)
            if aclose is not None:
                with anyio.move_on_after(SOURCE_CLOSING_SECONDS, shield=True):
                    await aclose()


def open_source(
    responses: Responses, *, exclude: Iterable[str] = (), documents: bool = True
) -> Source:
    """Return a source of records for responses of any kind.

    Args:
        responses: the responses, as `evaluate_stream` takes them.
        exclude: paths of files to skip in directories and globs.
        documents: how to read a text that is a JSON array of objects: each object as a record, or,
            if False, each line as a record.

    Raises:
        UsageError: `responses` are of no known kind.
    """
    # Files.
    if isinstance(responses, str | os.PathLike):
        responses = read_jsonl(responses)
    if isinstance(responses, JsonlFiles):
        responses.exclude(exclude)
        return Source(responses.batches(documents=documents))
    if isinstance(responses, Follower):
        return Source(responses.batches(), callers_source=responses)

    # Streams, and other iterables.
    if isinstance(responses, Stream):
        chunks = _chunks_of(responses)
        return Source(split_lines(chunks, documents=documents), callers_source=responses)
    if isinstance(responses, AsyncIterable):
        iterator = aiter(responses)
        return Source(from_iterable(iterator, documents=documents), callers_source=iterator)
    is_data_frame = hasattr(responses, "iloc")
    if is_data_frame:
        return Source(from_iterable(_rows_of(responses), documents=documents))
    _check_iterable(responses)
    return Source(from_iterable(responses, documents=documents))


def _check_iterable(responses: object) -> None:
    """Check that `responses` is an iterable of responses.

    Raises:
        UsageError: it is something else, such as a single response or a list of paths.
    """
    is_one_response = isinstance(responses, Mapping | bytes | bytearray)
    if is_one_response or not isinstance(responses, Iterable):
        raise UsageError(
            "responses: expected a path or an iterable of responses, got "
            f"{type(responses).__name__} (run_evaluation takes a dict from question id to "
            "response)"
        )
    if isinstance(responses, list | tuple) and responses and all(map(_is_path, responses)):
        raise UsageError("responses: got a list of paths; use read_jsonl([...])")


def _rows_of(frame: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a pandas DataFrame as dicts, without missing cells, such as NaN."""
    for start in range(0, len(frame), FRAME_ROWS):
        # As objects, so that missing cells of any column can become None.
        part = frame.iloc[start : start + FRAME_ROWS].astype(object)
        part_with_none = part.where(part.notna(), None)
        for row in part_with_none.to_dict("records"):
            yield {key: value for key, value in row.items() if value is not None}


def _is_path(item: Any) -> bool:
    """Return whether an item of a list is a path rather than a response."""
    if isinstance(item, str):
        return item.endswith(PATH_SUFFIXES) and not item.startswith(("{", "["))
    return isinstance(item, os.PathLike)


async def _chunks_of(stream: Stream) -> AsyncGenerator[bytes]:
    """Yield the bytes of a stream; text is encoded in UTF-8."""
    if isinstance(stream, asyncio.StreamReader):
        while chunk := await stream.read(PIECE_BYTES):
            yield chunk
        return
    async for piece in stream:
        if isinstance(piece, str):
            # Lone surrogates are kept, so that their line is rejected like one of a file.
            yield piece.encode(errors="surrogatepass")
        else:
            yield piece


async def from_iterable(
    items: Iterable[Any] | AsyncIterable[Any], *, documents: bool = True
) -> AsyncGenerator[list[Record]]:
    """Yield the records in each item as a batch or as several.

    Records are numbered through all items. Lines of files keep their number and offset.

    Args:
        items: the responses: dicts, texts of one line or several, or lines of files. A plain
            iterable is advanced on the event loop, so it should not block.
        documents: whether each object of a text that is a JSON array is a record.
    """
    # Only counts the lines, unless an item has several.
    splitter = Splitter()
    async_items = items if isinstance(items, AsyncIterable) else _as_async(items)
    async for item in async_items:
        if isinstance(item, dict):
            yield [_write_dict(item, splitter)]
        elif isinstance(item, Line | LongLine):
            yield [item]
        elif isinstance(item, str):
            text = item.encode(errors="surrogatepass")
            for records in _split_text(text, splitter, documents=documents):
                yield records
        elif isinstance(item, bytes | bytearray | memoryview):
            for records in _split_text(bytes(item), splitter, documents=documents):
                yield records
        else:
            yield [_write_record(item, splitter)]


def _write_dict(item: dict[str, Any], splitter: Splitter) -> Record:
    """Return a dict as the next record of an iterable, and count it in `splitter`."""
    line = write_usual(item, splitter.number, splitter.offset)
    if line is None:
        return _write_record(item, splitter)
    splitter.number += 1
    splitter.offset += len(line.data) + 1
    return line


def _write_record(item: Any, splitter: Splitter) -> Record:
    """Write an object as a line of JSON, and count the line.

    Args:
        item: the object, usually a dict.
        splitter: has the number and the offset of the next line, and is advanced by this line.

    Returns:
        the line; a `LongLine` if it is over the limit; an `Unwritable` if the object cannot be
        written as JSON.
    """
    number = splitter.number
    offset = splitter.offset
    record = write_line(item, number, offset)
    size = len(record.data)
    splitter.number = number + 1
    splitter.offset = offset + size + 1  # Counts a line feed, too.
    is_too_long = size > MAX_LINE_BYTES
    if is_too_long and not isinstance(record, Unwritable):
        # This makes it a `LongLine`.
        return line_of(record.data, number, offset)
    return record


def _split_text(text: bytes, splitter: Splitter, *, documents: bool) -> Iterator[list[Record]]:
    """Yield the records in a text of one line or several, in batches, and count the lines.

    Args:
        text: the text.
        splitter: has the number and the offset of the next line, and is advanced by these lines.
        documents: whether each object is a record if the text is a JSON array.
    """
    # A newline at the end does not begin another line.
    has_several_lines = text.find(b"\n", 0, -1) >= 0
    if has_several_lines:
        objects = objects_of(text) if documents else None
        yield from splitter.split(text, objects)
        if splitter.unfinished_bytes:
            yield splitter.finish()
        return

    line = text.removesuffix(b"\n")
    number = splitter.number
    offset = splitter.offset
    splitter.number = number + 1
    splitter.offset = offset + len(line) + 1
    # A line over the limit is rejected, even if it is blank.
    is_too_long = len(line) > MAX_LINE_BYTES
    if not is_too_long and is_blank(line, number):
        yield []
    else:
        yield [line_of(line, number, offset)]


async def _as_async(items: Iterable[Any]) -> AsyncGenerator[Any]:
    """Yield the items of a plain iterable."""
    for item in items:
        yield item
