"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

No real time counts: neither that of computing, nor that of a thread, during which the clock stands still.
"""

from __future__ import annotations

import asyncio
import selectors
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import anyio.to_thread

from tests.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")


class VirtualSelector(selectors.DefaultSelector):
    """Pretends that all of the time until the next timer went by."""

    now = 0.0
    threads = 0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if timeout is None or self.threads:
            events = super().select(WAIT_SECONDS)
            assert events, "every task waits for something that never comes"
            return events
        if events := self.arriving(timeout):
            return events
        self.now += timeout
        return super().select(0)

    def arriving(self, timeout: float) -> Any:  # noqa: ARG002
        """What comes without a timer, though it is not there yet."""
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Counts the threads that it starts, and gives them all the time they need at its end."""

    def __init__(self, clock: VirtualSelector) -> None:
        self._clock = clock
        super().__init__(clock)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: object) -> None:
        self._clock.threads -= 1

    @contextmanager
    def counting_threads(self) -> Iterator[None]:
        """Count the threads that anyio starts without the loop, too."""
        run_sync = anyio.to_thread.run_sync

        async def counted(*args: Any, **options: Any) -> Any:
            self._clock.threads += 1
            try:
                return await run_sync(*args, **options)
            finally:
                self._clock.threads -= 1

        with patch.object(anyio.to_thread, "run_sync", counted):
            yield

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        await super().shutdown_default_executor()


def run(main: Coroutine[Any, Any, T], clock: VirtualSelector | None = None) -> T:
    """Run to the end without waiting."""
    loop = VirtualLoop(clock or VirtualSelector())
    with loop.counting_threads(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


def now() -> float:
    """In seconds since the loop started."""
    return asyncio.get_running_loop().time()
