"""How runs end."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ConfigError, JournalLocked, JournalMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from graphrag_eval_async.cli.interrupts import Interrupts


DRAIN_SECONDS = 25.0
"""How long a run may take to finish what it has begun; service managers kill a process some seconds later."""


class Exit(IntEnum):
    """Exit codes; of those that apply, the one that stands first here."""

    USAGE = 2
    FAILED = 4
    REJECTS = 3
    GATES = 1
    INTERRUPTED = 130
    TERMINATED = 143
    OK = 0


class Ending(NamedTuple):
    """How the asynchronous part of a run ended; a signal that comes later counts, too."""

    interrupts: Interrupts
    error: Exception | None = None

    def code(self, *, rejects: bool, gates: bool = False) -> Exit:
        """The exit code, given whether lines were rejected and whether a gate does not hold."""
        applies = {
            # Such as a package that cannot be imported, or a journal of another configuration.
            Exit.USAGE: isinstance(self.error, ConfigError | JournalLocked | JournalMismatch),
            Exit.FAILED: self.error is not None,
            Exit.REJECTS: rejects,
            Exit.GATES: gates,
            Exit.INTERRUPTED: self.interrupts.code == Exit.INTERRUPTED,
            Exit.TERMINATED: self.interrupts.code == Exit.TERMINATED,
            Exit.OK: True,
        }
        return next(code for code in Exit if applies.get(code))


def run_to_end(
    work: Coroutine[Any, Any, None],
    interrupts: Interrupts,
    *,
    drain: Callable[[], object] | None = None,
) -> Ending:
    """Run `work`, whatever comes; a closed pipe ends it like any other end, since nobody wants more.

    A signal calls `drain`, on the event loop, which is to let `work` come to its end within `DRAIN_SECONDS`;
    after that, or by a second one, it is cancelled. Without `drain`, the first cancels it.
    """
    interrupts.stop = _do_nothing
    try:
        asyncio.run(_run(work, interrupts, drain))
    except (BrokenPipeError, InterruptedError, asyncio.CancelledError):
        pass
    except Exception as error:  # noqa: BLE001  (what was computed is still to be written out)
        return Ending(interrupts, error)
    return Ending(interrupts)


async def _run(
    work: Coroutine[Any, Any, None], interrupts: Interrupts, drain: Callable[[], object] | None
) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    soon = loop.call_soon_threadsafe

    def stop() -> None:
        if drain is None:
            task.cancel()
        else:
            drain()
            loop.call_later(DRAIN_SECONDS, task.cancel)

    interrupts.stop = partial(soon, stop)
    interrupts.cancel = partial(soon, task.cancel) if drain is not None else None
    try:
        if interrupts.came:
            stop()
        await task
    finally:
        interrupts.stop = _do_nothing
        interrupts.cancel = None


def _do_nothing() -> None:
    """What was computed is about to be written out."""
