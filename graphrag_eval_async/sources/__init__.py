"""Reading of responses from any source, as batches of lines with their positions."""

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
    """Records, in batches of those already available, and what to close at the end."""

    def __init__(self, batches: AsyncGenerator[list[Record]], callers_source: object) -> None:
        """Read `batches`; at the end, close them and `callers_source`, if it can be closed."""
        self._batches = batches
        self._callers_source = callers_source

    def __aiter__(self) -> AsyncGenerator[list[Record]]:
        return self._batches

    async def aclose(self) -> None:
        """Stop reading, and close the caller's source if possible, even under cancellation."""
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
    """Return the records of any source.

    Args:
        responses: the source.
        exclude: paths of files to skip in directories and globs.
        documents: whether each object of a text that is an array is a record. Otherwise, each line
            is one, also if the first line begins an array of objects.

    Raises:
        UsageError: `responses` is no source.
    """
    # Files.
    if isinstance(responses, str | os.PathLike):
        responses = read_jsonl(responses)
    if isinstance(responses, JsonlFiles):
        responses.exclude(exclude)
        return Source(responses.batches(documents=documents), None)
    if isinstance(responses, Follower):
        return Source(responses.batches(), responses)

    # Streams, and other iterables.
    if isinstance(responses, Stream):
        chunks = _chunks_of(responses)
        return Source(split_lines(chunks, documents=documents), responses)
    if isinstance(responses, AsyncIterable):
        iterator = aiter(responses)
        return Source(from_iterable(iterator, documents=documents), iterator)
    if hasattr(responses, "iloc"):
        return Source(from_iterable(_rows_of(responses), documents=documents), None)
    _check_iterable(responses)
    return Source(from_iterable(responses, documents=documents), None)


def _check_iterable(responses: object) -> None:
    """Raise a `UsageError` if `responses` is no iterable of responses."""
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
    """Yield the rows of a pandas DataFrame, without cells that are missing, such as NaN."""
    for start in range(0, len(frame), FRAME_ROWS):
        part = frame.iloc[start : start + FRAME_ROWS].astype(object)
        for row in part.where(part.notna(), None).to_dict("records"):
            yield {key: value for key, value in row.items() if value is not None}


def _is_path(item: Any) -> bool:
    """Return whether an item of a list is a path rather than a response."""
    if isinstance(item, str):
        return item.endswith(PATH_SUFFIXES) and not item.startswith(("{", "["))
    return isinstance(item, os.PathLike)


async def _chunks_of(stream: Stream) -> AsyncGenerator[bytes]:
    """Yield what comes through a stream, as bytes."""
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
    """Yield the records in each item, numbered; lines of files are unchanged.

    Args:
        items: the items; an iterable is advanced on the event loop.
        documents: whether each object of a text that is an array is a record.
    """
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
    """Return an object as the next record of an iterable, and count it in `splitter`."""
    number = splitter.number
    offset = splitter.offset
    record = write_line(item, number, offset)
    size = len(record.data)
    splitter.number = number + 1
    splitter.offset = offset + size + 1
    if size > MAX_LINE_BYTES and not isinstance(record, Unwritable):
        return line_of(record.data, number, offset)
    return record


def _split_text(text: bytes, splitter: Splitter, *, documents: bool) -> Iterator[list[Record]]:
    """Yield the next records of an iterable, from a text of one line or of several."""
    # A newline at the end does not begin another line.
    has_several_lines = text.find(b"\n", 0, -1) >= 0
    if has_several_lines:
        objects = objects_of(text) if documents else None
        yield from splitter.split(text, objects)
        if splitter.held:
            yield splitter.finish()
        return

    line = text.removesuffix(b"\n")
    number = splitter.number
    offset = splitter.offset
    splitter.number = number + 1
    splitter.offset = offset + len(line) + 1
    # A line over the limit is a record also if it is blank, so that it is rejected.
    if len(line) <= MAX_LINE_BYTES and is_blank(line, number):
        yield []
    else:
        yield [line_of(line, number, offset)]


async def _as_async(items: Iterable[Any]) -> AsyncGenerator[Any]:
    for item in items:
        yield item
