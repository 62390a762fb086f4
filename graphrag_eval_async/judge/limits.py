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
    from graphrag_eval_async.judge.budget import Budget
    from graphrag_eval_async.judge.usage import JudgeUsage

LOGGER = logging.getLogger("graphrag_eval_async.judge")

SHORT_PAUSE = 5.0
"""Seconds; longer pauses are logged."""

LONG_PAUSE = 60.0
"""Seconds; a longer pause also stops the clocks of results, and counts as no attempt."""

MAX_DENIED_IN_A_ROW = 10
"""Refusals of the key or the model in a row that end a run in which requests have succeeded."""

MIN_TIMER_SECONDS = 0.001
"""The shortest wait: a timer may fire slightly early, and would be set again at once."""

ROUNDING_SECONDS = 1e-9
"""A shorter wait is an error of rounding."""


class TokenBucket:
    """Limits a rate, as a bucket that fills steadily and from which amounts are taken.

    The bucket holds as much as one second allows, so that no minute exceeds the limit by much. More
    may be taken out than the bucket holds; then the debt must be filled up first.
    """

    def __init__(self, per_minute: float | None) -> None:
        """Fill the bucket.

        Args:
            per_minute: the amount that may be taken in a minute; None for no limit.
        """
        if per_minute is None:
            self._capacity = inf
            self._seconds_per_unit = 0.0
        else:
            self._capacity = max(1.0, per_minute / 60)
            self._seconds_per_unit = 60 / per_minute
        # The time at which the bucket will be full again, or has become full. This one number is
        # the whole state of the bucket.
        self._full_at = -inf

    def wait(self, now: float, amount: float) -> float:
        """Return the seconds until the bucket holds `amount`, or is full.

        The result is 0 or negative if the bucket holds the amount now.

        Args:
            now: the time of the event loop.
            amount: the amount to take out. If the bucket cannot hold that much, it must be full.
        """
        seconds_before_full = 0.0
        is_limited = self._seconds_per_unit > 0
        if is_limited:
            # If the bucket has room for more than the amount, it need not be full.
            spare = max(0.0, self._capacity - amount)
            seconds_before_full = spare * self._seconds_per_unit
        return self._full_at - now - seconds_before_full - ROUNDING_SECONDS

    def take(self, now: float, amount: float) -> None:
        """Take an amount out of the bucket at the time `now`; put it back if it is negative.

        An amount that exceeds what the bucket holds becomes a debt.
        """
        # A bucket that has become full has not filled further since.
        full_before = max(self._full_at, now)
        self._full_at = full_before + amount * self._seconds_per_unit


class Waiting(NamedTuple):
    """A request that waits for its slot; requests of the earliest result come first."""

    order: int
    number: int
    """Counts up, so that requests of the same order are sorted by when they began to wait."""
    tokens: float
    admitted: asyncio.Future[None]


