"""A circuit breaker: a judge that does not work ends the run, instead of failing record by record."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import LimitsConfig

ALIVE = frozenset({"refused", "budget"})
"""Failures that do not mean that the judge does not work."""

ANSWERED = frozenset({"refused", "invalid_reply"})
"""Failures that show that the server accepts the key and knows the model."""

MAX_DENIED = 10
"""Refusals of the key or the model in a row that end a run in which requests have succeeded."""


class Breaker:
    """Admits the calls of one kind, and ends the run if none succeeds.

    Until the first success, `max_failed_calls` calls are admitted; if they all fail, the run ends. If as many
    fail in a row later, it is open: one call at a time sends requests until one succeeds. If none does for
    `max_outage_sec`, the run ends.
    """

    def __init__(self, limits: LimitsConfig, end: Callable[[str, JudgeError], JudgeUnavailable]) -> None:
        """Call `end` when no more calls are worth a try: with the reason and the last failure.

        It returns the error to raise.
        """
        self._limits = limits
        self._most_failed = limits.max_failed_calls or inf
        self._end = end
        self._in_progress = 0
        self._failed = 0  # In a row.
        self._is_proven = False
        self._is_over = False
        self._since: float | None = None
        self._longest_pause = 0.0
        self._replies = 0
        self._denied = self._held = 0  # In a row; now in `is_dead`.
        self._is_probing = False
        self._change = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether one call at a time may send requests."""
        return self._is_proven and self._failed >= self._most_failed and not self._is_over

    @property
    def is_doubtful(self) -> bool:
        """Whether no call has succeeded yet, an attempt failed, and no further call is admitted."""
        return self._since is not None and self._is_full()

    def _is_full(self) -> bool:
        """Whether no further call may be in progress."""
        is_free = self._is_over or self._is_proven
        return not is_free and self._in_progress + self._failed >= self._most_failed

    async def admit(self) -> None:
        """Wait until a call may be made; report its end by `succeeded` or `failed`."""
        while self._is_full():
            await self._change.wait()
        self._in_progress += 1

    async def settle(self) -> None:
        """Wait until a call succeeds, or no more are worth a try."""
        while self.is_doubtful:
            await self._change.wait()

    async def probe(self) -> bool:
        """Wait until a call may send a request; return whether it is the only one, and must call `probed`."""
        while self.is_open and self._is_probing:
            await self._change.wait()
        self._is_probing = self._is_probing or self.is_open
        return self.is_open

    def probed(self) -> None:
        """Let another call send requests."""
        self._is_probing = False
        self._wake()

    def succeeded(self) -> None:
        """Record a call with a usable reply."""
        self._is_proven = True
        self._failed = 0
        self._since, self._longest_pause = None, 0.0
        self._finish()

    def failed(self, error: JudgeError) -> JudgeError:
        """Record a call that failed after all its attempts; return the error to raise."""
        if error.kind not in ALIVE and not isinstance(error, JudgeUnavailable):
            self._failed += 1
            if not self._is_proven and self._failed >= self._most_failed:
                first = f"none of the first {self._failed} calls succeeded"
                error = self._end(f"{first}; the last: {error.message}", error)
        self._finish()
        return error

    def replied(self) -> None:
        """Record a request that the server answered, whether or not the reply is usable."""
        self._replies += 1
        self._denied = 0

    async def is_dead(self) -> bool:
        """Return whether all calls would be refused, after one whose key or model was refused.

        Waits while calls in progress may still get a reply, so that one request does not end the run.
        """
        replies = self._replies
        self._denied += 1
        self._held += 1
        try:
            while (
                self._replies == replies
                and self._held < self._in_progress
                and not (self._is_over or self.is_open or self._denied >= MAX_DENIED)
            ):
                await self._change.wait()
        finally:
            self._held -= 1
        return self._is_over or self._replies == 0 or self._denied >= MAX_DENIED

    def attempt_failed(self, error: JudgeError) -> JudgeError:
        """Record a failed attempt; return the error to raise."""
        if error.kind in ANSWERED:
            self.replied()
        if error.kind in ALIVE or isinstance(error, JudgeUnavailable):
            return error
        now, asked = asyncio.get_running_loop().time(), error.retry_after or 0.0
        if asked > self._limits.max_pause_sec:
            limit = f"{self._limits.max_pause_sec:g} s that llm.limits.max_pause_sec allows"
            text = f"the server asks to wait {asked:g} s, longer than the {limit}: {error.message}"
            return self._end(text, error)
        self._since = now if self._since is None else self._since
        self._longest_pause = max(self._longest_pause, asked)
        lasted, longest = now - self._since - self._longest_pause, self._limits.max_outage_sec
        if longest is None or lasted <= longest:
            return error
        return self._end(f"no call succeeded for {lasted:.0f} s; the last failure: {error.message}", error)

    def close(self) -> None:
        """Admit all calls, since they will fail without a request."""
        self._is_over = True
        self._wake()

    def _finish(self) -> None:
        self._in_progress -= 1
        self._wake()

    def _wake(self) -> None:
        self._change.set()
        self._change.clear()
