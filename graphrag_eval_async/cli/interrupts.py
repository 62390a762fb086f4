"""Ctrl-C."""

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

SAME_SECONDS = 0.5
"""What runs a command may pass Ctrl-C on to it that the terminal has sent it already."""

POLL_MILLISECONDS = 100


class Interrupts:
    """Handles SIGINT while its context is open, in a process that ends thereafter.

    The first one calls `stop`, those within `SAME_SECONDS` of it are the same one, and a later one ends the
    process at once. A process that was started to ignore SIGINT goes on to ignore it.

    Attributes:
        stop: raises `KeyboardInterrupt` until a run sets what ends it and lets it be written out.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], object] = _raise
        self._first: float | None = None

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self._first is not None

    def __enter__(self) -> Self:
        self._previous = signal.getsignal(signal.SIGINT)
        ignored = self._previous in (signal.SIG_IGN, None)
        self._handles = not ignored and threading.current_thread() is threading.main_thread()
        if self._handles:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._handles:
            # One more would leave a traceback, or another exit code, and nothing is left for it to stop.
            signal.signal(signal.SIGINT, signal.SIG_IGN if self.came else self._previous)

    def _handle(self, *_args: object) -> None:
        now = monotonic()
        if self._first is None:
            self._first = now
            self.stop()
        elif now - self._first > SAME_SECONDS:
            os._exit(Exit.INTERRUPTED)

    def wait_writable(self, descriptor: int) -> None:
        """Block until `descriptor` can be written to.

        Raises:
            InterruptedError: there was a SIGINT, and it cannot for `SAME_SECONDS` since.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(POLL_MILLISECONDS):
            if self._first is not None and monotonic() - self._first > SAME_SECONDS:
                raise InterruptedError


def _raise() -> NoReturn:
    raise KeyboardInterrupt
