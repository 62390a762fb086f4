"""When what was written is brought to the disk."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError
from graphrag_eval_async.threads import outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from graphrag_eval_async.sinks.append_file import AppendFile


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
        self._running: asyncio.Future[JournalError | None] | None = None

    def check(self) -> None:
        """See that nothing has failed.

        Raises:
            JournalError: something was not brought to the disk.
        """
        if self.failure is not None:
            raise self.failure

    def soon(self) -> None:
        """Have all that was written on the disk once the interval is over."""
        self._written = True
        if self._timer is None and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._start)

    async def now(self) -> None:
        """Return when all that was written is on the disk; a cancellation comes through afterwards.

        Raises:
            JournalError: it cannot be brought there.
        """
        self._written = True
        await self.finish()

    async def finish(self) -> None:
        """Return when all is on the disk that `soon` was called for; likewise.

        Raises:
            JournalError: it cannot be brought there.
        """
        await outlast(asyncio.ensure_future(self._sync_all()), inf)
        self.check()

    async def _sync_all(self) -> None:
        while self.failure is None and (self._written or self._running is not None):
            # One that is running may have begun before the last write.
            await asyncio.wait([self._running or self._start()])

    def _start(self) -> asyncio.Future[JournalError | None]:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._written = False
        self._running = asyncio.get_running_loop().run_in_executor(self._threads, self._sync)
        self._running.add_done_callback(self._end)
        return self._running

    def _sync(self) -> JournalError | None:
        try:
            for file in self._files:
                file.sync()
        except JournalError as error:
            return error
        return None

    def _end(self, done: asyncio.Future[JournalError | None]) -> None:
        self._running = None
        self.failure = done.result()
        if self.failure is not None:
            self._on_failure(self.failure)
        elif self._written:
            self.soon()
