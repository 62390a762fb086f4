"""Following of files while they are written. Each line is read once it is complete."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from graphrag_eval_async.errors import UsageError, check_integer
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Position
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES, lines_of
from graphrag_eval_async.sources.log import Chunk
from graphrag_eval_async.sources.logs import Logs
from graphrag_eval_async.sources.paths import Paths, as_logs
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.records import Known, Record

R = TypeVar("R")

MEASURING_SECONDS = 0.5
"""Maximum age of a lag, in seconds, before it is measured again."""

WAITING_SECONDS = 1.0
"""Maximum time that the thread waits before it returns. It may delay the end of a process by this."""

LOOKING_SHARE = 5
"""Looking takes at most one part in this many of the time, however many files there are."""

LAG_SHARE = 64
"""`Lag.seconds` may be too large by one part in this many."""

Keep = Callable[[Mapping[str, int], Mapping[str, str]], Awaitable[object]]
"""See `Follower.begin`."""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class Lag(NamedTuple):
    """How far a follower is behind the ends of the files.

    Attributes:
        bytes: bytes in the files that were not delivered yet, without unfinished lines.
        seconds: age of the oldest of these bytes; 0.0 if there are none.
    """

    bytes: int
    seconds: float


class _Backlog:
    """Counts bytes when they are found and when they are delivered. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._delivered = self._read = self._unread = 0
        self._arrivals: deque[tuple[float, int]] = deque()  # Times, and the bytes found until then.

    def note(self, now: float, *, unread: int, read: int = 0) -> None:
        """Record how many bytes were read since, and how many are left in the files."""
        with self._lock:
            self._read += read
            self._unread = unread
            found, arrivals = self._read + unread, self._arrivals
            while arrivals and arrivals[-1][1] > found:  # Some were truncated.
                now, _ = arrivals.pop()
            if found <= max(self._delivered, arrivals[-1][1] if arrivals else 0):
                return
            # Bytes that come soon after others count as if they came with them: the queue stays short.
            if arrivals and now - arrivals[-1][0] < (now - arrivals[0][0]) / LAG_SHARE:
                now, _ = arrivals.pop()
            arrivals.append((now, found))

    def deliver(self, size: int) -> None:
        """Record how many of the bytes that were read are delivered."""
        with self._lock:
            self._delivered += size
            while self._arrivals and self._arrivals[0][1] <= self._delivered:
                self._arrivals.popleft()

    def lag(self, now: float) -> Lag:
        """Number and age of the bytes that are left."""
        with self._lock:
            size = self._read - self._delivered + self._unread
            return Lag(size, now - self._arrivals[0][0] if size and self._arrivals else 0.0)


