"""Ctrl-C, and SIGTERM as service managers send it."""

from __future__ import annotations

import os
import select
import signal
import threading
from time import monotonic
from typing import TYPE_CHECKING, NoReturn, Self

from graphrag_eval_async.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}

SAME_SECONDS = 0.5
"""What runs a command may pass Ctrl-C on to it that the terminal has sent it already."""

POLL_MILLISECONDS = 100


class Interrupts:
    """Handles SIGINT and SIGTERM while its context is open, in a process that ends thereafter.

    The first one calls `stop`, and those within `SAME_SECONDS` of it are the same one. A later one calls
    `cancel`, or ends the process at once where there is nothing to cancel, as one after that does. What a
    process was started to ignore, it goes on to ignore.

    Attributes:
        stop: raises `KeyboardInterrupt` until a run sets what ends it and lets it be written out.
        cancel: ends what `stop` did not end yet, if there is such a thing.
        code: the exit code that the first one asks for; None before.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], object] = _raise
        self.cancel: Callable[[], object] | None = None
        self.code: Exit | None = None
        self._first = 0.0

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self.code is not None

    def __enter__(self) -> Self:
        self._previous = {
            number: previous
            for number in CODES
            if (previous := signal.getsignal(number)) not in (signal.SIG_IGN, None)
            and threading.current_thread() is threading.main_thread()
        }
        for number in self._previous:
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, previous in self._previous.items():
            # One more would leave a traceback, or another exit code, and nothing is left for it to stop.
            signal.signal(number, signal.SIG_IGN if self.came else previous)

    def _handle(self, number: int, _frame: object) -> None:
        now = monotonic()
        if self.code is None:
            self.code = CODES[signal.Signals(number)]
            self._first = now
            self.stop()
        elif now - self._first > SAME_SECONDS:
            cancel, self.cancel = self.cancel, None
            if cancel is None:
                os._exit(CODES[signal.Signals(number)])
            cancel()

    def wait_writable(self, descriptor: int) -> None:
        """Block until `descriptor` can be written to.

        Raises:
            InterruptedError: there was a signal, and it cannot for `SAME_SECONDS` since.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(POLL_MILLISECONDS):
            if self.came and monotonic() - self._first > SAME_SECONDS:
                raise InterruptedError


def _raise() -> NoReturn:
    raise KeyboardInterrupt
