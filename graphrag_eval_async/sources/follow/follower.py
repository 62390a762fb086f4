"""Follows files: a thread looks at them and reads new lines, which the event loop takes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.posix import require_posix
from graphrag_eval_async.helpers.threads import run_in_thread
from graphrag_eval_async.records import Copy, Position
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sources.follow.logs import Logs
from graphrag_eval_async.sources.follow.names import Paths, as_logs
from graphrag_eval_async.sources.follow.unread import Unread
from graphrag_eval_async.sources.lines import lines_of

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.records import Known, Record
    from graphrag_eval_async.sources.follow.identity import Changes

R = TypeVar("R")

WAITING_SECONDS = 1.0
"""Maximum time that the thread waits for new data before it returns.

The end of a process may have to wait for the thread, so it may be delayed by this time.
"""

LOOKING_SHARE = 5
"""Looks take at most a fifth of the time of a processor, however many files there are.

After a look that took t seconds of processor time, the next one comes 5 * t seconds later. Time in
which a look only waited, for example for a disk, does not count.
"""

StartAt = Literal["beginning", "end"] | Position

Keep = Callable[[Mapping[str, int], Mapping[str, Copy]], Awaitable[object]]
"""Saves what later runs need: origins and copies; see the argument `keep` of `Follower.begin`."""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class Lag(NamedTuple):
    """How far a follower is behind the ends of the files.

    Attributes:
        bytes: number of bytes in the files that the stream has not taken yet, as of the last look.
        seconds: for how long there have been such bytes; 0.0 if there are none.
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
    ``*.jsonl.gz`` files of a directory, or ``.gz`` files that a glob matches, are read if they are
    there at the start; later ones are taken for rotated files that were read before. The logger
    ``graphrag_eval_async.follow`` reports skipped copies, lines that a truncation lost, and
    files that cannot be read; `Follower.unread` has these.

    What a follower cannot do: read a file that was rotated and then deleted, or compressed by
    anything but gzip, while nothing followed it; read what exists only between two looks; notice
    that a file was rewritten with the same bytes, unless a look has seen it shorter; tell a renamed
    file, of which it has read nothing, from a copy of the log that it repeats; recognise a copy
    that lacks the last line that was read, and was compressed before a look has seen it.

    How it works: `Logs` says what a look at the files does, `Rotation` how a file is recognised
    that was renamed, truncated, copied or replaced, `Identities` what a later run needs for that,
    and `Follower` when files are looked at.

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
    max_age = inf
    if ignore_older is not None:
        max_age = _seconds("ignore_older", ignore_older)
    idle_seconds = inf
    if idle_timeout is not None:
        idle_seconds = _seconds("idle_timeout", idle_timeout)
    wait_seconds = _seconds("rotate_wait", rotate_wait)
    unread = Unread()
    paths = Paths(as_logs(path), _patterns(exclude), unread)
    if not isinstance(start, Position) and start not in ("beginning", "end"):
        raise UsageError(f'start: expected "beginning", "end" or a Position, got {start!r}')
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise UsageError(f"stop: expected an event, got {stop!r}")
    return Follower(
        Logs(paths, unread, ignore_older=max_age, rotate_wait=wait_seconds),
        start=start,
        interval=_seconds("poll_interval", poll_interval, may_be_zero=False),
        timeout=idle_seconds,
        stop=stop,
    )