def follow_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    start: Literal["beginning", "end"] | Position = "beginning",
    poll_interval: float = 0.05,
    idle_timeout: float | None = None,
    stop: Stop | None = None,
    rotate_wait: float = 5.0,
    exclude: Sequence[str] = (),
    ignore_older: float | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Follower:
    """Follow JSONL files like `tail -F`. Each line is read once its newline is written.

    Waits for a file that is missing or disappears. Reads a file that is rotated by renaming to its end, then
    the new file from its start. Reads a file that is truncated or rewritten from its start again. Lines lost
    in this way are logged by the logger ``graphrag_eval_async.follow``, unless they are in a copy with the
    name of a rotated file, as made by ``copytruncate`` of logrotate.

    Limitations. A follower cannot

    - read a file that was deleted, or compressed by anything but gzip, after its rotation while no follower
      ran; late writes to the former target of a link; or files that exist only between two polls;
    - distinguish a new file from a finished or deleted one if both have the last line that was read at the
      same place. It skips the lines up to there and, after a restart, logs this;
    - detect that a file was rewritten if the last bytes before the place up to which it was read are the
      same: 1,024 bytes or, while no follower ran, the last line that was read;
    - distinguish a rotated file that it has never seen from a copy, while another file of that name begins
      with all of its content;
    - keep more files open than three quarters of the process's limit on open files. With more files, those
      that are deleted or moved between two polls may lose their last lines.

    Args:
        path: a file, a directory (its ``*.jsonl`` files), a glob, or a list of these. A path that exists is
            never read as a glob. Files that appear later are read from their start. Rotated files have names
            such as ``log.jsonl.1``, ``log.jsonl-20260131``, ``log-20260131.jsonl``, ``log.1.jsonl`` or
            ``log.jsonl.old``. With a journal, compressed files that exist at the start, such as
            ``log.jsonl.1.gz``, are read once, without the lines that an earlier run has read.
        start: "beginning" reads all lines; "end" only lines completed from now on. A position reads the lines
            after it, in the file that now contains it, and all other files; if it is not found, all files.
            Files rotated earlier are skipped, except files newer than that of the position; with a journal,
            "beginning" reads them too. Lines are numbered from where reading begins.
        poll_interval: seconds between two polls, more than 0.
        idle_timeout: seconds without new data after which to end; None for never.
        stop: an event of asyncio, anyio or threading, or any object with `is_set`, which a thread calls at
            each poll. The follower ends once it is set. Before it ends, on `stop` or `idle_timeout`, it reads
            all complete lines, then last lines without a newline, with `whole` False. `evaluate_stream`
            evaluates such a line if it parses, and otherwise rejects it as `incomplete`.
        rotate_wait: seconds after the last write for which a rotated or deleted file is still read. Its last
            line is then read even without a newline, with `whole` False.
        exclude: globs of files to skip, including rotated ones, such as ``["*.debug.jsonl"]``. A glob with a
            slash must match the whole path, any other the name.
        ignore_older: seconds. If a file was last written longer ago when it is found, only lines added later
            are read, unless an earlier run has read some of it. None for no limit.
        max_line_bytes: maximum length of a line; only the head of a longer line is read. `evaluate_stream`
            uses its own limit.

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
    check_integer("max_line_bytes", max_line_bytes)
    return Follower(
        logs,
        start,
        interval=_seconds("poll_interval", poll_interval, more_than=0),
        timeout=inf if idle_timeout is None else _seconds("idle_timeout", idle_timeout),
        stop=stop,
        limit=max_line_bytes,
    )


class _Found(NamedTuple):
    """Result of waiting for data."""

    chunks: list[Chunk]
    left: int  # Bytes to read.
    changes: tuple[Mapping[str, int], Mapping[str, str]] | None  # What `Keep` must save before.
    is_over: bool  # Whether this was the last look, unless something was read.


class Follower:
    """Lines of followed files, to be iterated over once; made by `follow_jsonl`.

    A thread looks at the files, reads them, and waits in between: waking the event loop for nothing would
    cost more than a look.

    Attributes:
        start: the argument of `follow_jsonl`.
    """

    def __init__(
        self,
        logs: Logs,
        start: Literal["beginning", "end"] | Position,
        *,
        interval: float,
        timeout: float,
        stop: Stop | None,
        limit: int,
    ) -> None:
        self.start = start
        self._logs = logs
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._max_line_bytes = limit
        self._begun = self._reading = self._is_over = False
        self._keep: Keep | None = None
        self._backlog = _Backlog()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._due = -inf
        self._active = inf  # When there was new data.
        self._measured = monotonic()

    async def begin(
        self,
        known: Mapping[str, Known],
        exclude: Iterable[str | os.PathLike[str]] = (),
        *,
        is_first: bool | None = None,
        copies: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Find the existing files. Called by reading if it was not called before.

        Args:
            known: how far earlier runs have read, by `FileId.key`; reading resumes there.
            exclude: files that are not followed even if they are in the directory or match the glob.
            is_first: whether no earlier run has followed these files; None means that `known` is empty. In
                the first run, reading of unknown files begins at `start`; later, at their start, even in
                rotated files.
            copies: copies that an earlier run has recorded.
            keep: awaited at once with what later runs need, and again whenever that changes, before lines
                that were read since are delivered: where reading of a file began, by key, if not at its
                start; and all copies, by their inode numbers, with the key of the original and a digest.

        Raises:
            UsageError: the follower has already begun.
        """
        if self._begun:
            raise UsageError("a follower can begin only once; make another with follow_jsonl")
        self._begun = True
        await self._call(
            lambda: self._logs.begin(
                known,
                self.start,
                [os.fspath(path) for path in exclude],
                now=monotonic(),
                is_first=not known if is_first is None else is_first,
                copies=copies or {},
            )
        )
        self._keep = keep
        if keep is not None:
            await keep(*(self._logs.changes() or ({}, copies or {})))

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches(max_line_bytes=self._max_line_bytes))

    async def batches(self, *, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        """Complete lines, in batches of those found together.

        Args:
            max_line_bytes: maximum length of a line; only the head of a longer line is kept in memory.

        Raises:
            UsageError: the follower was iterated over before, or is closed.
        """
        if self._reading:
            raise UsageError("a follower can be iterated over only once; make another with follow_jsonl")
        self._reading = True
        self._logs.max_line_bytes = max_line_bytes
        try:
            if not self._begun:
                await self.begin({})
            self._active = monotonic()
            while not self._closed.is_set():
                chunks, left, changes, is_over = await self._call(self._wait)
                if changes is not None and self._keep is not None:
                    await self._keep(*changes)
                is_read = any(chunk.size for chunk in chunks)
                if is_over and not left and not is_read:
                    chunks.append(Chunk(0, await self._call(self._logs.end)))
                self._measured = monotonic()
                for chunk in chunks:
                    self._backlog.deliver(chunk.size)
                    if chunk.lines:
                        yield chunk.lines
                if is_read:  # A slow consumer is not idleness.
                    self._active = monotonic()
                    self._is_over = self._is_over and self._is_stopped()
                elif is_over and not left:
                    return
        finally:
            await self.aclose()

    async def _call(self, function: Callable[[], R]) -> R:
        """Call a function that uses the logs, in the thread."""
        if self._closed.is_set():
            raise UsageError("the follower is closed; make another with follow_jsonl")
        return await run_in_thread(partial(self._locked, function), self._close, threads=self._executor)

    def _locked(self, function: Callable[[], R]) -> R:
        try:
            with self._lock:
                return function()
        finally:
            if self._closed.is_set():
                self._close()

    def _wait(self) -> _Found:
        """Wait for data, but not for long."""
        logs, until = self._logs, monotonic() + WAITING_SECONDS
        while True:
            if (now := monotonic()) >= self._due and not self._is_over:
                self._is_over = self._is_stopped() or now - self._active >= self._timeout
                logs.look(now, at_once=self._is_over)
                self._due = now + max(self._interval, LOOKING_SHARE * (monotonic() - now))
            found = _Found(logs.read(), logs.left, logs.changes(), self._is_over)
            self._backlog.note(now, unread=found.left, read=sum(chunk.size for chunk in found.chunks))
            if any(found) or now >= until:
                return found
            if self._closed.wait(max(0.0, min(self._due, until) - monotonic())):
                return found

    def _is_stopped(self) -> bool:
        """Whether its `stop` is set."""
        return self._stop is not None and self._stop.is_set()

    @property
    def lag(self) -> Lag:
        """How much is left to read, measured a moment ago even if no lines are requested."""
        now = monotonic()
        if self._reading and now - self._measured >= MEASURING_SECONDS:
            self._measured = now
            with suppress(RuntimeError):  # It is closed.
                self._executor.submit(self._locked, self._measure)
        return self._backlog.lag(now)

    def _measure(self) -> None:
        self._backlog.note(monotonic(), unread=self._logs.measure())

    @property
    def not_found(self) -> list[str]:
        """The given paths for which no file has been found yet; empty before the follower begins."""
        return self._logs.not_found

    async def aclose(self) -> None:
        """Close all files; if they are being read, as soon as that ends."""
        self._close()

    def _close(self) -> None:
        self._closed.set()
        self._executor.shutdown(wait=False)
        if self._lock.acquire(blocking=False):
            try:
                self._logs.close()
            finally:
                self._lock.release()


def _patterns(exclude: Any) -> list[str]:
    is_list = not isinstance(exclude, str | bytes) and isinstance(exclude, Iterable)
    patterns: list[str] = list(exclude) if is_list else [""]
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise UsageError(f'exclude: expected a list of globs, such as ["*.debug.jsonl"], got {exclude!r}')
    return patterns


def _seconds(name: str, value: Any, *, more_than: float | None = None) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < inf or value == more_than:
        least = "more than 0" if more_than == 0 else "0 or more"
        raise UsageError(f"{name}: expected seconds, {least}, got {value!r}")
    return float(value)
