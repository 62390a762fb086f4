"""Reading of responses from any source, as batches of lines with their positions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records import Line, LongLine, Record, write_line
from graphrag_eval_async.sources.documents import Rewriter, one_object_per_line, with_one_object_per_line
from graphrag_eval_async.sources.files import CHUNK_BYTES
from graphrag_eval_async.sources.following import Follower, follow_jsonl
from graphrag_eval_async.sources.lines import PIECE_BYTES, cut, is_blank, long_line, split_lines
from graphrag_eval_async.sources.reading import JsonlFiles, read_jsonl
from graphrag_eval_async.sources.waiting import Lag

__all__ = [
    "Follower",
    "JsonlFiles",
    "Lag",
    "Responses",
    "Source",
    "follow_jsonl",
    "open_source",
    "read_jsonl",
]

Item = Mapping[str, Any] | bytes | str | Line | LongLine
Stream = anyio.abc.ByteReceiveStream | TextReceiveStream | asyncio.StreamReader
Responses = str | os.PathLike[str] | JsonlFiles | Follower | Iterable[Item] | AsyncIterable[Item] | Stream
"""A path as for `read_jsonl`, or an iterable of responses: dicts, `bytes` or `str` of complete lines of JSON
text, or lines of files; a pandas DataFrame stands for its rows. A stream of bytes or text may be split
anywhere in a line.
"""

FRAME_ROWS = 1000
"""Rows of a DataFrame that are converted at once."""

CLOSING_SECONDS = 5.0
"""Maximum time to wait for a foreign source to close, in seconds."""


class Source:
    """Records, in batches of those already available, and the sources to close at the end."""

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
    responses: Responses,
    *,
    max_line_bytes: int,
    exclude: Iterable[str] = (),
    documents: bool = True,
) -> Source:
    """The records of any source. Skips excluded files of a directory or glob.

    Without `documents`, each line is a record, even if the first line begins an array of objects.

    Raises:
        UsageError: the source cannot yield responses.
    """
    if isinstance(responses, str | os.PathLike):
        responses = read_jsonl(responses)
    if isinstance(responses, JsonlFiles):
        responses.exclude(exclude)
        responses.documents = documents
    if isinstance(responses, JsonlFiles | Follower):
        theirs = responses if isinstance(responses, Follower) else None
        return Source(responses.batches(max_line_bytes=max_line_bytes), theirs)
    if hasattr(responses, "iloc"):
        responses = _rows(responses)
    if isinstance(responses, Stream):
        chunks = one_object_per_line(_pieces(responses)) if documents else _pieces(responses)
        return Source(split_lines(chunks, max_line_bytes=max_line_bytes), responses)
    if isinstance(responses, AsyncIterable):
        iterator = aiter(responses)
        batches = from_iterable(iterator, max_line_bytes=max_line_bytes, documents=documents)
        return Source(batches, iterator)
    if isinstance(responses, Mapping | bytes | bytearray) or not isinstance(responses, Iterable):
        raise UsageError(
            f"responses: expected a path or an iterable of responses, got {type(responses).__name__}"
            " (run_evaluation takes a dict from question id to response)"
        )
    if isinstance(responses, list | tuple) and responses and all(map(_is_path, responses)):
        raise UsageError("responses: got a list of paths; use read_jsonl([...])")
    return Source(from_iterable(responses, max_line_bytes=max_line_bytes, documents=documents), None)


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


async def _pieces(stream: Stream) -> AsyncGenerator[bytes]:
    if isinstance(stream, asyncio.StreamReader):
        while chunk := await stream.read(CHUNK_BYTES):
            yield chunk
        return
    async for piece in stream:
        yield piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece


async def from_iterable(
    source: Iterable[Any] | AsyncIterable[Any], *, max_line_bytes: int, documents: bool = True
) -> AsyncGenerator[list[Record]]:
    """The records in each item. The iterable is advanced on the event loop."""
    reader = _ObjectReader(max_line_bytes, documents=documents)
    if isinstance(source, AsyncIterable):
        async for item in source:
            for batch in reader.read(item):
                if batch:
                    yield batch
                else:
                    await asyncio.sleep(0)
    else:
        for item in source:
            for batch in reader.read(item):
                if batch:
                    yield batch
                else:
                    await asyncio.sleep(0)


class _ObjectReader:
    """Numbers the records of an iterable and converts each to JSON text. Lines of files are unchanged."""

    def __init__(self, max_line_bytes: int, *, documents: bool) -> None:
        self._limit = max_line_bytes
        self._documents = documents
        self._number = 1
        self._offset = 0

    def read(self, item: Any) -> Iterable[list[Record]]:
        """The records of an item, in batches made one at a time. Batches may be empty."""
        if isinstance(item, Line | LongLine):
            return [[item]]
        if isinstance(item, str):
            item = item.encode(errors="surrogatepass")
        if isinstance(item, bytes | bytearray | memoryview):
            data = bytes(item)
            if len(data) > PIECE_BYTES:
                return self._split(data)
            if self._documents and b"\n" in data:
                data = with_one_object_per_line(data)
            return [self._lines(data.removesuffix(b"\n").split(b"\n"))]
        record = write_line(item, self._number, self._offset)
        self._count(record.data)
        if isinstance(record, Line) and len(record.data) > self._limit:
            return [[long_line(record.data, record.number, record.offset, self._limit)]]
        return [[record]]

    def _split(self, data: bytes) -> Iterator[list[Record]]:
        rewriter = Rewriter()
        rewriter.is_lines = not self._documents or b"\n" not in data
        pieces = []
        for piece in cut(data):
            pieces.append(piece if rewriter.is_lines else rewriter.feed(piece))
            yield []
        text = BytesIO(b"".join([*pieces, rewriter.finish()]))
        while lines := text.readlines(PIECE_BYTES):
            yield self._lines([line.removesuffix(b"\n") for line in lines])

    def _lines(self, lines: Iterable[bytes]) -> list[Record]:
        return [record for line in lines if (record := self._line(line)) is not None]

    def _line(self, data: bytes) -> Record | None:
        number, offset = self._number, self._offset
        self._count(data)
        if len(data) > self._limit:
            return long_line(data, number, offset, self._limit)
        return None if is_blank(data, number) else Line(number, offset, data)

    def _count(self, data: bytes) -> None:
        self._number += 1
        self._offset += len(data) + 1
