"""Reads ahead of a consumer and maps what was read; it knows nothing of evaluation."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from functools import partial
from math import inf
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

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


class ReadAhead(Generic[R]):
    """Maps `function` over the items of `source`, as an asynchronous iterator of results.

    One owner task reads up to `limit` items ahead of what was handed out, so a slow consumer stops
    the reading, too. An item is mapped when a result is asked for, by whoever asks: a result that
    is there at once needs no hand-over between tasks. An item that `must_start` is mapped by the
    owner as soon as it and all items before it are read, whether or not anybody asks.

    `function` returns the result of an item; None for none; or a `partial` for work in a task of
    its own. For an item that must start, it may also return a coroutine for one of these, which is
    awaited before the next item is mapped. The partial is called with a function that hands out one
    more result at once, regardless of the order.

    Results come as they complete, or in the order of their items if `ordered`; then `until` sees
    them and may end all work. Complete results come out once `commit` returns them; it has None in
    place of those that do not come out. If it raises, all work ends.

    If the source or the function raises, the results of all items before come out first, then the
    exception. However it ends, `finish` is awaited once all work is done.

    Nothing but `__anext__`, `aclose` and the owner waits, so a cancelled `__anext__` loses nothing;
    `aclose` may come from any task. Whoever drops the iterator without `aclose` calls `drop`.

    Attributes:
        in_flight: number of items that are read and not yet handed out.
        is_exhausted: whether the source was read to its end, nobody asked to stop, and nothing
            failed.
    """

    def __init__(
        self,
        source: Source | AsyncGenerator[Sequence[Any]],
        function: Function[R],
        *,
        limit: int,
        must_start: Callable[[Any], bool] = lambda _: False,
        ordered: bool = False,
        until: UntilDecided | None = None,
        commit: Commit[R] | None = None,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._source = source
        self._function = function
        self._limit = limit
        self._must_start = must_start
        self._until: Any = until
        self._finish = finish

        # An item goes from `_unmapped` to `_workers` if it needs a task; then its result waits in
        # `_order` and `_commits`, if there are any, and at last in `_ready`.
        self._unmapped: deque[Any] = deque()
        self._workers: set[asyncio.Task[R | None]] = set()
        self._ready: deque[R] = deque()
        self._commits = (
            None if commit is None else _Commits(commit, publish=self._publish, fail=self._abort)
        )
        self._order = _Order(self._deliver_in_order) if ordered else None
        self._place = 0  # Number of the item that was mapped last.
        self.in_flight = 0

        self._owner: asyncio.Task[None] | None = None
        self._reading: asyncio.Timeout | None = None
        self._waiters: list[asyncio.Future[None]] = []
        # Raised once all results before it are handed out.
        self._error: BaseException | None = None
        self._is_stopped = False  # Nothing more is read.
        self._is_aborted = False  # Nothing more is worked on.
        self._is_closed = False  # Nothing more comes out.
        self._is_finished = False  # The owner has ended.
        self.is_exhausted = False
        self._slice_end = 0.0

    @property
    def state(self) -> str:
        """Whether it is "not started", "running" or "ended"."""
        if self._is_finished:
            return "ended"
        return "not started" if self._owner is None else "running"

    # What the consumer calls

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        while (result := self.take()) is None:
            if self._ready or self._unmapped:
                await asyncio.sleep(0)
                self._slice_end = monotonic() + SLICE_SECONDS
                continue
            if self._is_closed:
                raise StopAsyncIteration
            if self._is_finished and self._owner is not None:
                await asyncio.wait([self._owner])
                self._owner.result()
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            if self._owner is None:
                self._owner = asyncio.create_task(self._run(), name="graphrag-eval-async")
            await self._wait(lambda: self._ready or self._unmapped or self._is_finished)
            self._slice_end = monotonic() + SLICE_SECONDS
        return result

    def take(self) -> R | None:
        """Return a result that is ready, or that an item read ahead has at once.

        Return None if there is none, or if other tasks are to run first.
        """
        if self._is_slice_over():
            return None
        while not self._ready:
            if not self._unmapped:
                return None
            self._map_next()
            if not self._ready and self._is_slice_over():
                return None
        self.in_flight -= 1
        if self._waiters:
            self._wake()
        return self._ready.popleft()

    def _is_slice_over(self) -> bool:
        """Return whether results were taken for so long that other tasks are to run."""
        return monotonic() >= self._slice_end

    def stop(self) -> None:
        """End the reading; the results of what was read come out."""
        if self._reading is not None and not self._is_stopped:
            self._reading.reschedule(-inf)
        self._is_stopped = True

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
        self._is_closed = self._is_finished = True
        self._ready.clear()
        self._abort(None)
        self._wake()

    # What the owner does

    async def _run(self) -> None:
        try:
            await self._read()
            await self._work_off()
        finally:
            self._abort(None)
            try:
                try:
                    await self._work_off()
                    if self._commits is not None:
                        await self._commits.wait()
                finally:
                    # Also if the end of the event loop cancels the waiting: it releases locks.
                    if self._finish is not None:
                        await self._finish()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self._note(error)
            finally:
                self._is_finished = True
                self._wake()

    async def _work_off(self) -> None:
        """Wait until all that was read is mapped, and all work is done."""
        while self._workers or self._unmapped:
            if self._workers:
                await asyncio.wait(self._workers)
            else:
                await self._wait(lambda: self._workers or not self._unmapped)

    async def _read(self) -> None:
        try:
            async with aclosing(self._source) as source:
                try:
                    if not self._is_stopped:
                        # `stop` ends its time. Unlike a cancel scope, that lets the source clean
                        # up.
                        async with asyncio.timeout(None) as self._reading:
                            await self._admit(source)
                        self.is_exhausted = not self._is_stopped
                except TimeoutError:
                    if not self._is_stopped:
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

    async def _admit(self, source: Source | AsyncGenerator[Sequence[Any]]) -> None:
        """Read items as long as there is room for them."""
        slice_end = monotonic() + SLICE_SECONDS
        async for items in source:
            for item in items:
                if self._is_stopped:  # Reading that never waits is not cancelled.
                    return
                self.in_flight += 1
                if self._must_start(item):
                    await self._map_now(item)
                else:
                    self._unmapped.append(item)
                    if self._waiters:
                        self._wake()
                if self.in_flight >= self._limit or monotonic() >= slice_end:
                    await asyncio.sleep(0)
                    await self._wait(lambda: self.in_flight < self._limit)
                    slice_end = monotonic() + SLICE_SECONDS

    # How an item becomes a result

    def _map_next(self) -> None:
        """Map the item that was read first."""
        item = self._unmapped.popleft()
        try:
            outcome: Any = self._function(item)
        except Exception as error:  # noqa: BLE001  (the consumer gets it, after the results before it)
            self.in_flight -= 1
            self._forget_unmapped()
            self._fail(error)
        else:
            self._put_outcome(outcome)

    async def _map_now(self, item: Any) -> None:
        """Map an item, after those that were read before it."""
        slice_end = monotonic() + SLICE_SECONDS
        while self._unmapped:
            self._map_next()
            if monotonic() >= slice_end:
                await asyncio.sleep(0)
                slice_end = monotonic() + SLICE_SECONDS
        if self._is_stopped:
            self.in_flight -= 1
            return

        try:
            outcome: Any = self._function(item)
            if type(outcome) is CoroutineType:
                outcome = await outcome
        except BaseException:
            self.in_flight -= 1
            raise
        self._put_outcome(outcome)

    def _put_outcome(self, outcome: Any) -> None:
        """Pass on the result of the next item, or start the work for it."""
        self._place += 1
        if type(outcome) is partial:
            worker = asyncio.create_task(outcome(self._hand_out))
            self._workers.add(worker)
            worker.add_done_callback(partial(self._complete, self._place))
        else:
            self._put(self._place, outcome)

    def _complete(self, place: int, worker: asyncio.Task[R | None]) -> None:
        self._workers.remove(worker)
        result = None
        if worker.cancelled():
            if not self._is_aborted:  # Nobody has asked for it.
                self._fail(asyncio.CancelledError())
        elif (error := worker.exception()) is not None:
            self._fail(error)
        else:
            result = worker.result()
        self._put(place, result)

    def _put(self, place: int, result: R | None) -> None:
        """Pass on the result of the item at `place`; None for an item without one."""
        if self._order is not None:
            self._order.put(place, result)
        else:
            self._deliver(result)
        if self._waiters:
            self._wake()

    def _deliver_in_order(self, result: R | None) -> None:
        if self._until is not None:
            result = self._until.count(result, failed=self._error is not None)
            if self._until.is_over and not self._is_aborted:
                self._abort(None)
        self._deliver(result)

    def _deliver(self, result: R | None) -> None:
        if self._commits is not None and result is not None:
            self._commits.add(result)
        else:
            self._publish(result)

    def _publish(self, result: R | None) -> None:
        if result is None:
            self.in_flight -= 1
        elif not self._is_closed:
            self._ready.append(result)
        if self._waiters:
            self._wake()

    def _hand_out(self, result: R) -> None:
        """Hand out a result that an item has in addition to its own."""
        if not self._is_closed:
            self.in_flight += 1
            self._publish(result)

    def _fail(self, error: BaseException) -> None:
        """Read nothing more; raise the error once the results of what was read have come out."""
        self._note(error)
        self.stop()

    def _abort(self, error: BaseException | None) -> None:
        """End all work; what is complete comes out, and then the exception, unless it is None."""
        self._note(error)
        self._is_aborted = True
        self._forget_unmapped()
        self.stop()
        for worker in self._workers:
            worker.cancel()

    def _note(self, error: BaseException | None) -> None:
        """Keep the first error, to be raised once all results before it are handed out."""
        if error is not None:
            self._error = self._error or error
            self.is_exhausted = False

    def _forget_unmapped(self) -> None:
        """Drop what was read and not mapped; the owner may be waiting for it."""
        self.in_flight -= len(self._unmapped)
        self._unmapped.clear()
        self._wake()

    # How tasks wait for each other

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


class _Order(Generic[R]):
    """Holds back the results of items until those of all items before them are there."""

    def __init__(self, deliver: Callable[[R | None], None]) -> None:
        self._deliver = deliver
        self._early: dict[int, R | None] = {}  # By the place of the item.
        self._delivered = 0  # Place of the last item whose result was delivered.

    def put(self, place: int, result: R | None) -> None:
        self._early[place] = result
        while self._delivered + 1 in self._early:
            self._delivered += 1
            self._deliver(self._early.pop(self._delivered))


class _Commits(Generic[R]):
    """Commits complete results before they are published, all that are there at a time."""

    def __init__(
        self,
        commit: Commit[R],
        *,
        publish: Callable[[R | None], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._commit, self._publish, self._fail = commit, publish, fail
        self._uncommitted: list[R] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, result: R) -> None:
        self._uncommitted.append(result)
        if self._task is None:
            self._task = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        try:
            while results := self._uncommitted:
                self._uncommitted = []
                for result in await self._commit(results):
                    self._publish(result)
            self._task = None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)

    async def wait(self) -> None:
        """Wait for the last commit: complete results have been paid for."""
        if self._task is not None:
            await asyncio.wait([self._task])
