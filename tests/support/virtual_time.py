"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

No real time counts: neither that of computing, nor that of a thread, during which the clock stands
still.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from unittest.mock import patch

import anyio.to_thread

from tests.support.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

P = ParamSpec("P")
T = TypeVar("T")

HARD_DEADLINE = 1e6
"""In seconds of the loop."""

QUIET_SECONDS = 0.002
HOPS = 4
"""More than it takes to connect."""


class Clock(selectors.DefaultSelector):
    """Pretends that all of the time until the next timer went by.

    With the `ends` of a connection, time stands still while anything is on its way through one.
    Both ends of every connection are in this process, and what one sends is there for the other at
    once, or on a busy machine, once what is sent later is there.
    """

    now = 0.0
    threads = 0

    def __init__(self, *ends: socket.socket) -> None:
        super().__init__()
        self._ends = ends

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if timeout is None or self.threads:
            events = super().select(WAIT_SECONDS)
            assert events, "every task waits for something that never comes"
            return events
        for _ in range(HOPS // 2 if self._ends else 0):
            for sender, receiver in (self._ends, self._ends[::-1]):
                sender.sendall(b".")
                receiver.recv(1)
        is_hanging = timeout > HARD_DEADLINE / 2
        quiet = (WAIT_SECONDS if is_hanging else QUIET_SECONDS) if self._ends else 0
        if events := super().select(quiet):
            return events
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Counts the threads that it starts, and gives them all the time they need at its end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(clock)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(lambda _: setattr(self._clock, "threads", self._clock.threads - 1))
        return future

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


def run(main: Coroutine[Any, Any, T], *ends: socket.socket) -> T:
    """Run to the end without waiting; what hangs fails."""
    loop = VirtualLoop(Clock(*ends))
    with loop.counting_threads(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(asyncio.wait_for(main, HARD_DEADLINE))


def without_waiting(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """An asynchronous test with servers, on a loop that skips all waiting."""

    @functools.wraps(test)
    def skipping(*args: P.args, **kwargs: P.kwargs) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            ends = socket.create_connection(server.getsockname()), server.accept()[0]
        with ends[0], ends[1]:
            for end in ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.settimeout(WAIT_SECONDS)
            run(test(*args, **kwargs), *ends)

    return skipping


def now() -> float:
    """In seconds since the loop started."""
    return asyncio.get_running_loop().time()
