"""Hands ranges to worker processes and merges their replies in the order of the input."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.scale.processes import Workers
from graphrag_eval_async.scale.ranges import MIN_RANGE_BYTES, Cutter, range_bytes
from graphrag_eval_async.scale.work import Aggregating
from graphrag_eval_async.threads import SLICE_SECONDS, run_in_thread, write_in_thread
from graphrag_eval_async.usual import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.scale.ranges import Range
    from graphrag_eval_async.scale.work import Evaluating, Part, Reply
    from graphrag_eval_async.sources.shards import Window

Done: TypeAlias = "tuple[list[Part], Reply]"
Take: TypeAlias = "Callable[[list[Part], Reply], Awaitable[None]]"

OUTSTANDING = 2
"""Ranges handed out per process, so that none waits while results are written."""


class Merging:
    """Has worker processes read files, range by range.

    Attributes:
        aggregates: of all results so far.
        size: how many bytes the files have.
        consumed: how many of these are done.
    """

    def __init__(
        self,
        work: Evaluating | Aggregating,
        windows: Sequence[Window],
        jobs: int,
        *,
        aggregates: RunningAggregates,
        on_reject: Callable[[Reject], object],
        threaded: bool = False,
        is_part: bool = False,
    ) -> None:
        """Prepare to work; nothing is read yet.

        Args:
            work: what is done with each range.
            windows: what to read of regular files.
            jobs: how many processes there may be.
            aggregates: take those of each range.
            on_reject: is called with each reject, in the order of the input.
            threaded: whether `on_reject` may be called in a thread, as it is with large rejects then.
            is_part: whether the numbers of lines are not known, since others read the rest of the files.
        """
        self.aggregates = aggregates
        self.size = sum(_size(path) - start if end is None else end - start for path, start, end in windows)
        self.consumed = 0
        self._work = work
        self._on_reject = on_reject
        self._threaded = threaded
        self._is_part = is_part
        self._cutter = Cutter(windows, range_bytes(self.size, jobs))
        self._workers = Workers(work, jobs)
        self._limit = OUTSTANDING * jobs
        self._outstanding: deque[tuple[Range, asyncio.Future[Done]]] = deque()
        self._again: deque[Range] = deque()
        self._error: SourceError | None = None
        self._ended = self._stopped = False
        self._answered: set[str] = set()
        self._lines = 0

    def stop(self) -> None:
        """Hand out no more ranges; those already handed out are still finished."""
        self._ended = self._stopped = True
        self._again.clear()

    @property
    def is_exhausted(self) -> bool:
        """Whether all files were read to their ends."""
        return self._ended and not self._stopped and self._error is None

    async def run(self, take: Take) -> None:
        """Process all ranges; `take` is called with each reply and its parts, in the order of the input.

        Raises:
            WorkerError: a process died; `take` has had all replies before that.
            SourceError: a file cannot be read.
        """
        try:
            while True:
                await self._hand_out()
                if not self._outstanding:
                    break
                range_, future = self._outstanding.popleft()
                parts, reply = await future
                # In a thread, since it takes long; to its end, so that the aggregates are whole.
                await write_in_thread(partial(self._merge, reply))
                if reply.end < range_.end:
                    self._resume(range_._replace(start=reply.end), alone=reply.alone)
                self.consumed += reply.end - range_.start
                await take(parts, reply)
                await self._reject_all(range_, reply)
            if self._error is not None:
                raise self._error
        finally:
            self._cancel()
            await self._workers.aclose()
            self._cutter.close()

    async def _hand_out(self) -> None:
        while (self._again or not self._ended) and len(self._outstanding) < self._limit:
            range_ = self._again.popleft() if self._again else await self._cut()
            if range_ is None:
                self._ended = True
            else:
                self._outstanding.append((range_, self._submit(range_)))

    async def _cut(self) -> Range | None:
        try:
            return await anyio.to_thread.run_sync(self._cutter.next)
        except SourceError as error:
            self._error = error
            return None

    def _submit(self, range_: Range) -> asyncio.Future[Done]:
        if isinstance(self._work, Aggregating) and self._work.aggregates is not None:
            return asyncio.ensure_future(run_in_thread(partial(_work_here, self._work, range_)))
        return self._workers.submit(range_)

    def _merge(self, reply: Reply) -> None:
        if reply.aggregates:
            other = RunningAggregates.from_bytes(reply.aggregates)
            for question, first in zip(reply.questions, reply.firsts, strict=False):
                if question in self._answered:
                    other._demote(*first)
                self._answered.add(question)
            self.aggregates.merge(other)

    def _resume(self, rest: Range, *, alone: bool) -> None:
        """Hand out the rest of a range before all later ranges."""
        if alone:
            # Here, one range after the other, as a result and its parts may be in several.
            assert isinstance(self._work, Aggregating)  # noqa: S101
            self._work = replace(self._work, aggregates=self.aggregates)
            self._limit = 1
            self._again.extend(range_ for range_, _ in self._outstanding)
            self._cancel()
        else:
            self._cutter.size = max(MIN_RANGE_BYTES, self._cutter.size // 2)
        self._outstanding.appendleft((rest, self._submit(rest)))

    def _cancel(self) -> None:
        for _, future in self._outstanding:
            if not future.cancel() and not future.cancelled():
                future.exception()  # Nobody shall complain that it was ignored.
        self._outstanding.clear()

    async def _reject_all(self, range_: Range, reply: Reply) -> None:
        before = self._lines if range_.start else 0
        self._lines = before + reply.lines
        due = monotonic() + SLICE_SECONDS
        for rejected in reply.rejects:
            line = 0 if self._is_part else before + rejected.line
            await self._reject(replace(rejected, line=line))
            if monotonic() >= due:
                await asyncio.sleep(0)
                due = monotonic() + SLICE_SECONDS

    async def _reject(self, rejected: Reject) -> None:
        if self._threaded and rejected.length >= LARGE_BYTES:
            await write_in_thread(partial(self._on_reject, rejected))
        else:
            self._on_reject(rejected)


def _work_here(work: Aggregating, range_: Range) -> Done:
    parts: list[Part] = []
    return parts, work(range_, parts.append)


def _size(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0
