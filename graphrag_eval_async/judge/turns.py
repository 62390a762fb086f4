"""Whose turn it is to work, so that the event loop keeps turning."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Turns:
    """Admits tasks, those of the earliest result first, and only a few in each turn of the event loop.

    Thousands may come at once, one for each document of each record, each with a millisecond's work to do.
    """

    def __init__(self, a_turn: int, most: int = sys.maxsize) -> None:
        """Let in `a_turn` tasks in each turn of the loop, as long as no more than `most` are within."""
        self._a_turn = self._left = a_turn
        self._free = most
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = 0
        self._is_due = False

    async def enter(self, order: int) -> None:
        """Wait to be admitted, those with the lowest `order` first. Where `most` matters, `leave` later."""
        if self._left and self._free > 0 and not self._waiting:
            self._take()
            self._start()
            return
        turn = asyncio.get_running_loop().create_future()
        self._numbers += 1
        heappush(self._waiting, (order, self._numbers, turn))
        self._start()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Make room for another."""
        self._free += 1
        self._start()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within it, one who was admitted makes room for another; afterwards nobody has to go for it."""
        self.leave()
        try:
            yield
        finally:
            self._free -= 1

    def _take(self) -> None:
        self._free -= 1
        self._left -= 1

    def _start(self) -> None:
        if not self._is_due and (self._left < self._a_turn or (self._waiting and self._free > 0)):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        self._is_due = False
        self._left = self._a_turn
        while self._waiting and self._free > 0 and self._left:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._take()
        self._start()
