"""A thread that looks at followed files at regular times."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.sources.identity import Kept
    from graphrag_eval_async.sources.tail import Event
    from graphrag_eval_async.sources.tails import Tails

R = TypeVar("R")

WAITING_SECONDS = 1.0
"""How long the thread may wait without coming back: so long it may delay the end of a process that does not
close its follower.
"""


class Stop(Protocol):
    """An event: of asyncio, of anyio, or of threading."""

    def is_set(self) -> bool: ...


class News(NamedTuple):
    """What a look has found.

    Attributes:
        events: what was read.
        unread: how many bytes more there are.
        is_over: whether there will be no further look.
        kept: what to keep before the events are handed out, if that has changed.
    """

    events: list[Event]
    unread: int
    is_over: bool
    kept: Kept | None


class Waiting:
    """Looks at files at regular times.

    A thread waits between two looks, rather than the event loop: waking both for nothing would cost more than
    the looks do. The same thread reads, since what was read before must be compared just before.
    """

    def __init__(self, tails: Tails, *, interval: float, timeout: float | None, stop: Stop | None) -> None:
        """See `follow_jsonl`."""
        self._tails = tails
        self._interval = interval
        self._timeout = timeout
        self._stop = stop
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="graphrag-eval-async-follow")
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._due = float("-inf")
        self._active: float | None = None
        self._is_over = False

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def call(self, function: Callable[[Tails], R]) -> R:
        """What a function of the tails returns, called in the thread.

        Raises:
            UsageError: they are closed.
        """
        return await self._run(partial(self._call, function))

    async def news(self) -> News:
        """What there is to read; none after a while, if nothing comes.

        Raises:
            UsageError: the files are closed.
        """
        if self._active is None:
            self._active = monotonic()
        return await self._run(self._wait)

    def restart_clock(self) -> None:
        """Count the time without anything new from now on, for instance after a slow consumer."""
        self._active = monotonic()

    async def _run(self, function: Callable[[], R]) -> R:
        if self.is_closed:
            raise UsageError("the follower is closed; follow_jsonl makes another")
        return await run_in_thread(function, self.close, threads=self._executor)

    def _call(self, function: Callable[[Tails], R]) -> R:
        try:
            with self._lock:
                return function(self._tails)
        finally:
            if self._closed.is_set():
                self.close()

    def _wait(self) -> News:
        until = monotonic() + WAITING_SECONDS
        while True:
            now = monotonic()
            look = now >= self._due and not self._is_over
            if look:
                self._due = now + self._interval
                self._is_over = self._has_ended(now)
            news = self._call(partial(self._pass, now=now, look=look))
            if any(news) or now >= until:
                return news
            if self._closed.wait(max(0.0, min(self._due, until) - monotonic())):
                return news

    def _pass(self, tails: Tails, *, now: float, look: bool) -> News:
        if look:
            tails.look(now, at_once=self._is_over)
        return News(tails.read(), tails.unread.size, self._is_over, tails.registry.changes())

    def _has_ended(self, now: float) -> bool:
        if self._stop is not None and self._stop.is_set():
            return True
        return self._timeout is not None and self._active is not None and now - self._active >= self._timeout

    def measure(self) -> int | None:
        """How many bytes there are to read by now; None if that cannot be said. For any thread."""
        try:
            return self._call(lambda tails: tails.registry.measure())
        except OSError:
            return None

    def close(self) -> None:
        """Close all files; if they are being looked at, as soon as that is over."""
        self._closed.set()
        self._executor.shutdown(wait=False)
        if self._lock.acquire(blocking=False):
            try:
                self._tails.close()
            finally:
                self._lock.release()
