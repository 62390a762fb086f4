"""One of several equal parts of files, for a process that evaluates only that part."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import SourceError, UsageError, describe
from graphrag_eval_async.sources.documents import LOOKED_AT, begins_with_lines, is_one_object_per_line
from graphrag_eval_async.sources.files import open_file, unreadable
from graphrag_eval_async.sources.lines import PIECE_BYTES
from graphrag_eval_async.sources.parquet import is_parquet
from graphrag_eval_async.sources.remote import RemoteFile, is_address, suffix_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the input: `index`, from 0, of `count` parts.

    All files in order are one sequence of bytes, of which each shard has an equal share. It reads what begins
    in its share: lines of plain files, row groups of Parquet files, and whole files that cannot be cut, such
    as compressed ones.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class Window(NamedTuple):
    """Whole lines of a file: its bytes from `start` to `end`; all of them if `end` is None.

    Of a Parquet file, the row groups that begin there.
    """

    path: str
    start: int = 0
    end: int | None = None


def as_shard(shard: object) -> Shard:
    """Return a pair of numbers, or text such as ``0/3``, as a shard."""
    found = (shard.index, shard.count) if isinstance(shard, Shard) else shard
    if isinstance(shard, str) and (parts := re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)):
        found = int(parts[1]), int(parts[2])
    match found:
        case (int(index), int(count)) if 0 <= index < count:
            return Shard(index, count)
    raise UsageError(
        f"shard: expected INDEX/COUNT with INDEX from 0 to COUNT - 1, such as 0/3, got {describe(shard)}"
    )


def windows(files: Sequence[str], shard: Shard) -> list[Window]:
    """Return what a shard reads of files. Reads a little of each file that it shares with others.

    Raises:
        SourceError: a file cannot be read, or has no size, as a pipe.
    """
    sizes = [_size(path) for path in files]
    total = sum(sizes)
    first, last = (total * index // shard.count for index in (shard.index, shard.index + 1))
    found = []
    before = 0
    for path, size in zip(files, sizes, strict=True):
        start, end = max(0, first - before), min(size, last - before)
        if first <= before and before + size <= last:
            found.append(Window(path))
        elif start < end and is_parquet(path):
            found.append(Window(path, start, end))
        elif start < end and not can_be_cut(path):
            found += [Window(path)] * (first <= before)
        elif start < end:
            found.append(Window(path, *_lines_between(path, start, end)))
        before += size
    return [window for window in found if window.end is None or window.start < window.end]


def can_be_cut(path: str) -> bool:
    """Whether a file is plain, and has one object per line."""
    if suffix_of(path) == ".gz":
        return False
    if is_address(path):
        return begins_with_lines(RemoteFile(path).read(0, LOOKED_AT))
    return is_one_object_per_line(path)


def line_end(descriptor: int, place: int, size: int) -> int:
    """Return the first line end at or after `place`, in a file of this size; 0 for 0."""
    return _line_end(lambda start, end: os.pread(descriptor, end - start, start), place, size)


def _line_end(read: Callable[[int, int], bytes], place: int, size: int) -> int:
    """Return the same, given a function that reads the bytes between two places."""
    while 0 < place < size:
        piece = read(place - 1, place - 1 + PIECE_BYTES)
        newline = piece.find(b"\n")
        if newline >= 0:
            return min(place + newline, size)
        if not piece:
            break
        place += len(piece)
    return min(place, size)


def _lines_between(path: str, start: int, end: int) -> tuple[int, int]:
    """Return the bytes of the lines that begin between two places."""
    if is_address(path):
        remote = RemoteFile(path)
        return _line_end(remote.read, start, remote.size), _line_end(remote.read, end, remote.size)
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        return line_end(descriptor, start, size), line_end(descriptor, end, size)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _size(path: str) -> int:
    if is_address(path):
        return RemoteFile(path).size
    try:
        if path != "-" and os.path.isfile(path):
            return os.stat(path).st_size
        os.stat(path)
    except OSError as error:
        if path != "-":
            raise unreadable(path, error) from error
    raise SourceError(f"{path}: only files can be read in shards, not pipes and standard input")
