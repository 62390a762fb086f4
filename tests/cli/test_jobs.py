"""``--jobs``: the same output from several processes, and what ends them."""

from __future__ import annotations

import gzip
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.cli.exits import SAME_SECONDS
from tests.cli.support import (
    Folder,
    failed,
    finish,
    from_jsonl,
    response,
    run,
    start,
    terminal_output,
    to_jsonl,
    until,
)

if TYPE_CHECKING:
    import subprocess

MANY = 60_000
"""So many responses take long enough to be interrupted."""

ITEMS: list[Any] = [response("q1"), b"{", response("q2", False), b"", failed("q1"), response("q1"), b"\xff"]


@pytest.fixture
def paths(folder: Folder) -> list[str]:
    return [folder.reference, folder.lines(*(ITEMS * 40))]


def evaluate(folder: Folder, paths: list[str], jobs: int, *more: str) -> tuple[int, list[bytes]]:
    """The exit code, and what is in the files that were written."""
    names = ["results", "rejects", "aggregates.json"]
    results, rejects, aggregates = map(folder.file, names)
    options = ["-o", results, "--rejects", rejects, "--aggregates", aggregates, "--jobs", str(jobs)]
    code = run("evaluate", *paths, *options, *more)
    return code, [(folder.path / name).read_bytes() for name in names]


@pytest.mark.parametrize("jobs", [2, 0])
@pytest.mark.parametrize("more", [[], ["--include-errors"], ["--max-line-bytes", "100"]])
def test_the_same_files(folder: Folder, paths: list[str], jobs: int, more: list[str]) -> None:
    one, several = (evaluate(folder, paths, number, *more) for number in (1, jobs))
    assert one[0] == 3
    assert one == several


