"""A bounded, cancel-safe map over an asynchronous source; it knows nothing of evaluation."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from math import inf
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

import anyio

from graphrag_eval_async.threads import CLOSING_SECONDS, SLICE_SECONDS, first_of, is_cancelled, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    Call: TypeAlias = "Callable[[Callable[[R], None]], Awaitable[R | Later[R] | None]]"
    Outcome: TypeAlias = "R | Later[R] | None"
    Function: TypeAlias = "Callable[[T], Outcome[R] | Coroutine[Any, Any, Outcome[R]]]"
    Commit: TypeAlias = "Callable[[Sequence[R]], Awaitable[Sequence[R | None]]]"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

HANDED_OVER = 20
"""Results handed over at once; more would live long enough to burden the garbage collector."""


class Source(Protocol[T_co]):
    """Yields batches of the items that are available; `aclose` drops all others."""

    def __aiter__(self) -> AsyncIterator[Sequence[T_co]]: ...
    async def aclose(self) -> None: ...


class Later(Generic[R]):
    """A result that takes time.

    `call` is given a function that hands out a result at once, before the one that it returns, regardless of
    the order. It may return another `Later` instead of the result.
    """

    __slots__ = ("call",)

    def __init__(self, call: Call[R]) -> None:
        self.call = call


class Until(Protocol[R]):
    """Sees the results of an ordered map before they come out, and says when there are enough."""

    @property
    def is_over(self) -> bool:
        """Whether all work is to end."""

    def take(self, result: R | None, *, failed: bool) -> R | None:
        """Return what comes out in place of the next result; `failed` if work has raised an exception."""


class BoundedMap(Generic[R]):
    """Maps `function` over the items of `source`, as an asynchronous iterator.

    The function returns its result, None for none, a `Later`, or a coroutine that returns one of these and is
    awaited before the next item; only a `Later` costs a task. Results come as they complete, or in the order
    of their items if `ordered`, in which `until` takes them and may end all work. At most `limit` items are
    admitted and not yet handed out, so a slow consumer stops the reading, too. An exception
    of the source or the function ends the reading; what was admitted before comes out first, then the
    exception. However it ends, `finish` is awaited once all work is done.

    `commit` is awaited with results as they complete, all those that have, before any of them comes out. It
    returns them, with None in place of those that do not come out. Once it raises, no more results come out,
    and all work is cancelled.

    One owner task reads and works. `__anext__` only waits, so a cancelled one loses nothing; `aclose` may
    come from any task. An iterator that is dropped without `aclose` cancels its owner.

    Attributes:
        take: returns a result that is there already, or None.
        stop: ends the reading; what was admitted comes out.
        abort: ends all work; what is complete comes out, and then the exception, unless it is None.
    """

    def __init__(
        self,
        source: Source[T],
        function: Function[T, R],
        *,
        limit: int,
        ordered: bool = False,
        until: Until[R] | None = None,
        commit: Commit[R] | None = None,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._owner: _Owner[R] = _Owner(source, function, limit, ordered, until, commit, finish)
        self.take, self.stop, self.abort = self._owner.take, self._owner.stop, self._owner.abort

    @property
    def in_flight(self) -> int:
        """Number of items that are admitted and not yet handed out."""
        return self._owner.admitted

    @property
    def state(self) -> str:
        """Whether it is "not started", "running" or "ended"."""
        if self._owner.finished:
            return "ended"
        return "not started" if self._owner.task is None else "running"

    @property
    def is_exhausted(self) -> bool:
        """Whether the source was read to its end, and nobody asked to stop."""
        return self._owner.read_all and not self._owner.stopped

    def __aiter__(self) -> BoundedMap[R]:
        return self

    async def __anext__(self) -> R:
        owner = self._owner
        del self  # The traceback of a cancellation, kept by anyone, must not keep the work going.
        while not owner.ready:
            if owner.finished:
                if owner.task is not None and not owner.abandoned:
                    await asyncio.wait([owner.task])
                    owner.task.result()
                error, owner.error = owner.error, None
                raise error or StopAsyncIteration
            if owner.task is None:
                owner.task = asyncio.create_task(owner.run(), name="graphrag-eval-async")
            await owner.wait(lambda: owner.ready or owner.finished)
        return cast("R", owner.take())

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        owner = self._owner
        owner.abandon()
        if (task := owner.task) is None:
            await owner.source.aclose()
        elif not task.done():
            # Another cancellation, or one after `stop`, would cut short the source's own clean-up.
            if not task.cancelling() and not owner.is_closing_source:
                task.cancel()
            if task is not asyncio.current_task():
                await outlast(task, CLOSING_SECONDS)

    def __del__(self) -> None:
        task = self._owner.task
        if task is not None and not task.done() and not (loop := task.get_loop()).is_closed():
            loop.call_soon_threadsafe(task.cancel)


class _Owner(Generic[R]):
    """The task that reads, works and commits, and what it shares with the iterator, which it does not know.

    Attributes:
        ready: results to be taken.
        admitted: number of items that are admitted and not yet taken.
        finished: whether no more results will be added to `ready`.
        abandoned: whether nobody wants results any more.
        is_closing_source: whether the reading has ended, but not yet the source's clean-up.
    """

    def __init__(
        self,
        source: Source[Any],
        function: Function[Any, R],
        limit: int,
        ordered: bool,
        until: Until[R] | None,
        commit: Commit[R] | None,
        finish: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.source = source
        self._function, self._limit, self._ordered = function, limit, ordered
        self._until, self._commit, self._finish = until, commit, finish
        self.task: asyncio.Task[None] | None = None
        self.ready: deque[R] = deque()
        self.error: BaseException | None = None
        self.finished = self.abandoned = self.stopped = self.read_all = self.is_closing_source = False
        self._aborted = self._complete = False
        self.admitted = self._places = self._next = 0
        self._early: dict[int, R | None] = {}
        self._staged: list[R] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._reading: asyncio.Timeout | None = None

    async def wait(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds; it is looked at each time that anything changes."""
        while not condition():
            self._waiters.append(waiter := asyncio.get_running_loop().create_future())
            await waiter

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def take(self) -> R | None:
        if not self.ready:
            return None
        result = self.ready.popleft()
        self.admitted -= 1
        if self._waiters:
            self._wake()
        return result

    def stop(self) -> None:
        if self._reading is not None and not self.stopped:
            self._reading.reschedule(-inf)
        self.stopped = True

    def abort(self, error: BaseException | None) -> None:
        self.error = self.error or error
        self._aborted = True
        self.stop()
        if self.read_all:
            self._workers.cancel_scope.cancel()

    def abandon(self) -> None:
        self.abandoned = self.finished = True
        self.ready.clear()
        self.error = None
        self._wake()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as committing:
                if self._commit is not None:
                    committing.start_soon(self._commit_all, self._commit)
                try:
                    await self._work()
                finally:
                    if self._until is None:  # What waits for its turn has been paid for, too.
                        for place in sorted(self._early):
                            self._stage(self._early[place])
                    self._complete = True
                    self._wake()
        except BaseExceptionGroup as group:  # SystemExit and its like; all others are kept for the consumer.
            raise first_of(group) from None
        finally:
            try:
                if self._finish is not None:
                    with anyio.CancelScope(shield=True):
                        await self._finish()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self.error = self.error or error
            finally:
                self.finished = True
                self._wake()

    async def _work(self) -> None:
        async with anyio.create_task_group() as self._workers:
            await self._read()
            self.read_all = True
            # A cancellation may be lost to an error in the clean-up of the source, or spare it.
            if is_cancelled() or self._aborted or self.abandoned:
                self._workers.cancel_scope.cancel()

    async def _read(self) -> None:
        try:
            async with aclosing(self.source) as source:
                try:
                    if not self.stopped:
                        # `stop` ends its time. Unlike a cancel scope, that lets the source clean up.
                        async with asyncio.timeout(None) as self._reading:
                            await self._admit(source)
                except TimeoutError:
                    if not self.stopped:
                        raise
                finally:
                    self._reading, self.is_closing_source = None, True
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)
        finally:
            self.is_closing_source = False

    async def _admit(self, source: Source[Any]) -> None:  # noqa: C901  (each response passes here)
        function, ready, limit = self._function, self.ready, self._limit
        is_direct = not self._ordered and self._commit is None
        due = monotonic() + SLICE_SECONDS
        async for items in source:
            for item in items:
                if self.stopped:  # Reading that never waits is not cancelled.
                    return
                outcome = function(item)
                if type(outcome) is CoroutineType:
                    outcome = await outcome
                if type(outcome) is Later:
                    self.admitted += 1
                    self._workers.start_soon(self._wait_for, self._places, outcome)
                    self._places += 1
                elif is_direct and not self.abandoned:
                    if outcome is not None:
                        self.admitted += 1
                        ready.append(outcome)  # type: ignore[arg-type]
                        if self._waiters:
                            self._wake()
                else:
                    self.admitted += 1
                    self._put(self._places, outcome)  # type: ignore[arg-type]
                    self._places += 1
                if len(ready) >= HANDED_OVER or self.admitted >= limit or monotonic() >= due:
                    due = await self._pause()
            if monotonic() >= due:
                due = await self._pause()

    async def _pause(self) -> float:
        """Yield to other tasks and wait for room; return the time of the next pause."""
        await asyncio.sleep(0)
        await self.wait(lambda: self.admitted < self._limit)
        return monotonic() + SLICE_SECONDS

    async def _wait_for(self, place: int, later: Later[R]) -> None:
        result = None
        try:
            outcome: Any = later
            while type(outcome) is Later:
                outcome = await outcome.call(self._hand_out)
            result = outcome
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)
            self.stop()
        finally:
            self._put(place, result)

    def _hand_out(self, result: R) -> None:
        if not self.abandoned:
            self.admitted += 1
            self.ready.append(result)
            self._wake()

    def _put(self, place: int, result: R | None) -> None:
        """Pass on the result of the item at `place`; if `ordered`, once those of all items before it are."""
        if not self._ordered:
            self._stage(result)
        else:
            self._early[place] = result
            while self._next in self._early:
                result = self._early.pop(self._next)
                self._next += 1
                self._stage(result if self._until is None else self._take_turn(self._until, result))
        self._wake()

    def _take_turn(self, until: Until[R], result: R | None) -> R | None:
        try:
            result = until.take(result, failed=self.error is not None)
        except Exception as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)
            self.stop()
            return None
        if until.is_over and not self._aborted:
            self.abort(None)
        return result

    def _stage(self, result: R | None) -> None:
        if result is not None and self._commit is not None:
            self._staged.append(result)
        else:
            self._publish(result)

    def _publish(self, result: R | None) -> None:
        if self.abandoned:
            return
        if result is None:
            self.admitted -= 1
        else:
            self.ready.append(result)

    async def _commit_all(self, commit: Commit[R]) -> None:
        """Commit and publish complete results, even when cancelled: they have been paid for."""
        with anyio.CancelScope(shield=True):
            try:
                while True:
                    await self.wait(lambda: self._staged or self._complete)
                    if not (staged := self._staged):
                        return
                    self._staged = []
                    for result in await commit(staged):
                        self._publish(result)
                    self._wake()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self.abort(error)

    def _fail(self, error: Exception | asyncio.CancelledError) -> None:
        """Pass on an error, or the unrequested cancellation of a task."""
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise error
        self.error = self.error or error
