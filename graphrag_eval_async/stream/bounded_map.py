"""A bounded, cancel-safe map over an asynchronous source; it knows nothing of evaluation."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

import anyio

from graphrag_eval_async.stream.exchange import Exchange
from graphrag_eval_async.threads import CLOSING_SECONDS, SLICE_SECONDS, first_of, is_cancelled, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    Call: TypeAlias = "Callable[[Callable[[R], None]], Awaitable[R | Later[R] | None]]"

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
    """A result that takes time; it counts as `weight` items until it is handed out.

    `call` is given a function that hands out a result at once, before the one that it returns, regardless of
    the order. It may return another `Later`, of another weight, instead of the result.
    """

    __slots__ = ("call", "weight")

    def __init__(self, call: Call[R], *, weight: int = 1) -> None:
        self.call = call
        self.weight = weight


class Unread(Generic[R]):
    """An item that takes long to read: the source waits for room for its weight, and then for `call`."""

    __slots__ = ("call", "weight")

    def __init__(self, call: Callable[[], Awaitable[R | Later[R] | None]], *, weight: int = 1) -> None:
        self.call = call
        self.weight = weight


class BoundedMap(Generic[R]):
    """Maps `function` over the items of `source`, as an asynchronous iterator.

    The function returns its result, None for none, a `Later` or, before any of these, an `Unread`; only a
    `Later` costs a task. Results come as they complete, or in the order of their items if `ordered`. At most
    `limit` items are admitted and not yet handed out, so a slow consumer stops the reading, too. An exception
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
        function: Callable[[T], R | Later[R] | Unread[R] | None],
        *,
        limit: int,
        ordered: bool = False,
        commit: Callable[[Sequence[R]], Awaitable[Sequence[R | None]]] | None = None,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._exchange: Exchange[R] = Exchange(limit, ordered, staged=commit is not None)
        self._source = source
        work = _Work(self._exchange, function, source, commit, finish)
        self._run = work.run
        self.take = self._exchange.take
        self.stop = work.stop
        self.is_exhausted = work.is_exhausted
        self.abort = work.abort
        self._is_closing_source = work.is_closing_source
        self._owner: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        """Total weight of items that are admitted and not yet handed out."""
        return self._exchange.admitted

    @property
    def state(self) -> str:
        """Whether it is "not started", "running" or "ended"."""
        if self._exchange.finished:
            return "ended"
        return "not started" if self._owner is None else "running"

    def __aiter__(self) -> BoundedMap[R]:
        return self

    async def __anext__(self) -> R:
        exchange = self._exchange
        try:
            while not exchange.ready:
                if exchange.finished:
                    await self._end()
                if self._owner is None:
                    self._owner = asyncio.create_task(self._run(), name="graphrag-eval-async")
                await exchange.wait_for_result()
        finally:
            del self  # The traceback of a cancellation, kept by anyone, must not keep the work going.
        return cast("R", exchange.take())

    async def _end(self) -> NoReturn:
        owner, exchange = self._owner, self._exchange
        if owner is not None and not exchange.abandoned:
            await asyncio.wait([owner])
            owner.result()
        error, exchange.error = exchange.error, None
        raise error or StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        self._exchange.abandon()
        owner = self._owner
        if owner is None:
            await self._source.aclose()
            return
        if owner.done():
            return
        # Another cancellation, or one after `stop`, would cut short the source's own clean-up.
        if not owner.cancelling() and not self._is_closing_source():
            owner.cancel()
        if owner is not asyncio.current_task():
            await outlast(owner, CLOSING_SECONDS)

    def __del__(self) -> None:
        owner = self._owner
        if owner is not None and not owner.done() and not (loop := owner.get_loop()).is_closed():
            loop.call_soon_threadsafe(owner.cancel)


