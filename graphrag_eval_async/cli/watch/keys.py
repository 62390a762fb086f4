"""Reads keys at the terminal of `watch`."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphrag_eval_async.cli.exits import Interrupts


class Keys:
    """Reads each key at once, unseen; Ctrl-C and Ctrl-Z are signals as ever.

    A process in the background leaves the terminal alone, since the shell has it.
    """

    def __init__(self, descriptor: int, interrupts: Interrupts, press: Callable[[str], object]) -> None:
        """`descriptor` is that of a terminal; `press` is called with what was typed."""
        self.are_read = False
        self._descriptor, self._interrupts, self._press = descriptor, interrupts, press
        self._before: list[Any] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Restore the terminal at the end, when the process is stopped, and when a signal kills it."""
        self._interrupts.leave = self.restore
        previous = signal.getsignal(signal.SIGTSTP)
        if previous != signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._suspend)
        try:
            yield
        finally:
            self.restore()
            asyncio.get_running_loop().remove_reader(self._descriptor)
            signal.signal(signal.SIGTSTP, previous)

    def look(self) -> None:
        """Begin to read keys, unless they are read already or the process is in the background."""
        if not self.are_read and self._is_in_foreground:
            with suppress(termios.error):  # The terminal is gone.
                self._before = termios.tcgetattr(self._descriptor)
                tty.setcbreak(self._descriptor, termios.TCSANOW)
                self.are_read = True
                asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def restore(self) -> None:
        """Give the terminal back as it was; safe in a signal handler, and more than once."""
        before, self._before = self._before, None
        self.are_read = False
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
        if self.are_read and self._is_in_foreground:
            with suppress(OSError):
                text = os.read(self._descriptor, 1024)
        if text:
            self._press(text.decode("latin-1"))
        else:
            self.are_read = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _suspend(self, number: int, _frame: object) -> None:
        """Stop, as Ctrl-Z asks, with the terminal as it was."""
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._suspend)
