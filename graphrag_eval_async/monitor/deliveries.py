"""Delivers what changes about alerts, without anybody waiting for it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.monitor.alerts import Change

DELIVERY_SECONDS = 30.0  # How long one delivery may take, and how long to wait for the last ones at the end.
MAX_WAITING = 100  # How many changes of one alert may wait for their delivery.


class Deliveries:
    """Delivers changes: those of one alert one after the other, those of others at the same time."""

    def __init__(
        self,
        name: str,
        deliver: Callable[[Change], Awaitable[str | None]],
        say: Callable[[str], object],
        *,
        seconds: float = DELIVERY_SECONDS,
    ) -> None:
        """`deliver` returns what went wrong, if anything, and `say` is told; `finish` waits for `seconds`."""
        self._name, self._deliver, self._say, self._seconds = name, deliver, say, seconds
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, change: Change) -> None:
        """Deliver a change soon; must be called on the event loop."""
        if self._waiting[change["alert"]] > MAX_WAITING:  # One of these is being delivered.
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")
            return
        self._waiting[change["alert"]] += 1
        task = asyncio.create_task(self._work_off(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, change: Change) -> None:
        async with self._turns[change["alert"]]:  # In the order in which they came.
            try:
                if (problem := await self._deliver(change)) is not None:
                    self._complain(change, problem)
            finally:
                self._waiting[change["alert"]] -= 1

    async def finish(self) -> None:
        """Wait for the deliveries, for no longer than one may take."""
        if self._tasks and (await asyncio.wait(self._tasks, timeout=self._seconds))[1]:
            self._say(f"{self._name}: not all were finished at the end")

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _complain(self, change: Change, what: str) -> None:
        self._say(f"{self._name} {what}: {change['alert']}, {change['state']}")
