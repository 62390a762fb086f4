"""Schedules calls: a few per iteration of the event loop, and equal calls only once."""

from __future__ import annotations

import asyncio
import sys
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio import CancelScope

    from graphrag_eval_async.judge.call import Call
    from graphrag_eval_async.judge.usage import JudgeUsage


class Throttle:
    """Admits tasks, those of the earliest result first, and only a few per iteration of the event loop."""

    def __init__(self, per_iteration: int, limit: int = sys.maxsize) -> None:
        """Admit at most `per_iteration` tasks per iteration of the loop, and `limit` at a time."""
        self._per_iteration = self._left = per_iteration
        self._free = limit
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = 0
        self._is_scheduled = False

    async def turn(self, order: int) -> None:
        """Wait to be admitted, the lowest `order` first. With a `limit`, call `release` afterwards."""
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
                self.release()
            raise

    def release(self) -> None:
        self._free += 1
        self._start()

    def _take(self) -> None:
        self._free -= 1
        self._left -= 1

    def _start(self) -> None:
        if not self._is_scheduled and (
            self._left < self._per_iteration or (self._waiting and self._free > 0)
        ):
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        self._is_scheduled = False
        self._left = self._per_iteration
        while self._waiting and self._free > 0 and self._left:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._take()
        self._start()


class SingleFlight:
    """Calls in flight by key; `usage` counts the calls that an equal one answered."""

    def __init__(self, usage: JudgeUsage) -> None:
        self._usage = usage
        self._running: dict[bytes, Call] = {}

    async def call(self, call: Call, scope: CancelScope, make: Callable[[Call], Awaitable[Any]]) -> Any:
        """Return or raise the outcome of `make`, or of an equal call already in flight.

        `make` calls `Call.sent` when it sends a request. If the task that makes the call is cancelled, a
        waiting task repeats the call.
        """
        while (running := self._running.get(call.key)) is not None:
            with running.joined(scope):
                await asyncio.wait([running.outcome])
            if not running.outcome.cancelled():
                self._usage.shared_calls += 1
                value, error = running.outcome.result()
                if error is not None:
                    raise error.with_traceback(None)
                return value
        self._running[call.key] = call
        try:
            with call.joined(scope):
                value = await make(call)
            call.outcome.set_result((value, None))
            return value
        except JudgeError as error:
            call.outcome.set_result((None, error))
            raise
        finally:
            del self._running[call.key]
            call.outcome.cancel()  # If unfinished, wake the waiting tasks to try again.
