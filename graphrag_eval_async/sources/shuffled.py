"""Lines of finished files in random order."""

from __future__ import annotations

import os
import random
from array import array
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.records import BYTE_ORDER_MARK, FileId, LongLine
from graphrag_eval_async.sources.files import PIECE_BYTES, in_thread, open_binary, unreadable
from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.paths import key_of
from graphrag_eval_async.sources.remote import shown
from graphrag_eval_async.sources.shards import cannot_be_cut

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from typing import BinaryIO

    from graphrag_eval_async.records import Record

BATCH_LINES = 64
BATCH_BYTES = 1 << 16
"""Maximum bytes of lines read together, since each switch to a thread and back takes time."""

FOUND_BYTES = 1 << 24
"""Bytes of a file in which lines are found before a cancellation is heeded."""


class _File(NamedTuple):
    """A file, its device and inode number, and the index of its first line among those of all files."""

    id: FileId
    place: tuple[int, int]
    first: int


class ShuffledLines:
    """Offsets of all lines of some files, and the order in which to read them; 16 bytes per line."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._files: list[_File] = []
        self._starts = array("Q")  # Of the lines of each file, and of one more after the last.
        self._order = array("Q")

    @property
    def count(self) -> int:
        """The number of lines, without blank ones."""
        return len(self._order)

    async def add(self, path: str) -> None:
        """Find the lines of a file.

        Raises:
            SourceError: the file cannot be read, or can only be read from start to end.
        """
        if problem := await in_thread(cannot_be_cut, path):
            raise SourceError(f"{shown(path)}: cannot be shuffled: {problem}")
        with open_binary(path) as file:
            status = os.fstat(file.fileno())
            id_ = FileId(path, key_of(status))
            self._files.append(_File(id_, (status.st_dev, status.st_ino), len(self._starts)))
            self._starts.append(0)
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            is_blank: bool | None = True
            while is_blank is not None:
                is_blank = await in_thread(partial(self._find, file, path, is_blank=is_blank))

    def _find(self, file: BinaryIO, path: str, *, is_blank: bool) -> bool | None:
        """Find the next lines; whether the last is blank so far; None at the end of the file."""
        try:
            place = begin = file.tell()
            while place - begin < FOUND_BYTES:
                if not (piece := file.readline(PIECE_BYTES)):
                    if place > self._starts[-1]:
                        self._end(place + 1, is_blank=is_blank)
                    return None
                place += len(piece)
                is_blank = is_blank and piece.isspace()
                if piece.endswith(b"\n"):
                    self._end(place, is_blank=is_blank)
                    is_blank = True
        except OSError as error:
            raise unreadable(path, error) from error
        return is_blank

    def _end(self, next_start: int, *, is_blank: bool) -> None:
        if not is_blank or next_start - 1 - self._starts[-1] > self._limit:
            self._order.append(len(self._starts) - 1)
        self._starts.append(next_start)

    async def shuffle(self, seed: int) -> None:
        """Shuffle the lines, reproducibly by seed."""
        await in_thread(random.Random(seed).shuffle, self._order)  # noqa: S311

    async def batches(self, on_read: Callable[[int], object]) -> AsyncGenerator[list[Record]]:
        """The lines, in batches of those read together; `on_read` is called with the bytes of each.

        Raises:
            SourceError: a file cannot be read, or has changed.
        """
        batch: list[int] = []
        size = 0
        for index in self._order:
            length = self._starts[index + 1] - self._starts[index]
            if batch and (len(batch) == BATCH_LINES or size + length > BATCH_BYTES):
                lines = await in_thread(self._read_all, batch)
                on_read(size)
                yield lines
                batch, size = [], 0
            batch.append(index)
            size += length
        if batch:
            lines = await in_thread(self._read_all, batch)
            on_read(size)
            yield lines

    def _read_all(self, indexes: Sequence[int]) -> list[Record]:
        return [record for index in indexes for record in self._read(index)]

    def _read(self, index: int) -> list[Record]:
        """A line. The file is opened each time, since there may be more files than can be open."""
        file = self._files[bisect_right(self._files, index, key=lambda file: file.first) - 1]
        start, end = self._starts[index], self._starts[index + 1] - 1
        splitter = Splitter(self._limit, file=file.id, number=index - file.first + 1, offset=start)
        with open_binary(file.id.path, buffer_bytes=0) as opened:
            status = os.fstat(opened.fileno())
            is_same = (status.st_dev, status.st_ino) == file.place
            while is_same and start < end:
                data = os.pread(opened.fileno(), min(end - start, PIECE_BYTES), start)
                is_same = bool(data) and b"\n" not in data
                splitter.feed(data)
                start += len(data)
        if not is_same:
            raise SourceError(f"{file.id.path}: cannot be shuffled: it changed while being read")
        return splitter.finish()


def size_of(line: Record) -> int:
    """The bytes of a line in its file, with its newline."""
    return 1 + (line.length if isinstance(line, LongLine) else len(line.data))
