"""Killed with SIGKILL at any moment and started again as often as you like: each line is evaluated once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.support.deadlines import WAIT_SECONDS, killing
from tests.support.journals import (
    CONFIG,
    Judge,
    bits,
    complete,
    names,
    names_of,
    response,
    responses,
    results_of,
)
from tests.support.killed import MAX_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
ROTATED_BYTES = 1500
"""A file that is rotated has this much at least: of lines that are nowhere else, by which it is no copy."""


class Log:
    """A log that is written in pieces of any size, and rotated in between."""

    def __init__(self, path: Path, lines: list[bytes], draw: random.Random) -> None:
        self._path = path
        self._rest = b"".join(line + b"\n" for line in lines)
        self._draw = draw
        self._rotations = 0
        self._file = path.open("ab", buffering=0)

    def write(self, size: int) -> None:
        self._file.write(self._rest[:size])
        self._rest = self._rest[size:]

    def rotate(self) -> None:
        """By renaming; what is written before the new file is there comes late to the old one."""
        self._rotations += 1
        self._path.rename(f"{self._path}.{self._rotations}")
        late = self._draw.choice([0, self._draw.randint(0, 2000)])
        self.write(self._rest.find(b"\n", late) + 1 or len(self._rest))
        self._file.close()
        if self._draw.random() < 0.5:
            time.sleep(self._draw.random() * 0.01)
        self._file = self._path.open("ab", buffering=0)

    def grow(self) -> None:
        if self._file.tell() >= ROTATED_BYTES and self._draw.random() < 0.2:
            self.rotate()
        else:
            self.write(self._draw.randint(1, 1500))

    def finish(self) -> None:
        self.write(len(self._rest))
        self._file.close()


class Runs:
    """Evaluations of a log, one after the other."""

    def __init__(
        self, server: subprocess.Popen[str], folder: Path, draw: random.Random, **options: Any
    ) -> None:
        self._server = server
        self._folder = folder
        self._draw = draw
        self._options = {"folder": str(folder), "cache": False, "fsync": "interval"} | options
        self.killed = 0

    def start(self, *, torn: int | None = None) -> int:
        """Returns the process id."""
        options = self._options | {"torn": torn, "seed": self._draw.random()}
        assert self._server.stdin is not None
        self._server.stdin.write(orjson.dumps(options).decode() + "\n")
        self._server.stdin.flush()
        return int(self._said())

    def begin(self) -> None:
        """A run that has met the log: what was rotated before is no part of it."""
        process = self.start()
        beside = self._folder / "results.jsonl.run"
        until(lambda: beside.exists() and b'"followed"' in beside.read_bytes(), "the run to meet the log")
        self.kill(process)

    def kill(self, process: int) -> None:
        with suppress(ProcessLookupError):  # A torn write may have been first.
            os.kill(process, signal.SIGKILL)
        assert int(self._said()) == signal.SIGKILL
        self.killed += 1

    def finish(self) -> None:
        """A run to the end of the log."""
        (self._folder / "done").touch()
        self.start()
        assert self._said() == "0\n"

    def _said(self) -> str:
        assert self._server.stdout is not None
        with killing(self._server, "the start or the end of a run"):
            return self._server.stdout.readline()


def until(condition: Callable[[], bool], awaited: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited {WAIT_SECONDS} s for {awaited}"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "tests.support.killed"]
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"cwd": ROOT, "text": True, "start_new_session": True}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, **options) as server:
        try:
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # With its runs, one of which may hang.


def assert_whole(folder: Path, lines: list[bytes]) -> None:
    """Each line once, and the aggregates of one quiet run, to the last bit."""
    path = folder / "results.jsonl"
    assert names_of(path) == names(lines)
    assert not path.with_name("results.jsonl.damaged").exists()
    samples = Counter((result["question_id"], result["sample"]) for result in results_of(path))
    answers = Counter(question for question, _ in samples)
    assert samples == {(name, sample + 1): 1 for name, count in answers.items() for sample in range(count)}
    _, quiet = complete(lines, None, config=CONFIG, judge=Judge())
    assert (folder / "aggregates").read_bytes() == bits(quiet.aggregates)


SOAK = [(kills, fsync) for kills in (100, 400) for fsync in ("never", "interval", "always")]


@pytest.mark.parametrize(
    ("kills", "fsync"), [(3, "interval"), *(pytest.param(*case, marks=pytest.mark.soak) for case in SOAK)]
)
def test_killed_at_any_moment(server: subprocess.Popen[str], tmp_path: Path, kills: int, fsync: str) -> None:
    """Also in the middle of a write, while the log is rotated. Soak, some minutes: 1,500 kills."""
    draw = random.Random(f"{kills} {fsync}")
    lines = responses(60 + 15 * kills)
    log = Log(tmp_path / "log.jsonl", lines, draw)
    runs = Runs(server, tmp_path, draw, fsync=fsync)
    runs.begin()
    while runs.killed < kills:
        process = runs.start(torn=draw.choice([None, None, draw.randint(0, 12)]))
        for _ in range(draw.randint(0, 4)):
            log.grow()
            time.sleep(draw.random() * 0.02)
        runs.kill(process)
    log.finish()
    runs.finish()
    assert_whole(tmp_path, lines)


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=pytest.mark.soak)])
def test_with_the_cache_a_kill_costs_the_calls_in_flight(
    server: subprocess.Popen[str], tmp_path: Path, kills: int
) -> None:
    """Soak, half a minute: with 60 kills."""
    draw = random.Random(kills)
    lines = [orjson.dumps(response(number)) for number in range(40 * kills)]
    log = Log(tmp_path / "log.jsonl", lines, draw)
    log.finish()
    runs = Runs(server, tmp_path, draw, cache=True)
    for kill in range(kills):
        process = runs.start()
        calls = tmp_path / "calls"
        wanted = 25 * (kill + 1)
        until(lambda: calls.exists() and calls.read_bytes().count(b"\n") >= wanted, f"{wanted} calls")  # noqa: B023
        runs.kill(process)
    runs.finish()
    assert names_of(tmp_path / "results.jsonl") == names(lines)
    paid = (tmp_path / "calls").read_bytes().split()
    assert len(set(paid)) == len(lines)
    assert len(paid) <= len(lines) + kills * MAX_IN_FLIGHT