def test_the_same_table(folder: Folder, paths: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    shown = []
    for jobs in ("1", "2"):
        code = run("evaluate", *paths, "-o", folder.file("results"), "--jobs", jobs)
        shown.append((code, *capfd.readouterr()))
    assert shown[0] == shown[1]
    assert "results: 160, rejected lines: 80, questions without a response: 1 of 3" in shown[0][1]


def test_results_on_standard_output(paths: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    shown = []
    for jobs in ("1", "2"):
        run("evaluate", *paths, "--jobs", jobs)
        shown.append(capfd.readouterr())
    assert shown[0] == shown[1]
    assert len(shown[0].out.splitlines()) == 160


def test_gates(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    path = folder.lines(*[response("q1", False)] * 10)
    gates = ["--gate", "steps_score >= 0.5", "--gate", "missing_rate <= 0.1"]
    assert run("evaluate", folder.reference, path, "-o", folder.file("r"), "--jobs", "2", *gates) == 1
    told = capfd.readouterr().err.splitlines()
    assert told == [
        "gate failed: steps_score >= 0.5: the mean is 0",
        "gate failed: missing_rate <= 0.1: the mean is 0.667",
    ]


def test_questions_count_as_answered_if_writing_fails(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    """As their results count in the aggregates."""
    path = folder.lines(*(response(question) for question in ("q1", "q2", "q3")))
    assert run("evaluate", folder.reference, path, "-o", "/dev/full", "--jobs", "2") == 4
    assert "results: 3, rejected lines: 0, questions without a response: 0 of 3" in capfd.readouterr().out


@pytest.mark.parametrize(
    "more",
    [
        ["--resume"],
        ["--until", "steps_score > 0.1"],
        ["--stages"],
        ["--shuffle", "1"],
        ["--dedupe", "content"],
    ],
)
def test_options_that_need_one_process(
    folder: Folder, paths: list[str], capfd: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert run("evaluate", *paths, "-o", folder.file("results"), "--jobs", "2", *more) == 2
    option = more[0].partition("=")[0]
    expected = f"Error: --jobs cannot be combined with {option}, which needs a single process\n"
    assert capfd.readouterr().err == expected
    assert run("evaluate", *paths, "-o", folder.file("results"), "--jobs", "1", *more) in {1, 3}


@pytest.mark.parametrize("command", ["evaluate", "aggregate"])
@pytest.mark.parametrize("jobs", ["-1", "x", "1.5"])
def test_no_number_of_processes(paths: list[str], command: str, jobs: str) -> None:
    assert run(command, *paths, "--jobs", jobs) == 2


def test_one_process_for_unsplittable_files(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    path = folder.write("responses.jsonl.gz", gzip.compress(to_jsonl([response("q1"), response("q2")])))
    assert run("evaluate", folder.reference, path, "-o", folder.file("results"), "--jobs", "3") == 0
    told = capfd.readouterr().err
    assert told == f"--jobs: {path} cannot be split: it is compressed; one process does the work\n"
    assert len(folder.read("results")) == 2


def test_one_process_for_standard_input(folder: Folder) -> None:
    process = start("evaluate", folder.reference, "-", "--jobs", "2", stdin=-1)
    code, out, err = finish(process, to_jsonl([response("q1")]))
    assert (code, len(from_jsonl(out))) == (0, 1)
    assert err.startswith("--jobs: - cannot be split: it is standard input; one process does the work\n")


def test_aggregates_of_files(folder: Folder, paths: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    evaluate(folder, paths, 1)
    more = folder.lines(b"{", {"template_id": 5}, b"", {"template_id": "t", "question_id": "q9"}, name="more")
    capfd.readouterr()
    shown = []
    for jobs in ("1", "2"):
        aggregates, rejects = folder.file("a.json"), folder.file("rejects-of-results")
        options = ["--aggregates", aggregates, "--reference", folder.reference, "--jobs", jobs]
        code = run("aggregate", folder.file("results"), more, folder.file("results"), *options)
        code = max(code, run("aggregate", more, *options, "--rejects", rejects))
        shown.append((code, *capfd.readouterr(), Path(aggregates).read_bytes(), Path(rejects).read_bytes()))
    assert shown[0] == shown[1]
    assert shown[0][0] == 3


@pytest.mark.parametrize("command", ["evaluate", "aggregate"])
def test_a_progress_bar(folder: Folder, command: str) -> None:
    results = folder.file("results")
    run("evaluate", folder.reference, folder.lines(*[response("q1")] * 50), "-o", results)
    arguments = {"evaluate": [folder.reference, folder.file("responses.jsonl"), "-o", folder.file("again")]}
    shown = terminal_output(command, *arguments.get(command, [results]), "--jobs", "2")
    assert "50 results" in shown
    assert "100%" in shown


def started(folder: Folder) -> subprocess.Popen[bytes]:
    """A run in two processes that has written something, with much left to do."""
    line = to_jsonl([response("q1", elapsed_sec=0.1, note="x" * 300)])
    path = folder.write("responses.jsonl", line * MANY)
    results = folder.path / "results"
    options = ["-o", str(results), "--aggregates", folder.file("a.json"), "--jobs", "2"]
    process = start("evaluate", folder.reference, path, *options)
    until(process, lambda: results.exists() and results.stat().st_size > 0, "the first results")
    return process


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of workers, but for those that are ending."""
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    found = [int(child) for path in children for child in path.read_text().split()]
    return [child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def check_whole(folder: Folder) -> int:
    """Check that the results are the first ones, whole and in order; returns how many there are."""
    samples = [result["sample"] for result in folder.read("results")]
    assert samples == [*range(1, len(samples) + 1)]
    return len(samples)


def test_ctrl_c_finishes_handed_out_ranges(folder: Folder) -> None:
    process = started(folder)
    for pid in [*workers_of(process), process.pid]:  # As a terminal does.
        os.kill(pid, signal.SIGINT)
    code, out, err = finish(process)
    assert (code, err) == (130, "")
    written = check_whole(folder)
    assert 0 < written < MANY
    assert f"results: {written}, rejected lines: 0" in out


def test_a_second_ctrl_c_cancels(folder: Folder) -> None:
    process = started(folder)
    stopped = workers_of(process)
    assert len(stopped) == 2
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    time.sleep(SAME_SECONDS * 1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, err) == (130, "")
    assert f"results: {check_whole(folder)}, rejected lines: 0" in out
    for pid in stopped:
        with suppress(ProcessLookupError), pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_worker_is_an_error_with_its_range(folder: Folder) -> None:
    process = started(folder)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    code, out, err = finish(process)
    path = folder.file("responses.jsonl")
    assert code == 4
    assert err.startswith(f"Error: {path}: bytes ")
    assert "a worker process died, perhaps since memory ran out" in err
    start_of_range = int(err.removeprefix(f"Error: {path}: bytes ").split()[0])
    written = check_whole(folder)
    assert Path(path).read_bytes()[:start_of_range].count(b"\n") == written
    assert f"results: {written}, rejected lines: 0" in out
