"""A bounded, cancel-safe map over an asynchronous source; it knows nothing of evaluation."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from functools import partial
from math import inf
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from graphrag_eval_async.threads import CLOSING_SECONDS, SLICE_SECONDS, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from graphrag_eval_async.sources import Source
    from graphrag_eval_async.stream.until import UntilDecided

    Work: TypeAlias = "partial[Coroutine[Any, Any, R | None]]"
    Outcome: TypeAlias = "R | Work[R] | None"
    Function: TypeAlias = "Callable[[Any], Outcome[R] | Coroutine[Any, Any, Outcome[R]]]"
    Commit: TypeAlias = "Callable[[Sequence[R]], Awaitable[Sequence[R | None]]]"

R = TypeVar("R")

HANDED_OVER = 20
"""Results handed over at once; more would live long enough to burden the garbage collector."""


class BoundedMap(Generic[R]):
    """Maps `function` over the items of `source`, as an asynchronous iterator.

    The function returns its result; None for none; a `partial` for work in a task of its own; or a
    coroutine for one of these, which is awaited before the next item. The partial is called with a
    function that hands out one more result at once, regardless of the order.

    Results come as they complete, or in the order of their items if `ordered`; then `until` sees
    them and may end all work. At most `limit` items are admitted and not yet handed out, so a slow
    consumer stops the reading, too. If the source or the function raises, what was admitted before
    comes out first, then the exception. Complete results come out once `commit` returns them; it
    has None in place of those that do not come out. If it raises, all work ends. However it ends,
    `finish` is awaited once all work is done.

    One owner task reads and works. `__anext__` only waits, so a cancelled one loses nothing;
    `aclose` may come from any task. Whoever drops the map without `aclose` calls `drop`.

    Attributes:
        in_flight: number of items that are admitted and not yet handed out.
        is_exhausted: whether the source was read to its end, and nobody asked to stop.
    """

    def __init__(
        self,
        source: Source | AsyncGenerator[Sequence[Any]],
        function: Function[R],
        *,
        limit: int,
        ordered: bool = False,
        until: UntilDecided | None = None,
        commit: Commit[R] | None = None,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._source, self._function, self._limit, self._ordered = source, function, limit, ordered
        self._until: Any = until
        self._commit, self._finish = commit, finish
        self.in_flight = self._places = self._next = 0
        self.is_exhausted = self._stopped = self._aborted = self._closed = self._finished = False
        self._ready: deque[R] = deque()
        self._early: dict[int, R | None] = {}
        self._staged: list[R] = []
        self._error: BaseException | None = None
        self._owner: asyncio.Task[None] | None = None
        self._reading: asyncio.Timeout | None = None
        self._workers: set[asyncio.Task[R | None]] = set()
        self._committing: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def state(self) -> str:
        """Whether it is "not started", "running" or "ended"."""
        return "ended" if self._finished else "not started" if self._owner is None else "running"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            if self._finished and self._owner is not None:
                await asyncio.wait([self._owner])
                self._owner.result()
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            if self._owner is None:
                self._owner = asyncio.create_task(self._run(), name="graphrag-eval-async")
            await self._wait(lambda: self._ready or self._finished)
        return cast("R", self.pop())

    def pop(self) -> R | None:
        """Return a result that is there already, or None."""
        if not self._ready:
            return None
        self.in_flight -= 1
        if self._waiters:
            self._wake()
        return self._ready.popleft()

    def stop(self) -> None:
        """End the reading; what was admitted comes out."""
        if self._reading is not None and not self._stopped:
            self._reading.reschedule(-inf)
        self._stopped = True

    def abort(self, error: BaseException | None) -> None:
        """End all work; what is complete comes out, and then the exception, unless it is None."""
        self._error = self._error or error
        self._aborted = True
        self.stop()
        for worker in self._workers:
            worker.cancel()

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        self._abandon()
        if self._owner is None:
            await self._source.aclose()
        elif self._owner is not asyncio.current_task():
            await outlast(self._owner, CLOSING_SECONDS)

    def drop(self) -> None:
        """End all work soon; safe to call from any thread."""
        if self._owner is not None and not (loop := self._owner.get_loop()).is_closed():
            loop.call_soon_threadsafe(self._abandon)

    def _abandon(self) -> None:
        self._closed = self._finished = True
        self._ready.clear()
        self.abort(None)
        self._wake()

    async def _wait(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds; it is looked at each time that anything changes."""
        while not condition():
            self._waiters.append(waiter := asyncio.get_running_loop().create_future())
            await waiter

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _run(self) -> None:
        try:
            await self._read()
            await self._work_off()
        finally:
            self.abort(None)
            try:
                await self._work_off()
                if self._committing is not None:  # Complete results have been paid for.
                    await asyncio.wait([self._committing])
                if self._finish is not None:
                    await self._finish()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self._error = self._error or error
            finally:
                self._finished = True
                self._wake()

    async def _work_off(self) -> None:
        while self._workers:
            await asyncio.wait(self._workers)

    async def _read(self) -> None:
        try:
            async with aclosing(self._source) as source:
                try:
                    if not self._stopped:
                        # `stop` ends its time. Unlike a cancel scope, that lets the source clean
                        # up.
                        async with asyncio.timeout(None) as self._reading:
                            await self._admit(source)
                        self.is_exhausted = not self._stopped
                except TimeoutError:
                    if not self._stopped:
                        raise
                finally:
                    self._reading = None
        except (Exception, asyncio.CancelledError) as error:
            if (
                isinstance(error, asyncio.CancelledError)
                and self._owner
                and self._owner.cancelling()
            ):
                raise
            self._fail(error)

    async def _admit(self, source: Source | AsyncGenerator[Sequence[Any]]) -> None:  # noqa: C901  (each response passes here)
        function, ready, limit = self._function, self._ready, self._limit
        is_direct = not self._ordered and self._commit is None
        due = monotonic() + SLICE_SECONDS
        async for items in source:
            for item in items:
                if self._stopped:  # Reading that never waits is not cancelled.
                    return
                outcome: Any = function(item)
                if type(outcome) is CoroutineType:
                    outcome = await outcome
                if type(outcome) is partial:
                    self._start(outcome)
                elif not is_direct:
                    self.in_flight += 1
                    self._places += 1
                    self._put(self._places, outcome)
                elif outcome is not None:
                    self.in_flight += 1
                    ready.append(outcome)
                    if self._waiters:
                        self._wake()
                if len(ready) >= HANDED_OVER or self.in_flight >= limit or monotonic() >= due:
                    due = await self._pause()
            if monotonic() >= due:
                due = await self._pause()

    async def _pause(self) -> float:
        """Yield to other tasks and wait for room; return the time of the next pause."""
        await asyncio.sleep(0)
        await self._wait(lambda: self.in_flight < self._limit)
        return monotonic() + SLICE_SECONDS

    def _start(self, work: Work[R]) -> None:
        self.in_flight += 1
        self._places += 1
        worker = asyncio.create_task(work(self._hand_out))
        self._workers.add(worker)
        worker.add_done_callback(partial(self._complete, self._places))

    def _hand_out(self, result: R) -> None:
        if not self._closed:
            self.in_flight += 1
            self._ready.append(result)
            self._wake()

    def _complete(self, place: int, worker: asyncio.Task[R | None]) -> None:
        self._workers.remove(worker)
        result = None
        if worker.cancelled():
            if not self._aborted:  # Nobody has asked for it.
                self._fail(asyncio.CancelledError())
        elif (error := worker.exception()) is not None:
            self._fail(error)
        else:
            result = worker.result()
        self._put(place, result)

    def _put(self, place: int, result: R | None) -> None:
        """Pass on the result of the item at `place`; if `ordered`, once those of all items
        before it are.
        """
        if not self._ordered:
            self._stage(result)
        else:
            self._early[place] = result
            while self._next + 1 in self._early:
                self._next += 1
                self._stage(self._count(self._early.pop(self._next)))
        self._wake()

    def _count(self, result: R | None) -> R | None:
        if self._until is not None:
            result = self._until.count(result, failed=self._error is not None)
            if self._until.is_over and not self._aborted:
                self.abort(None)
        return result

    def _stage(self, result: R | None) -> None:
        if result is None or self._commit is None:
            self._publish(result)
        else:
            self._staged.append(result)
            if self._committing is None:
                self._committing = asyncio.create_task(self._commit_all(self._commit))

    def _publish(self, result: R | None) -> None:
        if result is None:
            self.in_flight -= 1
        elif not self._closed:
            self._ready.append(result)

    async def _commit_all(self, commit: Commit[R]) -> None:
        try:
            while staged := self._staged:
                self._staged = []
                for result in await commit(staged):
                    self._publish(result)
                self._wake()
            self._committing = None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self.abort(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()
