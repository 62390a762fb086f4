"""The loop: a thread looks at the files, reads what is new, and waits; the event loop takes the
lines.
"""

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
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Copy, Position
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sources.follow.logs import Logs
from graphrag_eval_async.sources.follow.names import Paths, as_logs
from graphrag_eval_async.sources.follow.unread import Unread
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
"""Looking takes at most one part in this many of the processor's time, however many files there
are. A look that only waited, for a disk or since the process was stopped, delays no other.
"""

StartAt = Literal["beginning", "end"] | Position

Keep = Callable[[Mapping[str, int], Mapping[str, Copy]], Awaitable[object]]
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


class _Pass(NamedTuple):
    """What the thread has found since the last pass.

    Attributes:
        read_bytes: bytes that were read.
        lines: the lines that they complete.
        unread_bytes: bytes that are there and were not read yet.
        changes: what later runs need to know, if that has changed.
    """

    read_bytes: int
    lines: list[Record]
    unread_bytes: int
    changes: Changes | None

    @property
    def has_data(self) -> bool:
        """Whether there was something to read, or still is."""
        return self.read_bytes > 0 or self.unread_bytes > 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do about it."""
        return not self.has_data and not self.lines and self.changes is None


class Follower:
    """Lines of followed files, to be iterated over once; made by `follow_jsonl`.

    A thread looks at the files, reads them, and waits in between: waking the event loop for nothing
    would cost more than a look.

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
        """See `follow_jsonl`."""
        self.start = start
        self._logs = logs
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._keep: Keep | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._closed = threading.Event()
        self._has_begun = False
        self._is_iterated = False
        # Whether only what is there now is still read.
        self._is_over = False
        self._next_look = -inf
        # When there was new data; iterating sets it.
        self._last_data = inf
        # Bytes that the consumer has not taken, and when there were none.
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
            known: how far earlier runs have read, by `FileId.key`.
            exclude: files that are never followed.
            is_first: whether `start` applies; None means that `known` is empty.
            copies: the last ones that were given to `keep`, also in an earlier run.
            keep: awaited at once, and before lines are delivered that were read after a change,
                with what later runs need: where reading of a file began, by key, if not at its
                start; and the files that repeat others.
        """
        if self._has_begun:
            raise UsageError("a follower can begin only once; make another with follow_jsonl")
        self._has_begun = True
        self._keep = keep
        if is_first is None:
            is_first = not known
        # A later run resumes, wherever the first one has started.
        start = None
        if is_first:
            start = self.start

        logs = self._logs
        await self._call(partial(logs.paths.exclude, exclude))
        await self._call(lambda: logs.begin(known, copies or {}, start, monotonic()))
        if keep is not None:
            changes = logs.identities.changes() or logs.identities.saved
            await keep(*changes)

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches())

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield complete lines, in batches of those found together."""
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
            while not self._closed.is_set():
                result = await self._call(self._wait_for_data)
                # What later runs must know of a line comes before the line.
                if result.changes is not None and self._keep is not None:
                    await self._keep(*result.changes)

                lines = result.lines
                is_last = self._is_over and not result.has_data
                if is_last:
                    lines += await self._call(self._logs.end)

                self._set_undelivered(result.read_bytes + result.unread_bytes)
                if lines:
                    yield lines
                self._set_undelivered(result.unread_bytes)
                if is_last:
                    return

                if result.read_bytes > 0:
                    # Taken after the lines were: a slow consumer is not idleness.
                    self._last_data = monotonic()
                    if self._is_over and not self._is_stopped():
                        # The files were not idle after all.
                        self._is_over = False
        finally:
            await self.aclose()

    async def _call(self, function: Callable[[], R]) -> R:
        """Call a function that uses the logs, in the thread."""
        if self._closed.is_set():
            raise UsageError("the follower is closed; make another with follow_jsonl")
        return await run_in_thread(function, self._closed.set, threads=self._executor)

    def _wait_for_data(self) -> _Pass:
        """Look at the files and read them, until there is something, or `WAITING_SECONDS` have
        passed.
        """
        end = monotonic() + WAITING_SECONDS
        while True:
            now = monotonic()
            if now >= self._next_look and not self._is_over:
                self._look(now)
            result = self._read()
            if not result.is_empty or self._is_over or now >= end:
                return result

            wake_up = min(self._next_look, end)
            is_closed = self._closed.wait(max(0.0, wake_up - monotonic()))
            if is_closed:
                return result

    def _look(self, now: float) -> None:
        """Look at the files. Once it is time to end, this is the last look."""
        is_idle = now - self._last_data >= self._timeout
        self._is_over = is_idle or self._is_stopped()
        worked_before = thread_time()
        self._logs.look(now, at_once=self._is_over)
        worked = thread_time() - worked_before
        self._next_look = monotonic() + max(self._interval, LOOKING_SHARE * worked)

    def _read(self) -> _Pass:
        """Read what the last look has found."""
        size, lines = self._logs.read()
        return _Pass(
            read_bytes=size,
            lines=lines,
            unread_bytes=self._logs.unread_bytes,
            changes=self._logs.identities.changes(),
        )

    def _is_stopped(self) -> bool:
        """Check whether the caller's event is set."""
        return self._stop is not None and self._stop.is_set()

    def _set_undelivered(self, count: int) -> None:
        """Take how many bytes the consumer has not taken yet, for `lag`."""
        self._undelivered_bytes = count
        if count == 0:
            self._last_delivered = monotonic()

    @property
    def lag(self) -> Lag:
        """How much is left to deliver."""
        if self._undelivered_bytes == 0:
            return Lag(0, 0.0)
        return Lag(self._undelivered_bytes, monotonic() - self._last_delivered)

    @property
    def not_found(self) -> list[str]:
        """The given paths for which no file has been found yet; empty before the follower
        begins.
        """
        return self._logs.paths.not_found

    @property
    def unread(self) -> dict[str, str]:
        """Why files that were found could not be read so far, by path: "cannot be read: Permission
        denied".

        A file that is readable later is no longer among them.
        """
        return self._logs.unread.reasons.copy()

    async def aclose(self) -> None:
        """Close all files; if they are being read, as soon as that ends."""
        self._closed.set()
        # The thread takes no more work if it was closed before.
        with suppress(RuntimeError):
            await run_in_thread(self._logs.close, threads=self._executor)
        self._executor.shutdown(wait=False)


def _patterns(exclude: Any) -> list[str]:
    """Return the globs of excluded files.

    Raises:
        UsageError: they are no list of texts.
    """
    if isinstance(exclude, Iterable) and not isinstance(exclude, str | bytes):
        patterns: list[Any] = list(exclude)
        if all(isinstance(pattern, str) and pattern for pattern in patterns):
            return patterns
    raise UsageError(
        f'exclude: expected a list of globs, such as ["*.debug.jsonl"], got {exclude!r}'
    )


def _seconds(name: str, value: Any, *, may_be_zero: bool = True) -> float:
    """Return a number of seconds.

    Raises:
        UsageError: `value`, of the argument `name`, is no such number.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value < inf and (may_be_zero or value > 0):
        return float(value)
    least = "0 or more" if may_be_zero else "more than 0"
    raise UsageError(f"{name}: expected seconds, {least}, got {value!r}")
