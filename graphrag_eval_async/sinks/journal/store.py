"""The open files of a journal, and when they are flushed to the disk."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import JournalError
from graphrag_eval_async.sinks.append_file import AppendFile
from graphrag_eval_async.sinks.journal.conditions import FORMAT, mismatch, new_conditions, read_conditions
from graphrag_eval_async.sinks.journal.lines import join, read_lines, seal, seal_pieces
from graphrag_eval_async.sinks.rejects import reject_line
from graphrag_eval_async.threads import outlast, run_in_thread, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.journal.options import Journal


class OpenJournal:
    """Holds the locks of a journal's files until it is closed.

    Attributes:
        path: of the results.
        restored: the number of results found in it.
        rejected: the number of rejects found beside it.
        damaged: the number of lines that could not be read, and were set aside.
        conditions: what the file beside it holds.
    """

    def __init__(
        self,
        options: Journal,
        fingerprints: Mapping[str, str],
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """Open or create the files.

        `on_failure` is called on the event loop, with the error, if something cannot be flushed to the disk.
        Of the two `threads`, one writes while the other flushes.

        Raises:
            JournalLocked: somebody else writes to them.
            JournalMismatch: the journal was begun under other conditions.
            JournalError: they cannot be read or written.
        """
        self.path = os.fspath(options.path)
        self.restored = self.rejected = self.damaged = 0
        self._fsync = options.fsync
        self._max_reject_bytes = options.max_reject_bytes
        fresh = not os.path.exists(self.path)
        self._results = AppendFile(self.path)
        try:
            beside = options.rejects or f"{self.path}.rejects"
            self.conditions = new_conditions() if fresh else read_conditions(f"{self.path}.run")
            rejected = os.path.exists(beside) and os.path.getsize(beside) > 0
            begun = self._results.size > 0 or (not fresh and rejected)
            self._check({"format": FORMAT, **fingerprints}, begun=begun, force=options.force)
            # A name that others can foresee may have been made a link to a file of somebody else.
            self._rejects = AppendFile(beside, flags=0 if options.rejects else os.O_NOFOLLOW)
            if fresh:  # What was rejected for a journal that is gone.
                self._rejects.truncate(0)
        except BaseException:
            self._results.close()
            raise
        self._threads = threads
        files = (self._results, self._rejects)
        self._syncing = Syncing(files, options.fsync_interval, on_failure, threads)

    def _check(self, now: dict[str, str], *, begun: bool, force: bool) -> None:
        """Check that the journal was begun under the conditions of now, and keep them."""
        conditions = self.conditions
        before = conditions.fingerprints
        if before == now:
            return
        if begun and not force:
            raise mismatch(self.path, before, now)
        conditions.fingerprints = now
        conditions.earlier = [*conditions.earlier, before] if begun and before else []
        conditions.write(f"{self.path}.run")

    async def note(self, origins: Mapping[str, int], copies: Mapping[str, str]) -> None:
        """Keep which files are copies, and where the reading of new files began.

        Raises:
            JournalError: it cannot be kept.
        """
        conditions = self.conditions
        conditions.origins = {**conditions.origins, **origins}
        conditions.copies = dict(copies)
        conditions.followed = True
        await run_in_thread(partial(conditions.write, f"{self.path}.run"), threads=self._threads)

    async def restore(self, add_result: Callable[[Any], object], add_reject: Callable[[Any], object]) -> None:
        """Pass on what is there, line by line, as `read_lines` does.

        Raises:
            JournalError: the files cannot be read or mended.
        """
        read = partial(read_lines, aside=f"{self.path}.damaged", threads=self._threads)
        self.restored, self.damaged = await read(self._results, add_result)
        self.rejected, damaged = await read(self._rejects, add_reject)
        self.damaged += damaged

    async def append(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Add results, in one write. Their lines are made in the thread that writes them.

        Raises:
            JournalError: they, or earlier ones, cannot be written or flushed.
        """
        self._syncing.check()
        work = partial(self._results.write, join(map(_line, results)))
        await run_in_thread(work, threads=self._threads)
        if self._fsync != "never":
            self._syncing.soon()
        if self._fsync == "always":
            await self._syncing.finish()

    def reject(self, reject: Reject, source: Mapping[str, Any]) -> None:
        """Add a reject, and the source of its line.

        Raises:
            JournalError: it, or something earlier, cannot be written or flushed.
        """
        self._syncing.check()
        self._rejects.write(self._reject_line(reject, source))
        if self._fsync != "never":
            self._syncing.soon()

    async def reject_large(self, reject: Reject, source: Mapping[str, Any]) -> None:
        """The same in a thread."""
        self._syncing.check()
        work = partial(self._rejects.write, self._reject_line(reject, source))
        await write_in_thread(work, threads=self._threads)
        if self._fsync != "never":
            self._syncing.soon()

    def _reject_line(self, reject: Reject, source: Mapping[str, Any]) -> Iterator[bytes]:
        room = self._max_reject_bytes - self._rejects.size
        return seal_pieces(reject_line(reject, {"source": source}, room))

    async def aclose(self) -> None:
        """Flush everything, unless `fsync` is "never", and release the locks.

        Raises:
            JournalError: something cannot be flushed.
        """
        try:
            if self._fsync != "never":
                await self._syncing.finish()
        finally:
            self._results.close()
            self._rejects.close()


def _line(result: Mapping[str, Any]) -> bytes:
    return seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))


class Syncing:
    """Flushes files to the disk, in a thread, until that fails for the first time.

    A system may forget what it could not write and call the next attempt a success, so there is none.
    """

    def __init__(
        self,
        files: Sequence[AppendFile],
        interval: float,
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """`interval` is how long `soon` waits, in seconds; `on_failure` gets the error if that fails."""
        self._files = files
        self._interval = interval
        self._on_failure = on_failure
        self._threads = threads
        self._failure: JournalError | None = None
        self._written = False
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise a JournalError if something could not be flushed."""
        if self._failure is not None:
            raise self._failure

    def soon(self) -> None:
        """Flush all that was written once the interval is over."""
        self._written = True
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def finish(self) -> None:
        """Return when all that `soon` was called for is on the disk; then let a cancellation through.

        Raises:
            JournalError: it cannot be flushed.
        """
        if self._written:
            self.soon()  # Its task may have been cancelled.
        if self._task is not None:
            self._hurry.set()
            await outlast(self._task, inf)
        self.check()

    async def _run(self) -> None:
        def sync() -> None:
            for file in self._files:
                file.sync()

        loop = asyncio.get_running_loop()
        try:
            while self._written and self._failure is None:  # More may be written during a flush.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), self._interval)
                self._written = False
                await loop.run_in_executor(self._threads, sync)
        except JournalError as error:
            self._failure = error
            self._on_failure(error)
        finally:
            self._hurry.clear()
            self._task = None
