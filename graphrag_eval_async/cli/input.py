"""What is read: bytes of a file or of standard input, counted."""

from __future__ import annotations

import os
import stat

import anyio
import anyio.abc

from graphrag_eval_async.sources import read_descriptor, read_file

STDIN = 0


class Input(anyio.abc.ByteReceiveStream):
    """The bytes of the file at `path`, or of standard input where it is ``-``.

    Attributes:
        name: the path.
        size: how many bytes there are, or None where that cannot be known.
        consumed: how many have been handed out.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.size = _size(path)
        self.consumed = 0
        self._chunks = read_descriptor(STDIN) if path == "-" else read_file(path)
        self._rest = memoryview(b"")

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """The next bytes: pieces small enough that `consumed` keeps pace with the work."""
        if not self._rest:
            try:
                self._rest = memoryview(await anext(self._chunks))
            except StopAsyncIteration:
                raise anyio.EndOfStream from None
        piece = bytes(self._rest[:max_bytes])
        self._rest = self._rest[max_bytes:]
        self.consumed += len(piece)
        return piece

    async def aclose(self) -> None:
        """Stop reading."""
        await self._chunks.aclose()


def _size(path: str) -> int | None:
    try:
        status = os.fstat(STDIN) if path == "-" else os.stat(path)
        start = os.lseek(STDIN, 0, os.SEEK_CUR) if path == "-" else 0
    except OSError:
        return None
    return status.st_size - start if stat.S_ISREG(status.st_mode) else None
