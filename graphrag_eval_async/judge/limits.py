"""Limits on requests: concurrency, rates, pauses, failures, and the time of results."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CancelScope

if TYPE_CHECKING:
    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.errors import JudgeUnavailable
    from graphrag_eval_async.judge.usage import JudgeUsage

LOGGER = logging.getLogger("graphrag_eval_async.judge")

SHORT_PAUSE = 5.0  # Seconds; longer pauses are logged.
# Refusals of the key or the model in a row that end a run in which requests have succeeded.
MAX_DENIED = 10
# Seconds; a longer pause also stops the clocks of results, and counts as no attempt.
LONG_PAUSE = 60.0


class TokenBucket:
    """Holds one second's worth, so that no minute exceeds `per_minute` by much; debts are paid
    off.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._full = inf if per_minute is None else max(1.0, per_minute / 60)
        # Seconds until one more is there.
        self._each = 0.0 if per_minute is None else 60 / per_minute
        self._full_at = -inf

    def wait(self, now: float, wanted: float) -> float:
        """Return the seconds until the bucket holds `wanted` or is full."""
        lacking = max(0.0, self._full - wanted) * self._each if self._each else 0.0
        return self._full_at - now - lacking - 1e-9  # Do not wait for rounding errors.

    def take(self, now: float, amount: float) -> None:
        """Take an amount, or return it if negative; more than it holds becomes a debt."""
        self._full_at = max(self._full_at, now) + amount * self._each


class RateLimiter:
    """Admits the requests to a judge, those of the earliest result first.

    The concurrency starts at the configured limit. It halves when the server reports overload, once
    for all requests in flight at that time, and grows by one after as many successes in a row as it
    admits requests.
    """

    def __init__(
        self, limits: LimitsConfig, usage: JudgeUsage, clocks: Clocks | None = None
    ) -> None:
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
        """Charge the difference between actual and estimated tokens to the rate; may be
        negative.
        """
        self._tokens.take(asyncio.get_running_loop().time(), tokens)

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
            LOGGER.warning(
                "the judge's server asks to wait %.0f s; requests resume at %s", seconds, end
            )
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
            wait = max(
                self._paused_until - now,
                self._requests.wait(now, 1),
                self._tokens.wait(now, tokens),
            )
            if wait > 0:
                self.close()
                # A timer may fire slightly early; a minimum delay prevents a busy loop.
                self._timer = loop.call_later(max(wait, 0.001), self._admit)
                return
            heappop(self._waiting)
            self._requests.take(now, 1)
            self._tokens.take(now, tokens)
            self._in_flight += 1
            turn.set_result(None)


class Breaker:
    """Admits the calls to a model, and tells when no more are worth a try.

    Unproven: until a call succeeds, `max_failed_calls` may be in progress or have failed; if all
    fail, the run ends. Closed: all calls are admitted. Open, after as many failures in a row: one
    at a time, until one succeeds.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self.opened = 0
        self._limits, self._most_failed = limits, limits.max_failed_calls or inf
        self._in_progress = self._failed = 0
        self._is_proven = False
        self._since: float | None = None
        self._longest_pause = 0.0
        self._replies = self._denied = self._held = 0
        self._change = asyncio.Event()

    def _is_full(self) -> bool:
        """Whether no further call is admitted."""
        if not self._is_proven:
            return self._in_progress + self._failed >= self._most_failed
        return self._failed >= self._most_failed and self._in_progress > 0

    @property
    def is_doubtful(self) -> bool:
        """Whether an attempt failed, no call has succeeded yet, and no further call is admitted."""
        return self._since is not None and not self._is_proven and self._is_full()

    async def no_doubt(self) -> None:
        """Wait until a call succeeds, if the first ones fail."""
        while self.is_doubtful:
            await self._change.wait()

    async def enter(self) -> int:
        """Wait until a call may send requests; return `opened`. It must `leave`, also to enter
        again.
        """
        while self._is_full():
            await self._change.wait()
        self._in_progress += 1
        return self.opened

    def leave(self) -> None:
        """Let another call enter."""
        self._in_progress -= 1
        self._change.set()
        self._change.clear()

    def succeeded(self) -> None:
        """Record a call with a usable reply."""
        self._is_proven, self._failed = True, 0
        self._since, self._longest_pause = None, 0.0

    def failed(self) -> str | None:
        """Record a call that failed after all its attempts; return why the run ends, if it does."""
        self._failed += 1
        self.opened += self._is_proven and self._failed == self._most_failed
        if self._is_proven or self._failed < self._most_failed:
            return None
        return f"none of the first {self._failed} calls succeeded; the last: "

    def replied(self) -> None:
        """Record a request that the server answered, whether or not the reply is usable."""
        self._replies += 1
        self._denied = 0

    async def denied(self) -> bool:
        """Return whether all calls would be refused, after one whose key or model was refused.

        Waits while calls in progress may still get a reply, so that one request does not end the
        run.
        """
        replies = self._replies
        self._denied += 1
        self._held += 1
        try:
            while (
                self._replies == replies
                and self._held < self._in_progress
                and self._denied < MAX_DENIED
            ):
                await self._change.wait()
        finally:
            self._held -= 1
        return self._replies == 0 or self._denied >= MAX_DENIED

    def attempt_failed(self, asked: float) -> str | None:
        """Record a failed attempt and the pause `asked` for; return why the run ends, if it
        does.
        """
        now, longest = asyncio.get_running_loop().time(), self._limits.max_outage_sec
        if asked > self._limits.max_pause_sec:
            limit = f"{self._limits.max_pause_sec:g} s that llm.limits.max_pause_sec allows"
            return f"the server asks to wait {asked:g} s, longer than the {limit}: "
        self._since = now if self._since is None else self._since
        self._longest_pause = max(self._longest_pause, asked)
        lasted = now - self._since - self._longest_pause
        if longest is None or lasted <= longest:
            return None
        return f"no call succeeded for {lasted:.0f} s; the last failure: "


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
    """The time for one result, from its first request on; the context is cancelled when it is
    over.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.order = next(clocks.orders)  # Requests of the earliest result go first.
        self.scope = CancelScope()
        self.is_sent = self.is_dropped = False  # It is dropped only before a request is sent.
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


class Shared(Protocol):
    """What the judges of a stream share; see `JudgeSession`."""

    usage: JudgeUsage
    clocks: Clocks

    def broke(self, text: str) -> None:
        """Send nothing more, since the budget is spent."""

    def end(self, failed: Any, error: JudgeUnavailable) -> None:
        """Send no more calls to a model, since they would all fail."""


class Throttle:
    """Lets a few tasks go per iteration of the event loop, at most twice as many."""

    def __init__(self, per_iteration: int) -> None:
        self._per_iteration = self._left = per_iteration
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        if self._left == self._per_iteration:
            loop.call_soon(self._next)
        if self._left:
            self._left -= 1
        else:
            self._waiting.append(turn := loop.create_future())
            await turn

    def _next(self) -> None:
        self._left = self._per_iteration
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # Cancelled.
                turn.set_result(None)
                self._left -= 1
        if self._left < self._per_iteration:
            asyncio.get_running_loop().call_soon(self._next)
