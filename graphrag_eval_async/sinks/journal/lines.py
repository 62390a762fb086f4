"""The lines of a journal: each ends with its checksum, and those that a crash has damaged are set aside."""

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
"""About how much is written at once. The C library maps new pages for larger pieces, which takes longer."""

CHECKSUM = b'%b,"crc32":"%08x"}\n'
CHECKSUM_BYTES = len(CHECKSUM % (b"", 0))

Damaged = list[tuple[int, int]]
"""Where lines start and end that are set aside."""


class SetAside(Exception):  # noqa: N818
    """A line is sound, but does not count any more."""


def seal(line: bytes, crc: int = 0) -> bytes:
    """The line of an object that has members, with its CRC-32 as the last of them.

    `crc` is that of what comes before `line`, where that is only the end of a line.
    """
    body = memoryview(line)[:-2]
    return CHECKSUM % (body, crc32(body, crc))


def seal_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same for a line in pieces, of which the last has its last two bytes."""
    held, crc = b"", 0
    for piece in pieces:
        yield held
        crc = crc32(held, crc)
        held = piece
    yield seal(held, crc)


def unseal(line: bytes) -> Any:
    """The object in a line that `seal` has made.

    Raises:
        ValueError: the line is damaged.
    """
    if not line.endswith(CHECKSUM % (b"", crc32(memoryview(line)[:-CHECKSUM_BYTES]))):
        raise ValueError("its checksum is missing or wrong")
    record = orjson.loads(line)
    del record["crc32"]
    return record


def join(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in pieces to write."""
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

    A last line without its newline is cut off. A line that `unseal` or `add` refuses, the latter by a
    ValueError, TypeError, KeyError or AggregationError, is moved to the file at `aside`; so is one that `add`
    refuses by `SetAside`, without a word.

    Returns:
        the number of lines that were accepted, and of those that were damaged.

    Raises:
        JournalError: the file cannot be read or mended.
    """
    damaged: Damaged = []
    try:
        accepted, retired, end = await _add_lines(file, add, damaged, threads)
        stop = threading.Event()
        mend = partial(_mend, file, end, damaged, aside, stop)
        await run_in_thread(mend, stop.set, threads=threads)
    except OSError as error:
        raise JournalError(f"{file.path}: cannot be mended: {error.strerror or error}") from error
    return accepted, len(damaged) - retired


async def _add_lines(
    file: AppendFile, add: Callable[[Any], object], damaged: Damaged, threads: Executor
) -> tuple[int, int, int]:
    """Pass on the lines that are not damaged.

    Returns:
        how many were accepted, how many `add` has retired, and where the last line ends.
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
                    text = "%s: byte %d: is no result or reject, and is set aside: %r"
                    logger.warning(text, file.path, start, error)
                    damaged.append((start, end))
                if monotonic() >= due:
                    await asyncio.sleep(0)
                    due = monotonic() + SLICE_SECONDS
    return accepted, retired, end


async def _whole_lines(file: AppendFile, threads: Executor) -> AsyncGenerator[Iterable[bytes]]:
    """The lines of a file, in batches, but for a last one that has no newline."""
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
    """Cut a file off at `end`, and move its damaged lines, from start to end each, to the file at `aside`."""

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
