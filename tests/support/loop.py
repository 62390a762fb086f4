"""What a test may ask of the event loop: to be idle, to be left as it was, to be counted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


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
