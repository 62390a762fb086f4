"""What a test may ask of the event loop: to be idle, to be left as it was, to be counted; and
sources.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable


@asynccontextmanager
async def leaving_nothing() -> AsyncGenerator[None]:
    """Within it, no task may be started that is still there afterwards, once callbacks have run."""
    before = asyncio.all_tasks()
    yield
    await settle()
    assert asyncio.all_tasks() <= before


async def settle() -> None:
    """Let every task run until it waits for something else than the event loop."""
    for _ in range(20):
        await asyncio.sleep(0)


class LoopClock:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.turn = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.turn += 1
        self._handle = self._loop.call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()


class Source:
    """An asynchronous source of these items, and then of silence until `go_on`; it counts and
    cleans up.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self.asked = self.cleaned = 0
        self.go_on = asyncio.Event()
        self._items = items

    async def __call__(self) -> AsyncGenerator[Any]:
        try:
            for item in self._items:
                self.asked += 1
                yield item
            await self.go_on.wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned += 1
