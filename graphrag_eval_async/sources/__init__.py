"""Everything that responses may come from, made the same thing: batches of lines with their places."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio.abc
from anyio.streams.text import TextReceiveStream

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.files import CHUNK_BYTES, read_descriptor, read_file
from graphrag_eval_async.sources.lines import split_lines
from graphrag_eval_async.sources.objects import close, from_async_iterable, from_iterable

if TYPE_CHECKING:
    from graphrag_eval_async.records import Record

__all__ = ["Responses", "open_source", "read_descriptor", "read_file", "split_lines"]

Item = Mapping[str, Any] | bytes | str
Stream = anyio.abc.ByteReceiveStream | TextReceiveStream | asyncio.StreamReader
Responses = str | os.PathLike[str] | Iterable[Item] | AsyncIterable[Item] | Stream
"""A path to JSONL, or what yields responses: dicts, or `bytes` or `str` that hold whole lines of JSON text.

A stream of bytes or text may cut its lines anywhere.
"""


def open_source(responses: Responses, *, max_line_bytes: int, spool: bool) -> AsyncGenerator[list[Record]]:
    """The records of any source, in batches of those that are already there.

    Raises:
        UsageError: this is nothing that yields responses.
    """
    if isinstance(responses, str | os.PathLike):
        return split_lines(read_file(responses), max_line_bytes=max_line_bytes, spool=spool)
    if isinstance(responses, Stream):
        return split_lines(_pieces(responses), max_line_bytes=max_line_bytes, spool=spool)
    if isinstance(responses, AsyncIterable):
        return from_async_iterable(responses, max_line_bytes=max_line_bytes)
    if isinstance(responses, Mapping | bytes | bytearray) or not isinstance(responses, Iterable):
        raise UsageError(
            f"responses: expected a path or an iterable of responses, got {type(responses).__name__}"
            " (run_evaluation takes a dict from question id to response)"
        )
    return from_iterable(responses, max_line_bytes=max_line_bytes)


async def _pieces(stream: Stream) -> AsyncGenerator[bytes]:
    if isinstance(stream, asyncio.StreamReader):
        while chunk := await stream.read(CHUNK_BYTES):
            yield chunk
        return
    try:
        async for piece in stream:
            yield piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece
    finally:
        await close(stream)
