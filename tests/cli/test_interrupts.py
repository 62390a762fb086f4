from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest

from graphrag_eval_async.cli.exits import SAME_SECONDS, Interrupts
from tests.cli.support import ROOT, full_pipe

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ended(BaseException):
    """The process would have ended."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    def end(code: int) -> NoReturn:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    clock = Clock()
    monkeypatch.setattr("graphrag_eval_async.cli.exits.monotonic", clock)
    return clock


@pytest.fixture(autouse=True)
def previous() -> Iterator[object]:
    """The handler of SIGINT, which a test may change, as that of SIGTERM."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield signal.default_int_handler
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_first_signal_raises_before_there_is_output(clock: Clock) -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.came
        clock.now += SAME_SECONDS
        signal.raise_signal(signal.SIGINT)


def test_the_first_stops_and_a_later_one_ends(clock: Clock) -> None:
    stopped = []
    with Interrupts() as interrupts:
        interrupts.stop = lambda: stopped.append(clock.now)
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
            clock.now += SAME_SECONDS / 2.5
        assert stopped == [1000]
        interrupts.leave = lambda: stopped.append(0)
        with pytest.raises(Ended, match="130"):
            signal.raise_signal(signal.SIGINT)
        assert stopped == [1000, 0]


def test_a_later_signal_cancels(clock: Clock) -> None:
    called: list[str] = []
    with Interrupts() as interrupts:
        interrupts.stop = lambda: called.append("stop")
        interrupts.cancel = lambda: called.append("cancel")
        for expected in (["stop"], ["stop", "cancel"]):
            signal.raise_signal(signal.SIGINT)
            assert called == expected
            clock.now += SAME_SECONDS * 1.01
        with pytest.raises(Ended, match="130"):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_has_its_own_code(clock: Clock) -> None:
    with Interrupts() as interrupts:
        interrupts.stop = lambda: None
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.code == 143
        clock.now += SAME_SECONDS * 1.01
        with pytest.raises(Ended, match="130"):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.code == 143


def test_what_handles_it_afterwards(previous: object) -> None:
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is not previous
    assert signal.getsignal(signal.SIGINT) is previous
    with Interrupts() as interrupts:
        interrupts.stop = lambda: None
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_it_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert not interrupts.came
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_waiting_to_write_is_given_up(clock: Clock) -> None:
    reader, writer = full_pipe()
    with Interrupts() as interrupts, open(os.devnull, "wb") as free:
        interrupts.stop = lambda: None
        interrupts.wait_writable(free.fileno())
        signal.raise_signal(signal.SIGINT)
        clock.now += SAME_SECONDS + 1
        with pytest.raises(InterruptedError):
            interrupts.wait_writable(writer)
    os.close(reader)
    os.close(writer)


INTERRUPT_AT_IMPORT = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["graphrag-eval-async", "--help"]
runpy.run_module("graphrag_eval_async", run_name="__main__")
"""


@pytest.mark.parametrize(
    "name",
    [
        "graphrag_eval_async.cli.exits",
        "orjson",
        "graphrag_eval_async.cli.app",
        "click",
    ],
)
def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT_IMPORT.format(name=name)],
        capture_output=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
