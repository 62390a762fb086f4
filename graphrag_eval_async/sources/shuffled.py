"""Lines of finished files in random order."""

from __future__ import annotations

import os
import random
from array import array
from bisect import bisect_right
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.records import BYTE_ORDER_MARK, FileId, Line
from graphrag_eval_async.sources.files import (
    PIECE_BYTES,
    in_thread,
    open_binary,
    reading_threads,
    unreadable,
)
from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.paths import key_of
from graphrag_eval_async.sources.remote import without_secrets
from graphrag_eval_async.sources.shards import cannot_be_cut
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from graphrag_eval_async.records import Record

BATCH_LINES = 64
"""Maximum number of lines that are read together."""

BATCH_BYTES = 1 << 16
"""Bytes of lines that are read together, since each switch to a thread and back takes time."""

OPEN_FILES = 64
"""Maximum number of files that are kept open."""


class _ShuffledFile(NamedTuple):
    """A file, and the index of its first line among the lines of all files."""

    id: FileId
    first_line: int


class ShuffledLines:
    """The lines of some files in random order.

    Keeps the offsets of all lines and the order in which they are read: 16 bytes per line.
    """

    def __init__(self, max_line_bytes: int) -> None:
        """Start without files; lines of more than `max_line_bytes` are read as `LongLine`."""
        self._max_line_bytes = max_line_bytes
        self._files: list[_ShuffledFile] = []
        # The offset of each line in its file. After the lines of a file comes the offset at which
        # a line after its last one would start, so that each line ends before the next offset.
        self._starts = array("Q")
        # The indexes in `_starts` of the lines that are not blank.
        self._order = array("Q")
        self._descriptors: dict[int, int] = {}  # Of open files, by their index in `_files`.
        self._open_files = ExitStack()

    def __len__(self) -> int:
        """Return the number of lines that are not blank."""
        return len(self._order)

    async def add(self, path: str) -> None:
        """Find the lines of a file.

        Raises:
            SourceError: the file cannot be read, or only from start to end.
        """
        is_stopped = Event()
        await run_in_thread(
            partial(self._find_lines, path, is_stopped),
            is_stopped.set,
            threads=reading_threads(),
        )

    def _find_lines(self, path: str, is_stopped: Event) -> None:
        """Find the lines of a file, until `is_stopped` is set; blocks."""
        problem = cannot_be_cut(path)
        if problem is not None:
            raise SourceError(f"{without_secrets(path)}: cannot be shuffled: {problem}")
        with open_binary(path) as file:
            id_ = FileId(path, key_of(os.fstat(file.fileno())))
            self._files.append(_ShuffledFile(id_, first_line=len(self._starts)))
            self._starts.append(0)
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)

            place = file.tell()
            is_blank = True
            while not is_stopped.is_set():
                piece = file.readline(PIECE_BYTES)
                if not piece:
                    break
                place += len(piece)
                is_blank = is_blank and piece.isspace()
                if piece.endswith(b"\n"):
                    self._end_line(next_start=place, is_blank=is_blank)
                    is_blank = True
            if place > self._starts[-1]:
                # The last line has no newline; the next would start after one.
                self._end_line(next_start=place + 1, is_blank=is_blank)

    def _end_line(self, *, next_start: int, is_blank: bool) -> None:
        """Note that the line that was read last ends before `next_start`."""
        length = next_start - 1 - self._starts[-1]
        # A blank line over the limit is read, so that it is rejected as in files that are read
        # in order.
        if not is_blank or length > self._max_line_bytes:
            line = len(self._starts) - 1
            self._order.append(line)
        self._starts.append(next_start)

    async def batches(
        self, seed: int, on_read: Callable[[int], object]
    ) -> AsyncGenerator[list[Record]]:
        """Yield the lines in batches, in an order that depends only on `seed`.

        Args:
            seed: seed of the random order.
            on_read: called with the number of bytes of each batch.

        Raises:
            SourceError: a file cannot be read, or has changed.
        """
        await in_thread(random.Random(seed).shuffle, self._order)  # noqa: S311
        batch: list[int] = []
        batch_bytes = 0
        try:
            for line in self._order:
                batch.append(line)
                batch_bytes += self._starts[line + 1] - self._starts[line]
                if batch_bytes >= BATCH_BYTES or len(batch) == BATCH_LINES:
                    lines: list[Record] = await in_thread(list, map(self._read, batch))
                    on_read(batch_bytes)
                    yield lines
                    batch = []
                    batch_bytes = 0
            if batch:
                lines = await in_thread(list, map(self._read, batch))
                on_read(batch_bytes)
                yield lines
        finally:
            self._open_files.close()

    def _read(self, line: int) -> Record:
        """Return a line, by its index in `_starts`; blocks."""
        index = bisect_right(self._files, line, key=attrgetter("first_line")) - 1
        file = self._files[index]
        number = line - file.first_line + 1
        start = self._starts[line]
        end = self._starts[line + 1] - 1
        if end - start <= self._max_line_bytes:
            return Line(number, start, self._read_bytes(index, start, end), file.id)

        # Of a line over the limit, only one piece at a time is held in memory.
        splitter = Splitter(
            max_line_bytes=self._max_line_bytes, file=file.id, number=number, offset=start
        )
        for place in range(start, end, PIECE_BYTES):
            piece_end = min(place + PIECE_BYTES, end)
            splitter.feed(self._read_bytes(index, place, piece_end))
        return splitter.finish()[0]

    def _read_bytes(self, index: int, start: int, end: int) -> bytes:
        """Return bytes of a file, by its index in `_files`, which have no line feed.

        Raises:
            SourceError: the file cannot be read, or has changed since its lines were found.
        """
        id_ = self._files[index].id
        is_same_file = True
        try:
            if index not in self._descriptors:
                is_same_file = self._open_again(index)
            data = os.pread(self._descriptors[index], end - start, start)
        except OSError as error:
            raise unreadable(id_.path, error) from error
        if not is_same_file or len(data) < end - start or b"\n" in data:
            raise SourceError(f"{id_.path}: cannot be shuffled: it changed while being read")
        return data

    def _open_again(self, index: int) -> bool:
        """Open a file whose lines were found; return whether it is the same file as then.

        If many are open, close them first, since there may be more files than can be open.
        """
        if len(self._descriptors) == OPEN_FILES:
            self._open_files.close()
            self._descriptors.clear()
        id_ = self._files[index].id
        file = self._open_files.enter_context(open_binary(id_.path, 0))
        self._descriptors[index] = file.fileno()
        return key_of(os.fstat(file.fileno())) == id_.key
