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

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 30_000  # enough to be interrupted

ITEMS: list[Any] = [
    response("q1"),
    b"{",
    response("q2", False),
    b"",
    failed("q1"),
    response("q1"),
    b"\xff",
]


@pytest.mark.parametrize("jobs", ["2", "0"])
def test_the_same_files_and_table(
    folder: Folder, capfd: pytest.CaptureFixture[str], jobs: str
) -> None:
    outputs = {"-o": "results", "--rejects": "rejects", "--aggregates": "a.json"}
    options = [part for option, name in outputs.items() for part in (option, folder.file(name))]
    found = []
    for number in ("1", jobs):
        command = [
            "evaluate",
            folder.reference,
            folder.lines(*(ITEMS * 400)),
            *options,
            "--jobs",
            number,
        ]
        assert run(*command) == 3
        files = [(folder.path / name).read_bytes() for name in outputs.values()]
        found.append((capfd.readouterr(), files))
    assert "rejected lines: " in found[0][0].out
    assert found[0] == found[1]


def test_a_table_of_several_processes(folder: Folder) -> None:
    responses = folder.lines(*[response("q1"), response("q2", False)] * 400)
    tables = []
    for jobs in ("1", "2"):
        output = folder.file(f"{jobs}.csv")
        assert run("evaluate", folder.reference, responses, "-o", output, "--jobs", jobs) == 0
        tables.append((folder.path / f"{jobs}.csv").read_bytes())
    assert tables[0] == tables[1]
    assert not [*folder.path.glob("*.shards")]


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
    assert f"finished shards stay in {results}.shards: the same command evaluates the rest" in out
    return len(samples)


def workers() -> list[int]:
    """The process ids of workers, but for those that are ending."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = [int(child) for path in children for child in path.read_text().split()]
    return [
        child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_ctrl_c_finishes_shards_in_progress(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    def drive(beside: Beside, workers: list[int]) -> None:
        for pid in workers:  # As a terminal does.
            os.kill(pid, signal.SIGINT)
        beside.signal()

    number = interrupted(folder, drive)
    assert 0 < number < MANY
    rest = [
        "evaluate",
        folder.reference,
        folder.file("responses.jsonl"),
        "-o",
        folder.file("results"),
    ]
    assert run(*rest, "--jobs", "2") == 0
    assert f"results: {MANY}, rejected lines: 0" in (out := capfd.readouterr().out)
    assert "finished by an earlier run: " in out
    assert [result["sample"] for result in folder.read("results")] == [*range(1, MANY + 1)]


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


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        pytest.param(
            "aggregate r.jsonl --jobs 2",
            "aggregate --jobs is gone; write --aggregates FILE.aggregates",
            id="aggregate --jobs",
        ),
        pytest.param(
            "scale ray r.yaml a.jsonl --results d",
            "scale ray --results is gone; write -o OUTPUT",
            id="scale --results",
        ),
        pytest.param(
            "scale ray r.yaml a.jsonl -o r.jsonl --resume",
            "run the same command again",
            id="scale --resume",
        ),
        pytest.param(
            "scale ray r.yaml a.jsonl -o r.jsonl --batch-size 9",
            "their size needs no option",
            id="scale --batch-size",
        ),
    ],
)
def test_removed_options_say_what_to_use(
    capfd: pytest.CaptureFixture[str], arguments: str, instead: str
) -> None:
    assert run(*arguments.split()) == 2
    assert instead in capfd.readouterr().err