class RateLimiter:
    """Admits the requests to a judge, those of the earliest result first.

    The concurrency is the number of requests that may be in flight. It starts at the configured
    limit. It halves when the server reports overload, but only once for all requests that are in
    flight at that time. After as many successes in a row as the concurrency, it grows by one.

    `acquire` returns the number of overloads until now. The caller passes this number to
    `succeeded` or `slow_down`, which so know whether the request was sent before the last overload.
    """

    def __init__(
        self, limits: LimitsConfig, usage: JudgeUsage, clocks: Clocks | None = None
    ) -> None:
        """Prepare to limit requests.

        Args:
            limits: the configured limits.
            usage: shows the current concurrency and pause.
            clocks: the clocks of results, which long pauses stop; None if there are none.
        """
        self._max_concurrency = limits.max_concurrency
        self._concurrency = limits.max_concurrency
        self._requests = TokenBucket(limits.requests_per_minute)
        self._tokens = TokenBucket(limits.tokens_per_minute)
        self._usage = usage
        usage.concurrency = limits.max_concurrency
        self._clocks = clocks
        self._in_flight = 0
        self._successes = 0
        self._overloads = 0
        # A heap of the requests that wait for a slot, and the numbers that they get.
        self._waiting: list[Waiting] = []
        self._waiting_numbers = count()
        self._paused_until = -inf
        # Admits waiting requests when a rate limit or a pause allows the next one.
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, order: int, tokens: float) -> int:
        """Wait until a request may be sent, and take a slot for it.

        Args:
            order: the number of the request's result; requests of the lowest number go first.
            tokens: the estimated tokens of the request.

        Returns:
            the number of times that the server has reported overload until now.
        """
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, Waiting(order, next(self._waiting_numbers), tokens, admitted))
        self._admit_waiting()
        try:
            await admitted
        except asyncio.CancelledError:
            # The request may have been admitted just before it was cancelled.
            has_slot = admitted.done() and not admitted.cancelled()
            if has_slot:
                self.release()
            raise
        return self._overloads

    def release(self) -> None:
        """Free the slot of a request, whether it succeeded or not."""
        self._in_flight -= 1
        self._admit_waiting()

    def correct(self, tokens: float) -> None:
        """Charge tokens that the estimate at `acquire` lacked; negative if it was too high."""
        self._tokens.take(asyncio.get_running_loop().time(), tokens)

    def succeeded(self, overloads_when_sent: int) -> None:
        """Count a success; after as many as the concurrency, raise the concurrency by one.

        Args:
            overloads_when_sent: the result of `acquire` for the request. If the server has reported
                overload since, the success does not count.
        """
        was_sent_before_overload = overloads_when_sent != self._overloads
        if was_sent_before_overload or self._concurrency >= self._max_concurrency:
            return
        self._successes += 1
        if self._successes >= self._concurrency:
            self._set_concurrency(self._concurrency + 1)
            self._admit_waiting()

    def slow_down(self, overloads_when_sent: int) -> None:
        """Halve the concurrency, since the server reports overload.

        Args:
            overloads_when_sent: the result of `acquire` for the request. Requests that were in
                flight at the same time halve the concurrency only once.
        """
        if overloads_when_sent == self._overloads:
            self._overloads += 1
            self._set_concurrency(max(1, self._concurrency // 2))

    def _set_concurrency(self, concurrency: int) -> None:
        """Set the number of requests that may be in flight, and count successes from 0 again."""
        self._concurrency = concurrency
        self._usage.concurrency = concurrency
        self._successes = 0

    def pause(self, seconds: float) -> None:
        """Send no request for `seconds`, or until the end of an earlier pause if that is later.

        A pause of more than `SHORT_PAUSE` is logged, unless an earlier pause ends at about the same
        time. A pause of more than `LONG_PAUSE` also stops the clocks of results, which would
        otherwise time out.
        """
        until = asyncio.get_running_loop().time() + seconds
        is_much_longer = until > self._paused_until + SHORT_PAUSE
        if seconds > SHORT_PAUSE and is_much_longer:
            end = datetime.now() + timedelta(seconds=seconds)
            LOGGER.warning(
                "the judge's server asks to wait %.0f s; requests resume at %s",
                seconds,
                f"{end:%H:%M:%S}",
            )
        self._paused_until = max(self._paused_until, until)
        self._usage.pause(seconds)
        if seconds > LONG_PAUSE and self._clocks is not None:
            self._clocks.stop(until)

    def close(self) -> None:
        """Stop the timer that admits requests later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admit_waiting(self) -> None:
        """Admit the waiting requests that may be sent now; set a timer for the next request."""
        while self._waiting and self._in_flight < self._concurrency:
            first = self._waiting[0]
            is_cancelled = first.admitted.done()
            if is_cancelled:
                heappop(self._waiting)
                continue

            # The pause and both rates must allow the request.
            loop = asyncio.get_running_loop()
            now = loop.time()
            seconds = max(
                self._paused_until - now,
                self._requests.wait(now, 1),
                self._tokens.wait(now, first.tokens),
            )
            if seconds > 0:
                # Replace the timer, which may be for another request.
                self.close()
                delay = max(seconds, MIN_TIMER_SECONDS)
                self._timer = loop.call_later(delay, self._admit_waiting)
                return

            heappop(self._waiting)
            self._requests.take(now, 1)
            self._tokens.take(now, first.tokens)
            self._in_flight += 1
            first.admitted.set_result(None)


class Breaker:
    """Admits the calls of a model, and decides when the model does not work.

    - Until a call has succeeded, at most `max_failed_calls` calls may be in progress or have
      failed. If so many fail, the run ends.
    - Later, all calls are admitted.
    - After `max_failed_calls` failures in a row, there is an outage: calls are admitted one at a
      time, until one succeeds.

    Attributes:
        outages: the number of outages until now. A call that was admitted before the last of them
            must be admitted again before it sends a request.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        """Prepare to admit the first calls, under the configured limits."""
        self.outages = 0
        self._limits = limits
        self._max_failed = limits.max_failed_calls or inf
        self._in_progress = 0
        self._failed_in_a_row = 0
        self._has_succeeded = False
        self._failing_since: float | None = None
        self._longest_pause = 0.0
        self._replies = 0
        self._denied_in_a_row = 0
        # The number of denied calls that wait until other calls get a reply or fail.
        self._waiting_denied = 0
        self._change = asyncio.Event()

    def _is_full(self) -> bool:
        """Return whether no further call is admitted now."""
        if not self._has_succeeded:
            return self._in_progress + self._failed_in_a_row >= self._max_failed
        is_outage = self._failed_in_a_row >= self._max_failed
        return is_outage and self._in_progress > 0

    @property
    def is_doubtful(self) -> bool:
        """Whether an attempt failed, no call has succeeded yet, and no further call is admitted."""
        has_failed = self._failing_since is not None
        return has_failed and not self._has_succeeded and self._is_full()

    async def wait_while_doubtful(self) -> None:
        """Wait while the first calls fail and none has succeeded; see `is_doubtful`."""
        while self.is_doubtful:
            await self._change.wait()

    async def admit(self) -> int:
        """Wait until a call may send requests, and return the number of outages until then.

        The caller must call `leave` when the admitted call ends.
        """
        while self._is_full():
            await self._change.wait()
        self._in_progress += 1
        return self.outages

    def leave(self) -> None:
        """End an admitted call, and wake all calls that wait for a change."""
        self._in_progress -= 1
        # Setting the event wakes the calls; clearing it lets them wait again.
        self._change.set()
        self._change.clear()

    def call_succeeded(self) -> None:
        """Record that a call got a usable reply, which ends an outage."""
        self._has_succeeded = True
        self._failed_in_a_row = 0
        self._failing_since = None
        self._longest_pause = 0.0

    def call_failed(self) -> str | None:
        """Record a call that failed after all its attempts.

        Returns:
            the reason to end the run, if all of the first calls have failed; None to continue.
        """
        self._failed_in_a_row += 1
        if self._has_succeeded:
            if self._failed_in_a_row == self._max_failed:
                # An outage begins.
                self.outages += 1
            return None
        if self._failed_in_a_row < self._max_failed:
            return None
        return f"none of the first {self._failed_in_a_row} calls succeeded; the last"

    def attempt_answered(self) -> None:
        """Record a request that the server answered, whether or not the reply is usable."""
        self._replies += 1
        self._denied_in_a_row = 0

    async def are_all_denied(self) -> bool:
        """Return whether the server would deny all calls, after it denied one.

        To deny is to refuse the key or the model. This waits while other calls in progress may
        still get a reply, so that a single denied request does not end the run.
        """
        replies_before = self._replies
        self._denied_in_a_row += 1
        self._waiting_denied += 1
        try:
            while self._denied_in_a_row < MAX_DENIED_IN_A_ROW:
                has_new_reply = self._replies > replies_before
                others_in_progress = self._in_progress - self._waiting_denied
                if has_new_reply or others_in_progress <= 0:
                    break
                await self._change.wait()
        finally:
            self._waiting_denied -= 1
        # If the server has answered any request, only many denials in a row count as all.
        return self._replies == 0 or self._denied_in_a_row >= MAX_DENIED_IN_A_ROW

    def attempt_failed(self, requested_pause: float) -> str | None:
        """Record a failed attempt.

        Args:
            requested_pause: the seconds that the server asks to wait; 0 if it does not ask.

        Returns:
            the reason to end the run, if this pause is too long or no call has succeeded for too
            long; None to continue.
        """
        if requested_pause > self._limits.max_pause_sec:
            limit = f"{self._limits.max_pause_sec:g} s that llm.limits.max_pause_sec allows"
            return f"the server asks to wait {requested_pause:g} s, longer than the {limit}"

        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        self._longest_pause = max(self._longest_pause, requested_pause)
        max_outage = self._limits.max_outage_sec
        # The time of a pause that the server asked for does not count.
        seconds_failing = now - self._failing_since - self._longest_pause
        if max_outage is None or seconds_failing <= max_outage:
            return None
        return f"no call succeeded for {seconds_failing:.0f} s; the last failure"


class Clocks:
    """The clocks of the results in progress."""

    def __init__(self, seconds: float) -> None:
        """Prepare clocks that give each result `seconds`."""
        self.seconds = seconds
        self.running: set[Clock] = set()
        self.stopped_until = -inf
        self.orders = count(1)

    def stop(self, until: float) -> None:
        """Move the deadlines of all results, as if their clocks were stopped until a time.

        If the clocks are stopped already, deadlines move only by the time that this adds.

        Args:
            until: the time of the event loop at which the clocks go on.
        """
        now = asyncio.get_running_loop().time()
        seconds = until - max(now, self.stopped_until)
        if seconds > 0:
            self.stopped_until = until
            for clock in self.running:
                clock.scope.deadline += seconds

    def drop_unsent(self) -> None:
        """Cancel all results for which no request has been sent yet."""
        for clock in self.running:
            if not clock.is_sent:
                clock.scope.cancel()


class Clock:
    """Limits the time for one result, which is counted from the first request.

    As a context manager, it cancels the code in its body when the time is over.

    Attributes:
        order: the number of the result; requests of the result with the lowest number go first.
        scope: the cancel scope, which has the deadline.
        is_sent: whether a request was sent.
        is_dropped: whether the result was cancelled before a request was sent.
    """

    def __init__(self, clocks: Clocks) -> None:
        """Prepare a clock for the next result; `start` starts it."""
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
        """Set the deadline, as the first request of the result is sent; later calls do nothing."""
        if self.is_sent:
            return
        self.is_sent = True
        starts_at = max(asyncio.get_running_loop().time(), self._clocks.stopped_until)
        self.scope.deadline = starts_at + self._clocks.seconds


class Shared(Protocol):
    """What the senders of a stream share; see `JudgeSession`."""

    usage: JudgeUsage
    clocks: Clocks
    budget: Budget | None

    def end_for_budget(self, text: str) -> None:
        """Send nothing more, since the budget is spent."""

    def end_model(self, failed: Any, error: JudgeUnavailable) -> None:
        """Send no more calls to a model, since they would all fail."""


class Throttle:
    """Lets about `per_iteration` tasks continue in each iteration of the event loop.

    At most twice as many continue in one iteration.
    """

    def __init__(self, per_iteration: int) -> None:
        """Prepare to let this number of tasks continue in an iteration."""
        self._per_iteration = per_iteration
        self._free = per_iteration
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait until this task is among the few that may continue in an iteration."""
        loop = asyncio.get_running_loop()
        is_first_turn = self._free == self._per_iteration
        if is_first_turn:
            # From now on, turns are counted in each iteration, until nobody takes one.
            loop.call_soon(self._start_iteration)
        if self._free:
            self._free -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _start_iteration(self) -> None:
        """Wake the next waiting tasks; if any take a turn, run again in the next iteration."""
        self._free = self._per_iteration
        while self._waiting and self._free:
            turn = self._waiting.popleft()
            is_cancelled = turn.done()
            if not is_cancelled:
                turn.set_result(None)
                self._free -= 1

        has_taken_turns = self._free < self._per_iteration
        if has_taken_turns:
            asyncio.get_running_loop().call_soon(self._start_iteration)
