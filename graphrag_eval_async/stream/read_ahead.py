"""Reads ahead of a consumer and maps what was read; it knows nothing of evaluation."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar

from graphrag_eval_async.threads import CLOSING_SECONDS, SLICE_SECONDS, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from graphrag_eval_async.sources import Source
    from graphrag_eval_async.stream.until import UntilDecided

    Work: TypeAlias = "partial[Coroutine[Any, Any, R | None]]"
    Outcome: TypeAlias = "R | Work[R] | None"
    Function: TypeAlias = "Callable[[Any], Outcome[R] | Held]"
    Commit: TypeAlias = "Callable[[Sequence[R]], Awaitable[Sequence[R | None]]]"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Held:
    """Stands for the outcome of an item that a task finds; the items after it wait for that."""

    find: Callable[[], Awaitable[Any]]


class _Ending(IntEnum):
    """What a `ReadAhead` has ceased to do. Each value includes those before it, and stays."""

    NONE = 0
    READING = 1  # What was read is mapped, worked on and handed out.
    WORKING = 2  # What is complete is handed out.
    HANDING_OUT = 3


class ReadAhead(Generic[R]):
    """Maps `function` over the items of `source`, as an asynchronous iterator of results.

    One owner task reads up to `limit` items ahead of what was handed out, so a slow consumer stops
    the reading, too. Items are mapped in their order, by whoever asks for a result: one that is
    there at once needs no hand-over between tasks. While nobody asks, the event loop maps what was
    read, so that work that takes time begins as soon as its item is read.

    `function` returns the result of an item; None for none; or a `partial` for work in a task of
    its own, which is called with a function that hands out one more result at once, regardless of
    the order. It may also return a `Held` that finds one of these in a task; the next item is
    mapped after that.

    An item passes these stages, of which `in_flight` is the sum:

    - `_unmapped`, from when it is read until it is mapped;
    - `_workers`, if it needs a task;
    - `_order`, if results come in the order of their items, until those before it are complete.
      Then `until` sees it and may end all work;
    - `_commits`, until `commit` returns its result, or None in place of one that is not to come
      out. If `commit` raises, all work ends;
    - `_ready`, until it is handed out.

    It ends in one of these ways; then `finish` is awaited:

    - the source is exhausted, or `stop` is called: the results of what was read come out;
    - the source, the function or work raises: the results of all items before come out, then the
      exception;
    - `until` is decided, or `commit` raises: work in progress is cancelled, what is complete comes
      out, then the exception, if there is one;
    - `aclose` or `drop` is called, or the owner is cancelled: work is cancelled, nothing comes out.

    Nothing but `__anext__`, `aclose` and the owner waits, so a cancelled `__anext__` loses nothing;
    `aclose` may come from any task. Whoever drops the iterator without `aclose` calls `drop`.

    Attributes:
        is_exhausted: whether the source was read to its end, nobody asked to stop, and nothing
            failed.
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
        self._source = source
        self._function = function
        self._limit = limit
        # Once the reading has waited for room, so many items are mapped before it goes on: reading
        # a few at a time would let the owner run once for each.
        self._refill_below = limit // 2 + 1
        self._until: Any = until
        self._finish = finish

        # The stages that an item passes.
        self._unmapped: deque[Any] = deque()
        self._workers: set[asyncio.Task[R | None]] = set()
        self._order = _Order(self._deliver_in_order) if ordered else None
        self._commits = (
            None if commit is None else _Commits(commit, publish=self._publish, fail=self._abort)
        )
        self._ready: deque[R] = deque()
        self._is_direct = self._order is None and self._commits is None

        # Mapping.
        self._place = 0  # Number of the item that was mapped last.
        self._held: Held | None = None  # Until it has an outcome, nothing else is mapped.
        self._askers = 0  # Number of calls that wait for a result.
        self._is_mapping_due = False  # The event loop is to map what was read.
        self._slice_end = 0.0  # When the consumer lets other tasks run.

        # The owner, its end, and who waits for a change of all this.
        self._owner: asyncio.Task[None] | None = None
        self._reading: asyncio.Timeout | None = None
        self._ending = _Ending.NONE
        self._error: BaseException | None = None  # Raised after the results before it.
        self.is_exhausted = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def state(self) -> Literal["not started", "running", "ended"]:
        """Whether reading has begun, and whether it has ended."""
        if self._ending is _Ending.HANDING_OUT:
            return "ended"
        if self._owner is None:
            return "not started"
        return "ended" if self._owner.done() else "running"

    @property
    def in_flight(self) -> int:
        """Number of items that are read and not yet handed out."""
        count = len(self._unmapped) + len(self._workers) + len(self._ready)
        if self._order is not None:
            count += len(self._order)
        if self._commits is not None:
            count += len(self._commits)
        return count

    # What the consumer calls

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        self._askers += 1
        try:
            while (result := self.take()) is None:
                await self._wait_for_result()
                self._slice_end = monotonic() + SLICE_SECONDS
            return result
        finally:
            self._askers -= 1
            self._map_soon()

    def take(self) -> R | None:
        """Return a result that is ready, or that an item read ahead has at once.

        Return None if there is none, or if other tasks are to run first.
        """
        while not self._ready:
            # The same as `_can_map`, which would be called for each result.
            if not self._unmapped or self._held is not None or monotonic() >= self._slice_end:
                return None
            self._map_next()
        if self._waiters and len(self._unmapped) < self._refill_below:
            self._wake()
        return self._ready.popleft()

    async def _wait_for_result(self) -> None:
        """Wait until there may be a result; raise what is raised in place of one at the end."""
        if self._can_map():
            await asyncio.sleep(0)  # The slice is over.
        elif self._ending is _Ending.HANDING_OUT:
            raise StopAsyncIteration
        elif self._owner is None:
            self._owner = asyncio.create_task(self._run(), name="graphrag-eval-async")
            self._owner.add_done_callback(lambda _: self._wake())
        elif self._owner.done():
            self._owner.result()  # Raises the cancellation of the owner.
            error, self._error = self._error, None
            raise error or StopAsyncIteration
        else:
            await self._wait_for_change()

    def stop(self) -> None:
        """End the reading; the results of what was read come out."""
        if self._ending is _Ending.NONE and self._reading is not None:
            self._reading.reschedule(-inf)
        self._end(_Ending.READING)

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

    # What the owner does

    async def _run(self) -> None:
        try:
            await self._read()
            await self._work_off()
        finally:
            # After a cancellation of the owner, work is still in progress.
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

    async def _read(self) -> None:
        """Read until the source is exhausted or raises, or until `stop`."""
        try:
            async with aclosing(self._source) as source:
                try:
                    if self._ending is _Ending.NONE:
                        # `stop` ends its time. Unlike a cancel scope, that lets the source clean
                        # up.
                        async with asyncio.timeout(None) as self._reading:
                            await self._admit(source)
                        self.is_exhausted = self._ending is _Ending.NONE
                except TimeoutError:
                    if self._ending is _Ending.NONE:
                        raise
                finally:
                    self._reading = None
        except (Exception, asyncio.CancelledError) as error:
            is_cancellation = isinstance(error, asyncio.CancelledError)
            if is_cancellation and self._owner is not None and self._owner.cancelling():
                raise
            self._fail(error)

    async def _admit(self, source: Source | AsyncGenerator[Sequence[Any]]) -> None:
        """Read items as long as there is room for them."""
        slice_end = monotonic() + SLICE_SECONDS
        async for items in source:
            while items:
                if self._ending is not _Ending.NONE:
                    return  # Reading that never waits is not cancelled.
                room = max(0, self._limit - self.in_flight)
                is_full = room <= len(items)
                self._unmapped.extend(items[:room])
                items = items[room:]
                if self._waiters:
                    self._wake()
                if not self._askers:
                    self._map_soon()
                if is_full:
                    await self._wait_for_room()
            if monotonic() >= slice_end:
                await asyncio.sleep(0)
                slice_end = monotonic() + SLICE_SECONDS

    async def _wait_for_room(self) -> None:
        """Wait until items were handed out, and many of those that were read are mapped."""
        while self._ending is _Ending.NONE and (
            self.in_flight >= self._limit or len(self._unmapped) >= self._refill_below
        ):
            await self._wait_for_change()

    async def _work_off(self) -> None:
        """Wait until all that was read is mapped, and all work is done."""
        while self._workers or self._unmapped:
            await self._wait_for_change()

    # How an item becomes a result

    def _can_map(self) -> bool:
        """Return whether an item can be mapped now."""
        return bool(self._unmapped) and self._held is None

    def _map_soon(self) -> None:
        """Let the event loop map what was read, unless somebody asks for a result by then."""
        if self._can_map() and not self._is_mapping_due:
            self._is_mapping_due = True
            asyncio.get_running_loop().call_soon(self._map_unasked)

    def _map_unasked(self) -> None:
        """Map what was read for a slice of time, and then again, while nobody asks."""
        self._is_mapping_due = False
        slice_end = monotonic() + SLICE_SECONDS
        while self._can_map() and not self._askers:
            if monotonic() >= slice_end:
                self._map_soon()
                return
            self._map_next()
        self._wake()

    def _map_next(self) -> None:
        """Map the item that was read first."""
        item = self._unmapped.popleft()
        try:
            outcome: Any = self._function(item)
        except Exception as error:  # noqa: BLE001  (the consumer gets it, after the results before it)
            self._unmapped.clear()
            self._fail(error)
            return

        self._place += 1
        if type(outcome) is partial:
            self._start(outcome(self._publish))
        elif type(outcome) is Held:
            self._held = outcome
            worker = self._start(self._finish_held(outcome))
            # Its result is passed on before those of the items after it.
            worker.add_done_callback(lambda _: self._release(outcome))
        elif self._is_direct and outcome is not None:
            self._ready.append(outcome)  # As of most lines; `_put` would do the same.
        else:
            self._put(self._place, outcome)

    def _start(self, work: Coroutine[Any, Any, R | None]) -> asyncio.Task[R | None]:
        """Work on the item that was mapped last in a task of its own."""
        worker = asyncio.create_task(work)
        self._workers.add(worker)
        worker.add_done_callback(partial(self._complete, self._place))
        return worker

    async def _finish_held(self, held: Held) -> R | None:
        """Find the outcome of an item. If that is work, do it while the next ones are mapped."""
        try:
            outcome: Any = await held.find()
        except Exception:
            self._unmapped.clear()
            raise
        if type(outcome) is partial:
            self._release(held)
            outcome = await outcome(self._publish)
        return outcome  # type: ignore[no-any-return]

    def _release(self, held: Held) -> None:
        """Let the items after a held one be mapped, unless they are already."""
        if self._held is held:
            self._held = None
            self._wake()
            self._map_soon()

    def _complete(self, place: int, worker: asyncio.Task[R | None]) -> None:
        """Take the result of a worker that has ended, or its error."""
        self._workers.remove(worker)
        result = None
        if worker.cancelled():
            if self._ending < _Ending.WORKING:  # Nobody has asked for it.
                self._fail(asyncio.CancelledError())
        elif (error := worker.exception()) is not None:
            self._fail(error)
        else:
            result = worker.result()
        self._put(place, result)
        self._wake()

    def _put(self, place: int, result: R | None) -> None:
        """Pass on the result of the item at `place`; None for an item without one."""
        if self._order is not None:
            self._order.put(place, result)
        else:
            self._deliver(result)

    def _deliver_in_order(self, result: R | None) -> None:
        """Let `until` count the result of the next item, and pass it on."""
        if self._until is not None:
            result = self._until.count(result, failed=self._error is not None)
            if self._until.is_over and self._ending < _Ending.WORKING:
                self._abort(None)
        self._deliver(result)

    def _deliver(self, result: R | None) -> None:
        """Pass on a result; it is committed before it is ready."""
        if self._commits is not None and result is not None:
            self._commits.add(result)
        else:
            self._publish(result)

    def _publish(self, result: R | None) -> None:
        """Make a result ready to be handed out; None stands for one that does not come out."""
        if result is not None and self._ending is not _Ending.HANDING_OUT:
            self._ready.append(result)
        if self._waiters:
            self._wake()

    # How it ends

    def _end(self, ending: _Ending) -> None:
        """Cease to do something."""
        self._ending = max(self._ending, ending)
        self._wake()

    def _fail(self, error: BaseException) -> None:
        """Read nothing more; raise the error once the results of what was read have come out."""
        self._note(error)
        self.stop()

    def _abort(self, error: BaseException | None) -> None:
        """End all work; what is complete comes out, and then the exception, unless it is None."""
        self._note(error)
        self.stop()
        self._unmapped.clear()
        self._end(_Ending.WORKING)
        for worker in self._workers:
            worker.cancel()

    def _abandon(self) -> None:
        """End all work; nothing more comes out."""
        self._abort(None)
        self._ready.clear()
        self._end(_Ending.HANDING_OUT)

    def _note(self, error: BaseException | None) -> None:
        """Keep the first error, to be raised once all results before it are handed out."""
        if error is not None:
            self._error = self._error or error
            self.is_exhausted = False

    # How tasks wait for each other

    async def _wait_for_change(self) -> None:
        """Wait until anything changes that a task may wait for."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        """Let all who wait look again."""
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

    def __len__(self) -> int:
        return len(self._early)

    def put(self, place: int, result: R | None) -> None:
        """Take the result of the item at `place`, and deliver those whose turn it is."""
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
        self._commit = commit
        self._publish = publish
        self._fail = fail
        self._uncommitted: list[R] = []
        self._committing = 0  # Number of results that are being committed.
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._uncommitted) + self._committing

    def add(self, result: R) -> None:
        """Commit a result as soon as those before it are committed."""
        self._uncommitted.append(result)
        if self._task is None:
            self._task = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        try:
            while results := self._uncommitted:
                self._uncommitted = []
                self._committing = len(results)
                committed = await self._commit(results)
                self._committing = 0
                for result in committed:
                    self._publish(result)
            self._task = None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (the consumer gets it)
            self._uncommitted = []
            self._committing = 0
            self._fail(error)

    async def wait(self) -> None:
        """Wait for the last commit: complete results have been paid for."""
        if self._task is not None:
            await asyncio.wait([self._task])
