"""Bytes of files and pipes, in pieces."""

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
from graphrag_eval_async.posix import after_fork, open_flags
from graphrag_eval_async.sources.remote import is_address, suffix_of, without_secrets
from graphrag_eval_async.threads import CLOSING_SECONDS, run_in_thread, run_to_end

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
    """Text of a file, and the number of bytes that it takes in the file, maybe compressed."""

    text: bytes
    stored_bytes: int


@cache
def reading_threads() -> ThreadPoolExecutor:
    """Return the reading threads. Those of the event loop may all be waiting for results."""
    return ThreadPoolExecutor(READERS, thread_name_prefix="graphrag-eval-async-read")


after_fork(reading_threads.cache_clear)  # A forked child does not have its parent's threads.


async def in_thread(function: Callable[..., R], *args: Any) -> R:
    """Return `function(*args)`, called in a reading thread."""
    return await run_in_thread(partial(function, *args), threads=reading_threads())


def open_binary(path: str, buffer_bytes: int = PIECE_BYTES) -> BinaryIO:
    """Open a file or a named pipe, or standard input for ``-``.

    A named pipe is opened without waiting for its writer.

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
    """Return a descriptor of a file.

    A named pipe may have replaced the file; it is opened without waiting for its writer.
    """
    return os.open(path, flags | open_flags("O_NONBLOCK", "O_NOCTTY"))


def read_start(path: str, count: int) -> bytes:
    """Return the first `count` bytes of a file, or all if it has fewer."""
    with open_binary(path, count) as file:
        try:
            return file.read(count)
        except OSError as error:
            raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> SourceError:
    """Return the error of a file that cannot be opened or read, with the system's reason."""
    reason = getattr(error, "strerror", None) or error
    return SourceError(f"{without_secrets(path)}: cannot be read: {reason}")


def file_size(path: str) -> int:
    """Return the size of a file in bytes; for ``-``, what is still to be read of its file.

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
    """Return bytes in pieces of at most `PIECE_BYTES`."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


async def read_pieces(
    file: BinaryIO,
    path: str,
    end: int | None = None,
    on_read: Callable[[int], object] = lambda _: None,
) -> AsyncGenerator[bytes]:
    """Yield the text of an open file, from its position, in pieces of at most `PIECE_BYTES`.

    Args:
        file: the file; the caller closes it afterwards.
        path: its path. A file whose path ends in .gz is decompressed.
        end: where in the file to stop; its end if that is None.
        on_read: called with the number of bytes that each piece takes in the file.

    Raises:
        SourceError: the file cannot be read, or is damaged; the text before that comes first.
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
    """Return whether a file is a pipe, a socket or a terminal, which may have nothing to read."""
    if is_address(path):
        return False
    mode = os.fstat(file.fileno()).st_mode
    return S_ISFIFO(mode) or S_ISSOCK(mode) or (S_ISCHR(mode) and file.isatty())


async def _read_stream(descriptor: int, path: str) -> AsyncGenerator[Piece]:
    """Yield what comes through a pipe, a socket or a terminal.

    The event loop waits for it, so a cancellation leaves no thread blocked.
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
    """Yield the bytes of a file that is neither compressed nor remote, up to `end`."""
    reader = AsyncBufferedReader(file, loop=None, executor=reading_threads())
    place = file.tell()
    while True:
        size = READ_BYTES
        if end is not None:
            size = min(size, end - place)
        try:
            # A cancellation waits for the thread, so that its caller can close the file.
            text = await run_to_end(reader.read(size))
        except OSError as error:
            raise unreadable(path, error) from error
        if not text:
            return
        place += len(text)
        for piece in cut(text):
            yield Piece(piece, stored_bytes=len(piece))
        if len(text) < READ_BYTES:
            return


async def _read_converted(file: BinaryIO, path: str, end: int | None) -> AsyncGenerator[Piece]:
    """Yield the text of a compressed or a remote file, read and decompressed in a thread."""
    pieces = _pieces_of(file, end, is_packed=suffix_of(path) == ".gz")
    # A file must not be closed while a thread reads it; but a server may never answer.
    patience = CLOSING_SECONDS if is_address(path) else inf
    while True:
        batch: list[Piece] = []
        problem = None
        # Fills the batch even if an error follows the last piece.
        fill_batch = partial(batch.extend, islice(pieces, PIECES_AT_ONCE))
        try:
            filling = asyncio.get_running_loop().run_in_executor(reading_threads(), fill_batch)
            await run_to_end(filling, seconds=patience)
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
        if len(batch) < PIECES_AT_ONCE:
            return


def _pieces_of(file: BinaryIO, end: int | None, *, is_packed: bool) -> Iterator[Piece]:
    """Yield the text of a file, decompressed if it `is_packed`; blocks."""
    read: Callable[[int], bytes] = file.read
    if is_packed:
        # Of a corrupt file, `read1` returns what is before the damage.
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
