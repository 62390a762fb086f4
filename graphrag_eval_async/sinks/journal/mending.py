"""Reading a file of lines that a process may have left at any moment."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import AggregationError, JournalError
from graphrag_eval_async.sinks.append_file import AppendFile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

logger = logging.getLogger("graphrag_eval_async.journal")

PIECE_BYTES = 1 << 20

Span = tuple[int, int]
"""Where a line begins and ends."""


def read_lines(
    file: AppendFile, add: Callable[[Any], object], *, aside: str
) -> Generator[None, None, tuple[int, int]]:
    """Hand over each line as JSON value; yields after each.

    A last line without its newline is cut off; what is no JSON, or what `add` refuses by a ValueError,
    TypeError, KeyError or AggregationError, is moved to the file at `aside`.

    Returns:
        how many lines were handed over, and how many were moved.

    Raises:
        JournalError: the file cannot be read or mended.
    """
    damaged: list[Span] = []
    lines = end = 0
    try:
        with open(file.path, "rb") as reader:
            for line in reader:
                if not line.endswith(b"\n"):
                    break
                start, end = end, end + len(line)
                try:
                    add(orjson.loads(line))
                    lines += 1
                except (ValueError, TypeError, KeyError, AggregationError) as error:
                    logger.warning(
                        "%s: byte %d: cannot be read, and is set aside: %s", file.path, start, error
                    )
                    damaged.append((start, end))
                yield
        if end < file.size:
            file.truncate(end)
        if damaged:
            _set_aside(file, damaged, aside)
    except OSError as error:
        raise JournalError(f"{file.path}: cannot be mended: {error.strerror or error}") from error
    return lines, len(damaged)


def _set_aside(file: AppendFile, damaged: Sequence[Span], aside: str) -> None:
    """Move the damaged lines to another file, and then let a copy without them take the place of this one."""
    with closing(AppendFile(aside)) as kept:
        for span in damaged:
            _copy(file, span, kept)
        kept.sync()
    draft = AppendFile(f"{file.path}.tmp")
    draft.truncate(0)
    begin = 0
    for start, end in [*damaged, (file.size, file.size)]:
        _copy(file, (begin, start), draft)
        begin = end
    file.replace_by(draft)


def _copy(file: AppendFile, span: Span, target: AppendFile) -> None:
    with open(file.path, "rb") as reader:
        place, end = span
        reader.seek(place)
        while place < end:
            piece = reader.read(min(PIECE_BYTES, end - place))
            if not piece:
                raise OSError(os.strerror(5))
            target.write([piece])
            place += len(piece)
