"""Limits on requests: concurrency, rates, and pauses that a server asks for."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from datetime import datetime, timedelta
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio import CancelScope

    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.errors import JudgeError
    from graphrag_eval_async.judge.usage import JudgeUsage

LOGGER = logging.getLogger("graphrag_eval_async.judge")

SHORT_PAUSE = 5.0
"""Seconds; longer pauses are logged."""

RETRY_AFTER_CAP = 60.0
"""Seconds; a longer pause also freezes the deadlines of results."""


class TokenBucket:
    """A token bucket that holds one second's worth, so that no minute exceeds `per_minute` by much.

    Callers may take more than the bucket holds; the debt is paid off at the same rate.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._rate = inf if per_minute is None else per_minute / 60
        self._level = self._capacity = max(1.0, self._rate)
        self._at = -inf

    def wait(self, now: float, wanted: float = 0.0) -> float:
        """Return the seconds until the bucket holds `wanted` or is full; for 0, until it is out of debt."""
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


class Waiting(NamedTuple):
    """A request that waits for admission; those of the earliest result go first."""

    order: int
    number: int
    tokens: float
    turn: asyncio.Future[None]
    kind: str

    def fail(self, error: Callable[[], JudgeError]) -> None:
        """End the wait with an error, unless it is over."""
        if not self.turn.done():
            self.turn.set_exception(error())
            self.turn.exception()  # Mark as retrieved: the waiter may be cancelled first.


class RateLimiter:
    """Admits requests, those of the earliest result first.

    The effective concurrency starts at the configured limit. It halves when the server reports overload, once
    for all requests in flight at that time. It grows by one, up to the configured limit, after as many
    successes in a row as it admits requests.

    Attributes:
        deadlines: deadlines of the results; long pauses extend them.
        ends: an event per kind of request, set when no more are sent.
    """

    def __init__(self, limits: LimitsConfig, usage: JudgeUsage, deadlines: Deadlines | None = None) -> None:
        self._max = limits.max_concurrency
        self._limit = limits.max_concurrency
        self._requests = TokenBucket(limits.requests_per_minute)
        self._tokens = TokenBucket(limits.tokens_per_minute)
        self._usage = usage
        self._in_flight = 0
        self._waiting: list[Waiting] = []
        self._numbers = 0
        self._dismissed: dict[str, Callable[[], JudgeError]] = {}
        self.ends: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._paused_until = -inf
        self._timer: asyncio.TimerHandle | None = None
        self._round = 0
        self._successes = 0
        self.deadlines = deadlines or Deadlines(limits.result_timeout_sec)
        usage.concurrency = self._limit

    async def acquire(self, order: int, tokens: float, kind: str = "") -> int:
        """Wait until a request may be sent, the lowest `order` first; return its round."""
        if (error := self._dismissed.get(kind)) is not None:
            raise error()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._numbers += 1
        heappush(self._waiting, Waiting(order, self._numbers, tokens, turn, kind))
        self._admit()
        if not turn.done():
            self._usage.waiting += 1
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self.release()
                raise
            finally:
                self._usage.waiting -= 1
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
        if sent_in != self._round or self._limit == self._max:
            return
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
        """Send nothing for `seconds`; more than `RETRY_AFTER_CAP` also freezes the deadlines."""
        until = asyncio.get_running_loop().time() + seconds
        if seconds > SHORT_PAUSE and until > self._paused_until + SHORT_PAUSE:
            end = datetime.now() + timedelta(seconds=seconds)
            LOGGER.warning(
                "the judge's server asks to wait %.0f s; requests resume at %s", seconds, f"{end:%H:%M:%S}"
            )
        self._paused_until = max(self._paused_until, until)
        self._usage.pause(seconds)
        if seconds > RETRY_AFTER_CAP:
            self.deadlines.freeze(until)

    def dismiss(self, kind: str, error: Callable[[], JudgeError]) -> None:
        """Fail all waiting and future requests of a kind with `error`; later errors for it are ignored."""
        if kind in self._dismissed:
            return
        self._dismissed[kind] = error
        self.ends[kind].set()
        for one in self._waiting:
            if one.kind == kind:
                one.fail(error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self._limit:
            _, _, tokens, turn, _ = self._waiting[0]
            if turn.done():  # Cancelled or dismissed.
                heappop(self._waiting)
                continue
            now = asyncio.get_running_loop().time()
            rates = self._requests.wait(now, 1), self._tokens.wait(now, tokens)
            if (wait := max(self._paused_until - now, *rates)) > 0:
                self.close()
                # A timer may fire slightly early; a minimum delay prevents a busy loop.
                self._timer = asyncio.get_running_loop().call_later(max(wait, 0.001), self._admit)
                return
            heappop(self._waiting)
            self._requests.take(1)
            self._tokens.take(tokens)
            self._in_flight += 1
            turn.set_result(None)


class Deadlines:
    """Deadlines of results, kept in their cancel scopes; a freeze extends all that are running."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: set[CancelScope] = set()
        self._unsent: set[CancelScope] = set()
        self._frozen_until = -inf

    def wait(self, scope: CancelScope) -> None:
        """Record that no request has been sent for `scope` yet."""
        self._unsent.add(scope)

    def drop(self) -> None:
        """Cancel the scopes for which no request has been sent."""
        for scope in self._unsent:
            scope.cancel()

    def is_dropped(self, scope: CancelScope) -> bool:
        """Whether `drop` cancelled `scope`."""
        return scope in self._unsent and scope.cancel_called

    def start(self, scope: CancelScope) -> None:
        """Start the clock of `scope` unless it is running."""
        if scope not in self._running:
            self._running.add(scope)
            self._unsent.discard(scope)
            scope.deadline = max(asyncio.get_running_loop().time(), self._frozen_until) + self._seconds

    def stop(self, scope: CancelScope) -> None:
        self._running.discard(scope)
        self._unsent.discard(scope)

    def freeze(self, until: float) -> None:
        """Stop all clocks until the loop time `until`."""
        extra = until - max(asyncio.get_running_loop().time(), self._frozen_until)
        if extra > 0:
            self._frozen_until = until
            for scope in self._running:
                scope.deadline += extra
