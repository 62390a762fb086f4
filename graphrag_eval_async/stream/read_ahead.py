"""An iterator that reads items ahead of its consumer and processes them concurrently.

Nothing here depends on evaluation.
"""

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

from graphrag_eval_async.helpers.threads import CLOSING_SECONDS, SLICE_SECONDS, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from graphrag_eval_async.sources import Source
    from graphrag_eval_async.stream.until import UntilDecided

    Work: TypeAlias = "partial[Coroutine[Any, Any, R | None]]"
    Outcome: TypeAlias = "R | Work[R] | None"
    Function: TypeAlias = "Callable[[Any], Outcome[R] | Deferred]"
    Commit: TypeAlias = "Callable[[Sequence[R]], Awaitable[Sequence[R | None]]]"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Deferred:
    """Returned by a `ReadAhead` function that cannot process an item on the event loop.

    `find` is awaited in a task and returns what the function would have returned. No later item is
    processed before that.
    """

    find: Callable[[], Awaitable[Any]]


class _Phase(IntEnum):
    """How far a `ReadAhead` has come to its end. It never returns to an earlier phase."""

    READING = 0  # Reads the source, or will begin to.
    FINISHING = 1  # Reads no more. Items that were read are still processed and delivered.
    DELIVERING = 2  # Starts no more work. Complete results are still delivered.
    CLOSED = 3  # Delivers nothing more.


