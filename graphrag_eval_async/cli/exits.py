"""How runs end."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Exit(IntEnum):
    """Exit codes; of those that apply, the one that stands first here."""

    USAGE = 2
    FAILED = 4
    REJECTS = 3
    GATES = 1
    INTERRUPTED = 130
    OK = 0


class Ending(NamedTuple):
    """How the asynchronous part of a run ended: by itself, by Ctrl-C, or by an error."""

    interrupted: bool = False
    error: Exception | None = None

    def code(self, *, rejects: bool, gates: bool = False) -> Exit:
        """The exit code, given whether lines were rejected and whether a gate does not hold."""
        applies = {
            Exit.FAILED: self.error is not None,
            Exit.REJECTS: rejects,
            Exit.GATES: gates,
            Exit.INTERRUPTED: self.interrupted,
            Exit.OK: True,
        }
        return next(code for code in Exit if applies.get(code))


def run_to_end(work: Coroutine[Any, Any, None]) -> Ending:
    """Run `work`, whatever comes; a closed pipe ends it like any other end, since nobody wants more."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        return Ending(interrupted=True)
    except BrokenPipeError:
        return Ending()
    except Exception as error:  # noqa: BLE001  (what was computed is still to be written out)
        return Ending(error=error)
    return Ending()
