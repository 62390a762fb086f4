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
    """Take all steps of some work on the event loop, and let other tasks run now and then.

    Args:
        steps: an iterator that does a part of the work each time it yields.
    """
    slice_end = monotonic() + SLICE_SECONDS
    for _ in steps:
        if monotonic() >= slice_end:
            await asyncio.sleep(0)
            slice_end = monotonic() + SLICE_SECONDS


async def run_in_thread(
    function: Callable[[], R],
    stop: Callable[[], object] = lambda: None,
    *,
    threads: Executor | None = None,
) -> R:
    """Return `function()`, called in a thread.

    A cancellation waits for its end, for at most `CLOSING_SECONDS`.

    Args:
        function: what to call.
        stop: called if the waiting is cancelled, to make `function` return.
        threads: threads to use instead of the event loop's own.
    """
    work = asyncio.get_running_loop().run_in_executor(threads, function)
    return await run_to_end(work, stop, seconds=CLOSING_SECONDS)


async def write_in_thread(function: Callable[[], R], *, threads: Executor | None = None) -> R:
    """Return `function()`, called in a thread.

    A cancellation waits for its end, however long that takes, so that nothing is half written.

    Args:
        function: what to call.
        threads: threads to use instead of the event loop's own.
    """
    work = asyncio.get_running_loop().run_in_executor(threads, function)
    return await run_to_end(work)


def run_abandonable(function: Callable[[], R]) -> asyncio.Future[R]:
    """Call a function in a thread of its own, and return a future of its result.

    Nobody has to wait for the thread: not whoever cancels the future, and not the end of the
    event loop or of the process.
    """
    future: Future[R] = Future()
    # A future that is running cannot be cancelled, so the thread can always set its result.
    future.set_running_or_notify_cancel()

    def run() -> None:
        """Call the function, and set its result or its exception on the future."""
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001  (raised by whoever awaits)
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=run, daemon=True).start()
    return asyncio.wrap_future(future)


async def run_to_end(
    work: Awaitable[R], stop: Callable[[], object] = lambda: None, *, seconds: float = inf
) -> R:
    """Return the result of `work`; raise a cancellation only once `work` has ended.

    So a thread that reads or writes a file has returned before its caller closes that file. Only
    the end of the event loop, which cancels all tasks, also cancels a coroutine at once.

    Args:
        work: what to wait for: a future of a thread, or a coroutine, such as a call of `aiofiles`.
        stop: called if the waiting is cancelled, to make `work` end.
        seconds: maximum time that a cancellation waits.
    """
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop()
        # Nobody looks at the result any more.
        future.add_done_callback(_retrieve_exception)
        await outlast(future, seconds)
        raise


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Look at the exception of a future, so that asyncio does not report it as ignored."""
    if not future.cancelled():
        future.exception()


async def outlast(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task to end, for at most `seconds`, even if the waiting is cancelled.

    A cancellation that comes meanwhile is raised afterwards. Of several, the last is.
    """
    cancellation = None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # The scopes of anyio cancel again and again, but not inside of a shield.
    with anyio.CancelScope(shield=True):
        while not task.done():
            remaining = deadline - loop.time()
            if remaining <= 0:
                break
            try:
                await asyncio.wait([task], timeout=remaining)
            except asyncio.CancelledError as error:
                cancellation = error
    if cancellation is not None:
        raise cancellation
