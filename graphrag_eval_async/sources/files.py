"""Opens files and pipes, and reads their bytes in pieces."""

from __future__ import annotations

import asyncio
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from gzip import BadGzipFile, GzipFile
from itertools import islice
from math import inf
from stat import S_ISCHR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import anyio
from aiofiles.threadpool.binary import AsyncBufferedReader

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.helpers.posix import after_fork, open_flags
from graphrag_eval_async.helpers.threads import CLOSING_SECONDS, run_in_thread, run_to_end
from graphrag_eval_async.sources.remote import is_address, suffix_of, without_secrets

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

R = TypeVar("R")

READ_BYTES = 1 << 20
"""Bytes of a file that are read at once, since each switch to a thread and back takes time."""

PIECE_BYTES = 1 << 16
"""Bytes that are split into lines before other tasks get a turn."""

PIECES_AT_ONCE = READ_BYTES // PIECE_BYTES
"""Pieces of a compressed or remote file that a thread reads before it returns."""

READERS = 8
"""Maximum number of reading threads."""

STDIN = 0
"""Descriptor of standard input, whose path is ``-``."""


class Piece(NamedTuple):
    """A part of a file's text.

    Attributes:
        text: the text, decompressed.
        stored_bytes: number of bytes that the text takes in the file, where it may be compressed.
    """

    text: bytes
    stored_bytes: int


@cache
def reading_threads() -> ThreadPoolExecutor:
    """Return the threads that read files.

    The event loop's own threads are not used, since they may all be busy with evaluations that wait
    for more responses to be read.
    """
    return ThreadPoolExecutor(READERS, thread_name_prefix="graphrag-eval-async-read")


after_fork(reading_threads.cache_clear)  # A forked child does not have its parent's threads.


async def in_thread(function: Callable[..., R], *args: Any) -> R:
    """Return `function(*args)`, called in a reading thread."""
    return await run_in_thread(partial(function, *args), threads=reading_threads())


def open_binary(path: str, buffer_bytes: int = PIECE_BYTES) -> BinaryIO:
    """Open a file or a named pipe to read; ``-`` stands for standard input.

    Opening a named pipe does not wait for its writer.

    Args:
        path: the path.
        buffer_bytes: size of the buffer; 0 for none.

    Raises:
        SourceError: it cannot be opened.
    """
    try:
        if path == "-":
            return open(STDIN, "rb", buffer_bytes, closefd=False)
        return open(path, "rb", buffer_bytes, opener=open_at_once)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def open_at_once(path: str, flags: int) -> int:
    """Open a file and return its descriptor, without waiting for anything.

    Opening a named pipe normally waits for its writer. Any file may have been replaced by one.
    """
    return os.open(path, flags | open_flags("O_NONBLOCK", "O_NOCTTY"))


def read_start(path: str, count: int) -> bytes:
    """Return the first `count` bytes of a file, or all if it has fewer.

    Raises:
        SourceError: the file cannot be read.
    """
    with open_binary(path, count) as file:
        try:
            return file.read(count)
        except OSError as error:
            raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> SourceError:
    """Return a `SourceError` for a file that cannot be opened or read.

    Args:
        path: path of the file.
        error: the error of the system, whose reason the message gives.
    """
    reason = getattr(error, "strerror", None) or error
    return SourceError(f"{without_secrets(path)}: cannot be read: {reason}")


