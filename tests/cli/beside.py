"""The command line in this process, while a thread does what happens around it."""

from __future__ import annotations

import json
import os
import pty
import signal
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from tests.cli.support import DEADLINE_SECONDS, run
from tests.support.deadlines import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Beside:
    """What a command has printed so far, and signals to it."""

    def __init__(self, folder: Path) -> None:
        self.out, self.err = folder / "stdout", folder / "stderr"
        self.ended = threading.Event()
        self._read = 0

    def until(self, condition: Callable[[], object], awaited: str) -> None:
        """Wait for what the command brings about."""
        end = monotonic() + DEADLINE_SECONDS
        while not condition():
            assert not self.ended.is_set(), (
                f"the command ended before {awaited}: {self.err.read_text()}"
            )
            assert monotonic() < end, f"waited {DEADLINE_SECONDS} s for {awaited}"
            sleep(0.002)

    def facts(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next line of facts that is as wanted."""
        found: dict[str, Any] = {}

        def is_there() -> bool:
            nonlocal found
            lines = self.out.read_bytes().split(b"\n")[self._read : -1]
            for line in lines:
                self._read += 1
                if condition(found := json.loads(line)):
                    return True
            return False

        self.until(is_there, "other facts")
        return found

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal to the thread that runs the command."""
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)


def run_beside(
    folder: Path, drive: Callable[[Beside], object], *arguments: str
) -> tuple[int, str, str]:
    """The exit code and what is printed; `drive` runs in a thread, and an error of it ends the
    command.
    """
    beside, errors = Beside(folder), []

    def driven() -> None:
        try:
            drive(beside)
        except BaseException as error:  # noqa: BLE001  (raised below)
            errors.append(error)
            for _ in range(2):  # The second cancels; a third would end this process.
                beside.signal()
                beside.ended.wait(1)

    previous = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    thread = threading.Thread(target=driven)
    out, err = (
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for path in (beside.out, beside.err)
    )
    try:
        with standard_streams(out, err):
            thread.start()
            code = run(*arguments)
            beside.ended.set()
            join(thread)
    finally:
        os.close(out)
        os.close(err)
        for number, handler in previous.items():
            signal.signal(number, handler)
    if errors:
        raise errors[0]
    return code, beside.out.read_text(), beside.err.read_text()


@contextmanager
def standard_streams(out: int, err: int) -> Iterator[None]:
    """Let standard output and standard error be these descriptors."""
    saved = os.dup(1), os.dup(2)
    os.dup2(out, 1)
    os.dup2(err, 2)
    try:
        with (
            open(1, "w", closefd=False) as stdout,
            open(2, "w", closefd=False) as stderr,
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            yield
    finally:
        for number, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def terminal_output(*arguments: str) -> tuple[int, str]:
    """The exit code, and what a terminal shows that is behind standard output and standard
    error.
    """
    master, slave = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # Linux says so when the other end is closed.
            while piece := os.read(master, 1 << 16):
                pieces.append(piece)

    thread = threading.Thread(target=read)
    thread.start()
    with standard_streams(slave, slave):
        code = run(*arguments)
    os.close(slave)
    join(thread)
    os.close(master)
    return code, b"".join(pieces).decode()
