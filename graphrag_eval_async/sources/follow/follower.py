"""Following of files while they are written. Each line is read once it is complete."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Position
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sources.follow.names import Paths, as_logs
from graphrag_eval_async.sources.follow.rotation import Logs
from graphrag_eval_async.sources.lines import lines_of
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.records import Known, Record
    from graphrag_eval_async.sources.follow.identity import Changes

R = TypeVar("R")

WAITING_SECONDS = 1.0
"""Maximum time that the thread waits before it returns. It may delay the end of a process by
this.
"""

LOOKING_SHARE = 5
"""Looking takes at most one part in this many of the time, however many files there are."""

StartAt = Literal["beginning", "end"] | Position

Keep = Callable[[Mapping[str, int], Mapping[str, str]], Awaitable[object]]
"""See `Follower.begin`."""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class Lag(NamedTuple):
    """How far a follower was behind the ends of the files when it last looked.

    Attributes:
        bytes: bytes in the files that the stream has not taken yet.
        seconds: how long there have been such bytes; 0.0 if there are none.
    """

    bytes: int
    seconds: float


@without_removed("max_line_bytes")
def follow_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    start: StartAt = "beginning",
    poll_interval: float = 0.05,
    idle_timeout: float | None = None,
    stop: Stop | None = None,
    rotate_wait: float = 5.0,
    exclude: Sequence[str] = (),
    ignore_older: float | None = None,
) -> Follower:
    """Follow JSONL files like `tail -F`, however they are rotated. Each line is read once.

    A renamed or deleted file is read to its end, a truncated or rewritten one from its start. A
    file that is named like a rotated log (the log's name with digits, a date, ``old``, ``bak``,
    ``prev`` or ``rotated``) is skipped if it repeats the log. Files that were rotated before the
    first start, including ``.gz``, are read only with a journal and ``start="beginning"``. The
    logger ``graphrag_eval_async.follow`` reports skipped copies, and lines that a truncation lost.

    What a follower cannot do: read a file that was rotated and then deleted, or compressed by
    anything but gzip, while nothing followed it; read what exists only between two looks; notice
    that a file was rewritten with the same bytes. If a log is copied and then truncated between two
    looks, lines of the copy may be read twice.

    Args:
        path: a file, a directory (its ``*.jsonl`` files), a glob, or a list of these. A path that
            exists is never read as a glob. Missing files may appear later.
        start: "beginning" reads all lines; "end" only lines completed from now on. A position reads
            the lines after it, in the file that now contains it, and all other files but those
            rotated earlier.
        poll_interval: seconds between two looks at the files, more than 0.
        idle_timeout: seconds without new data after which to end; None for never.
        stop: an event of asyncio, anyio or threading, or any object with `is_set`, which a thread
            calls at each look. Once it is set, or after `idle_timeout`, the follower reads all
            complete lines, then last lines without a newline, with `whole` False, and ends.
        rotate_wait: seconds after the last write for which a rotated or deleted file is still read.
        exclude: globs of files to skip, including rotated ones, such as ``["*.debug.jsonl"]``. A
            glob with a slash must match the whole path, any other the name.
        ignore_older: seconds. If a file was last written longer ago when it is found, only lines
            added later are read, unless an earlier run has read some of it. None for no limit.

    Returns:
        an asynchronous iterable of lines with their `position`, which `evaluate_stream` accepts.

    Raises:
        UsageError: an argument has an invalid value, or the system is not POSIX.
    """
    require_posix("follow_jsonl")
    older = inf if ignore_older is None else _seconds("ignore_older", ignore_older)
    wait = _seconds("rotate_wait", rotate_wait)
    logs = Logs(Paths(as_logs(path), _patterns(exclude)), ignore_older=older, rotate_wait=wait)
    if not isinstance(start, Position) and start not in ("beginning", "end"):
        raise UsageError(f'start: expected "beginning", "end" or a Position, got {start!r}')
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise UsageError(f"stop: expected an event, got {stop!r}")
    interval = _seconds("poll_interval", poll_interval, more_than=0)
    timeout = inf if idle_timeout is None else _seconds("idle_timeout", idle_timeout)
    return Follower(logs, start, interval, timeout, stop)


class Follower:
    """Lines of followed files, to be iterated over once; made by `follow_jsonl`.

    A thread looks at the files, reads them, and waits in between: waking the event loop for nothing
    would cost more than a look.

    Attributes:
        start: the argument of `follow_jsonl`.
    """

    def __init__(
        self, logs: Logs, start: StartAt, interval: float, timeout: float, stop: Stop | None
    ) -> None:
        self.start = start
        self._logs = logs
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._begun = self._reading = self._is_over = False
        self._keep: Keep | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._closed = threading.Event()
        self._due = -inf
        self._active = inf  # When there was new data.
        self._left = 0  # Bytes to deliver,
        self._current = inf  # and when there were none.

    async def begin(
        self,
        known: Mapping[str, Known],
        exclude: Iterable[str | os.PathLike[str]] = (),
        *,
        is_first: bool | None = None,
        copies: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Find the existing files, and resume where earlier runs have stopped.

        Args:
            known: how far earlier runs have read, by `FileId.key`.
            exclude: files that are never followed.
            is_first: whether `start` applies; None means that `known` is empty.
            copies: copies that an earlier run has recorded.
            keep: awaited at once, and before lines are delivered that were read after a change,
                with what later runs need: where reading of a file began, by key, if not at its
                start; and all copies.
        """
        if self._begun:
            raise UsageError("a follower can begin only once; make another with follow_jsonl")
        self._begun = True
        self._keep = keep
        is_first = not known if is_first is None else is_first
        await self._call(partial(self._logs.paths.exclude, exclude))
        start = self.start if is_first else None
        await self._call(lambda: self._logs.begin(known, copies or {}, start, monotonic()))
        if keep is not None:
            await keep(*(self._logs.keys.changes() or ({}, copies or {})))

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches())

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Complete lines, in batches of those found together."""
        if self._reading:
            raise UsageError(
                "a follower can be iterated over only once; make another with follow_jsonl"
            )
        self._reading = True
        try:
            if not self._begun:
                await self.begin({})
            self._active = self._current = monotonic()
            while not self._closed.is_set():
                size, lines, left, changes = await self._call(self._wait)
                if changes is not None and self._keep is not None:
                    await self._keep(*changes)
                is_last = self._is_over and not left and not size
                if is_last:
                    lines += await self._call(self._logs.end)
                self._note(size + left)
                if lines:
                    yield lines
                self._note(left)
                if is_last:
                    return
                if size:  # A slow consumer is not idleness.
                    self._active = monotonic()
                    self._is_over = self._is_over and self._is_stopped()
        finally:
            await self.aclose()

    async def _call(self, function: Callable[[], R]) -> R:
        """Call a function that uses the logs, in the thread."""
        if self._closed.is_set():
            raise UsageError("the follower is closed; make another with follow_jsonl")
        return await run_in_thread(function, self._closed.set, threads=self._executor)

    def _wait(self) -> tuple[int, list[Record], int, Changes | None]:
        """Wait for data, but not for long: bytes and lines read, bytes left, and what `Keep`
        must save.
        """
        logs, until = self._logs, monotonic() + WAITING_SECONDS
        while True:
            if (now := monotonic()) >= self._due and not self._is_over:
                self._is_over = self._is_stopped() or now - self._active >= self._timeout
                logs.look(now, at_once=self._is_over)
                self._due = now + max(self._interval, LOOKING_SHARE * (monotonic() - now))
            found = *logs.read(), logs.left, logs.keys.changes()
            if any(found) or self._is_over or now >= until:
                return found
            if self._closed.wait(max(0.0, min(self._due, until) - monotonic())):
                return found

    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _note(self, left: int) -> None:
        self._left = left
        if not left:
            self._current = monotonic()

    @property
    def lag(self) -> Lag:
        """How much is left to deliver."""
        return Lag(self._left, monotonic() - self._current if self._left else 0.0)

    @property
    def not_found(self) -> list[str]:
        """The given paths for which no file has been found yet; empty before the follower
        begins.
        """
        return self._logs.paths.not_found

    async def aclose(self) -> None:
        """Close all files; if they are being read, as soon as that ends."""
        self._closed.set()
        with suppress(RuntimeError):  # It was closed before.
            await run_in_thread(self._logs.close, threads=self._executor)
        self._executor.shutdown(wait=False)


def _patterns(exclude: Any) -> list[str]:
    is_list = not isinstance(exclude, str | bytes) and isinstance(exclude, Iterable)
    patterns: list[str] = list(exclude) if is_list else [""]
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise UsageError(
            f'exclude: expected a list of globs, such as ["*.debug.jsonl"], got {exclude!r}'
        )
    return patterns


def _seconds(name: str, value: Any, *, more_than: float | None = None) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < inf or value == more_than:
        least = "more than 0" if more_than == 0 else "0 or more"
        raise UsageError(f"{name}: expected seconds, {least}, got {value!r}")
    return float(value)
