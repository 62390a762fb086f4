"""``--jobs``: the same output from several processes, and what ends them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.cli.exits import DRAIN_SECONDS, SAME_SECONDS
from tests.cli.beside import Beside, run_beside
from tests.cli.support import Folder, failed, response, run, to_jsonl
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 30_000  # enough to be interrupted

ITEMS: list[Any] = [response("q1"), b"{", response("q2", False), b"", failed("q1"), response("q1"), b"\xff"]


@each(("jobs", "more"), [("2", ["--include-errors", "--max-line-bytes", "100"]), ("0", [])])
def test_the_same_files_and_table(
    folder: Folder, capfd: pytest.CaptureFixture[str], jobs: str, more: list[str]
) -> None:
    outputs = {"-o": "results", "--rejects": "rejects", "--aggregates": "a.json"}
    options = [part for option, name in outputs.items() for part in (option, folder.file(name))]
    found = []
    for number in ("1", jobs):
        command = [
            "evaluate",
            folder.reference,
            folder.lines(*(ITEMS * 40)),
            *options,
            "--jobs",
            number,
            *more,
        ]
        assert run(*command) == 3
        files = [(folder.path / name).read_bytes() for name in outputs.values()]
        found.append((capfd.readouterr(), files))
    assert "rejected lines: " in found[0][0].out
    assert found[0] == found[1]


def interrupted(folder: Folder, drive: Callable[[Beside, list[int]], object]) -> int:
    """Check the results of a run in two processes that `drive` ends; returns how many there are."""
    line = to_jsonl([response("q1", elapsed_sec=0.1, note="x" * 300)])
    path = folder.write("responses.jsonl", line * MANY)
    results = folder.path / "results"

    def begun(beside: Beside) -> None:
        beside.until(lambda: results.exists() and results.stat().st_size > 0, "the first results")
        drive(beside, workers())

    command = ["evaluate", folder.reference, path, "-o", str(results), "--jobs", "2"]
    code, out, err = run_beside(folder.path, begun, *command)
    assert (code, err) == (130, "")
    samples = [result["sample"] for result in folder.read("results")]
    assert samples == [*range(1, len(samples) + 1)]
    assert f"results: {len(samples)}, rejected lines: 0" in out
    return len(samples)


def workers() -> list[int]:
    """The process ids of workers, but for those that are ending."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = [int(child) for path in children for child in path.read_text().split()]
    return [child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_ctrl_c_finishes_handed_out_ranges(folder: Folder) -> None:
    def drive(beside: Beside, workers: list[int]) -> None:
        for pid in workers:  # As a terminal does.
            os.kill(pid, signal.SIGINT)
        beside.signal()

    assert 0 < interrupted(folder, drive) < MANY


def test_a_second_ctrl_c_cancels(folder: Folder) -> None:
    stopped: list[int] = []
    soon = False

    def drive(beside: Beside, workers: list[int]) -> None:
        nonlocal soon
        stopped.extend(workers)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        beside.signal()
        assert not beside.ended.wait(SAME_SECONDS * 1.5)
        beside.signal()
        soon = beside.ended.wait(DRAIN_SECONDS - 2)

    interrupted(folder, drive)
    assert (len(stopped), soon) == (2, True)
    for pid in stopped:
        with suppress(ProcessLookupError), pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
