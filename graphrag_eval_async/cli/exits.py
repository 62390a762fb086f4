"""Ends the process: exit codes, Ctrl-C and SIGTERM, and writing what a run has so far."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from enum import IntEnum
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

from graphrag_eval_async.errors import ConfigError, JournalLocked, JournalMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

DRAIN_SECONDS = 25.0
"""Seconds to finish work in progress; service managers kill a process soon after."""

SAME_SECONDS = 0.5
"""Signals within this time count as one: a wrapper may pass on a Ctrl-C that the terminal also
sent.
"""


class Exit(IntEnum):
    USAGE = 2
    FAILED = 4
    REJECTS = 3
    GATES = 1
    INTERRUPTED = 130
    TERMINATED = 143
    OK = 0


CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Interrupts:
    """Handles SIGINT and SIGTERM while its context is open; the process should end afterwards.

    Handlers of the event loop would not do: what waits for the reader of a pipe keeps the loop from
    them. The first signal calls `stop`, a later one `cancel`, once; then one ends the process.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], object] = _raise
        self.cancel: Callable[[], object] | None = None
        self.code: Exit | None = None  # that of the first signal
        self._first = inf

    @property
    def came(self) -> bool:
        return self.code is not None

    def __enter__(self) -> Self:
        handlers = {number: signal.getsignal(number) for number in CODES}
        # Ignored signals stay ignored, as under nohup.
        self._previous = {
            n: handler for n, handler in handlers.items() if handler != signal.SIG_IGN
        }
        for number in self._previous:
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, previous in self._previous.items():
            # Another signal would leave a traceback or change the exit code, with nothing left to
            # stop.
            signal.signal(number, signal.SIG_IGN if self.came else previous)

    def _handle(self, number: int, _frame: object) -> None:
        if self.code is None:
            self.code, self._first = CODES[signal.Signals(number)], monotonic()
            self.stop()
        elif self.is_over():
            cancel, self.cancel = self.cancel, None
            if cancel is None:
                os._exit(CODES[signal.Signals(number)])
            cancel()

    def is_over(self) -> bool:
        """Whether `SAME_SECONDS` have passed since the first signal."""
        return monotonic() - self._first > SAME_SECONDS

    def wait_writable(self, descriptor: int) -> None:
        """Block until `descriptor` can be written to; after a signal, raise an
        `InterruptedError` instead.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(100):
            if self.is_over():
                raise InterruptedError


def _raise() -> NoReturn:
    raise KeyboardInterrupt


def _ignore() -> None:
    pass


class Ending(NamedTuple):
    """How the asynchronous part of a run ended; later signals count, too."""

    interrupts: Interrupts
    error: Exception | None = None
    is_cut: bool = False  # The reader of the output went away.

    @property
    def is_complete(self) -> bool:
        """Whether all was read."""
        return self.error is None and not self.is_cut and not self.interrupts.came

    def attempt(self, action: Callable[[], object]) -> Ending:
        """Run an action; its `OSError` becomes the error of the run, unless there is one
        already.
        """
        try:
            action()
        except OSError as error:
            return self._replace(error=self.error or error)
        return self

    def code(self, *, rejects: bool, gates: bool = False) -> Exit:
        """Return the exit code, given whether lines were rejected and whether a gate failed."""
        codes = {
            # Such as a package that cannot be imported, or a journal of another configuration.
            Exit.USAGE: isinstance(self.error, ConfigError | JournalLocked | JournalMismatch),
            Exit.FAILED: self.error is not None,
            Exit.REJECTS: rejects and not self.interrupts.came,
            Exit.GATES: gates,
        }
        return next(
            (code for code, applies in codes.items() if applies), self.interrupts.code or Exit.OK
        )


def run_to_end(
    work: Coroutine[Any, Any, None],
    interrupts: Interrupts,
    *,
    drain: Callable[[], object] | None = None,
) -> Ending:
    """Run `work` until it ends or fails; a closed pipe is not an error: its reader has enough.

    A signal calls `drain` on the event loop, and `work` then has `DRAIN_SECONDS` to finish; after
    that, or at a second signal, it is cancelled. Without `drain`, the first signal cancels it.
    """

    async def run() -> None:
        task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

        def stop() -> None:
            if drain is None:
                task.cancel()
            else:
                drain()
                loop.call_later(DRAIN_SECONDS, task.cancel)

        interrupts.stop = partial(loop.call_soon_threadsafe, stop)
        if drain is not None:
            interrupts.cancel = partial(loop.call_soon_threadsafe, task.cancel)
        try:
            if interrupts.came:
                stop()
            await task
        finally:
            interrupts.stop, interrupts.cancel = _ignore, None

    interrupts.stop = _ignore  # What was computed is still to be written.
    try:
        asyncio.run(run())
    except BrokenPipeError:
        return Ending(interrupts, is_cut=True)
    except (InterruptedError, asyncio.CancelledError):
        pass
    except Exception as error:  # noqa: BLE001  (what was computed is still to be written)
        return Ending(interrupts, error)
    return Ending(interrupts)
