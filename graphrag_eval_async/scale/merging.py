"""Hands pieces of files to worker processes and merges their replies in the order of the input."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import tempfile
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.errors import SourceError, WorkerError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import StepNames
from graphrag_eval_async.scale.pieces import (
    MIN_PIECE_BYTES,
    SIGNALS,
    TOKEN_DIGITS,
    begin,
    cut,
    piece_bytes,
    work_on,
)
from graphrag_eval_async.threads import work_in_slices, write_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.scale.pieces import Piece, Reply, Work
    from graphrag_eval_async.sources.shards import Window

Send: TypeAlias = "Callable[[bytes], Awaitable[None]]"

OUTSTANDING = 2  # Pieces handed out per process, so that none waits while results are written.
SEND_BYTES = 1 << 15  # Size from which results are written together.

GUARD = '; each worker imports the script that starts it, so put the call under `if __name__ == "__main__":`'


class Merging:
    """Has worker processes read files, piece by piece."""

    def __init__(
        self,
        work: Work,
        windows: Sequence[Window],
        jobs: int,
        *,
        aggregates: RunningAggregates,
        on_reject: Callable[[Reject], object],
        threaded: bool = False,
        is_part: bool = False,
    ) -> None:
        """Prepare to work on `windows` of regular files; nothing is read yet.

        `on_reject` is called with each reject in the order of the input, in a thread if `threaded`; its line
        has no number if this `is_part` of a run, since others read the rest of the files.
        """
        self.aggregates = aggregates
        self.samples: dict[str, int] = {}  # by the id of a question, how many of its results were written
        self.names = StepNames()  # of the reference steps of results that were aggregated
        # In bytes, and how many of them are done.
        self.size = sum(
            (os.path.getsize(path) if end is None else end) - start for path, start, end in windows
        )
        self.consumed = 0
        self._on_reject, self._threaded, self._is_part = on_reject, threaded, is_part
        self._work = pickle.dumps(work)
        self._piece_bytes = piece_bytes(self.size, jobs)
        self._pieces = cut(windows, lambda: self._piece_bytes)
        self._jobs = jobs
        self._out: deque[tuple[Piece, Future[str]]] = deque()
        self._ended = self._stopped = False
        self._error: SourceError | None = None

    def stop(self) -> None:
        """Hand out no more pieces; those already handed out are still finished."""
        self._stopped = True

    @property
    def is_exhausted(self) -> bool:
        """Whether all files were read to their ends."""
        return self._ended and not self._stopped and self._error is None

    async def run(self, send: Send | None = None, advance: Callable[[], object] = lambda: None) -> None:
        """Process all pieces.

        `send` is called with results as lines of JSON, some at a time, in the order of the input, and
        `advance` for each result.

        Raises:
            WorkerError: a process died; what comes before its piece is done.
            SourceError: a file cannot be read; what comes before is done.
        """
        lines = 0
        async with aclosing(self._replies()) as replies:
            async for piece, reply in replies:
                self.consumed += reply.end - piece.start
                if send is not None:
                    for text in self._numbered(reply):
                        await send(text)
                for _ in range(reply.results):
                    advance()
                before = lines if piece.start else 0
                lines = before + reply.lines
                rejecting = map(partial(self._reject, before), reply.rejects)
                if self._threaded and reply.rejects:
                    await write_in_thread(partial(deque, rejecting, 0))
                else:
                    await work_in_slices(rejecting)
        if self._error is not None:
            raise self._error

    def _reject(self, before: int, rejected: Reject) -> None:
        self._on_reject(replace(rejected, line=0 if self._is_part else before + rejected.line))

    async def _replies(self) -> AsyncGenerator[tuple[Piece, Reply]]:
        """Yield each piece and the reply to it, which is in the aggregates then."""
        folder = tempfile.mkdtemp()
        executor = ProcessPoolExecutor(self._jobs, get_context("spawn"), begin, (self._work, folder))
        try:
            while True:
                await write_in_thread(partial(self._hand_out, executor))
                if not self._out:
                    return
                piece, future = self._out.popleft()
                try:
                    path = await asyncio.wrap_future(future)
                except BrokenProcessPool as error:
                    place = f"{piece.path}: bytes {piece.start} to {piece.end}"
                    hint = "" if self.consumed else GUARD
                    raise WorkerError(
                        f"{place}, or after: a worker process died, perhaps since memory ran out{hint}"
                    ) from error
                reply = await write_in_thread(partial(self._merge, path))
                if reply.end < piece.end:
                    self._piece_bytes = max(MIN_PIECE_BYTES, self._piece_bytes // 2)
                    rest = piece._replace(start=reply.end)
                    self._out.appendleft((rest, await write_in_thread(partial(_submit, executor, rest))))
                yield piece, reply
        finally:
            for _, future in self._out:
                future.cancel()
            await write_in_thread(partial(self._close, executor, folder))

    def _hand_out(self, executor: ProcessPoolExecutor) -> None:
        while not (self._ended or self._stopped) and len(self._out) < OUTSTANDING * self._jobs:
            try:
                piece = next(self._pieces, None)
            except SourceError as error:
                self._error, piece = error, None
            if piece is None:
                self._ended = True
            else:
                self._out.append((piece, _submit(executor, piece)))

    def _merge(self, path: str) -> Reply:
        with open(path, "rb") as file:
            reply: Reply = pickle.load(file)  # noqa: S301  (from a worker)
        os.unlink(path)
        other = RunningAggregates.from_bytes(reply.aggregates)
        for question, first in reply.questions.items():
            if first is not None and question in self.samples:
                other._demote(*first)
            self.samples.setdefault(question, 0)
        self.aggregates.merge(other)
        self.names.merge(reply.names)
        return reply

    def _numbered(self, reply: Reply) -> Iterator[bytes]:
        """Yield the results of a reply, some at a time, with their sample numbers."""
        samples = [self.samples[question] for question in reply.questions]
        text, start, sent = memoryview(reply.text), 0, 0
        found: list[bytes | memoryview] = []
        for owner, place in zip(reply.owners, reply.places, strict=True):
            samples[owner] += 1
            found += text[start:place], b"%d" % samples[owner]
            start = place + TOKEN_DIGITS
            if start - sent >= SEND_BYTES:
                end = reply.text.index(b"\n", start) + 1
                yield b"".join([*found, text[start:end]])
                found, start, sent = [], end, end
        self.samples.update(zip(reply.questions, samples, strict=True))
        yield b"".join([*found, text[start:]])

    def _close(self, executor: ProcessPoolExecutor, folder: str) -> None:
        # They ignore SIGTERM, and may hang.
        for process in [*(executor._processes or {}).values()]:
            process.kill()
        executor.shutdown(cancel_futures=True)
        shutil.rmtree(folder, ignore_errors=True)
        self._pieces.close()


def _submit(executor: ProcessPoolExecutor, piece: Piece) -> Future[str]:
    """Submit a piece in a thread, since that may start a process."""
    # Blocked until it ignores them, or a Ctrl-C would end it while it starts.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        return executor.submit(work_on, piece)
    except BrokenProcessPool as error:
        broken: Future[str] = Future()
        broken.set_exception(error)
        return broken
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
