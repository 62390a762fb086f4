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
    """The exit codes of the command line."""

    USAGE = 2
    FAILED = 4
    REJECTS = 3
    GATES = 1
    INTERRUPTED = 130
    TERMINATED = 143
    OK = 0


CODE_BY_SIGNAL = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
"""The signals that end a run, and the exit codes after them, as shells expect them."""

POLL_MILLISECONDS = 100
"""How long to wait for the reader of a pipe between two looks for a signal; chosen."""


class Interrupts:
    """Handles SIGINT and SIGTERM while its context is open; the process should end afterwards.

    Handlers of the event loop would not do: what waits for the reader of a pipe keeps the loop from
    them. The first signal calls `stop`, a later one `cancel`, once; then one ends the process.

    Attributes:
        stop: what the first signal calls.
        cancel: what a later signal calls; None if the process is to end at once.
        code: the exit code after the first signal; None before it.
    """

    def __init__(self) -> None:
        """Let the first signal raise a `KeyboardInterrupt`, and a later one end the process."""
        self.stop: Callable[[], object] = _raise_keyboard_interrupt
        self.cancel: Callable[[], object] | None = None
        self.code: Exit | None = None
        # When the first signal came, on the monotonic clock.
        self._first_at = inf

    @property
    def came(self) -> bool:
        """Whether a signal came."""
        return self.code is not None

    def __enter__(self) -> Self:
        self._previous_handlers = {}
        for number in CODE_BY_SIGNAL:
            handler = signal.getsignal(number)
            # Ignored signals stay ignored, as under nohup.
            if handler != signal.SIG_IGN:
                self._previous_handlers[number] = handler
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous_handlers.items():
            # Another signal would leave a traceback or change the exit code, with nothing left to
            # stop.
            signal.signal(number, signal.SIG_IGN if self.came else handler)

    def _handle(self, number: int, _frame: object) -> None:
        """Stop at the first signal, cancel at the second one, and end the process at the third."""
        code = CODE_BY_SIGNAL[signal.Signals(number)]
        if self.code is None:
            self.code = code
            self._first_at = monotonic()
            self.stop()
        elif self.is_another_signal_meant():
            cancel = self.cancel
            self.cancel = None
            if cancel is None:
                os._exit(code)
            cancel()

    def is_another_signal_meant(self) -> bool:
        """Return whether a signal now is another one than the first: `SAME_SECONDS` have passed."""
        return monotonic() - self._first_at > SAME_SECONDS

    def wait_writable(self, descriptor: int) -> None:
        """Block until a file can be written to.

        Args:
            descriptor: the descriptor of the file, such as a pipe whose reader is slow.

        Raises:
            InterruptedError: a signal came meanwhile or before.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(POLL_MILLISECONDS):
            if self.is_another_signal_meant():
                raise InterruptedError


def _raise_keyboard_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _do_nothing() -> None:
    pass


class Ending(NamedTuple):
    """How the asynchronous part of a run ended.

    Attributes:
        interrupts: tells whether a signal came, also a later one.
        error: the error that ended the run; None without one.
        is_cut: whether the reader of the output went away.
    """

    interrupts: Interrupts
    error: Exception | None = None
    is_cut: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all was read."""
        return self.error is None and not self.is_cut and not self.interrupts.came

    def attempt(self, action: Callable[[], object]) -> Ending:
        """Run an action at the end of the run, such as writing a file.

        Returns:
            This ending. If the action raises an `OSError`, an ending with that error, unless this
            one has an error already.
        """
        try:
            action()
        except OSError as error:
            return self._replace(error=self.error or error)
        return self

    def code(self, *, rejects: bool, gates: bool = False) -> Exit:
        """Return the exit code of the process.

        Args:
            rejects: whether lines were rejected.
            gates: whether a gate failed.
        """
        # Such as a package that cannot be imported, or a journal of another configuration.
        if isinstance(self.error, ConfigError | JournalLocked | JournalMismatch):
            return Exit.USAGE
        if self.error is not None:
            return Exit.FAILED
        if rejects and not self.interrupts.came:
            return Exit.REJECTS
        if gates:
            return Exit.GATES
        if self.interrupts.code is not None:
            return self.interrupts.code
        return Exit.OK


def run_to_end(
    work: Coroutine[Any, Any, None],
    interrupts: Interrupts,
    *,
    drain: Callable[[], object] | None = None,
) -> Ending:
    """Run a coroutine on an event loop until it ends, fails, or is ended by signals.

    A closed pipe is not an error: its reader has enough.

    Args:
        work: the coroutine.
        interrupts: handles the signals.
        drain: is called on the event loop at the first signal; `work` then has `DRAIN_SECONDS` to
            finish. After that, or at a second signal, it is cancelled. With None, the first signal
            cancels it.

    Returns:
        How the work ended; it raises nothing.
    """
    # What was computed is still to be written, so that a signal before or after the work does not
    # end the process.
    interrupts.stop = _do_nothing
    try:
        asyncio.run(_run_until_signals(work, interrupts, drain))
    except BrokenPipeError:
        return Ending(interrupts, is_cut=True)
    except (InterruptedError, asyncio.CancelledError):
        return Ending(interrupts)
    except Exception as error:  # noqa: BLE001  (what was computed is still to be written)
        return Ending(interrupts, error)
    return Ending(interrupts)


async def _run_until_signals(
    work: Coroutine[Any, Any, None],
    interrupts: Interrupts,
    drain: Callable[[], object] | None,
) -> None:
    """Await a coroutine, which signals may end.

    Args:
        work: the coroutine.
        interrupts: handles the signals.
        drain: is called on the event loop at the first signal, after which `work` has some seconds
            to finish; None if the first signal cancels it.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if drain is None:
            task.cancel()
        else:
            drain()
            loop.call_later(DRAIN_SECONDS, task.cancel)

    # Signals come between any two instructions, so that they only wake the loop.
    interrupts.stop = partial(loop.call_soon_threadsafe, stop)
    if drain is not None:
        interrupts.cancel = partial(loop.call_soon_threadsafe, task.cancel)
    try:
        if interrupts.came:
            stop()
        await task
    finally:
        interrupts.stop = _do_nothing
        interrupts.cancel = None
