"""The state that both ends of a bounded map share."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

R = TypeVar("R")


Staged = list[tuple[int, R, int]]
"""Results, each with the place and the weight of its item."""


class Exchange(Generic[R]):
    """The state that the owner task and the iterator share: results, and the weight of items in progress.

    Attributes:
        limit: how many items may be on their way.
        admitted: how many are, by their weights.
        ready: results to be taken, with these weights.
    """

    def __init__(self, limit: int, ordered: bool, *, staged: bool = False) -> None:
        """With `staged`, results wait until they are published."""
        self.limit = limit
        self._ordered = ordered
        self._stages = staged
        self._staged: Staged[R] = []
        self.ready: deque[tuple[R, int]] = deque()
        self.error: BaseException | None = None
        self.finished = False
        self.abandoned = False
        self.admitted = 0
        self._places = 0
        self._next = 0
        self._early: dict[int, tuple[R | None, int]] = {}
        self._result = asyncio.Event()
        self._room = asyncio.Event()
        self._change = asyncio.Event()
        self._complete = False

    def admit(self, weight: int = 1) -> int:
        """Admit an item with a weight; return its place in the order."""
        self.admitted += weight
        self._places += 1
        return self._places - 1

    def add(self, result: R | None) -> None:
        """Admit an item whose result is already known."""
        if self._ordered or self._stages or self.abandoned:
            self.put(self.admit(), result)
        elif result is not None:
            self.admitted += 1
            self.ready.append((result, 1))
            self._result.set()

    def put(self, place: int, result: R | None, weight: int = 1) -> None:
        """Hand over the result of the item at `place`."""
        if result is not None and self._stages:
            self._staged.append((place, result, weight))
            self._change.set()
        else:
            self._publish(place, result, weight)

    def hand_out(self, result: R) -> None:
        """Hand over an additional result at once."""
        if not self.abandoned:
            self._release(result, 0)

    async def stage(self) -> Staged[R]:
        """Wait for staged results and return them all; empty at the end."""
        while not self._staged and not self._complete:
            self._change.clear()
            await self._change.wait()
        staged, self._staged = self._staged, []
        return staged

    def complete(self) -> None:
        """Note that nothing more will be staged."""
        self._complete = True
        self._change.set()

    def publish(self, staged: Staged[R], kept: Sequence[R | None]) -> None:
        """Make staged results available: those that are kept."""
        for (place, _, weight), result in zip(staged, kept, strict=True):
            self._publish(place, result, weight)

    def _publish(self, place: int, result: R | None, weight: int) -> None:
        if self.abandoned:
            return
        if not self._ordered:
            self._release(result, weight)
            return
        self._early[place] = result, weight
        while self._next in self._early:
            self._release(*self._early.pop(self._next))
            self._next += 1

    def _release(self, result: R | None, weight: int) -> None:
        if result is None:
            self.admitted -= weight
            self._room.set()
        else:
            self.ready.append((result, weight))
            self._result.set()

    def take(self) -> R | None:
        """Return a result if one is available, else None."""
        if not self.ready:
            return None
        result, weight = self.ready.popleft()
        self.admitted -= weight
        self._room.set()
        return result

    async def wait_for_result(self) -> None:
        self._result.clear()
        await self._result.wait()

    async def wait_for_room(self, weight: int = 1) -> None:
        """Wait until this weight can be admitted; with nothing else admitted, any weight can."""
        while self.admitted and self.admitted + weight > self.limit:
            self._room.clear()
            await self._room.wait()

    def fail(self, error: BaseException | None) -> None:
        """Remember the first exception; it is raised after the last result."""
        self.error = self.error or error

    def finish(self) -> None:
        self.finished = True
        self._result.set()

    def abandon(self) -> None:
        self.abandoned = True
        self.ready.clear()
        self.error = None
        self.finish()
