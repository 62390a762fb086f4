"""Divides files into equal shards, each for a process that evaluates only its shard."""

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
    """One of several equal parts of the input.

    All files in order form one sequence of bytes, of which each shard has an equal share. A shard
    reads the lines that begin in its share.

    Attributes:
        index: number of the shard, from 0.
        count: number of shards.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class Window(NamedTuple):
    """A part of a file that consists of whole lines.

    Attributes:
        path: path of the file.
        start: offset of the first line in bytes.
        end: offset after the last line; None for the end of the file.
    """

    path: str
    start: int = 0
    end: int | None = None


def as_shard(shard: object) -> Shard:
    """Convert a pair of numbers, or a text such as ``0/3``, to a `Shard`.

    Raises:
        UsageError: `shard` is something else, or its index is not below its count.
    """
    parts: object = shard
    if isinstance(shard, Shard):
        parts = (shard.index, shard.count)
    elif isinstance(shard, str):
        text = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)
        if text:
            parts = (int(text[1]), int(text[2]))

    match parts:
        case (int(index), int(count)) if 0 <= index < count:
            return Shard(index, count)
    raise UsageError(
        "shard: expected INDEX/COUNT with INDEX from 0 to COUNT - 1, such as 0/3, got "
        f"{describe(shard)}"
    )


def windows(files: Sequence[str], shard: Shard) -> list[Window]:
    """Return the parts of files that a shard reads, in order.

    To find where lines begin, this reads a little of each file that the shard shares with another.

    Raises:
        SourceError: the size or the start of a file cannot be read.
    """
    if "-" in files:
        raise SourceError("-: only files can be read in shards, not standard input")
    sizes = [file_size(path) for path in files]
    total = sum(sizes)
    shard_start = total * shard.index // shard.count
    shard_end = total * (shard.index + 1) // shard.count

    shard_windows = []
    file_start = 0  # Bytes of the files before this one.
    for path, size in zip(files, sizes, strict=True):
        window = _window_in(path, size, start=shard_start - file_start, end=shard_end - file_start)
        if window is not None:
            shard_windows.append(window)
        file_start += size
    return shard_windows


def _window_in(path: str, size: int, *, start: int, end: int) -> Window | None:
    """Return the part of one file that a shard reads; None if it reads nothing of the file.

    Args:
        path: path of the file.
        size: size of the file in bytes.
        start: offset in this file at which the shard begins; negative if the shard begins in an
            earlier file.
        end: offset in this file at which the shard ends; more than `size` if it ends in a later
            file.
    """
    contains_whole_file = start <= 0 and size <= end
    if contains_whole_file:
        return Window(path)
    is_outside_of_file = start >= size or end <= 0
    if is_outside_of_file:
        return None

    if not can_be_cut(path):
        # The whole file belongs to the shard in whose share it begins.
        begins_in_shard = start <= 0
        return Window(path) if begins_in_shard else None
    with open_binary(path) as file:
        window_start = line_end(file, max(0, start), size)
        window_end = line_end(file, min(end, size), size)
    if window_start >= window_end:
        # The only line that the shard touches begins in an earlier shard.
        return None
    return Window(path, window_start, window_end)


def can_be_cut(path: str) -> bool:
    """Return whether a file can be read from any line: it is not compressed and not an array."""
    return suffix_of(path) != ".gz" and not is_array(read_start(path, START_BYTES))


def cannot_be_cut(path: str) -> str | None:
    """Return the reason why a file can only be read from its start, such as "it is compressed".

    None means that it can be read from any line.

    Raises:
        SourceError: the file cannot be read.
    """
    if is_address(path):
        return "it is not a local file"
    if suffix_of(path) == ".gz":
        return "it is compressed"
    if path == "-":
        return "it is standard input"
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise unreadable(path, error) from error
    if not S_ISREG(mode):
        return "it is not a regular file"
    if suffix_of(path) in PARQUET:
        return "it is a Parquet file"
    if not can_be_cut(path):
        return "it has not one JSON object per line"
    return None


def line_end(file: BinaryIO, place: int, size: int) -> int:
    """Return the first offset, at or after `place`, at which a line of an open file ends.

    Args:
        file: the file.
        place: an offset in bytes; 0 counts as the end of a line.
        size: size of the file, which counts as the end of its last line.
    """
    if place <= 0 or place >= size:
        return min(place, size)
    # If the byte before `place` is a line feed, a line ends at `place` itself.
    position = place - 1
    file.seek(position)
    while position < size:
        piece = file.readline(PIECE_BYTES)
        position += len(piece)
        # The piece is empty if the file has become shorter meanwhile.
        if not piece or piece.endswith(b"\n"):
            break
    return min(position, size)
