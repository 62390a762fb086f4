"""Limits on requests: concurrency, rates, pauses, the time of results, and tasks per turn of the loop."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

from anyio import CancelScope

if TYPE_CHECKING:
    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.judge.usage import JudgeUsage

LOGGER = logging.getLogger("graphrag_eval_async.judge")

SHORT_PAUSE = 5.0
"""Seconds; longer pauses are logged."""

LONG_PAUSE = 60.0
"""Seconds; a longer pause also stops the clocks of results, and counts as no attempt."""


class TokenBucket:
    """Holds one second's worth, so that no minute exceeds `per_minute` by much.

    Callers may take more than it holds; the debt is paid off at the same rate.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._rate = inf if per_minute is None else per_minute / 60
        self._level = self._capacity = max(1.0, self._rate)
        self._at = -inf

    def wait(self, now: float, wanted: float) -> float:
        """Return the seconds until the bucket holds `wanted` or is full."""
        if self._rate == inf:
            return 0.0
        if now > self._at:
            self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
            self._at = now
        # The level accumulates rounding errors; do not wait for those.
        return max(0.0, (min(wanted, self._capacity) - self._level - 1e-9) / self._rate)

    def take(self, amount: float) -> None:
        """Take an amount, or return it if negative."""
        if self._rate != inf:
            self._level -= amount


class RateLimiter:
    """Admits the requests to a judge, those of the earliest result first.

    The concurrency starts at the configured limit. It halves when the server reports overload, once for all
    requests in flight at that time, and grows by one after as many successes in a row as it admits requests.
    """

    def __init__(self, limits: LimitsConfig, usage: JudgeUsage, clocks: Clocks | None = None) -> None:
        """Limit requests; a long pause also stops `clocks`."""
        self._max = self._limit = usage.concurrency = limits.max_concurrency
        self._requests = TokenBucket(limits.requests_per_minute)
        self._tokens = TokenBucket(limits.tokens_per_minute)
        self._usage, self._clocks = usage, clocks
        self._in_flight = self._successes = self._round = 0
        self._waiting: list[tuple[int, int, float, asyncio.Future[None]]] = []
        self._numbers = count()
        self._paused_until = -inf
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, order: int, tokens: float) -> int:
        """Wait until a request may be sent, the lowest `order` first; return its round."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (order, next(self._numbers), tokens, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise
        return self._round

    def release(self) -> None:
        """Free the slot of a request, whether it succeeded or not."""
        self._in_flight -= 1
        self._admit()

    def correct(self, tokens: float) -> None:
        """Charge the difference between actual and estimated tokens to the rate; may be negative."""
        self._tokens.take(tokens)

    def succeeded(self, sent_in: int) -> None:
        """Count a success of a request that was sent in round `sent_in`."""
        if sent_in == self._round and self._limit < self._max:
            self._successes += 1
            if self._successes >= self._limit:
                self._set_limit(self._limit + 1)
                self._admit()

    def slow_down(self, sent_in: int) -> None:
        """Halve the concurrency, unless another request of round `sent_in` already did."""
        if sent_in == self._round:
            self._round += 1
            self._set_limit(max(1, self._limit // 2))

    def _set_limit(self, limit: int) -> None:
        self._limit = self._usage.concurrency = limit
        self._successes = 0

    def pause(self, seconds: float) -> None:
        """Send nothing for `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        if seconds > SHORT_PAUSE and until > self._paused_until + SHORT_PAUSE:
            end = f"{datetime.now() + timedelta(seconds=seconds):%H:%M:%S}"
            LOGGER.warning("the judge's server asks to wait %.0f s; requests resume at %s", seconds, end)
        self._paused_until = max(self._paused_until, until)
        self._usage.pause(seconds)
        if seconds > LONG_PAUSE and self._clocks is not None:
            self._clocks.stop(until)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self._limit:
            _, _, tokens, turn = self._waiting[0]
            if turn.done():  # Cancelled.
                heappop(self._waiting)
                continue
            loop = asyncio.get_running_loop()
            now = loop.time()
            wait = max(self._paused_until - now, self._requests.wait(now, 1), self._tokens.wait(now, tokens))
            if wait > 0:
                self.close()
                # A timer may fire slightly early; a minimum delay prevents a busy loop.
                self._timer = loop.call_later(max(wait, 0.001), self._admit)
                return
            heappop(self._waiting)
            self._requests.take(1)
            self._tokens.take(tokens)
            self._in_flight += 1
            turn.set_result(None)


class Clocks:
    """The clocks of the results in progress."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: set[Clock] = set()
        self.stopped_until = -inf
        self.orders = count(1)

    def stop(self, until: float) -> None:
        """Stop all clocks until a time of the loop."""
        extra = until - max(asyncio.get_running_loop().time(), self.stopped_until)
        if extra > 0:
            self.stopped_until = until
            for clock in self.running:
                clock.scope.deadline += extra

    def drop_unsent(self) -> None:
        """Cancel all results for which no request has been sent."""
        for clock in self.running:
            if not clock.is_sent:
                clock.scope.cancel()


class Clock:
    """The time for one result, from its first request on; the context is cancelled when it is over.

    Attributes:
        order: position among the results; requests of the earliest go first.
        is_dropped: whether the result was dropped before a request was sent.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.order = next(clocks.orders)
        self.scope = CancelScope()
        self.is_sent = self.is_dropped = False
        self._clocks = clocks

    def __enter__(self) -> CancelScope:
        self._clocks.running.add(self)
        return self.scope.__enter__()

    def __exit__(self, *exc_info: Any) -> bool | None:
        self.is_dropped = self.scope.cancel_called and not self.is_sent
        self._clocks.running.discard(self)
        return self.scope.__exit__(*exc_info)

    def start(self) -> None:
        """Start the clock, unless it runs: a request is being sent."""
        if not self.is_sent:
            self.is_sent = True
            now = max(asyncio.get_running_loop().time(), self._clocks.stopped_until)
            self.scope.deadline = now + self._clocks.seconds


class Throttle:
    """Lets a few tasks go per iteration of the event loop, those of the earliest result first."""

    def __init__(self, per_iteration: int) -> None:
        self._per_iteration = self._left = per_iteration
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._is_scheduled = False

    async def turn(self, order: int) -> None:
        """Wait for a turn, the lowest `order` first."""
        self._schedule()
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (order, next(self._numbers), turn))
        await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        self._left = self._per_iteration
        while self._waiting and self._left:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._left < self._per_iteration:
            self._schedule()
