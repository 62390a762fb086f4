"""Records of Parquet files and of files at addresses, read in threads, a little at a time."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.files import reading_threads
from graphrag_eval_async.sources.identity import generation_key
from graphrag_eval_async.sources.lines import PIECE_BYTES
from graphrag_eval_async.sources.parquet import ParquetRows
from graphrag_eval_async.sources.remote import RANGE_BYTES
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sources.remote import RemoteFile
    from graphrag_eval_async.sources.shards import Window

R = TypeVar("R")


async def in_thread(function: Callable[[], R]) -> R:
    """`function()`, called in a reading thread."""
    return await run_in_thread(function, threads=reading_threads())


def remote_id(remote: RemoteFile, *, is_part: bool) -> FileId:
    """The file of lines at an address; another version of it has another key."""
    version = hashlib.sha256(f"{remote.name}\n{remote.size} {remote.version}".encode()).hexdigest()
    return FileId(remote.name, generation_key(version[:32], 0), is_part=is_part)


async def rows_of(
    window: Window,
    file: FileId,
    remote: RemoteFile | None,
    max_line_bytes: int,
    advance: Callable[[int], object],
) -> AsyncGenerator[list[Record]]:
    """The rows of a Parquet file as lines; `advance` is called with the size of each row group read."""
    rows = await in_thread(partial(ParquetRows, window.path, remote))
    try:
        for group in await in_thread(partial(rows.groups, window.start, window.end)):
            batches = rows.batches(group, file, max_line_bytes)
            while (batch := await in_thread(partial(next, batches, None))) is not None:
                yield batch
            advance(group.size)
    finally:
        rows.close()


async def chunks_of(
    remote: RemoteFile, start: int, end: int, advance: Callable[[int], object]
) -> AsyncGenerator[bytes]:
    """The bytes of a file at an address.

    In the pieces of the whole file, which decide how much of a line over the limit is at hand. `advance` is
    called with the size of each piece.

    Raises:
        SourceError: the file cannot be read, or has changed.
    """
    while start < end:
        stop = min(end, (start // RANGE_BYTES + 1) * RANGE_BYTES)
        chunk = await in_thread(partial(remote.read, start, stop))
        first = start - start % PIECE_BYTES
        for place in range(first, stop, PIECE_BYTES):
            piece = chunk[max(0, place - start) : place + PIECE_BYTES - start]
            advance(len(piece))
            yield piece
        start = stop
