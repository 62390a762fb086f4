"""Bytes of files and pipes, in pieces."""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from gzip import BadGzipFile, GzipFile
from itertools import islice
from stat import S_IFREG, S_ISCHR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import anyio

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.posix import after_fork, open_flags
from graphrag_eval_async.sources.remote import is_address, shown, suffix_of
from graphrag_eval_async.threads import run_in_thread, write_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

R = TypeVar("R")

PIECE_BYTES = 1 << 16
"""Bytes that are split before other tasks get a turn."""

PIECES = 16
"""Pieces that are read together, since each switch to a thread and back takes time."""

READERS = 8
"""Maximum number of reading threads."""

STDIN = 0


@cache
def reading_threads() -> ThreadPoolExecutor:
    """Reading threads. Those of the event loop may all be waiting for results."""
    return ThreadPoolExecutor(READERS, thread_name_prefix="graphrag-eval-async-read")


after_fork(reading_threads.cache_clear)  # A forked child does not have its parent's threads.


async def in_thread(function: Callable[..., R], *args: Any) -> R:
    """`function(*args)`, called in a reading thread."""
    return await run_in_thread(partial(function, *args), threads=reading_threads())


def open_binary(path: str, buffer_bytes: int = PIECE_BYTES) -> BinaryIO:
    """A file, or a named pipe without waiting for its writer, opened; ``-`` is standard input."""
    try:
        if path == "-":
            return open(STDIN, "rb", buffer_bytes, closefd=False)
        return open(path, "rb", buffer_bytes, opener=open_at_once)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe, which may have replaced it, without waiting for its writer."""
    return os.open(path, flags | open_flags("O_NONBLOCK", "O_NOCTTY"))


def read_start(path: str, count: int) -> bytes:
    """The first bytes of a file."""
    with open_binary(path, count) as file:
        try:
            return file.read(count)
        except OSError as error:
            raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> SourceError:
    return SourceError(
        f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}"
    )


def file_size(path: str) -> int:
    """The size of a file in bytes; of standard input, what is left of its file."""
    if is_address(path):
        raise SourceError(f"{shown(path)}: has no size: it is not a local file")
    try:
        status = os.fstat(STDIN) if path == "-" else os.stat(path)
        if not S_ISREG(status.st_mode):
            raise SourceError(f"{path}: has no size: it is not a regular file")
        return status.st_size - (os.lseek(STDIN, 0, os.SEEK_CUR) if path == "-" else 0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


async def read_pieces(
    file: BinaryIO,
    path: str,
    end: int | None = None,
    on_read: Callable[[int], object] = lambda _: None,
) -> AsyncGenerator[bytes]:
    """The text of an open file, decompressed if `path` ends in .gz, from its position up to `end`.

    `on_read` is called with the number of bytes that each piece takes in the file. A `SourceError`
    is raised after the text before the problem. The event loop waits for a pipe, so no thread is
    left blocked.
    """
    mode = S_IFREG if is_address(path) else os.fstat(file.fileno()).st_mode
    if S_ISFIFO(mode) or S_ISSOCK(mode) or (S_ISCHR(mode) and file.isatty()):
        async for piece in _read_pipe(file.fileno(), path):
            on_read(len(piece))
            yield piece
        return
    # A local file can be closed only when no thread reads it.
    run = run_in_thread if is_address(path) else write_in_thread
    pieces = _pieces(file, end, is_packed=suffix_of(path) == ".gz")
    while True:
        found: list[tuple[bytes, int]] = []
        problem = None
        try:
            await run(partial(found.extend, islice(pieces, PIECES)), threads=reading_threads())
        except SourceError as error:
            problem = error
        except (BadGzipFile, EOFError, zlib.error) as error:
            problem = SourceError(f"{shown(path)}: cannot be decompressed: {error}")
        except OSError as error:
            problem = unreadable(path, error)
        for piece, size in found:
            on_read(size)
            yield piece
        if problem is not None:
            raise problem
        if len(found) < PIECES:
            return


async def _read_pipe(descriptor: int, path: str) -> AsyncGenerator[bytes]:
    while True:
        try:
            await anyio.wait_readable(descriptor)
            piece = os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            raise unreadable(path, error) from error
        if not piece:
            return
        yield piece


def _pieces(file: BinaryIO, end: int | None, *, is_packed: bool) -> Iterator[tuple[bytes, int]]:
    """The text in pieces, each with the number of bytes that it takes in the file."""
    # Of a corrupt file, `read1` yields what is before the damage.
    read = GzipFile(fileobj=file).read1 if is_packed else file.read
    place = file.tell()
    while piece := read(PIECE_BYTES if end is None else min(PIECE_BYTES, end - place)):
        before, place = place, file.tell()
        yield piece, place - before