class _Work(Generic[T, R]):
    """The work of the owner task, which holds the task group and does not know the iterator."""

    def __init__(
        self,
        exchange: Exchange[R],
        function: Callable[[T], R | Later[R] | Unread[R] | None],
        source: Source[T],
        commit: Callable[[Sequence[R]], Awaitable[Sequence[R | None]]] | None,
        finish: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._exchange = exchange
        self._function = function
        self._source = source
        self._commit = commit
        self._finish = finish
        self._stopped = self._aborted = self._read_all = self._is_closing = False
        self._reading: asyncio.Timeout | None = None

    def stop(self) -> None:
        if self._reading is not None and not self._stopped:
            self._reading.reschedule(-inf)
        self._stopped = True

    def is_exhausted(self) -> bool:
        """Whether the source was read to its end, and nobody asked to stop."""
        return self._read_all and not self._stopped

    def is_closing_source(self) -> bool:
        """Whether the reading has ended, but not yet the source's clean-up."""
        return self._is_closing

    def abort(self, error: BaseException | None) -> None:
        self._exchange.fail(error)
        self._aborted = True
        self.stop()
        if self._read_all:
            self._workers.cancel_scope.cancel()

    async def run(self) -> None:
        try:
            if self._commit is None:
                await self._work()
            else:
                async with anyio.create_task_group() as committing:
                    committing.start_soon(self._commit_all, self._commit)
                    try:
                        await self._work()
                    finally:
                        self._exchange.complete()
        except BaseExceptionGroup as group:  # SystemExit and its like; all others are kept for the consumer.
            raise first_of(group) from None
        finally:
            try:
                if self._finish is not None:
                    with anyio.CancelScope(shield=True):
                        await self._finish()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self._exchange.fail(error)
            finally:
                self._exchange.finish()

    async def _work(self) -> None:
        async with anyio.create_task_group() as self._workers:
            await self._read()
            self._read_all = True
            # A cancellation may be lost to an error in the clean-up of the source, or spare it.
            if is_cancelled() or self._aborted or self._exchange.abandoned:
                self._workers.cancel_scope.cancel()

    async def _commit_all(self, commit: Callable[[Sequence[R]], Awaitable[Sequence[R | None]]]) -> None:
        """Commit and publish complete results, even when cancelled: they have been paid for."""
        exchange = self._exchange
        with anyio.CancelScope(shield=True):
            try:
                while staged := await exchange.stage():
                    kept = await commit([result for _, result, _ in staged])
                    exchange.publish(staged, kept)
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self.abort(error)

    async def _read(self) -> None:
        try:
            async with aclosing(self._source) as source:
                try:
                    await self._admit_all(source)
                finally:
                    self._is_closing = True
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)
        finally:
            self._is_closing = False

    async def _admit_all(self, source: Source[T]) -> None:
        if self._stopped:
            return
        try:
            # Its time is up when `stop` says so. Unlike a cancel scope, it lets the source clean up.
            async with asyncio.timeout(None) as self._reading:
                await self._admit(source)
        except TimeoutError:
            if not self._stopped:
                raise
        finally:
            self._reading = None

    async def _admit(self, source: Source[T]) -> None:
        exchange, function, ready = self._exchange, self._function, self._exchange.ready
        due = monotonic() + SLICE_SECONDS
        async for items in source:
            for item in items:
                if self._stopped:  # Reading that never waits is not cancelled.
                    return
                outcome = function(item)
                if type(outcome) is Unread:
                    await exchange.wait_for_room(outcome.weight)
                    outcome = await outcome.call()
                if type(outcome) is Later:
                    place = exchange.admit(outcome.weight)
                    self._workers.start_soon(self._wait_for, place, outcome)
                else:
                    exchange.add(cast("R | None", outcome))
                if len(ready) >= HANDED_OVER or exchange.admitted >= exchange.limit or monotonic() >= due:
                    due = await self._pause()
            if monotonic() >= due:
                due = await self._pause()

    async def _pause(self) -> float:
        """Yield to other tasks and wait for room; return the time of the next pause."""
        await asyncio.sleep(0)
        await self._exchange.wait_for_room()
        return monotonic() + SLICE_SECONDS

    async def _wait_for(self, place: int, later: Later[R]) -> None:
        result = None
        try:
            outcome: R | Later[R] | None = later
            while type(outcome) is Later:
                self._exchange.admitted += outcome.weight - later.weight
                later = outcome
                outcome = await later.call(self._exchange.hand_out)
            result = cast("R | None", outcome)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._fail(error)
            self.stop()
        finally:
            self._exchange.put(place, result, later.weight)

    def _fail(self, error: Exception | asyncio.CancelledError) -> None:
        """Pass on an error, or the unrequested cancellation of a task."""
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise error
        self._exchange.fail(error)