class ReadAhead(Generic[R]):
    """Calls `function` with each item of `source` and yields the results.

    A main task reads items until `limit` of them are read and not yet delivered to the consumer.
    So a slow consumer also stops the reading. `function` is called in the order of the items, by
    `__anext__` itself if possible: that is faster than a switch to another task. While no
    `__anext__` is in progress, a callback of the event loop calls it, so that slow work begins
    early.

    `function` returns one of these:

    - a result;
    - None, if the item has no result;
    - a `partial` of a coroutine function that returns a result or None. It runs in a task. Its
      argument is a function that delivers one more result at once, regardless of the order;
    - a `Deferred`, whose `find` returns one of these.

    An item passes these stages. `in_flight` is the number of items in all of them.

    1. `_unprocessed`: it is read; `function` is not yet called.
    2. `_workers`: its work runs in a task, if it needs one.
    3. `_order`: with `ordered`, its result waits for the results of all earlier items. `until`
       counts the result when it leaves this stage, and may end all work.
    4. `_commits`: with `commit`, its result waits until `commit` has returned it, or None to drop
       it. If `commit` raises, all work ends.
    5. `_ready`: its result waits for the consumer.

    A `ReadAhead` ends in one of these ways, and then awaits `finish`:

    - The source is exhausted, or `stop` is called: items that were read are still processed.
    - The source or work raises: the results of all items that were read are delivered, and then the
      exception is raised.
    - `function` raises: the results of the items before are delivered, and then the exception is
      raised.
    - `until` is decided, or `commit` raises: work in progress is cancelled, complete results are
      delivered, and then the exception is raised, if there is one.
    - `aclose` or `drop` is called: work is cancelled, and no more results are delivered.
    - The main task is cancelled: work is cancelled, complete results are delivered, and then the
      cancellation is raised.

    A cancelled `__anext__` loses no result. `aclose` may be called from any task. If the iterator
    is discarded without `aclose`, `drop` must be called.

    Attributes:
        is_exhausted: whether the source was read to its end without `stop` or an error.
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
        """Prepare to read. Nothing is read before the first `__anext__`.

        Args:
            source: the items, in batches; it is closed at the end.
            function: called with each item; see the class.
            limit: maximum number of items that are read and not yet delivered.
            ordered: whether results are delivered in the order of their items.
            until: counts each result in order, and ends all work once its condition is decided.
            commit: stores results before they are delivered, and returns those to deliver.
            finish: awaited once everything has ended, for example to close files.
        """
        self._source = source
        self._function = function
        self._limit = limit
        # A full `ReadAhead` reads on once fewer items than this are unprocessed. With a higher
        # number, the main task would wake up for every item or two.
        self._refill_below = limit // 2 + 1
        # Any, since `UntilDecided` is typed for evaluations, and R may be any type.
        self._until: Any = until
        self._finish = finish

        # The stages that an item passes.
        self._unprocessed: deque[Any] = deque()
        self._workers: set[asyncio.Task[R | None]] = set()
        self._order = _Order(self._deliver_in_order) if ordered else None
        self._commits = (
            None if commit is None else _Commits(commit, publish=self._publish, fail=self._abort)
        )
        self._ready: deque[R] = deque()
        self._publishes_at_once = self._order is None and self._commits is None

        # The calls of `function`.
        self._last_place = 0  # Place of the last processed item in the input, from 1.
        self._deferred: Deferred | None = None  # All later items wait for it.
        self._calls_of_anext = 0  # Number of calls of `__anext__` in progress.
        self._is_processing_scheduled = False  # Whether the event loop will call `function`.
        self._yield_at = 0.0  # Time at which the consumer must let other tasks run.

        # The reading, and how it ends.
        self._main_task: asyncio.Task[None] | None = None
        self._reading_timeout: asyncio.Timeout | None = None  # Expires when `stop` is called.
        self._phase = _Phase.READING
        self._error: BaseException | None = None  # Raised after the results of earlier items.
        self.is_exhausted = False

        # Done when anything above changes; see `_wait_for_change`.
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def state(self) -> Literal["not started", "running", "ended"]:
        """Whether reading has begun, and whether it has ended."""
        if self._phase is _Phase.CLOSED:
            return "ended"
        if self._main_task is None:
            return "not started"
        return "ended" if self._main_task.done() else "running"

    @property
    def in_flight(self) -> int:
        """Number of items that are read and not yet delivered to the consumer."""
        count = len(self._unprocessed) + len(self._workers) + len(self._ready)
        if self._order is not None:
            count += len(self._order)
        if self._commits is not None:
            count += len(self._commits)
        return count

    # What the consumer calls

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        self._calls_of_anext += 1
        try:
            while (result := self.take()) is None:
                await self._wait_for_result()
                self._yield_at = monotonic() + SLICE_SECONDS
            return result
        finally:
            self._calls_of_anext -= 1
            self._process_soon()

    def take(self) -> R | None:
        """Return the next result without waiting.

        Processes items until one gives a result.

        Returns:
            the result; None if there is none yet, or if other tasks should run first.
        """
        while not self._ready:
            # The same test as `_can_process`, without the cost of a call for each result.
            if not self._unprocessed or self._deferred is not None or monotonic() >= self._yield_at:
                return None
            self._process_next()
        if self._waiters and len(self._unprocessed) < self._refill_below:
            # The main task may wait for room to read more.
            self._wake()
        return self._ready.popleft()

    async def _wait_for_result(self) -> None:
        """Wait until `take` may return a result; start the main task if necessary.

        Raises:
            StopAsyncIteration: no more results will come.
            BaseException: what the source, the function or work has raised, or the cancellation of
                the main task.
        """
        if self._can_process():
            # `take` only returned None to let other tasks run.
            await asyncio.sleep(0)
        elif self._phase is _Phase.CLOSED:
            raise StopAsyncIteration
        elif self._main_task is None:
            self._main_task = asyncio.create_task(self._run(), name="graphrag-eval-async")
            self._main_task.add_done_callback(lambda _: self._wake())
        elif self._main_task.done():
            self._main_task.result()  # Raises if the main task was cancelled.
            error = self._error
            self._error = None  # Later calls raise `StopAsyncIteration`.
            raise error or StopAsyncIteration
        else:
            await self._wait_for_change()

    def stop(self) -> None:
        """Stop reading. Items that were already read are still processed and delivered."""
        if self._phase is _Phase.READING and self._reading_timeout is not None:
            self._reading_timeout.reschedule(-inf)
        self._advance_to(_Phase.FINISHING)

    async def aclose(self) -> None:
        """Stop reading, cancel all work, and wait until it has ended."""
        self._abandon()
        if self._main_task is None:
            await self._source.aclose()
        elif self._main_task is not asyncio.current_task():
            await outlast(self._main_task, CLOSING_SECONDS)

    def drop(self) -> None:
        """Cancel all work without waiting for its end. Safe to call from any thread."""
        if self._main_task is None:
            return
        loop = self._main_task.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._abandon)

    # What the main task does

    async def _run(self) -> None:
        """Read the source, wait for all work, and then clean up, even after a cancellation."""
        try:
            await self._read()
            await self._finish_work()
        finally:
            # If this task was cancelled, work is still in progress.
            self._abort(None)
            try:
                try:
                    await self._finish_work()
                    if self._commits is not None:
                        await self._commits.wait()
                finally:
                    # `finish` releases locks, so it also runs if the waiting was cancelled.
                    if self._finish is not None:
                        await self._finish()
            except Exception as error:  # noqa: BLE001  (the consumer gets it)
                self._keep_error(error)

    async def _read(self) -> None:
        """Read until the source is exhausted or raises, or until `stop` is called."""
        try:
            async with aclosing(self._source) as source:
                try:
                    if self._phase is _Phase.READING:
                        # `stop` lets this timeout expire. Unlike an anyio cancel scope, a timeout
                        # cancels only once, so the source can await something while it cleans up.
                        async with asyncio.timeout(None) as self._reading_timeout:
                            await self._read_items(source)
                        self.is_exhausted = self._phase is _Phase.READING
                except TimeoutError:
                    is_from_source = self._phase is _Phase.READING
                    if is_from_source:
                        raise
                finally:
                    self._reading_timeout = None
        except (Exception, asyncio.CancelledError) as error:
            is_task_cancelled = self._main_task is not None and self._main_task.cancelling() > 0
            if isinstance(error, asyncio.CancelledError) and is_task_cancelled:
                raise
            # Any other exception, even a cancellation, was raised by the source itself.
            self._fail(error)

    async def _read_items(self, source: Source | AsyncGenerator[Sequence[Any]]) -> None:
        """Read all items, and pause while `limit` of them are not yet delivered."""
        slice_end = monotonic() + SLICE_SECONDS
        async for items in source:
            while items:
                if self._phase is not _Phase.READING:
                    # The timeout that `stop` sets cannot end a source that never waits.
                    return
                room = max(0, self._limit - self.in_flight)
                is_full = room <= len(items)
                self._unprocessed.extend(items[:room])
                items = items[room:]
                if self._waiters:
                    self._wake()
                if not self._calls_of_anext:
                    self._process_soon()
                if is_full:
                    await self._wait_for_room()
            if monotonic() >= slice_end:
                # Let other tasks run, even if the source never waits.
                await asyncio.sleep(0)
                slice_end = monotonic() + SLICE_SECONDS

    async def _wait_for_room(self) -> None:
        """Wait until fewer than `limit` items are in flight and at most half are unprocessed."""
        while self._phase is _Phase.READING:
            is_full = self.in_flight >= self._limit
            are_many_unprocessed = len(self._unprocessed) >= self._refill_below
            if not is_full and not are_many_unprocessed:
                return
            await self._wait_for_change()

    async def _finish_work(self) -> None:
        """Wait until all items that were read are processed and no worker runs."""
        while self._workers or self._unprocessed:
            await self._wait_for_change()

    # How an item becomes a result

    def _can_process(self) -> bool:
        """Return whether the next item can be processed now."""
        return bool(self._unprocessed) and self._deferred is None

    def _process_soon(self) -> None:
        """Schedule a callback that processes items while no `__anext__` is in progress."""
        if self._can_process() and not self._is_processing_scheduled:
            self._is_processing_scheduled = True
            asyncio.get_running_loop().call_soon(self._process_unasked)

    def _process_unasked(self) -> None:
        """Process items while no `__anext__` does, letting other tasks run in between."""
        self._is_processing_scheduled = False
        slice_end = monotonic() + SLICE_SECONDS
        while self._can_process() and not self._calls_of_anext:
            if monotonic() >= slice_end:
                self._process_soon()
                return
            self._process_next()
        self._wake()

    def _process_next(self) -> None:
        """Call the function with the oldest unprocessed item, and handle what it returns."""
        item = self._unprocessed.popleft()
        try:
            outcome: Any = self._function(item)
        except Exception as error:  # noqa: BLE001  (the consumer gets it, after the results before it)
            # No later item has a result.
            self._unprocessed.clear()
            self._fail(error)
            return

        self._last_place += 1
        if type(outcome) is partial:
            self._start(outcome(self._publish))
        elif type(outcome) is Deferred:
            self._deferred = outcome
            worker = self._start(self._run_deferred(outcome))
            # Its result is passed on before those of later items.
            worker.add_done_callback(lambda _: self._end_deferral(outcome))
        elif self._publishes_at_once and outcome is not None:
            # `_put` would do the same, but this is the usual case and runs for every line.
            self._ready.append(outcome)
        else:
            self._put(self._last_place, outcome)

    def _start(self, work: Coroutine[Any, Any, R | None]) -> asyncio.Task[R | None]:
        """Run `work`, which returns the result of the last processed item, in a task."""
        worker = asyncio.create_task(work)
        self._workers.add(worker)
        worker.add_done_callback(partial(self._complete, self._last_place))
        return worker

    async def _run_deferred(self, deferred: Deferred) -> R | None:
        """Return the result of a deferred item; later items are processed once it is found.

        If `find` returns a `partial`, its work is part of this task, but later items do not wait
        for it.
        """
        try:
            outcome: Any = await deferred.find()
        except Exception:
            # No later item has a result.
            self._unprocessed.clear()
            raise
        if type(outcome) is partial:
            self._end_deferral(deferred)
            outcome = await outcome(self._publish)
        return outcome  # type: ignore[no-any-return]

    def _end_deferral(self, deferred: Deferred) -> None:
        """Process the items after a deferred one, unless that has begun."""
        if self._deferred is deferred:
            self._deferred = None
            self._wake()
            self._process_soon()

    def _complete(self, place: int, worker: asyncio.Task[R | None]) -> None:
        """Pass on the result of a worker that has ended, or handle its error.

        Args:
            place: place of the worker's item in the input.
            worker: the task.
        """
        self._workers.remove(worker)
        result = None
        if worker.cancelled():
            was_cancelled_here = self._phase >= _Phase.DELIVERING
            if not was_cancelled_here:
                # The work has raised the cancellation itself.
                self._fail(asyncio.CancelledError())
        elif (error := worker.exception()) is not None:
            self._fail(error)
        else:
            result = worker.result()
        # Even None is passed on: the results of later items wait for it.
        self._put(place, result)
        self._wake()

    def _put(self, place: int, result: R | None) -> None:
        """Pass on the result of the item at a place in the input; None if it has no result."""
        if self._order is not None:
            self._order.put(place, result)
        else:
            self._deliver(result)

    def _deliver_in_order(self, result: R | None) -> None:
        """Pass on a result after `until` has counted it; end all work once `until` is decided."""
        if self._until is not None:
            result = self._until.count(result, failed=self._error is not None)
            is_work_running = self._phase < _Phase.DELIVERING
            if self._until.is_over and is_work_running:
                self._abort(None)
        self._deliver(result)

    def _deliver(self, result: R | None) -> None:
        """Pass on a result to be committed, or directly to the consumer if nothing is committed."""
        if self._commits is not None and result is not None:
            self._commits.add(result)
        else:
            self._publish(result)

    def _publish(self, result: R | None) -> None:
        """Add a result to those that the consumer gets next.

        None takes the place of a dropped result: nothing is added, but an item less is in flight.
        """
        if result is not None and self._phase is not _Phase.CLOSED:
            self._ready.append(result)
        if self._waiters:
            self._wake()

    # How it ends

    def _advance_to(self, phase: _Phase) -> None:
        """Enter a phase, unless this one or a later one has begun."""
        self._phase = max(self._phase, phase)
        self._wake()

    def _fail(self, error: BaseException) -> None:
        """Stop reading, and raise the error after the results of the items that were read."""
        self._keep_error(error)
        self.stop()

    def _abort(self, error: BaseException | None) -> None:
        """Cancel all work. Complete results are still delivered, and then the error is raised.

        Args:
            error: the error; None if nothing has failed.
        """
        self._keep_error(error)
        self.stop()
        self._unprocessed.clear()
        self._advance_to(_Phase.DELIVERING)
        for worker in self._workers:
            worker.cancel()

    def _abandon(self) -> None:
        """Cancel all work, and drop all results."""
        self._abort(None)
        self._ready.clear()
        self._advance_to(_Phase.CLOSED)

    def _keep_error(self, error: BaseException | None) -> None:
        """Keep an error for the consumer, unless it is None or an earlier one is kept."""
        if error is not None:
            self._error = self._error or error
            self.is_exhausted = False

    # How tasks wait for each other

    async def _wait_for_change(self) -> None:
        """Wait for the next `_wake`, after which the caller checks its condition again."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        """Wake all tasks in `_wait_for_change`, since something they may wait for has changed."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


class _Order(Generic[R]):
    """Puts results into the order of their items: each is kept until all earlier ones are there."""

    def __init__(self, deliver: Callable[[R | None], None]) -> None:
        self._deliver = deliver
        # Results that came before that of an earlier item, by the place of their item.
        self._early: dict[int, R | None] = {}
        self._delivered = 0  # Place of the last item whose result was delivered.

    def __len__(self) -> int:
        return len(self._early)

    def put(self, place: int, result: R | None) -> None:
        """Add the result of the item at `place`, and deliver all results that are next in order.

        Args:
            place: place of the item in the input, from 1.
            result: its result; None if it has none.
        """
        self._early[place] = result
        while self._delivered + 1 in self._early:
            self._delivered += 1
            self._deliver(self._early.pop(self._delivered))


class _Commits(Generic[R]):
    """Commits results and then publishes them. One `commit` runs at a time.

    Results that are added meanwhile are committed together by the next one.
    """

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
        """Commit a result once the running `commit` has ended, or at once if none runs."""
        self._uncommitted.append(result)
        if self._task is None:
            self._task = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        """Commit and publish results until there are no more."""
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
        """Wait until all results are committed. Even an aborted run must not lose paid results."""
        if self._task is not None:
            await asyncio.wait([self._task])
