"""Waits for work that does not end immediately when cancelled."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from math import inf
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from concurrent.futures import Executor

R = TypeVar("R")

SLICE_SECONDS = 0.004
"""Seconds that work may keep the event loop before it yields."""

CLOSING_SECONDS = 10.0
"""Seconds to wait for a worker or a source that ignores its cancellation."""


async def work_in_slices(steps: Iterable[object]) -> None:
    """Do all `steps` on the event loop, in slices between which others can run."""
    due = monotonic() + SLICE_SECONDS
    for _ in steps:
        if monotonic() >= due:
            await asyncio.sleep(0)
            due = monotonic() + SLICE_SECONDS


async def run_in_thread(
    function: Callable[[], R],
    stop: Callable[[], object] = lambda: None,
    *,
    threads: Executor | None = None,
) -> R:
    """`function()`, called in a thread; where waiting for it is cancelled, `stop()` is to make it
    return.

    `threads` are used instead of the event loop's own.
    """
    work = asyncio.get_running_loop().run_in_executor(threads, function)
    return await run_to_end(work, stop, seconds=CLOSING_SECONDS)


async def write_in_thread(function: Callable[[], R], *, threads: Executor | None = None) -> R:
    """`function()`, called in a thread; a cancellation waits for its end, however long that
    takes.
    """
    return await run_to_end(asyncio.get_running_loop().run_in_executor(threads, function))


def run_abandonable(function: Callable[[], R]) -> asyncio.Future[R]:
    """Call a function in a thread of its own, for which nobody has to wait; return a future of
    its result.
    """
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()  # So that a cancellation leaves it alone.

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  (raised by whoever awaits)
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return asyncio.wrap_future(future)


async def run_to_end(
    work: Awaitable[R], stop: Callable[[], object] = lambda: None, *, seconds: float = inf
) -> R:
    """Return the result of `work`; a cancellation calls `stop()` and is raised once `work` has
    ended.

    So a thread that reads or writes a file has returned before its caller closes that file. The
    cancellation waits for at most `seconds`.
    """
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop()
        # Retrieves an exception, so that asyncio does not report it as ignored.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        await outlast(future, seconds)
        raise


async def outlast(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task to end, up to a limit; raise a cancellation that came meanwhile."""
    cancelled = None
    time = asyncio.get_running_loop().time
    deadline = time() + seconds
    with anyio.CancelScope(shield=True):
        while not task.done() and (left := deadline - time()) > 0:
            try:
                await asyncio.wait([task], timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled:
        raise cancelled
