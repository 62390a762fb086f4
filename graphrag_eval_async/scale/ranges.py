"""Cuts files into byte ranges at line ends, and reads the lines of a range."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.files import PIECE_BYTES, open_binary, unreadable
from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.remote import shown
from graphrag_eval_async.sources.shards import cannot_be_cut, line_end
from graphrag_eval_async.sources.shuffled import size_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sources.shards import Window
    from graphrag_eval_async.traces.format import TraceFormat

MAX_RANGE_BYTES = 4 << 20
MIN_RANGE_BYTES = 1 << 16
"""Size of a range, except the last of a file and longer lines. Each range costs a round trip and a merge."""

RANGES_PER_JOB = 8
"""Least ranges per worker, so that all finish at about the same time."""


class Range(NamedTuple):
    """Lines of a file, from the byte at which the first begins up to the end of the last.

    Attributes:
        path: names the file in errors and rejects.
        file: the absolute path by which a worker opens it.
        place: device and inode number, by which a worker sees that it is the same file.
        start: bytes of the file before it.
        end: bytes of the file up to its end.
    """

    path: str
    file: str
    place: tuple[int, int]
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.path}: bytes {self.start} to {self.end}"


def unsplittable(files: Sequence[str], traces: TraceFormat | None = None) -> str | None:
    """Return why these files, which may hold traces, cannot be cut into ranges; None if they can."""
    if traces is not None and traces.is_grouped:
        return "spans of one trace stand in several lines and cannot be split"
    for path in files:
        try:
            problem = cannot_be_cut(path, documents=traces is None)
        except SourceError as error:
            return str(error)
        if problem is not None:
            return f"{shown(path)} cannot be split: {problem}"
    return None


def range_bytes(total: int, jobs: int) -> int:
    """Return the size of ranges for files of this total size."""
    return max(MIN_RANGE_BYTES, min(MAX_RANGE_BYTES, total // (jobs * RANGES_PER_JOB)))


class Cutter:
    """Cuts files into ranges, in order.

    Attributes:
        size: how many bytes the next range should have; it ends with the line that it ends in.
    """

    def __init__(self, windows: Sequence[Window], size: int) -> None:
        self.size = size
        self._ranges = self._cut(windows)

    def next(self) -> Range | None:
        """Return the next range, or None after the last. Reads the file, so call it in a thread."""
        return next(self._ranges, None)

    def close(self) -> None:
        self._ranges.close()

    def _cut(self, windows: Sequence[Window]) -> Generator[Range]:
        for path, start, last in windows:
            with open_binary(path) as file:
                try:
                    status = os.fstat(file.fileno())
                    real, place = os.path.realpath(path), (status.st_dev, status.st_ino)
                    last = status.st_size if last is None else last
                    while start < last:
                        end = line_end(file, start + self.size, last)
                        yield Range(path, real, place, start, end)
                        start = end
                except OSError as error:
                    raise unreadable(path, error) from error


class RangeLines:
    """Iterates over the lines of a range, except blank ones.

    They are numbered from `before` + 1.

    Attributes:
        before: 1 if a blank line was put before the first: only in the first line of a file, a byte-order
            mark alone is blank.
        count: how many lines have ended so far.
    """

    def __init__(self, range_: Range, max_line_bytes: int) -> None:
        self.before = 1 if range_.start else 0
        self.count = -self.before
        self._range = range_
        self._limit = max_line_bytes

    def __iter__(self) -> Iterator[Record]:
        path, start = self._range.path, self._range.start - self.before
        splitter = Splitter(self._limit, file=FileId(path, ""), offset=start)
        for piece in _pieces(self._range, start):
            self.count += piece.count(b"\n")
            yield from splitter.feed(piece)
        yield from splitter.finish()

    def end_of(self, record: Record) -> int:
        """Return where the line after a record begins."""
        return min(record.offset + size_of(record), self._range.end)


def _pieces(range_: Range, start: int) -> Iterator[bytes]:
    """Yield the bytes up to the end of a range, in pieces."""
    path = range_.path
    with open_binary(range_.file) as file:
        try:
            status = os.fstat(file.fileno())
            is_same = (status.st_dev, status.st_ino) == range_.place
            file.seek(start)
            while is_same and start < range_.end:
                wanted = min(range_.end - start, PIECE_BYTES)
                piece = file.read(wanted)
                is_same = len(piece) == wanted
                if is_same:
                    yield piece
                start += wanted
        except OSError as error:
            raise unreadable(path, error) from error
    if not is_same:
        raise SourceError(f"{path}: was changed while it was read")
