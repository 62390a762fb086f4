"""Bytes of files, pipes and terminals, in large pieces as they come."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from graphrag_eval_async.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

CHUNK_BYTES = 1 << 20
"""Each piece costs a hand-over to a thread and back, so pieces are large."""


async def read_file(path: str | os.PathLike[str]) -> AsyncGenerator[bytes]:
    """The content of a regular file, or what comes through a pipe or device until its writer closes it.

    Raises:
        SourceError: it cannot be opened or read.
    """
    descriptor = open_file(path)
    chunks = read_open_file(path, descriptor)
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        await chunks.aclose()
        os.close(descriptor)


def open_file(path: str | os.PathLike[str]) -> int:
    """The descriptor of a file, pipe or device, for the caller to close.

    Raises:
        SourceError: it cannot be opened.
    """
    try:
        # Non-blocking, since opening a named pipe would otherwise wait for its writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise SourceError(f"{os.fspath(path)!r}: cannot be a path: {error}") from error


async def read_open_file(path: str | os.PathLike[str], descriptor: int) -> AsyncGenerator[bytes]:
    """As `read_descriptor`.

    Raises:
        SourceError: it cannot be read.
    """
    chunks = read_descriptor(descriptor)
    try:
        async for chunk in chunks:
            yield chunk
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        await chunks.aclose()


def unreadable(path: str | os.PathLike[str], error: OSError) -> SourceError:
    return SourceError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}")


async def read_descriptor(descriptor: int) -> AsyncGenerator[bytes]:
    """What comes through an open pipe, socket or terminal; a regular file is read in large pieces.

    Waiting for input is the event loop's, not a thread's: a cancelled reader leaves nothing blocked.
    """
    pollable = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        try:
            if pollable:
                await anyio.wait_readable(descriptor)
                chunk = os.read(descriptor, CHUNK_BYTES)
            else:
                chunk = await anyio.to_thread.run_sync(os.read, descriptor, CHUNK_BYTES)
        except BlockingIOError:
            continue
        except PermissionError:
            if not pollable:
                raise
            pollable = False  # epoll refuses what never makes one wait, such as /dev/null.
            continue
        if not chunk:
            return
        yield chunk
