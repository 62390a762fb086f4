"""Killed with SIGKILL at any moment and started again as often as you like: each line is
evaluated once.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.deadlines import WAIT_SECONDS
from tests.support.journals import (
    CONFIG,
    Judge,
    bits,
    complete,
    names,
    names_of,
    responses,
    results_of,
)
from tests.support.killed import MAX_IN_FLIGHT, run

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

ROTATED_BYTES = 1500
"""A file that is rotated has this much at least: of lines that are nowhere else, by which it is
no copy.
"""

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "tests.support.killed"])


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

    def grow(self) -> None:
        if self._file.tell() >= ROTATED_BYTES and self._draw.random() < 0.2:
            self._rotations += 1
            self._path.rename(f"{self._path}.{self._rotations}")
            # This much still goes to the old file.
            late = self._draw.choice([0, self._draw.randint(0, 2000)])
            self.write(self._rest.find(b"\n", late) + 1 or len(self._rest))
            self._file.close()
            self._file = self._path.open("ab", buffering=0)
        else:
            self.write(self._draw.randint(1, 1500))

    def finish(self) -> None:
        self.write(len(self._rest))
        self._file.close()


def kill(process: ForkServerProcess) -> None:
    process.kill()  # A torn write may have been first.
    process.join(WAIT_SECONDS)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("kills", [3, pytest.param(600, marks=pytest.mark.soak)])
def test_killed_at_any_moment(tmp_path: Path, kills: int) -> None:
    """Also in the middle of a write, while the log is rotated; with a cache, a kill costs only the
    calls in flight. Soak, some minutes: 600 kills.
    """
    draw = random.Random(kills)
    lines = responses(60 + 15 * kills)
    log = Log(tmp_path / "log.jsonl", lines, draw)

    def start(torn: int | None = None) -> ForkServerProcess:
        process = PROCESSES.Process(target=run, args=(tmp_path, draw.random(), torn), daemon=True)
        process.start()
        return process

    first = start()
    beside, end = tmp_path / "results.jsonl.run", time.monotonic() + WAIT_SECONDS
    while not beside.exists() or b'"followed"' not in beside.read_bytes():
        # Else rotated files are no part.
        assert time.monotonic() < end, "the first run has not met the log"
        time.sleep(0.001)
    kill(first)
    for _ in range(kills):
        process = start(torn=draw.choice([None, None, draw.randint(0, 12)]))
        for _ in range(draw.randint(0, 4)):
            log.grow()
            time.sleep(draw.random() * 0.02)
        kill(process)
    log.finish()
    (tmp_path / "done").touch()
    last = start()
    last.join(WAIT_SECONDS)
    assert last.exitcode == 0
    path = tmp_path / "results.jsonl"
    assert names_of(path) == names(lines)
    assert not path.with_name("results.jsonl.damaged").exists()
    samples = Counter((result["question_id"], result["sample"]) for result in results_of(path))
    answers = Counter(question for question, _ in samples)
    assert samples == {
        (name, sample + 1): 1 for name, count in answers.items() for sample in range(count)
    }
    _, quiet = complete(lines, None, config=CONFIG, judge=Judge())
    assert (tmp_path / "aggregates").read_bytes() == bits(quiet.aggregates)
    paid = (tmp_path / "calls").read_bytes().split()
    assert len(set(paid)) == sum(b"answer-" in line for line in lines)
    assert len(paid) <= len(set(paid)) + (kills + 1) * MAX_IN_FLIGHT
