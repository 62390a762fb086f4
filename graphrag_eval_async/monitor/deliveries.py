"""Delivers what changes about alerts, without anybody waiting for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.monitor.alerts import Change

DELIVERY_SECONDS = 30.0
"""How long one delivery may take, and how long to wait for the last ones at the end."""

MAX_WAITING = 100
"""How many changes of one alert may wait for their delivery."""


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
        self._queues: dict[str, asyncio.Queue[Change]] = {}
        self._workers: list[asyncio.Task[None]] = []

    def add(self, change: Change) -> None:
        """Deliver a change soon; must be called on the event loop."""
        queue = self._queues.get(change["alert"])
        if queue is None:
            queue = self._queues[change["alert"]] = asyncio.Queue(MAX_WAITING)
            self._workers.append(asyncio.create_task(self._work_off(queue)))
        try:
            queue.put_nowait(change)
        except asyncio.QueueFull:
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")

    async def finish(self) -> None:
        """Wait for the deliveries, for no longer than one may take."""
        try:
            async with asyncio.timeout(self._seconds):
                for queue in self._queues.values():
                    await queue.join()
        except TimeoutError:
            self._say(f"{self._name}: not all were finished at the end")

    async def aclose(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work_off(self, queue: asyncio.Queue[Change]) -> None:
        while True:
            change = await queue.get()
            try:
                if (problem := await self._deliver(change)) is not None:
                    self._complain(change, problem)
            finally:
                queue.task_done()

    def _complain(self, change: Change, what: str) -> None:
        self._say(f"{self._name} {what}: {change['alert']}, {change['state']}")
