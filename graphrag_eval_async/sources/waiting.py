"""A thread that looks at followed files at regular times, and how far their reader is behind."""

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
"""How long the thread waits at most before it returns: it may delay the end of a process by this."""

LOOKING_SHARE = 5
"""Looks take at most one part in this many of the time, however many files there are."""

MAX_ARRIVALS = 256
"""How many times of arrival are kept. More are merged in pairs, which makes `Lag.seconds` too long."""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class Found(NamedTuple):
    """What a look has found."""

    events: list[Event]
    unread: int  # How many bytes more there are.
    state: FollowState | None  # What to keep before the events are handed out, if that has changed.
    is_over: bool  # Whether this was the last look, unless something was read.


class Lag(NamedTuple):
    """How far a follower is behind the ends of the files.

    Attributes:
        bytes: in the files that were not handed out, without an unfinished line.
        seconds: for how long the oldest of these bytes has been there; 0.0 if there are none.
    """

    bytes: int
    seconds: float


class Backlog:
    """Counts bytes when they are found and when they are handed out; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed_out = self._read = self._unread = 0
        self._arrivals: deque[tuple[float, int]] = deque()  # Times, and the bytes found until then.

    def note(self, unread: int, now: float, read: int = 0) -> None:
        """Note that so many bytes were read since, and so many more are in the files."""
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
        """Note that so many bytes of what was read are handed out."""
        with self._lock:
            self._handed_out += size
            self._drop()

    def _drop(self) -> None:
        while self._arrivals and self._arrivals[0][1] <= self._handed_out:
            self._arrivals.popleft()

    def lag(self, now: float) -> Lag:
        """What is left, and since when."""
        with self._lock:
            size = self._read - self._handed_out + self._unread
            return Lag(size, now - self._arrivals[0][0] if size and self._arrivals else 0.0)


class Waiting:
    """Looks at files at regular times.

    The thread waits between two looks, too: waking the event loop for nothing would cost more than they do.
    It also reads, since what was read before must be compared just before.
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
        """Call a function of the tails in the thread, and return its result.

        Raises:
            UsageError: they are closed.
        """
        if self.closed.is_set():
            raise UsageError("the follower is closed; follow_jsonl makes another")
        return await run_in_thread(partial(self._call, function), self.close, threads=self._executor)

    def _call(self, function: Callable[[Tails], R]) -> R:
        try:
            with self._lock:
                return function(self._tails)
        finally:
            if self.closed.is_set():
                self.close()

    def restart_clock(self) -> None:
        """Count the time without anything new from now on, for instance after a slow consumer."""
        self._active = monotonic()
        self._is_over = self._is_over and self.is_stopped()

    async def poll(self) -> Found:
        """What there is to read; nothing after a while, if nothing comes."""
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
        """Whether the event is set that ends it."""
        return self._stop is not None and self._stop.is_set()

    def _is_idle(self, now: float) -> bool:
        return self._timeout is not None and self._active is not None and now - self._active >= self._timeout

    @property
    def not_found(self) -> list[str]:
        return self._tails.not_found

    def measure(self) -> None:
        """Note, in the thread, how many bytes there are to read by now."""
        with suppress(RuntimeError):  # It is closed.
            self._executor.submit(
                self._call, lambda tails: self.backlog.note(tails.registry.measure(), monotonic())
            )

    def close(self) -> None:
        """Close all files; if they are being looked at, as soon as that is over."""
        self.closed.set()
        self._executor.shutdown(wait=False)
        if self._lock.acquire(blocking=False):
            try:
                self._tails.close()
            finally:
                self._lock.release()
