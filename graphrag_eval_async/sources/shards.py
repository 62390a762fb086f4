"""One of several equal parts of files, for a process that evaluates only that part."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from graphrag_eval_async.errors import SourceError, UsageError, describe
from graphrag_eval_async.sources.files import (
    PIECE_BYTES,
    file_size,
    open_binary,
    read_start,
    unreadable,
)
from graphrag_eval_async.sources.lines import START_BYTES, is_array
from graphrag_eval_async.sources.paths import PARQUET
from graphrag_eval_async.sources.remote import is_address, suffix_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the input: `index`, from 0, of `count` parts.

    All files in order are one sequence of bytes. Each shard has an equal share, and reads what
    begins in it.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class Window(NamedTuple):
    """Whole lines of a file, from byte `start` to byte `end`; to its end if that is None."""

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
        "shard: expected INDEX/COUNT with INDEX from 0 to COUNT - 1, such as 0/3, got "
        f"{describe(shard)}"
    )


def windows(files: Sequence[str], shard: Shard) -> list[Window]:
    """Return what a shard reads of files. Reads a little of each file that it shares with
    others.
    """
    if "-" in files:
        raise SourceError("-: only files can be read in shards, not standard input")
    sizes = [file_size(path) for path in files]
    total = sum(sizes)
    first, last = (total * index // shard.count for index in (shard.index, shard.index + 1))
    found = []
    before = 0
    for path, size in zip(files, sizes, strict=True):
        start, end = max(0, first - before), min(size, last - before)
        if first <= before and before + size <= last:
            found.append(Window(path))
        elif start < end and can_be_cut(path):
            with open_binary(path) as file:
                found.append(Window(path, line_end(file, start, size), line_end(file, end, size)))
        elif start < end and first <= before:
            found.append(Window(path))
        before += size
    return [window for window in found if window.end is None or window.start < window.end]


def can_be_cut(path: str) -> bool:
    """Whether a file is plain, and has one object per line."""
    return suffix_of(path) != ".gz" and not is_array(read_start(path, START_BYTES))


def cannot_be_cut(path: str) -> str | None:
    """Return why a file must be read from start to end; None if it need not be."""
    if is_address(path):
        return "it is not a local file"
    if suffix_of(path) == ".gz":
        return "it is compressed"
    if path == "-":
        return "it is standard input"
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return "it is not a regular file"
    except OSError as error:
        raise unreadable(path, error) from error
    if suffix_of(path) in PARQUET:
        return "it is a Parquet file"
    return "it has not one JSON object per line" if not can_be_cut(path) else None


def line_end(file: BinaryIO, place: int, size: int) -> int:
    """Return the first line end at or after `place`, in a file of this size; 0 for 0."""
    if 0 < place < size:
        file.seek(place - 1)
        while place < size and (piece := file.readline(PIECE_BYTES)):
            place += len(piece) - piece.endswith(b"\n")
            if piece.endswith(b"\n"):
                break
    return min(place, size)
