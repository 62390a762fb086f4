"""When what was written is brought to the disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.sinks.append_file import AppendFile


class Syncing:
    """Brings files to the disk, in a thread.

    Attributes:
        failure: why it could not be done.
    """

    def __init__(
        self, files: Sequence[AppendFile], interval: float, on_failure: Callable[[BaseException], object]
    ) -> None:
        """`interval` is how long `soon` waits, in seconds; `on_failure` gets the error if that fails."""
        self.failure: BaseException | None = None
        self._files = files
        self._interval = interval
        self._on_failure = on_failure
        self._written = False
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Future[None] | None = None

    def soon(self) -> None:
        """Have all that was written on the disk once the interval is over."""
        self._written = True
        if self._timer is None and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._start)

    async def now(self) -> None:
        """Return when all that was written is on the disk.

        Raises:
            JournalError: it cannot be brought there.
        """
        while self._running is not None:  # It may have begun before the last write.
            await asyncio.wait([self._running])
        await asyncio.shield(self._start())

    async def finish(self) -> None:
        """Have all on the disk that `soon` was called for, now.

        Raises:
            JournalError: it cannot be brought there.
        """
        if self._written or self._running is not None:
            await self.now()

    def _start(self) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._written = False
        self._running = asyncio.get_running_loop().run_in_executor(None, self._sync)
        self._running.add_done_callback(self._end)
        return self._running

    def _sync(self) -> None:
        for file in self._files:
            file.sync()

    def _end(self, done: asyncio.Future[None]) -> None:
        self._running = None
        self.failure = done.exception()
        if self.failure is not None:
            self._on_failure(self.failure)
        elif self._written:
            self.soon()
