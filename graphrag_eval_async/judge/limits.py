"""Limits on requests: concurrency, rates, pauses, failures, and the time of results."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from anyio import CancelScope

if TYPE_CHECKING:
    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.errors import JudgeUnavailable
    from graphrag_eval_async.judge.usage import JudgeUsage

LOGGER = logging.getLogger("graphrag_eval_async.judge")

SHORT_PAUSE = 5.0
"""Seconds; longer pauses are logged."""

LONG_PAUSE = 60.0
"""Seconds; a longer pause also stops the clocks of results, and counts as no attempt."""

MAX_DENIED = 10
"""Refusals of the key or the model in a row that end a run in which requests have succeeded."""

MIN_TIMER_SECONDS = 0.001
"""The shortest wait: a timer may fire slightly early, and would be set again at once."""

ROUNDING = 1e-9
"""Seconds; a wait of less is an error of rounding."""


class TokenBucket:
    """Limits a rate. The bucket holds what one second allows, so that no minute exceeds
    `per_minute` by much; debts are paid off.
    """

    def __init__(self, per_minute: float | None) -> None:
        """Fill the bucket; None is no limit."""
        if per_minute is None:
            self._capacity = inf
            self._seconds_per_unit = 0.0
        else:
            self._capacity = max(1.0, per_minute / 60)
            self._seconds_per_unit = 60 / per_minute
        self._full_at = -inf

    def wait(self, now: float, amount: float) -> float:
        """Return the seconds until the bucket holds an amount or is full."""
        lead = 0.0
        if self._seconds_per_unit:
            # It holds the amount this long before it is full.
            lead = max(0.0, self._capacity - amount) * self._seconds_per_unit
        return self._full_at - now - lead - ROUNDING

    def take(self, now: float, amount: float) -> None:
        """Take an amount, or return it if negative; more than it holds becomes a debt."""
        self._full_at = max(self._full_at, now) + amount * self._seconds_per_unit


class Waiting(NamedTuple):
    """A request that waits for its slot; those of the earliest result come first."""

    order: int
    number: int
    """Makes two of the same order comparable, the first to wait first."""
    tokens: float
    turn: asyncio.Future[None]


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
        self._max_concurrency = limits.max_concurrency
        self._concurrency = limits.max_concurrency
        self._requests = TokenBucket(limits.requests_per_minute)
        self._tokens = TokenBucket(limits.tokens_per_minute)
        self._usage = usage
        usage.concurrency = limits.max_concurrency
        self._clocks = clocks
        self._in_flight = 0
        self._successes = 0
        # A round ends when the server reports overload.
        self._round = 0
        self._waiting: list[Waiting] = []
        self._numbers = count()
        self._paused_until = -inf
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, order: int, tokens: float) -> int:
        """Wait until a request may be sent, the lowest `order` first; return its round."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, Waiting(order, next(self._numbers), tokens, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            was_admitted = turn.done() and not turn.cancelled()
            if was_admitted:
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
        if sent_in != self._round or self._concurrency >= self._max_concurrency:
            return
        self._successes += 1
        if self._successes >= self._concurrency:
            self._set_concurrency(self._concurrency + 1)
            self._admit()

    def slow_down(self, sent_in: int) -> None:
        """Halve the concurrency, unless another request of round `sent_in` already did."""
        if sent_in == self._round:
            self._round += 1
            self._set_concurrency(max(1, self._concurrency // 2))

    def _set_concurrency(self, concurrency: int) -> None:
        """Limit the requests in flight, and count successes anew."""
        self._concurrency = concurrency
        self._usage.concurrency = concurrency
        self._successes = 0

    def pause(self, seconds: float) -> None:
        """Send nothing for `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        is_news = until > self._paused_until + SHORT_PAUSE
        if seconds > SHORT_PAUSE and is_news:
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
        """Admit the requests that may be sent now; set a timer for the next."""
        while self._waiting and self._in_flight < self._concurrency:
            first = self._waiting[0]
            if first.turn.done():  # Cancelled.
                heappop(self._waiting)
                continue

            loop = asyncio.get_running_loop()
            now = loop.time()
            seconds = max(
                self._paused_until - now,
                self._requests.wait(now, 1),
                self._tokens.wait(now, first.tokens),
            )
            if seconds > 0:
                self.close()
                self._timer = loop.call_later(max(seconds, MIN_TIMER_SECONDS), self._admit)
                return

            heappop(self._waiting)
            self._requests.take(now, 1)
            self._tokens.take(now, first.tokens)
            self._in_flight += 1
            first.turn.set_result(None)


class Breaker:
    """Admits the calls of a model, and tells when no more are worth a try.

    Unproven: until a call succeeds, `max_failed_calls` may be in progress or have failed; if all
    fail, the run ends. Closed: all calls are admitted. Open, after as many failures in a row: one
    at a time, until one succeeds.

    Attributes:
        epoch: changes when the breaker opens.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        """Admit the first calls."""
        self.epoch = 0
        self._limits = limits
        self._max_failed = limits.max_failed_calls or inf
        self._in_progress = 0
        self._failed = 0
        self._is_proven = False
        self._failing_since: float | None = None
        self._longest_pause = 0.0
        self._replies = 0
        self._denied_in_a_row = 0
        # Calls that were denied, and wait for what becomes of the others.
        self._held = 0
        self._change = asyncio.Event()

    def _is_full(self) -> bool:
        """Whether no further call is admitted."""
        if not self._is_proven:
            return self._in_progress + self._failed >= self._max_failed
        is_open = self._failed >= self._max_failed
        return is_open and self._in_progress > 0

    @property
    def is_doubtful(self) -> bool:
        """Whether an attempt failed, no call has succeeded yet, and no further call is admitted."""
        return self._failing_since is not None and not self._is_proven and self._is_full()

    async def wait_for_success(self) -> None:
        """Wait until a call succeeds, if the first ones fail."""
        while self.is_doubtful:
            await self._change.wait()

    async def enter(self) -> int:
        """Wait until a call may send requests; return `epoch`. It must `leave`, also to enter
        again.
        """
        while self._is_full():
            await self._change.wait()
        self._in_progress += 1
        return self.epoch

    def leave(self) -> None:
        """Let another call enter."""
        self._in_progress -= 1
        self._change.set()
        self._change.clear()

    def succeeded(self) -> None:
        """Record a call with a usable reply."""
        self._is_proven = True
        self._failed = 0
        self._failing_since = None
        self._longest_pause = 0.0

    def failed(self) -> str | None:
        """Record a call that failed after all its attempts; return why the run ends, if it does."""
        self._failed += 1
        if self._is_proven:
            if self._failed == self._max_failed:
                self.epoch += 1
            return None
        if self._failed < self._max_failed:
            return None
        return f"none of the first {self._failed} calls succeeded; the last: "

    def replied(self) -> None:
        """Record a request that the server answered, whether or not the reply is usable."""
        self._replies += 1
        self._denied_in_a_row = 0

    async def are_all_denied(self) -> bool:
        """Return whether all calls would be denied, after one whose key or model was refused.

        Waits while calls in progress may still get a reply, so that one request does not end the
        run.
        """
        replies_before = self._replies
        self._denied_in_a_row += 1
        self._held += 1
        try:
            while (
                self._replies == replies_before
                and self._held < self._in_progress
                and self._denied_in_a_row < MAX_DENIED
            ):
                await self._change.wait()
        finally:
            self._held -= 1
        return self._replies == 0 or self._denied_in_a_row >= MAX_DENIED

    def attempt_failed(self, requested_pause: float) -> str | None:
        """Record a failed attempt; return why the run ends, if it does.

        Args:
            requested_pause: the seconds that the server asks to wait.
        """
        if requested_pause > self._limits.max_pause_sec:
            limit = f"{self._limits.max_pause_sec:g} s that llm.limits.max_pause_sec allows"
            return f"the server asks to wait {requested_pause:g} s, longer than the {limit}: "

        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        self._longest_pause = max(self._longest_pause, requested_pause)
        max_outage = self._limits.max_outage_sec
        lasted = now - self._failing_since - self._longest_pause
        if max_outage is None or lasted <= max_outage:
            return None
        return f"no call succeeded for {lasted:.0f} s; the last failure: "


class Clocks:
    """The clocks of the results in progress."""

    def __init__(self, seconds: float) -> None:
        """Give each result so many seconds."""
        self.seconds = seconds
        self.running: set[Clock] = set()
        self.stopped_until = -inf
        self.orders = count(1)

    def stop(self, until: float) -> None:
        """Stop all clocks until a time of the loop."""
        stops_at = max(asyncio.get_running_loop().time(), self.stopped_until)
        seconds = until - stops_at
        if seconds > 0:
            self.stopped_until = until
            for clock in self.running:
                clock.scope.deadline += seconds

    def drop_unsent(self) -> None:
        """Cancel all results for which no request has been sent."""
        for clock in self.running:
            if not clock.is_sent:
                clock.scope.cancel()


class Clock:
    """The time for one result, from its first request on; the context is cancelled when it is
    over.

    Attributes:
        order: requests of the earliest result, with the lowest order, go first.
        scope: has the deadline.
        is_sent: whether a request was sent.
        is_dropped: whether the result was cancelled before a request was sent.
    """

    def __init__(self, clocks: Clocks) -> None:
        """Take the next order; the clock does not run yet."""
        self.order = next(clocks.orders)
        self.scope = CancelScope()
        self.is_sent = False
        self.is_dropped = False
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
        if self.is_sent:
            return
        self.is_sent = True
        starts_at = max(asyncio.get_running_loop().time(), self._clocks.stopped_until)
        self.scope.deadline = starts_at + self._clocks.seconds


class Shared(Protocol):
    """What the senders of a stream share; see `JudgeSession`."""

    usage: JudgeUsage
    clocks: Clocks

    def end_for_budget(self, text: str) -> None:
        """Send nothing more, since the budget is spent."""

    def end_model(self, failed: Any, error: JudgeUnavailable) -> None:
        """Send no more calls to a model, since they would all fail."""


class Throttle:
    """Lets a few tasks go per iteration of the event loop, at most twice as many."""

    def __init__(self, per_iteration: int) -> None:
        """Let so many tasks go."""
        self._per_iteration = per_iteration
        self._free = per_iteration
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        if self._free == self._per_iteration:
            loop.call_soon(self._next_iteration)
        if self._free:
            self._free -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_iteration(self) -> None:
        """Let the next tasks go, and do so again in the next iteration if there were any."""
        self._free = self._per_iteration
        while self._waiting and self._free:
            turn = self._waiting.popleft()
            if not turn.done():  # Cancelled.
                turn.set_result(None)
                self._free -= 1
        if self._free < self._per_iteration:
            asyncio.get_running_loop().call_soon(self._next_iteration)
