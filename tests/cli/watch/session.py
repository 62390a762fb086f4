"""The command in a pseudo-terminal, and what the terminal shows."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import termios
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from tests.cli.support import DEADLINE_SECONDS, start
from tests.cli.watch.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable


class Session:
    """The command line in a process of its own, behind a terminal; `written` is what came."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._master, self._slave = pty.openpty()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.emulator = Emulator(columns, rows)
        self.written = ""
        self._set_size(columns, rows)
        self.modes_before = self.modes
        self.process = start(*arguments, stdin=self._slave, stdout=self._slave, stderr=self._slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
        os.close(self._master)
        os.close(self._slave)

    @property
    def screen(self) -> list[str]:
        """The rows that the terminal shows."""
        return self.emulator.screen

    @property
    def rows(self) -> list[str]:
        """Those that are gone at the top, and those that the terminal shows."""
        return [*self.emulator.gone, *self.screen]

    def until(self, condition: Callable[[list[str]], object]) -> list[str]:
        """Wait for the screen to be as wanted; returns it."""
        end = monotonic() + DEADLINE_SECONDS
        while not condition(self.screen):
            assert monotonic() < end, "\n".join(["", *self.screen])
            assert self._read(0.1) or self.process.poll() is None, "\n".join(
                ["ended", *self.screen]
            )
        return self.screen

    def finish(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        end = monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None:
            assert monotonic() < end, "\n".join(["", *self.screen])
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.returncode

    @property
    def modes(self) -> list[Any]:
        """Of the terminal, such as whether it shows what is typed."""
        return termios.tcgetattr(self._slave)

    def stop_output(self, stopped: bool) -> None:
        """Let nothing more be written to the terminal, as Ctrl-S does, or go on."""
        termios.tcflow(self._slave, termios.TCOOFF if stopped else termios.TCOON)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        while self._read(0):
            pass
        self.emulator.resize(columns, rows)
        self._set_size(columns, rows)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        text = self._decoder.decode(os.read(self._master, 1 << 16))
        self.written += text
        self.emulator.feed(text)
        return True

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