def file_size(path: str) -> int:
    """Return the size of a file in bytes.

    For ``-``, return the size of the part of standard input that is not read yet, if standard input
    is a file.

    Raises:
        SourceError: it is not a regular file on this machine, or its status cannot be read.
    """
    if is_address(path):
        raise SourceError(f"{without_secrets(path)}: has no size: it is not a local file")
    try:
        status = os.fstat(STDIN) if path == "-" else os.stat(path)
        if not S_ISREG(status.st_mode):
            raise SourceError(f"{path}: has no size: it is not a regular file")
        if path == "-":
            return status.st_size - os.lseek(STDIN, 0, os.SEEK_CUR)
        return status.st_size
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def cut(data: bytes) -> Iterable[bytes]:
    """Split bytes into pieces of at most `PIECE_BYTES`."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


async def read_pieces(
    file: BinaryIO,
    path: str,
    end: int | None = None,
    on_read: Callable[[int], object] = lambda _: None,
) -> AsyncGenerator[bytes]:
    """Read an open file from its position, and yield its text in pieces of at most `PIECE_BYTES`.

    Args:
        file: the file; the caller closes it afterwards.
        path: its path. A file whose path ends in .gz is decompressed.
        end: offset at which to stop; None for the end of the file.
        on_read: called before each piece with the number of bytes that it takes in the file.

    Raises:
        SourceError: the file cannot be read, or is damaged. The text before the damage is yielded
            first.
    """
    if _is_stream(file, path):
        pieces = _read_stream(file.fileno(), path)
    elif is_address(path) or suffix_of(path) == ".gz":
        pieces = _read_converted(file, path, end)
    else:
        pieces = _read_plain(file, path, end)
    try:
        async for piece in pieces:
            on_read(piece.stored_bytes)
            yield piece.text
    finally:
        await pieces.aclose()


def _is_stream(file: BinaryIO, path: str) -> bool:
    """Return whether a file is a pipe, a socket or a terminal, so that reading it may wait."""
    if is_address(path):
        return False
    mode = os.fstat(file.fileno()).st_mode
    return S_ISFIFO(mode) or S_ISSOCK(mode) or (S_ISCHR(mode) and file.isatty())


async def _read_stream(descriptor: int, path: str) -> AsyncGenerator[Piece]:
    """Yield the bytes that come through a pipe, a socket or a terminal.

    Waits on the event loop, not in a thread: a thread would stay blocked after a cancellation.
    """
    while True:
        try:
            await anyio.wait_readable(descriptor)
            text = os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            # Another reader of the same pipe may have been faster.
            continue
        except OSError as error:
            raise unreadable(path, error) from error
        if not text:
            return
        yield Piece(text, stored_bytes=len(text))


async def _read_plain(file: BinaryIO, path: str, end: int | None) -> AsyncGenerator[Piece]:
    """Yield the bytes of a file that is neither compressed nor remote.

    Args:
        file: the file, which is read from its position.
        path: its path, for messages.
        end: offset at which to stop; None for the end of the file.

    Raises:
        SourceError: the file cannot be read.
    """
    reader = AsyncBufferedReader(file, loop=None, executor=reading_threads())
    place = file.tell()
    while True:
        size = READ_BYTES
        if end is not None:
            size = min(size, end - place)
        try:
            # `run_to_end` waits for the thread even if this task is cancelled. So no thread uses
            # the file when the caller closes it.
            text = await run_to_end(reader.read(size))
        except OSError as error:
            raise unreadable(path, error) from error
        if not text:
            return
        place += len(text)
        for piece in cut(text):
            yield Piece(piece, stored_bytes=len(piece))
        is_at_end = len(text) < READ_BYTES
        if is_at_end:
            return


async def _read_converted(file: BinaryIO, path: str, end: int | None) -> AsyncGenerator[Piece]:
    """Yield the text of a compressed or a remote file, which is read and decompressed in a thread.

    Args:
        file: the file, which is read from its position.
        path: its path.
        end: offset at which to stop; None for the end of the file.

    Raises:
        SourceError: the file cannot be read, or is damaged. The text before the damage is yielded
            first.
    """
    pieces = _read_blocking(file, end, is_compressed=suffix_of(path) == ".gz")
    # After a cancellation, the thread must end before the file is closed. But a server may never
    # answer, so the wait for a remote file has a limit.
    max_wait = CLOSING_SECONDS if is_address(path) else inf
    while True:
        batch: list[Piece] = []
        problem = None
        # `extend` adds piece by piece, so the batch has the text before an error.
        fill_batch = partial(batch.extend, islice(pieces, PIECES_AT_ONCE))
        try:
            filling = asyncio.get_running_loop().run_in_executor(reading_threads(), fill_batch)
            await run_to_end(filling, seconds=max_wait)
        except SourceError as error:
            problem = error
        except (BadGzipFile, EOFError, zlib.error) as error:
            problem = SourceError(f"{without_secrets(path)}: cannot be decompressed: {error}")
        except OSError as error:
            problem = unreadable(path, error)
        for piece in batch:
            yield piece
        if problem is not None:
            raise problem
        is_at_end = len(batch) < PIECES_AT_ONCE
        if is_at_end:
            return


def _read_blocking(file: BinaryIO, end: int | None, *, is_compressed: bool) -> Iterator[Piece]:
    """Yield the text of a file from its position; blocks, so call it in a thread.

    Args:
        file: the file.
        end: offset at which to stop; None for the end of the file.
        is_compressed: whether the file is compressed by gzip.
    """
    read: Callable[[int], bytes] = file.read
    if is_compressed:
        # Unlike `read`, `read1` returns the text before the damage of a corrupt file.
        read = GzipFile(fileobj=file).read1
    place = file.tell()
    while True:
        size = PIECE_BYTES
        if end is not None:
            size = min(size, end - place)
        text = read(size)
        if not text:
            return
        start = place
        place = file.tell()
        yield Piece(text, stored_bytes=place - start)
