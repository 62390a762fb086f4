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
    """Return `shard`, which may be a pair of numbers or text such as ``0/3``, as a `Shard`.

    Raises:
        UsageError: it is none of these, or its index is not below its count.
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
    """Return what a shard reads of files.

    Reads a little of each file that the shard shares with others.

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
    """Return what a shard reads of one file; None if nothing.

    Args:
        path: path of the file.
        size: size of the file in bytes.
        start: where the shard begins, in bytes from the start of the file; may be outside of it.
        end: where the shard ends, likewise.
    """
    if start <= 0 and size <= end:
        return Window(path)
    if start >= size or end <= 0:
        return None

    if not can_be_cut(path):
        # The whole file belongs to the shard in whose bytes it begins.
        if start > 0:
            return None
        return Window(path)
    with open_binary(path) as file:
        window_start = line_end(file, max(0, start), size)
        window_end = line_end(file, min(end, size), size)
    if window_start >= window_end:
        # The only line that the shard touches begins in an earlier shard.
        return None
    return Window(path, window_start, window_end)


def can_be_cut(path: str) -> bool:
    """Return whether a file is plain, and has one object per line."""
    return suffix_of(path) != ".gz" and not is_array(read_start(path, START_BYTES))


def cannot_be_cut(path: str) -> str | None:
    """Return why a file must be read from start to end; None if it need not be.

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
    """Return where the first line ends that does so at or after `place` in an open file.

    Args:
        file: the file.
        place: an offset in bytes; 0 counts as the end of a line.
        size: size of the file, which counts as the end of its last line.
    """
    if place <= 0 or place >= size:
        return min(place, size)
    # A line may end at `place` itself, which the byte before tells.
    position = place - 1
    file.seek(position)
    while position < size:
        piece = file.readline(PIECE_BYTES)
        position += len(piece)
        # The file may have become shorter, so that there is no piece.
        if not piece or piece.endswith(b"\n"):
            break
    return min(position, size)
