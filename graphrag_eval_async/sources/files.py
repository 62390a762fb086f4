"""Reading of files, pipes and terminals in large chunks, with gzip decompression."""

from __future__ import annotations

import os
import stat
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from io import FileIO
from typing import TYPE_CHECKING, Any

import anyio

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.posix import after_fork, open_flags
from graphrag_eval_async.threads import run_in_thread, run_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

CHUNK_BYTES = 1 << 20
"""Size of chunks. They are large, since each is read in a thread."""

READERS = 8
"""Maximum number of reading threads."""

GZIP = 31
"""zlib option: largest window, gzip header and checksum."""


def open_file(path: str | os.PathLike[str]) -> int:
    """The descriptor of a file, pipe or device, for the caller to close."""
    try:
        # Non-blocking, since opening a named pipe would otherwise wait for its writer.
        return os.open(path, os.O_RDONLY | open_flags("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise SourceError(f"{os.fspath(path)!r}: cannot be a path: {error}") from error


def unreadable(path: str | os.PathLike[str], error: OSError) -> SourceError:
    return SourceError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}")


async def read_descriptor(
    descriptor: int, path: str | os.PathLike[str] | None = None
) -> AsyncGenerator[bytes]:
    """The content of an open file, or the input from a pipe, socket or terminal until it is closed.

    The event loop waits for input of a pipe, not a thread, so cancelling a reader leaves nothing blocked. A
    thread that reads a file has returned before this ends, so the descriptor can be closed.

    Raises:
        SourceError: the file cannot be read, and `path` is given.
        OSError: the file cannot be read, and `path` is not given.
    """
    can_wait = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    try:
        while can_wait:
            try:
                await anyio.wait_readable(descriptor)
                chunk = os.read(descriptor, CHUNK_BYTES)
            except BlockingIOError:
                continue
            except PermissionError:
                can_wait = False  # epoll refuses files that never block, such as /dev/null.
                continue
            if not chunk:
                return
            yield chunk
        from aiofiles.threadpool import wrap  # Here, since importing it takes some milliseconds.

        file = wrap(FileIO(descriptor, closefd=False), executor=reading_threads())
        while chunk := await run_to_end(file.read(CHUNK_BYTES)):
            yield chunk
    except OSError as error:
        if path is None:
            raise
        raise unreadable(path, error) from error


@cache
def reading_threads() -> ThreadPoolExecutor:
    """Reading threads. Those of the event loop may all be waiting for results."""
    return ThreadPoolExecutor(READERS, thread_name_prefix="graphrag-eval-async-read")


after_fork(reading_threads.cache_clear)  # A forked child does not have its parent's threads.


class Gunzip:
    """Decompresses a gzip file with any number of members, piece by piece.

    Attributes:
        problem: what is wrong with the file; None if nothing is wrong so far.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._member: Any = None
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes, in pieces of at most `CHUNK_BYTES`; if corrupt, those before the damage."""
        more = False  # Whether earlier input yields more.
        while (data or more) and self.problem is None:
            if self._member is None:
                if not self._is_first and not (data := data.lstrip(b"\0")):
                    break  # Files may be padded with zeros.
                self._member = zlib.decompressobj(GZIP)
                self._is_first = False
            content = self._decompress(data)
            yield content
            data, more = self._member.unconsumed_tail, len(content) == CHUNK_BYTES
            if self._member.eof:
                data, more = self._member.unused_data, False
                self._member = None

    def _decompress(self, data: bytes) -> bytes:
        before = self._member.copy()
        try:
            content: bytes = self._member.decompress(data, CHUNK_BYTES)
        except zlib.error as error:
            self.problem = str(error)
        else:
            return content
        pieces: list[bytes] = []
        with suppress(zlib.error):  # An error hides the data before it: get it byte by byte.
            pieces.extend(before.decompress(bytes([byte])) for byte in data)
        return b"".join(pieces)

    def finish(self) -> None:
        """Signal the end of input."""
        if self._member is not None and self.problem is None:
            self.problem = "it ends in the middle of its compressed data"


async def gunzipped(pieces: AsyncGenerator[bytes], name: str) -> AsyncGenerator[bytes]:
    """The text of a gzip file, decompressed in threads.

    Raises:
        SourceError: the file is corrupt or incomplete; the message begins with `name`.
    """
    gunzip = Gunzip()
    try:
        async for piece in pieces:
            following = partial(next, gunzip.feed(piece), None)
            while (text := await run_in_thread(following, threads=reading_threads())) is not None:
                yield text
            _check(gunzip, name)
    finally:
        await pieces.aclose()
    gunzip.finish()
    _check(gunzip, name)


def _check(gunzip: Gunzip, name: str) -> None:
    if gunzip.problem is not None:
        raise SourceError(f"{name}: cannot be decompressed: {gunzip.problem}")
