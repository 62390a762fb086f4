"""The files of a journal, open, and when what was written to them is brought to the disk."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import orjson

from graphrag_eval_async.sinks.append_file import AppendFile, read_lines
from graphrag_eval_async.sinks.journal.options import RunFile
from graphrag_eval_async.sinks.rejects import reject_line
from graphrag_eval_async.threads import SLICE_SECONDS, outlast, run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from graphrag_eval_async.errors import JournalError
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.journal.options import Journal


class OpenJournal:
    """Holds the locks of a journal's files until it is closed.

    Attributes:
        path: of the results.
        restored: how many results were found in it.
        rejected: how many rejects were found beside it.
        damaged: how many lines could not be read, and were set aside.
        followed: whether files were followed before.
        origins: as they were before, by the key of a followed file the bytes of it that are not ours.
        copies: as they were before, by the root of the keys of a followed file the key of its original.
    """

    def __init__(
        self,
        options: Journal,
        fingerprints: Mapping[str, str],
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """Open or make the files.

        Args:
            options: where they are, and how they are kept.
            fingerprints: of the conditions of this run.
            on_failure: called on the event loop, with the error, if something cannot be brought to the disk.
            threads: two, so that one writes while the other brings to the disk.

        Raises:
            JournalLocked: somebody else writes to them.
            JournalMismatch: the journal was begun under other conditions.
            JournalError: they cannot be read or written.
        """
        self.path = os.fspath(options.path)
        self.restored = self.rejected = self.damaged = 0
        self._always = options.fsync == "always"
        self._never = options.fsync == "never"
        fresh = not os.path.exists(self.path)
        self._results = AppendFile(self.path)
        try:
            beside = options.rejects or f"{self.path}.rejects"
            self._run = RunFile(f"{self.path}.run", fresh=fresh)
            kept = self._run.kept
            self.followed, self.origins, self.copies = kept.followed, kept.origins, kept.copies
            begun = self._results.size > 0 or (not fresh and _size(beside) > 0)
            self._run.check(self.path, fingerprints, begun=begun, force=options.force)
            self._rejects = AppendFile(beside)
            if fresh:  # What was rejected for a journal that is gone.
                self._rejects.truncate(0)
        except BaseException:
            self._results.close()
            raise
        files = (self._results, self._rejects)
        self._threads = threads
        self._syncing = Syncing(files, options.fsync_interval, on_failure, self._threads)

    async def note(self, origins: Mapping[str, int], copies: Mapping[str, str]) -> None:
        """Keep where the reading of followed files began, and which are copies.

        Raises:
            JournalError: it cannot be kept.
        """
        await run_in_thread(partial(self._run.note, origins, copies), threads=self._threads)

    async def restore(self, add_result: Callable[[Any], object], add_reject: Callable[[Any], object]) -> None:
        """Hand over what is there, line after line.

        A last line without its newline is cut off. A line that is no JSON, or that its function refuses, is
        set aside, in a file beside the journal.

        Raises:
            JournalError: the files cannot be read or mended.
        """
        read = partial(read_lines, aside=f"{self.path}.damaged", threads=self._threads)
        self.restored, self.damaged = await read(self._results, add_result)
        self.rejected, damaged = await read(self._rejects, add_reject)
        self.damaged += damaged

    async def append(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Add results, in one write where the system takes it as one and that does not take long.

        Raises:
            JournalError: they, or earlier ones, cannot be written, or brought to the disk.
        """
        lines = []
        due = monotonic() + SLICE_SECONDS
        for result in results:
            lines.append(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))
            if monotonic() >= due:
                await self._write(lines)
                lines = []
                due = monotonic() + SLICE_SECONDS
        await self._write(lines)
        if self._always:
            await self._syncing.now()
        elif not self._never:
            self._syncing.soon()

    async def _write(self, lines: Sequence[bytes]) -> None:
        self._syncing.check()
        await run_in_thread(partial(self._results.write, [b"".join(lines)]), threads=self._threads)

    def reject(self, reject: Reject, source: Mapping[str, Any]) -> None:
        """Add a reject, with what is known of its line.

        Raises:
            JournalError: it, or something earlier, cannot be written, or brought to the disk.
        """
        self._syncing.check()
        self._rejects.write(reject_line(reject, {"source": source}))
        if not self._never:
            self._syncing.soon()

    async def aclose(self) -> None:
        """Bring all to the disk, unless that is never to be done, and give up the locks.

        Raises:
            JournalError: something cannot be brought to the disk.
        """
        try:
            if not self._never:
                await self._syncing.finish()
        finally:
            self._results.close()
            self._rejects.close()


def _size(path: str | os.PathLike[str]) -> int:
    """Of a file, which may not be there."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


class Syncing:
    """Brings files to the disk, in a thread, until it fails for the first time.

    A system may forget what it could not write and call the next attempt a success, so there is none.

    Attributes:
        failure: why it could not be done.
    """

    def __init__(
        self,
        files: Sequence[AppendFile],
        interval: float,
        on_failure: Callable[[JournalError], object],
        threads: Executor,
    ) -> None:
        """`interval` is how long `soon` waits, in seconds; `on_failure` gets the error if that fails."""
        self.failure: JournalError | None = None
        self._files = files
        self._interval = interval
        self._on_failure = on_failure
        self._threads = threads
        self._written = False
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Future[None] | None = None

    def check(self) -> None:
        """Raise a JournalError if something was not brought to the disk."""
        if self.failure is not None:
            raise self.failure

    def soon(self) -> None:
        """Have all that was written on the disk once the interval is over."""
        self._written = True
        if self._timer is None and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._start)

    async def now(self) -> None:
        """As `finish`, for all that was written."""
        self._written = True
        await self.finish()

    async def finish(self) -> None:
        """Return when all is on the disk that `soon` was called for; a cancellation comes through afterwards.

        Raises:
            JournalError: it cannot be brought there.
        """
        await outlast(asyncio.ensure_future(self._sync_all()), inf)
        self.check()

    async def _sync_all(self) -> None:
        while self.failure is None and (self._written or self._running is not None):
            # One that is running may have begun before the last write.
            await asyncio.wait([self._running or self._start()])

    def _start(self) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._written = False
        self._running = asyncio.get_running_loop().run_in_executor(self._threads, self._sync)
        self._running.add_done_callback(self._end)
        return self._running

    def _sync(self) -> None:
        for file in self._files:
            file.sync()

    def _end(self, done: asyncio.Future[None]) -> None:
        self._running = None
        self.failure = cast("JournalError | None", done.exception())
        if self.failure is not None:
            self._on_failure(self.failure)
        elif self._written:
            self.soon()
