"""Reads the lines of finished files in random order."""

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
from graphrag_eval_async.helpers.threads import run_in_thread
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
    """A file whose lines were found.

    Attributes:
        id: the file, as its lines name it.
        first_line: index of its first line among the lines of all files.
    """

    id: FileId
    first_line: int


class ShuffledLines:
    """The lines of some files in random order.

    Keeps the offsets of all lines and the order in which they are read: 16 bytes per line.
    """

    def __init__(self, max_line_bytes: int) -> None:
        """Start without files.

        Args:
            max_line_bytes: maximum length of a line; longer ones are read as `LongLine`.
        """
        self._max_line_bytes = max_line_bytes
        self._files: list[_ShuffledFile] = []
        # Offsets of all lines in their files. After the lines of each file, there is one more
        # offset: that of a line that would follow. So the line with index i is at
        # `_starts[i]` to `_starts[i + 1] - 1`.
        self._starts = array("Q")
        # Indexes in `_starts` of the lines that are not blank, in the order of reading.
        self._order = array("Q")
        self._descriptors: dict[int, int] = {}  # Of open files, by their index in `_files`.
        self._open_files = ExitStack()

    def __len__(self) -> int:
        """Return the number of lines that are not blank."""
        return len(self._order)

    async def add(self, path: str) -> None:
        """Find the lines of a file, in a thread.

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
        """Find the lines of a file; blocks.

        Args:
            path: path of the file.
            is_stopped: set by another thread to end this before the end of the file.

        Raises:
            SourceError: the file cannot be read, or only from start to end.
        """
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
            is_blank = True  # Whether the line so far is only white space.
            while not is_stopped.is_set():
                # A line of more than `PIECE_BYTES` comes in several pieces.
                piece = file.readline(PIECE_BYTES)
                if not piece:
                    break
                place += len(piece)
                is_blank = is_blank and piece.isspace()
                if piece.endswith(b"\n"):
                    self._add_line(next_start=place, is_blank=is_blank)
                    is_blank = True
            if place > self._starts[-1]:
                # The last line has no newline. If it had, the next line would start after that.
                self._add_line(next_start=place + 1, is_blank=is_blank)

    def _add_line(self, *, next_start: int, is_blank: bool) -> None:
        """Add the line that begins at the last offset in `_starts`, unless it is blank.

        Args:
            next_start: offset at which the next line of the file starts.
            is_blank: whether the line is only white space.
        """
        length = next_start - 1 - self._starts[-1]
        # A line over the limit is read even if it is blank, so that it is rejected. That is how
        # files are read in order, too.
        is_too_long = length > self._max_line_bytes
        if not is_blank or is_too_long:
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
                    lines: list[Record] = await in_thread(list, map(self._read_line, batch))
                    on_read(batch_bytes)
                    yield lines
                    batch = []
                    batch_bytes = 0
            if batch:
                lines = await in_thread(list, map(self._read_line, batch))
                on_read(batch_bytes)
                yield lines
        finally:
            self._open_files.close()

    def _read_line(self, line: int) -> Record:
        """Read a line; blocks.

        Args:
            line: index of the line in `_starts`.

        Raises:
            SourceError: its file cannot be read, or has changed.
        """
        # Find its file: the last one that begins at this line or before.
        files_up_to_line = bisect_right(self._files, line, key=attrgetter("first_line"))
        index = files_up_to_line - 1
        file = self._files[index]
        number = line - file.first_line + 1
        start = self._starts[line]
        end = self._starts[line + 1] - 1
        if end - start <= self._max_line_bytes:
            return Line(
                number=number,
                offset=start,
                data=self._read_bytes(index, start, end),
                file=file.id,
            )

        # The line is over the limit: read it piece by piece, to save memory. A splitter keeps only
        # what a `LongLine` needs.
        splitter = Splitter(
            max_line_bytes=self._max_line_bytes, file=file.id, number=number, offset=start
        )
        for place in range(start, end, PIECE_BYTES):
            piece_end = min(place + PIECE_BYTES, end)
            splitter.feed(self._read_bytes(index, place, piece_end))
        return splitter.finish()[0]

    def _read_bytes(self, index: int, start: int, end: int) -> bytes:
        """Read bytes of a line, and check that the file has not changed.

        Args:
            index: index of the file in `_files`.
            start: offset of the first byte.
            end: offset after the last byte.

        Raises:
            SourceError: the file cannot be read, or has changed since its lines were found.
        """
        id_ = self._files[index].id
        is_same_file = True
        try:
            if index not in self._descriptors:
                is_same_file = self._reopen(index)
            data = os.pread(self._descriptors[index], end - start, start)
        except OSError as error:
            raise unreadable(id_.path, error) from error
        is_same_line = len(data) == end - start and b"\n" not in data
        if not is_same_file or not is_same_line:
            raise SourceError(f"{id_.path}: cannot be shuffled: it changed while being read")
        return data

    def _reopen(self, index: int) -> bool:
        """Open a file to read its lines. If too many files are open, close all of them first.

        Args:
            index: index of the file in `_files`.

        Returns:
            whether it is still the file whose lines were found.
        """
        if len(self._descriptors) == OPEN_FILES:
            self._open_files.close()
            self._descriptors.clear()
        id_ = self._files[index].id
        file = self._open_files.enter_context(open_binary(id_.path, buffer_bytes=0))
        self._descriptors[index] = file.fileno()
        return key_of(os.fstat(file.fileno())) == id_.key
