"""How runs end."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from graphrag_eval_async.cli.interrupts import Interrupts


class Exit(IntEnum):
    """Exit codes; of those that apply, the one that stands first here."""

    USAGE = 2
    FAILED = 4
    REJECTS = 3
    GATES = 1
    INTERRUPTED = 130
    OK = 0


class Ending(NamedTuple):
    """How the asynchronous part of a run ended; a Ctrl-C that comes later counts, too."""

    interrupts: Interrupts
    error: Exception | None = None

    def code(self, *, rejects: bool, gates: bool = False) -> Exit:
        """The exit code, given whether lines were rejected and whether a gate does not hold."""
        applies = {
            Exit.USAGE: isinstance(self.error, ConfigError),  # Such as a package that cannot be imported.
            Exit.FAILED: self.error is not None,
            Exit.REJECTS: rejects,
            Exit.GATES: gates,
            Exit.INTERRUPTED: self.interrupts.came,
            Exit.OK: True,
        }
        return next(code for code in Exit if applies.get(code))


def run_to_end(work: Coroutine[Any, Any, None], interrupts: Interrupts) -> Ending:
    """Run `work`, whatever comes; a closed pipe ends it like any other end, since nobody wants more."""
    interrupts.stop = _do_nothing
    try:
        asyncio.run(_run(work, interrupts))
    except (BrokenPipeError, InterruptedError, asyncio.CancelledError):
        pass
    except Exception as error:  # noqa: BLE001  (what was computed is still to be written out)
        return Ending(interrupts, error)
    return Ending(interrupts)


async def _run(work: Coroutine[Any, Any, None], interrupts: Interrupts) -> None:
    task = asyncio.ensure_future(work)
    interrupts.stop = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
    try:
        if interrupts.came:
            task.cancel()
        await task
    finally:
        interrupts.stop = _do_nothing


def _do_nothing() -> None:
    """What was computed is about to be written out."""
