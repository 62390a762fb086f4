"""Whose turn it is to work, so that the event loop keeps turning."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Turns:
    """Admits tasks, those of the earliest result first, and only a few in each turn of the event loop.

    Thousands may come at once, one for each document of each record, each with a millisecond's work to do.
    """

    def __init__(self, a_turn: int, most: int = sys.maxsize) -> None:
        """Let in `a_turn` tasks in each turn of the loop, as long as no more than `most` are within."""
        self._a_turn = a_turn
        self._free = most
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = 0
        self._is_due = False

    @asynccontextmanager
    async def turn(self, order: int) -> AsyncGenerator[None]:
        """Within it, a task is admitted; those with the lowest `order` are first."""
        turn = asyncio.get_running_loop().create_future()
        self._numbers += 1
        heappush(self._waiting, (order, self._numbers, turn))
        self._start()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._free += 1
                self._start()

    def _start(self) -> None:
        if self._waiting and self._free and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        self._is_due = False
        admitted = 0
        while self._waiting and self._free and admitted < self._a_turn:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._free -= 1
                admitted += 1
        self._start()
