"""A thread that polls followed files, and the lag of their reader."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.sources.checkpoints import FollowState
    from graphrag_eval_async.sources.tail import Event
    from graphrag_eval_async.sources.tails import Tails

R = TypeVar("R")

WAITING_SECONDS = 1.0
"""Maximum time that the thread waits before it returns. It may delay the end of a process by this."""

LOOKING_SHARE = 5
"""Polling takes at most one part in this many of the time, however many files there are."""

MAX_ARRIVALS = 256
"""Maximum number of arrival times kept. More are merged in pairs, which overestimates `Lag.seconds`."""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class Found(NamedTuple):
    """Result of a poll."""

    events: list[Event]
    unread: int  # Number of new bytes.
    state: FollowState | None  # State to save before the events are delivered, if it has changed.
    is_over: bool  # Whether this was the last poll, unless something was read.


class Lag(NamedTuple):
    """How far a follower is behind the ends of the files.

    Attributes:
        bytes: bytes in the files that were not delivered yet, without unfinished lines.
        seconds: age of the oldest of these bytes; 0.0 if there are none.
    """

    bytes: int
    seconds: float


class Backlog:
    """Counts bytes when they are found and when they are delivered. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed_out = self._read = self._unread = 0
        self._arrivals: deque[tuple[float, int]] = deque()  # Times, and the bytes found until then.

    def note(self, unread: int, now: float, read: int = 0) -> None:
        """Record how many bytes were read since, and how many are left in the files."""
        with self._lock:
            self._read += read
            self._unread = unread
            found = self._read + unread
            while self._arrivals and self._arrivals[-1][1] > found:  # Some were truncated.
                now, _ = self._arrivals.pop()
            self._drop()
            if found > (self._arrivals[-1][1] if self._arrivals else self._handed_out):
                self._arrivals.append((now, found))
            if len(self._arrivals) > MAX_ARRIVALS:
                times, counts = list(self._arrivals)[::2], list(self._arrivals)[1::2]
                merged = [(time, count) for (time, _), (_, count) in zip(times, counts, strict=False)]
                self._arrivals = deque([*merged, *times[len(counts) :]])

    def hand_out(self, size: int) -> None:
        """Record how many of the bytes that were read are delivered."""
        with self._lock:
            self._handed_out += size
            self._drop()

    def _drop(self) -> None:
        while self._arrivals and self._arrivals[0][1] <= self._handed_out:
            self._arrivals.popleft()

    def lag(self, now: float) -> Lag:
        """Number and age of the bytes that are left."""
        with self._lock:
            size = self._read - self._handed_out + self._unread
            return Lag(size, now - self._arrivals[0][0] if size and self._arrivals else 0.0)


class Waiting:
    """Polls files at regular intervals.

    The thread also waits between polls: waking the event loop for nothing would cost more than a poll. It
    also reads, since earlier data must be compared immediately before.
    """

    def __init__(self, tails: Tails, *, interval: float, timeout: float | None, stop: Stop | None) -> None:
        """See `follow_jsonl`."""
        self._tails = tails
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._lock = threading.Lock()
        self.closed = threading.Event()
        self.backlog = Backlog()
        self._due = float("-inf")
        self._active: float | None = None
        self._is_over = False

    async def call(self, function: Callable[[Tails], R]) -> R:
        """Call a function with the tails in the thread, and return its result."""
        if self.closed.is_set():
            raise UsageError("the follower is closed; make another with follow_jsonl")
        return await run_in_thread(partial(self._call, function), self.close, threads=self._executor)

    def _call(self, function: Callable[[Tails], R]) -> R:
        try:
            with self._lock:
                return function(self._tails)
        finally:
            if self.closed.is_set():
                self.close()

    def restart_clock(self) -> None:
        """Restart the idle time, for instance after a slow consumer."""
        self._active = monotonic()
        self._is_over = self._is_over and self.is_stopped()

    async def poll(self) -> Found:
        """The data available to read; nothing after a while without new data."""
        if self._active is None:
            self._active = monotonic()
        return await self.call(self._wait)

    def _wait(self, tails: Tails) -> Found:
        until = monotonic() + WAITING_SECONDS
        while True:
            if (now := monotonic()) >= self._due and not self._is_over:
                self._is_over = self.is_stopped() or self._is_idle(now)
                tails.look(now, at_once=self._is_over)
                self._due = now + max(self._interval, LOOKING_SHARE * (monotonic() - now))
            found = Found(tails.read(), tails.unread, tails.registry.checkpoints.changes(), self._is_over)
            self.backlog.note(found.unread, now, read=sum(event.size for event in found.events))
            if any(found) or now >= until:
                return found
            if self.closed.wait(max(0.0, min(self._due, until) - monotonic())):
                return found

    def is_stopped(self) -> bool:
        """Whether the stop event is set."""
        return self._stop is not None and self._stop.is_set()

    def _is_idle(self, now: float) -> bool:
        return self._timeout is not None and self._active is not None and now - self._active >= self._timeout

    @property
    def not_found(self) -> list[str]:
        return self._tails.not_found

    def measure(self) -> None:
        """Record, in the thread, how many bytes are available to read."""
        with suppress(RuntimeError):  # It is closed.
            self._executor.submit(
                self._call, lambda tails: self.backlog.note(tails.registry.measure(), monotonic())
            )

    def close(self) -> None:
        """Close all files; if they are being polled, as soon as the poll ends."""
        self.closed.set()
        self._executor.shutdown(wait=False)
        if self._lock.acquire(blocking=False):
            try:
                self._tails.close()
            finally:
                self._lock.release()
