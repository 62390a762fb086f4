"""Waits that end, with a message that says what was awaited."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

P = ParamSpec("P")
T = TypeVar("T")

TEST_SECONDS = 500
"""How long an asynchronous test may take: less than pytest-timeout gives it, which ends the
process.
"""

WAIT_SECONDS = 100
"""How long one step may be waited for; far longer than a busy machine takes."""

PROCESS_SECONDS = 300
"""How long a process may take that imports much, or starts such processes one after the other."""


def in_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same coroutine function, except that it raises `TimeoutError` where it waits if it
    hangs.
    """

    @functools.wraps(test)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        async with asyncio.timeout(TEST_SECONDS):
            return await test(*args, **kwargs)

    return run


def wait(event: threading.Event, awaited: str = "an event") -> None:
    """Wait for an event that another thread sets."""
    assert event.wait(WAIT_SECONDS), f"waited {WAIT_SECONDS} s for {awaited}"


async def until(condition: Callable[[], object], awaited: str = "a condition") -> None:
    """Wait for what tasks and threads bring about."""
    end = monotonic() + WAIT_SECONDS
    while not condition():
        assert monotonic() < end, f"waited {WAIT_SECONDS} s for {awaited}"
        await asyncio.sleep(0.001)


def join(thread: threading.Thread) -> None:
    """Wait for a thread to end."""
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), f"waited {WAIT_SECONDS} s for {thread} to end"


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process and wait for its end when the context ends; kill it if the context raises."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextmanager
def killing(process: subprocess.Popen[Any], awaited: str) -> Iterator[None]:
    """Kill the process, and fail, if the context takes longer than `WAIT_SECONDS`."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(WAIT_SECONDS, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        assert not late.is_set(), f"waited {WAIT_SECONDS} s for {awaited}"