class _ReadResult(NamedTuple):
    """What the thread has read, and what is left to read.

    Attributes:
        read_bytes: number of bytes that were read.
        lines: the lines that they complete.
        unread_bytes: number of bytes that the files have and that were not read yet.
        changes: what later runs need to know; None if that has not changed.
    """

    read_bytes: int
    lines: list[Record]
    unread_bytes: int
    changes: Changes | None

    @property
    def has_data(self) -> bool:
        """Whether something was read, or is left to read."""
        return self.read_bytes > 0 or self.unread_bytes > 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to deliver, to read or to save."""
        return not self.has_data and not self.lines and self.changes is None


class Follower:
    """An asynchronous iterator of the lines of followed files; made by `follow_jsonl`.

    It can be iterated over once. A thread looks at the files, reads them and waits for new data.
    The event loop wakes up only if there is some: that costs more than a look.

    Attributes:
        start: the argument of `follow_jsonl`.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        start: StartAt,
        interval: float,
        timeout: float,
        stop: Stop | None,
    ) -> None:
        """Prepare to follow files.

        Args:
            logs: looks at the files and reads them.
            start: where to begin; see `follow_jsonl`.
            interval: seconds between two looks.
            timeout: seconds without new data after which to end.
            stop: an event that ends the follower once it is set; None for none.
        """
        self.start = start
        self._logs = logs
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._save_changes: Keep | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._is_closed = threading.Event()
        self._has_begun = False
        self._is_iterated = False
        # Whether the follower was stopped or is idle: what the last look found is still read.
        self._is_last_look = False
        # The time of the next look; -inf for at once.
        self._next_look = -inf
        # When the consumer last took new data. Iterating begins to count.
        self._last_data = inf
        # Number of bytes that the consumer has not taken, and when it was last 0.
        self._undelivered_bytes = 0
        self._last_delivered = inf

    async def begin(
        self,
        known: Mapping[str, Known],
        exclude: Iterable[str | os.PathLike[str]] = (),
        *,
        is_first: bool | None = None,
        copies: Mapping[str, Copy | str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Find the existing files, and resume where earlier runs have stopped.

        Args:
            known: how far earlier runs have read each file, by `FileId.key`.
            exclude: files that are never followed.
            is_first: whether `start` applies. None means: if `known` is empty.
            copies: the copies that an earlier run has passed to `keep` last.
            keep: saves what later runs need. It is awaited at once, and after each change before
                the next lines are delivered. Its arguments are the offsets at which reading of
                files began, by key, unless it began at their start; and the files that repeat
                another file, by the beginning of their key.
        """
        if self._has_begun:
            raise UsageError("a follower can begin only once; make another with follow_jsonl")
        self._has_begun = True
        self._save_changes = keep
        if is_first is None:
            is_first = not known
        # A later run resumes where the one before stopped, so it needs no start.
        start = None
        if is_first:
            start = self.start

        logs = self._logs
        await self._call_in_thread(partial(logs.paths.exclude, exclude))
        await self._call_in_thread(lambda: logs.begin(known, copies or {}, start, monotonic()))
        if keep is not None:
            changes = logs.identities.changes() or logs.identities.saved
            await keep(changes.origins, changes.copies)

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches())

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield complete lines, in batches of those that were read together."""
        if self._is_iterated:
            raise UsageError(
                "a follower can be iterated over only once; make another with follow_jsonl"
            )
        self._is_iterated = True
        try:
            if not self._has_begun:
                await self.begin({})
            self._last_data = monotonic()
            self._last_delivered = self._last_data
            while not self._is_closed.is_set():
                result = await self._call_in_thread(self._wait_for_data)
                # Save what later runs need before the lines are delivered that depend on it.
                if result.changes is not None and self._save_changes is not None:
                    await self._save_changes(result.changes.origins, result.changes.copies)

                lines = result.lines
                is_last = self._is_last_look and not result.has_data
                if is_last:
                    # All files are read to their ends, so deliver their unfinished last lines.
                    lines += await self._call_in_thread(self._logs.finish)

                self._set_undelivered(result.read_bytes + result.unread_bytes)
                if lines:
                    yield lines
                self._set_undelivered(result.unread_bytes)
                if is_last:
                    return

                if result.read_bytes > 0:
                    # The time after the consumer has taken the lines: while it is slow, the files
                    # are not idle.
                    self._last_data = monotonic()
                    if self._is_last_look and not self._is_stopped():
                        # The last look has found new data, so the files are not idle.
                        self._is_last_look = False
        finally:
            await self.aclose()

    async def _call_in_thread(self, function: Callable[[], R]) -> R:
        """Return `function()`, called in the follower's thread. Only this thread uses the logs."""
        if self._is_closed.is_set():
            raise UsageError("the follower is closed; make another with follow_jsonl")
        return await run_in_thread(function, self._is_closed.set, threads=self._executor)

    def _wait_for_data(self) -> _ReadResult:
        """Look at the files again and again until there is something to deliver; blocks.

        Returns after `WAITING_SECONDS` in any case, and once the follower is closed.
        """
        end = monotonic() + WAITING_SECONDS
        while True:
            now = monotonic()
            if now >= self._next_look and not self._is_last_look:
                self._look(now)
            result = self._read()
            is_time_over = now >= end
            if not result.is_empty or self._is_last_look or is_time_over:
                return result

            # Sleep until the next look, unless the follower is closed.
            wake_up = min(self._next_look, end)
            was_closed = self._is_closed.wait(timeout=max(0.0, wake_up - monotonic()))
            if was_closed:
                return result

    def _look(self, now: float) -> None:
        """Look at the files, and set the time of the next look.

        If the follower was stopped or the files are idle, this is the last look.
        """
        is_idle = now - self._last_data >= self._timeout
        self._is_last_look = is_idle or self._is_stopped()
        processor_time_before = thread_time()
        self._logs.look(now, at_once=self._is_last_look)
        processor_seconds = thread_time() - processor_time_before
        self._next_look = monotonic() + max(self._interval, LOOKING_SHARE * processor_seconds)

    def _read(self) -> _ReadResult:
        """Read some of the bytes that the last look has found."""
        size, lines = self._logs.read()
        return _ReadResult(
            read_bytes=size,
            lines=lines,
            unread_bytes=self._logs.unread_bytes,
            changes=self._logs.identities.changes(),
        )

    def _is_stopped(self) -> bool:
        """Return whether the caller's event is set."""
        return self._stop is not None and self._stop.is_set()

    def _set_undelivered(self, count: int) -> None:
        """Set the number of bytes that the consumer has not taken yet, for `lag`."""
        self._undelivered_bytes = count
        if count == 0:
            self._last_delivered = monotonic()

    @property
    def lag(self) -> Lag:
        """How far the follower is behind the ends of the files."""
        if self._undelivered_bytes == 0:
            return Lag(0, 0.0)
        return Lag(self._undelivered_bytes, monotonic() - self._last_delivered)

    @property
    def not_found(self) -> list[str]:
        """The caller's paths for which no file has been found yet.

        Empty before the follower begins.
        """
        return self._logs.paths.not_found

    @property
    def unread(self) -> dict[str, str]:
        """The reasons why files cannot be read, by path.

        A reason is, for example, "cannot be read: Permission denied". A file that becomes readable
        is removed.
        """
        return self._logs.unread.reasons.copy()

    async def aclose(self) -> None:
        """Close all files. If the thread reads them just now, wait for that first."""
        self._is_closed.set()
        # After an earlier `aclose`, the executor refuses work with a `RuntimeError`.
        with suppress(RuntimeError):
            await run_in_thread(self._logs.close, threads=self._executor)
        self._executor.shutdown(wait=False)


def _patterns(exclude: Any) -> list[str]:
    """Check the argument `exclude`, and return it as a list of globs.

    Raises:
        UsageError: it is not a list of texts.
    """
    if isinstance(exclude, Iterable) and not isinstance(exclude, str | bytes):
        patterns: list[Any] = list(exclude)
        if all(isinstance(pattern, str) and pattern for pattern in patterns):
            return patterns
    raise UsageError(
        f'exclude: expected a list of globs, such as ["*.debug.jsonl"], got {exclude!r}'
    )


def _seconds(name: str, value: Any, *, may_be_zero: bool = True) -> float:
    """Check that an argument is a number of seconds, and return it.

    Args:
        name: name of the argument, for the message of an error.
        value: its value.
        may_be_zero: whether 0 is allowed.

    Raises:
        UsageError: the value is not a finite number, or is too small.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value < inf:
        is_allowed = value > 0 or may_be_zero
        if is_allowed:
            return float(value)
    least = "0 or more" if may_be_zero else "more than 0"
    raise UsageError(f"{name}: expected seconds, {least}, got {value!r}")
