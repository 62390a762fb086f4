"""Waiting for work that does not end at once when it is cancelled."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

R = TypeVar("R")

SLICE_SECONDS = 0.004
"""How long work that never waits may keep the event loop."""

CLOSING_SECONDS = 10.0
"""How long to wait for a worker or a source that does not heed its cancellation."""


async def run_in_thread(
    function: Callable[[], R], stop: Callable[[], object] = lambda: None, *, threads: Executor | None = None
) -> R:
    """`function()`, called in a thread; where waiting for it is cancelled, `stop()` is to make it return.

    `threads` are used rather than those that the event loop has for everybody.
    """
    future = asyncio.get_running_loop().run_in_executor(threads, function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop()
        future.add_done_callback(_note_end)
        await outlast(future, CLOSING_SECONDS)
        raise


def _note_end(done: asyncio.Future[Any]) -> None:
    """Take note of an exception, so that nobody complains that it was ignored."""
    if not done.cancelled():
        done.exception()


async def outlast(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for the end of a task, at most so long; a cancellation meanwhile comes through afterwards."""
    cancelled = None
    deadline = monotonic() + seconds
    with anyio.CancelScope(shield=True):
        while not task.done() and (left := deadline - monotonic()) > 0:
            try:
                await asyncio.wait([task], timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled:
        raise cancelled
