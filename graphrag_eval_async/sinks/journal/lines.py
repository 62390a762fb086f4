"""The lines of a journal: adds and checks their checksums, and sets damaged lines aside."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from contextlib import aclosing, closing
from functools import partial
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

import orjson

from graphrag_eval_async.errors import AggregationError, JournalError
from graphrag_eval_async.sinks.append_file import AppendFile
from graphrag_eval_async.threads import SLICE_SECONDS, run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

logger = logging.getLogger("graphrag_eval_async.journal")

PIECE_BYTES = 1 << 20

WRITE_BYTES = 1 << 16
"""Approximate bytes per write; larger pieces are slower, since the C library maps new pages for them."""

CHECKSUM = b'%b,"crc32":"%08x"}\n'
CHECKSUM_BYTES = len(CHECKSUM % (b"", 0))

Damaged = list[tuple[int, int]]
"""Start and end offsets of lines to set aside."""


class SetAside(Exception):  # noqa: N818
    """Raised for a line that is valid but no longer counts."""


def seal(line: bytes) -> bytes:
    """Return the line of a nonempty JSON object with its CRC-32 added as the last member."""
    body = memoryview(line)[:-2]
    return CHECKSUM % (body, crc32(body))


def unseal(line: bytes) -> Any:
    """Return the object in a line made by `seal`."""
    if not line.endswith(CHECKSUM % (b"", crc32(memoryview(line)[:-CHECKSUM_BYTES]))):
        raise ValueError("its checksum is missing or wrong")
    record = orjson.loads(line)
    del record["crc32"]
    return record


def join(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into pieces to write."""
    piece, size = [], 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= WRITE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    yield b"".join(piece)


async def read_lines(
    file: AppendFile, add: Callable[[Any], object], *, aside: str, threads: Executor
) -> tuple[int, int]:
    """Pass each line to `add`, as a JSON value without its checksum.

    Truncates a last line without newline. Moves lines that `unseal` or `add` refuse to the file at `aside`,
    and logs a warning. `add` refuses a line by a ValueError, TypeError, KeyError or AggregationError; or
    by `SetAside`, without a warning.

    Returns:
        the numbers of accepted and of damaged lines.

    Raises:
        JournalError: the file cannot be read or repaired.
    """
    damaged: Damaged = []
    try:
        accepted, retired, end = await _add_lines(file, add, damaged, threads)
        stop = threading.Event()
        mend = partial(_mend, file, end, damaged, aside, stop)
        await run_in_thread(mend, stop.set, threads=threads)
    except OSError as error:
        raise JournalError(f"{file.path}: cannot be repaired: {error.strerror or error}") from error
    return accepted, len(damaged) - retired


async def _add_lines(
    file: AppendFile, add: Callable[[Any], object], damaged: Damaged, threads: Executor
) -> tuple[int, int, int]:
    """Pass undamaged lines to `add`.

    Returns:
        number of lines accepted, number refused by `SetAside`, and the end offset of the last line.
    """
    accepted = retired = end = 0
    due = monotonic() + SLICE_SECONDS
    async with aclosing(_whole_lines(file, threads)) as chunks:
        async for lines in chunks:
            for line in lines:
                start, end = end, end + len(line)
                try:
                    add(unseal(line))
                    accepted += 1
                except SetAside:
                    retired += 1
                    damaged.append((start, end))
                except (ValueError, TypeError, KeyError, AggregationError) as error:
                    text = "%s: byte %d: not a result or reject; the line is set aside: %r"
                    logger.warning(text, file.path, start, error)
                    damaged.append((start, end))
                if monotonic() >= due:
                    await asyncio.sleep(0)
                    due = monotonic() + SLICE_SECONDS
    return accepted, retired, end


async def _whole_lines(file: AppendFile, threads: Executor) -> AsyncGenerator[Iterable[bytes]]:
    """Yield the lines of a file in batches, except a last one without newline."""
    start, rest = 0, b""
    while piece := await run_in_thread(
        partial(file.read, start + len(rest), max(PIECE_BYTES, len(rest))), threads=threads
    ):
        end = piece.rfind(b"\n") + 1
        if end:
            yield BytesIO(rest + piece[:end])
            start += len(rest) + end
            rest = piece[end:]
        else:
            rest += piece


def _mend(
    file: AppendFile, end: int, damaged: Sequence[tuple[int, int]], aside: str, stop: threading.Event
) -> None:
    """Truncate a file at `end`, and move its damaged lines to the file at `aside`."""

    def copy(place: int, end: int, target: AppendFile) -> None:
        while place < end:
            piece = file.read(place, min(PIECE_BYTES, end - place))
            if not piece or stop.is_set():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            target.write([piece])
            place += len(piece)

    if end < file.size:
        file.truncate(end)
    if not damaged:
        return
    with closing(AppendFile(aside, flags=os.O_NOFOLLOW)) as kept:
        if not kept.size:
            kept.take_mode(file)
        for start, stop_at in damaged:
            copy(start, stop_at, kept)
        kept.sync()
    with closing(file.draft()) as draft:
        begin = 0
        for start, stop_at in [*damaged, (end, end)]:
            copy(begin, start, draft)
            begin = stop_at
        file.replace_by(draft)
