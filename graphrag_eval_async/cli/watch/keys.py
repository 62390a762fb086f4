"""Reads keys at the terminal of `watch`."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.cli.exits import Interrupts

READ_BYTES = 1024


class Keys:
    """Reads each key at once, unseen, and restores the terminal.

    A process in the background leaves the terminal alone, since the shell has it; another call of `look`
    begins to read once the process is in the foreground. Ctrl-C and Ctrl-Z are signals as ever.

    Attributes:
        is_reading: whether keys are read now.
    """

    def __init__(self, descriptor: int, interrupts: Interrupts, press: Callable[[str], object]) -> None:
        """`descriptor` is that of a terminal; `press` is called with what was typed."""
        self.is_reading = False
        self._descriptor = descriptor
        self._interrupts = interrupts
        self._press = press
        self._before: list[Any] | None = None
        self._gone = False

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._previous = signal.getsignal(signal.SIGTSTP)
        self._interrupts.leave = self.restore
        if self._previous != signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._suspend)
        self.look()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.restore()
        self._loop.remove_reader(self._descriptor)
        if self._previous != signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._previous)

    def look(self) -> None:
        """Begin to read keys, unless they are read already or the process is in the background."""
        if self.is_reading or self._gone or not self._is_in_foreground:
            return
        try:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor, termios.TCSANOW)
        except termios.error:
            self._gone = True
            return
        self.is_reading = True
        self._loop.add_reader(self._descriptor, self._read)

    def restore(self) -> None:
        """Give the terminal back as it was; safe in a signal handler, and more than once."""
        before, self._before = self._before, None
        self.is_reading = False
        if before is not None and self._is_in_foreground:
            with suppress(termios.error):
                # At once: a terminal whose output is stopped would never have written all.
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    @property
    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # It is not the terminal that controls the process, and has no foreground.
            return True

    def _read(self) -> None:
        text = b""
        if self.is_reading and self._is_in_foreground:
            with suppress(OSError):
                text = os.read(self._descriptor, READ_BYTES)
            self._gone = not text
        if text:
            self._press(text.decode("latin-1"))
        else:
            self.is_reading = False
            self._loop.remove_reader(self._descriptor)

    def _suspend(self, number: int, _frame: object) -> None:
        """Stop, as Ctrl-Z asks, with the terminal as it was."""
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._suspend)
