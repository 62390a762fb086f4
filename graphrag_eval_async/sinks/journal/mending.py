"""Reading a file of lines that a process may have left at any moment."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from contextlib import closing
from functools import partial
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import AggregationError, JournalError
from graphrag_eval_async.sinks.append_file import AppendFile
from graphrag_eval_async.threads import SLICE_SECONDS, run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

logger = logging.getLogger("graphrag_eval_async.journal")

PIECE_BYTES = 1 << 20
NEWLINE = ord("\n")

Span = tuple[int, int]
"""Where a line begins and ends."""


async def read_lines(
    file: AppendFile, add: Callable[[Any], object], *, aside: str, threads: Executor
) -> tuple[int, int]:
    """Hand over each line as JSON value.

    A last line without its newline is cut off; what is no JSON, or what `add` refuses by a ValueError,
    TypeError, KeyError or AggregationError, is moved to the file at `aside`.

    Returns:
        how many lines were handed over, and how many were moved.

    Raises:
        JournalError: the file cannot be read or mended.
    """
    damaged: list[Span] = []
    total = end = 0
    rest = b""
    due = monotonic() + SLICE_SECONDS
    try:
        while piece := await run_in_thread(
            partial(file.read, end + len(rest), max(PIECE_BYTES, len(rest))), threads=threads
        ):
            lines, rest = BytesIO(rest + piece), b""
            for line in lines:
                if line[-1] != NEWLINE:
                    rest = line
                    break
                start, end = end, end + len(line)
                total += 1
                try:
                    add(orjson.loads(line))
                except (ValueError, TypeError, KeyError, AggregationError) as error:
                    text = "%s: byte %d: is no result or reject, and is set aside: %r"
                    logger.warning(text, file.path, start, error)
                    damaged.append((start, end))
                if monotonic() >= due:
                    await asyncio.sleep(0)
                    due = monotonic() + SLICE_SECONDS
        mending = _Mending(file, end, damaged, aside)
        await run_in_thread(mending.run, mending.stop.set, threads=threads)
    except OSError as error:
        raise JournalError(f"{file.path}: cannot be mended: {error.strerror or error}") from error
    return total - len(damaged), len(damaged)


class _Mending:
    """Cuts a file off at `end`, and moves its damaged lines to another; when it is stopped, all stays."""

    def __init__(self, file: AppendFile, end: int, damaged: Sequence[Span], aside: str) -> None:
        self._file = file
        self._end = end
        self._damaged = damaged
        self._aside = aside
        self.stop = threading.Event()

    def run(self) -> None:
        if self._end < self._file.size:
            self._file.truncate(self._end)
        if not self._damaged:
            return
        with closing(AppendFile(self._aside)) as kept:
            for span in self._damaged:
                self._copy(span, kept)
            kept.sync()
        with closing(AppendFile(f"{os.path.realpath(self._file.path)}.tmp")) as draft:
            draft.truncate(0)
            begin = 0
            for start, end in [*self._damaged, (self._end, self._end)]:
                self._copy((begin, start), draft)
                begin = end
            self._file.replace_by(draft)

    def _copy(self, span: Span, target: AppendFile) -> None:
        place, end = span
        while place < end:
            piece = self._file.read(place, min(PIECE_BYTES, end - place))
            if not piece or self.stop.is_set():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            target.write([piece])
            place += len(piece)
