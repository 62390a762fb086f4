"""Lines of finished files in random order."""

from __future__ import annotations

import os
import random
import stat
from array import array
from bisect import bisect_right
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.records import BYTE_ORDER_MARK, FileId, Line, LongLine
from graphrag_eval_async.sources.documents import is_one_object_per_line
from graphrag_eval_async.sources.files import CHUNK_BYTES, open_file, read_descriptor, unreadable
from graphrag_eval_async.sources.identity import generation_key, identify
from graphrag_eval_async.sources.lines import Splitter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.records import Record

BATCH_LINES = 64
BATCH_BYTES = 1 << 16
"""Maximum bytes of lines read together, since each switch to a thread and back takes time."""


class _File(NamedTuple):
    """A file, its device and inode number, and the index of its first line among those of all files."""

    id: FileId
    place: tuple[int, int]
    first: int


class _Place(NamedTuple):
    file: _File
    number: int
    start: int
    length: int


class ShuffledLines:
    """Offsets of all lines of some files, and the order in which to read them; 16 bytes per line."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._files: list[_File] = []
        self._starts = array("Q")  # Of the lines of each file, and of one more after the last.
        self._order = array("Q")
        self._blank = True

    @property
    def count(self) -> int:
        """The number of lines, without blank ones."""
        return len(self._order)

    async def add(self, path: str) -> None:
        """Find the lines of a file.

        Raises:
            SourceError: the file cannot be read, or can only be read from start to end.
        """
        if path.endswith(".gz"):
            raise SourceError(f"{path}: cannot shuffle a compressed file; decompress it first")
        descriptor = open_file(path)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceError(f"{path}: cannot be shuffled: not a regular file")
            if not is_one_object_per_line(path):
                raise SourceError(f"{path}: cannot be shuffled: not one JSON object per line")
            identity = identify(descriptor)
            id_ = FileId(path, generation_key(identity.root, 0))
            self._files.append(_File(id_, identity.place, len(self._starts)))
            self._starts.append(0)
            self._blank = True
            offset = 0
            async with aclosing(read_descriptor(descriptor)) as chunks:
                async for chunk in chunks:
                    await anyio.to_thread.run_sync(self._find, chunk, offset)
                    offset += len(chunk)
            if offset > self._starts[-1]:
                self._end(offset + 1)
        except OSError as error:
            raise unreadable(path, error) from error
        finally:
            os.close(descriptor)

    def _find(self, chunk: bytes, offset: int) -> None:
        """Record the lines that end in a chunk. Too slow for the event loop if lines are short."""
        text = chunk if offset else chunk.removeprefix(BYTE_ORDER_MARK)
        start = offset + len(chunk) - len(text)
        *ended, rest = text.split(b"\n")
        for data in ended:
            start += len(data) + 1
            self._blank = self._blank and (not data or data.isspace())
            self._end(start)
        self._blank = self._blank and (not rest or rest.isspace())

    def _end(self, next_start: int) -> None:
        if not self._blank or next_start - 1 - self._starts[-1] > self._limit:
            self._order.append(len(self._starts) - 1)
        self._starts.append(next_start)
        self._blank = True

    async def shuffle(self, seed: int) -> None:
        """Shuffle the lines, reproducibly by seed."""
        await anyio.to_thread.run_sync(random.Random(seed).shuffle, self._order)  # noqa: S311

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """The lines, in batches of those read together.

        Raises:
            SourceError: a file cannot be read, or has changed.
        """
        batch: list[_Place] = []
        size = 0
        for index in self._order:
            line = self._place(index)
            if batch and (len(batch) == BATCH_LINES or size + line.length > BATCH_BYTES):
                yield await _read_batch(batch)
                batch, size = [], 0
            if line.length > self._limit:
                yield await _read_long(line, self._limit)
            else:
                batch.append(line)
                size += line.length
        if batch:
            yield await _read_batch(batch)

    def _place(self, index: int) -> _Place:
        file = self._files[bisect_right(self._files, index, key=lambda file: file.first) - 1]
        start = self._starts[index]
        return _Place(file, index - file.first + 1, start, self._starts[index + 1] - 1 - start)


def size_of(line: Record) -> int:
    """The bytes of a line in its file, with its newline."""
    return 1 + (line.length if isinstance(line, LongLine) else len(line.data))


async def _read_batch(places: Sequence[_Place]) -> list[Record]:
    # One switch to a thread for all lines; aiofiles would need several per line.
    return await anyio.to_thread.run_sync(
        lambda: [
            Line(number, start, _read(file, start, length), file.id) for file, number, start, length in places
        ]
    )


async def _read_long(place: _Place, max_line_bytes: int) -> list[Record]:
    file, number, start, length = place
    splitter = Splitter(max_line_bytes, file=file.id, number=number, offset=start)
    for offset in range(start, start + length, CHUNK_BYTES):
        size = min(CHUNK_BYTES, start + length - offset)
        splitter.feed(await anyio.to_thread.run_sync(_read, file, offset, size))
    return splitter.finish()


def _read(file: _File, offset: int, size: int) -> bytes:
    """A part of a line. The file is opened each time, since there may be more files than can be open."""
    path = file.id.path
    descriptor = open_file(path)
    try:
        status = os.fstat(descriptor)
        data = os.pread(descriptor, size, offset)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if (status.st_dev, status.st_ino) != file.place or len(data) < size or b"\n" in data:
        raise SourceError(f"{path}: cannot be shuffled: it changed while being read")
    return data
