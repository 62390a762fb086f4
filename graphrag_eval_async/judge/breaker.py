"""A circuit breaker: a model that does not work ends the run, instead of failing record by record."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrag_eval_async.config import LimitsConfig

MAX_DENIED = 10
"""Refusals of the key or the model in a row that end a run in which requests have succeeded."""


class Breaker:
    """Admits the calls to a model, and tells when no more are worth a try.

    Unproven: until a call succeeds, `max_failed_calls` may be in progress or have failed; if all fail, the
    run ends. Closed: all calls are admitted. Open, after as many failures in a row: one at a time, until one
    succeeds.
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
        """Wait until a call may send requests; it must `leave`, also to enter again once `opened` differs.

        Returns how often the breaker has opened.
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

        Waits while calls in progress may still get a reply, so that one request does not end the run.
        """
        replies = self._replies
        self._denied += 1
        self._held += 1
        try:
            while self._replies == replies and self._held < self._in_progress and self._denied < MAX_DENIED:
                await self._change.wait()
        finally:
            self._held -= 1
        return self._replies == 0 or self._denied >= MAX_DENIED

    def attempt_failed(self, asked: float) -> str | None:
        """Record a failed attempt and the pause `asked` for; return why the run ends, if it does."""
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
