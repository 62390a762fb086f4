"""The open files of a journal, and the task that flushes them to disk."""

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
from graphrag_eval_async.sinks.journal.lines import join, read_lines, seal
from graphrag_eval_async.sinks.rejects import reject_line
from graphrag_eval_async.threads import outlast, run_in_thread, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.journal.options import Journal


class OpenJournal:
    """Holds the locks of a journal's files until it is closed.

    Attributes:
        path: path of the results.
        restored: number of results found in the journal.
        rejected: number of rejects found in the file of rejects.
        damaged: number of unreadable lines, which were set aside.
        conditions: contents of the ``.run`` file.
    """

    def __init__(
        self,
        options: Journal,
        fingerprints: Mapping[str, str],
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """Open or create the files.

        `on_failure` is called on the event loop, with the error, if a flush to disk fails. Of the two
        `threads`, one writes while the other flushes.

        Raises:
            JournalLocked: another process or stream writes to the files.
            JournalMismatch: the journal was started under other conditions.
            JournalError: the files cannot be read or written.
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
            # Others can predict this name and make it a link to some other file.
            self._rejects = AppendFile(beside, flags=0 if options.rejects else os.O_NOFOLLOW)
            if fresh:  # Drop the rejects of a journal that no longer exists.
                self._rejects.truncate(0)
        except BaseException:
            self._results.close()
            raise
        self._threads = threads
        files = (self._results, self._rejects)
        self._syncing = Syncing(files, options.fsync_interval, on_failure, threads)

    def _check(self, now: dict[str, str], *, begun: bool, force: bool) -> None:
        """Check that the journal was started under the current conditions, and store them."""
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
        """Store which files are copies, and the offsets at which reading of new files starts."""
        conditions = self.conditions
        conditions.origins = {**conditions.origins, **origins}
        conditions.copies = dict(copies)
        conditions.followed = True
        await run_in_thread(partial(conditions.write, f"{self.path}.run"), threads=self._threads)

    async def restore(self, add_result: Callable[[Any], object], add_reject: Callable[[Any], object]) -> None:
        """Read the stored results and rejects line by line; see `read_lines`."""
        read = partial(read_lines, aside=f"{self.path}.damaged", threads=self._threads)
        self.restored, self.damaged = await read(self._results, add_result)
        self.rejected, damaged = await read(self._rejects, add_reject)
        self.damaged += damaged

    async def append(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Append results in one write; a thread encodes and writes them.

        Raises:
            JournalError: these results cannot be written, or earlier ones could not be flushed.
        """
        self._syncing.check()
        lines = (seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)) for result in results)
        work = partial(self._results.write, join(lines))
        await run_in_thread(work, threads=self._threads)
        if self._fsync != "never":
            self._syncing.soon()
        if self._fsync == "always":
            await self._syncing.finish()

    def reject(self, reject: Reject, source: Mapping[str, Any]) -> None:
        """Append a reject and the source of its line."""
        self._syncing.check()
        self._rejects.write(self._reject_line(reject, source))
        if self._fsync != "never":
            self._syncing.soon()

    async def reject_large(self, reject: Reject, source: Mapping[str, Any]) -> None:
        """Append a reject as `reject` does, but in a thread."""
        self._syncing.check()
        work = partial(self._rejects.write, self._reject_line(reject, source))
        await write_in_thread(work, threads=self._threads)
        if self._fsync != "never":
            self._syncing.soon()

    def _reject_line(self, reject: Reject, source: Mapping[str, Any]) -> list[bytes]:
        room = self._max_reject_bytes - self._rejects.size
        return [seal(reject_line(reject, {"source": source}, room))]

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


class Syncing:
    """Flushes files to disk in a thread, until the first failure.

    There is no retry: after a failed flush, the system may drop the data and report success next time.
    """

    def __init__(
        self,
        files: Sequence[AppendFile],
        interval: float,
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """`interval` is the delay of `soon` in seconds; `on_failure` is called with the error of a flush."""
        self._files = files
        self._interval = interval
        self._on_failure = on_failure
        self._threads = threads
        self._failure: JournalError | None = None
        self._written = False
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise a JournalError if a flush failed."""
        if self._failure is not None:
            raise self._failure

    def soon(self) -> None:
        """Schedule a flush after the interval."""
        self._written = True
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def finish(self) -> None:
        """Wait until everything scheduled by `soon` is on disk, even if cancelled.

        Raises:
            JournalError: a flush failed.
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
