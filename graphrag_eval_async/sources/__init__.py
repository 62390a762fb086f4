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
from graphrag_eval_async.records import Line, LongLine, Record, Unwritable, write_line
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

CLOSING_SECONDS = 5.0
"""Maximum time to wait for a foreign source to close, in seconds."""


class Source:
    """Records, in batches of those already available, and the caller's source, to close at the
    end.
    """

    def __init__(self, batches: AsyncGenerator[list[Record]], theirs: object) -> None:
        self._batches = batches
        self._theirs = theirs

    def __aiter__(self) -> AsyncGenerator[list[Record]]:
        return self._batches

    async def aclose(self) -> None:
        """Stop reading, and close the caller's source if possible, even under cancellation."""
        try:
            await self._batches.aclose()
        finally:
            if aclose := getattr(self._theirs, "aclose", None):
                with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                    await aclose()


def open_source(
    responses: Responses, *, exclude: Iterable[str] = (), documents: bool = True
) -> Source:
    """The records of any source. Skips excluded files of a directory or glob.

    Without `documents`, each line is a record, even if the first line begins an array of objects.
    """
    if isinstance(responses, str | os.PathLike):
        responses = read_jsonl(responses)
    if isinstance(responses, JsonlFiles):
        responses.exclude(exclude)
        return Source(responses.batches(documents=documents), None)
    if isinstance(responses, Follower):
        return Source(responses.batches(), responses)
    if hasattr(responses, "iloc"):
        responses = _rows(responses)
    if isinstance(responses, Stream):
        batches = split_lines(_chunks(responses), documents=documents)
        return Source(batches, responses)
    if isinstance(responses, AsyncIterable):
        iterator = aiter(responses)
        batches = from_iterable(iterator, documents=documents)
        return Source(batches, iterator)
    if isinstance(responses, Mapping | bytes | bytearray) or not isinstance(responses, Iterable):
        raise UsageError(
            "responses: expected a path or an iterable of responses, got "
            f"{type(responses).__name__} (run_evaluation takes a dict from question id to "
            "response)"
        )
    if isinstance(responses, list | tuple) and responses and all(map(_is_path, responses)):
        raise UsageError("responses: got a list of paths; use read_jsonl([...])")
    return Source(from_iterable(responses, documents=documents), None)


def _rows(frame: Any) -> Iterator[Mapping[str, Any]]:
    """The rows of a pandas DataFrame, without cells that are missing, such as NaN."""
    for start in range(0, len(frame), FRAME_ROWS):
        part = frame.iloc[start : start + FRAME_ROWS].astype(object)
        for row in part.where(part.notna(), None).to_dict("records"):
            yield {key: value for key, value in row.items() if value is not None}


def _is_path(item: Any) -> bool:
    if isinstance(item, str):
        return item.endswith((".jsonl", ".json", ".ndjson", ".gz")) and item[:1] not in "{["
    return isinstance(item, os.PathLike)


async def _chunks(stream: Stream) -> AsyncGenerator[bytes]:
    if isinstance(stream, asyncio.StreamReader):
        while chunk := await stream.read(PIECE_BYTES):
            yield chunk
        return
    async for piece in stream:
        yield piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece


async def from_iterable(
    source: Iterable[Any] | AsyncIterable[Any], *, documents: bool = True
) -> AsyncGenerator[list[Record]]:
    """The records in each item, numbered; lines of files are unchanged. Advances the iterable on
    the loop.
    """
    splitter = Splitter()
    async for item in source if isinstance(source, AsyncIterable) else _each(source):
        if isinstance(item, dict):
            yield [_write(item, splitter)]
        elif isinstance(item, Line | LongLine):
            yield [item]
        elif isinstance(item, str):
            for records in _split(item.encode(errors="surrogatepass"), splitter, documents):
                yield records
        elif isinstance(item, bytes | bytearray | memoryview):
            for records in _split(bytes(item), splitter, documents):
                yield records
        else:
            yield [_write(item, splitter)]


def _write(item: Any, splitter: Splitter) -> Record:
    """Return an object as the next record of an iterable."""
    number, offset = splitter.number, splitter.offset
    record = write_line(item, number, offset)
    size = len(record.data)
    splitter.number = number + 1
    splitter.offset = offset + size + 1
    if size > MAX_LINE_BYTES and not isinstance(record, Unwritable):
        return line_of(record.data, number, offset)
    return record


def _split(data: bytes, splitter: Splitter, documents: bool) -> Iterator[list[Record]]:
    """Yield the next records of an iterable, from text of one line or of several."""
    if data.find(b"\n", 0, -1) >= 0:
        yield from splitter.split(data, objects_of(data) if documents else None)
        if splitter.held:
            yield splitter.finish()
        return
    data = data.removesuffix(b"\n")
    number, offset = splitter.number, splitter.offset
    splitter.number = number + 1
    splitter.offset = offset + len(data) + 1
    is_long = len(data) > MAX_LINE_BYTES
    yield [] if not is_long and is_blank(data, number) else [line_of(data, number, offset)]


async def _each(items: Iterable[Any]) -> AsyncGenerator[Any]:
    for item in items:
        yield item
