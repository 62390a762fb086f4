"""Lines of finished files in random order."""

from __future__ import annotations

import os
import random
from array import array
from bisect import bisect_right
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from threading import Event
from typing import TYPE_CHECKING

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
from graphrag_eval_async.sources.remote import shown
from graphrag_eval_async.sources.shards import cannot_be_cut
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from graphrag_eval_async.records import Record

BATCH_LINES = 64
BATCH_BYTES = 1 << 16
"""Bytes of lines that are read together, since each switch to a thread and back takes time."""

OPEN_FILES = 64
"""Maximum number of files that are kept open."""


class ShuffledLines:
    """Offsets of all lines of some files, and the order in which to read them; 16 bytes per
    line.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        # Each with the index of its first line among all.
        self._files: list[tuple[FileId, int]] = []
        self._starts = array("Q")  # Of the lines of each file, and of one more after the last.
        self._order = array("Q")
        self._descriptors: dict[int, int] = {}
        self._open = ExitStack()

    def __len__(self) -> int:
        """The number of lines, without blank ones."""
        return len(self._order)

    async def add(self, path: str) -> None:
        """Find the lines of a file; raises a `SourceError` if it can only be read from start to
        end.
        """
        stopped = Event()
        await run_in_thread(
            partial(self._find, path, stopped), stopped.set, threads=reading_threads()
        )

    def _find(self, path: str, stopped: Event) -> None:
        if problem := cannot_be_cut(path):
            raise SourceError(f"{shown(path)}: cannot be shuffled: {problem}")
        with open_binary(path) as file:
            self._files.append((FileId(path, key_of(os.fstat(file.fileno()))), len(self._starts)))
            self._starts.append(0)
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            place, is_blank = file.tell(), True
            while not stopped.is_set() and (piece := file.readline(PIECE_BYTES)):
                place += len(piece)
                is_blank = is_blank and piece.isspace()
                if piece.endswith(b"\n"):
                    self._end(place, is_blank=is_blank)
                    is_blank = True
            if place > self._starts[-1]:
                self._end(place + 1, is_blank=is_blank)

    def _end(self, next_start: int, *, is_blank: bool) -> None:
        if not is_blank or next_start - 1 - self._starts[-1] > self._max_line_bytes:
            self._order.append(len(self._starts) - 1)
        self._starts.append(next_start)

    async def batches(
        self, seed: int, on_read: Callable[[int], object]
    ) -> AsyncGenerator[list[Record]]:
        """The lines, shuffled by seed, in batches; `on_read` is called with the bytes of each."""
        await in_thread(random.Random(seed).shuffle, self._order)  # noqa: S311
        batch: list[int] = []
        size = 0
        try:
            for place, index in enumerate(self._order, 1):
                batch.append(index)
                size += self._starts[index + 1] - self._starts[index]
                if size >= BATCH_BYTES or len(batch) == BATCH_LINES or place == len(self._order):
                    lines: list[Record] = await in_thread(list, map(self._read, batch))
                    on_read(size)
                    yield lines
                    batch, size = [], 0
        finally:
            self._open.close()

    def _read(self, index: int) -> Record:
        file = bisect_right(self._files, index, key=itemgetter(1)) - 1
        id_, first = self._files[file]
        start, end = self._starts[index], self._starts[index + 1] - 1
        if end - start <= self._max_line_bytes:
            return Line(index - first + 1, start, self._bytes(file, start, end), id_)
        splitter = Splitter(
            max_line_bytes=self._max_line_bytes, file=id_, number=index - first + 1, offset=start
        )
        for place in range(start, end, PIECE_BYTES):
            splitter.feed(self._bytes(file, place, min(place + PIECE_BYTES, end)))
        return splitter.finish()[0]

    def _bytes(self, file: int, start: int, end: int) -> bytes:
        """Bytes of a file. Files are opened again, since there may be more than can be open."""
        path, key = (id_ := self._files[file][0]).path, id_.key
        try:
            if file not in self._descriptors:
                if len(self._descriptors) == OPEN_FILES:
                    self._open.close()
                    self._descriptors.clear()
                opened = self._open.enter_context(open_binary(path, 0)).fileno()
                self._descriptors[file] = opened
                key = key_of(os.fstat(opened))
            data = os.pread(self._descriptors[file], end - start, start)
        except OSError as error:
            raise unreadable(path, error) from error
        if len(data) < end - start or b"\n" in data or key != id_.key:
            raise SourceError(f"{path}: cannot be shuffled: it changed while being read")
        return data
