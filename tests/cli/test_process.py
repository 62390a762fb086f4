"""What only a process of its own can show: pipes, signals, terminals and exit codes."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from time import monotonic
from typing import Any

import orjson
import pytest

from graphrag_eval_async.cli.exits import SAME_SECONDS
from tests.cli.support import (
    DEADLINE_SECONDS,
    ROOT,
    Folder,
    finish,
    from_jsonl,
    full_pipe,
    next_line,
    response,
    run,
    start,
    terminal_output,
    to_jsonl,
    until,
)

PIPE = subprocess.PIPE
SUMMARY = "results: {}, rejected lines: {}, questions without a response: {} of 3"


def send(process: subprocess.Popen[bytes], *items: Any) -> None:
    assert process.stdin is not None
    os.write(process.stdin.fileno(), to_jsonl(items))


def receive(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next result."""
    result: dict[str, Any] = orjson.loads(next_line(process, "a result"))
    return result


def interrupt(process: subprocess.Popen[bytes], *, seconds: float = 30) -> None:
    """Send Ctrl-C again and again, for so long or until the process ends."""
    end = monotonic() + seconds
    while process.poll() is None and monotonic() < end:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)


@pytest.fixture
def trickle(folder: Folder) -> subprocess.Popen[bytes]:
    """An evaluation of what is sent, of which each result can be received."""
    outputs = ["--aggregates", folder.file("a.json"), "--rejects", folder.file("rejects")]
    return start("evaluate", folder.reference, "-", *outputs, stdin=PIPE)


def aggregated(folder: Folder) -> int:
    micro = orjson.loads((folder.path / "a.json").read_bytes())["micro"]
    return int(micro["number_of_success_samples"])


def test_each_result_comes_out_before_the_next_response_goes_in(
    folder: Folder, trickle: subprocess.Popen[bytes]
) -> None:
    for sample in range(1, 21):
        send(trickle, response("q1"))
        assert receive(trickle)["sample"] == sample
    code, out, err = finish(trickle, orjson.dumps(response("q2")))
    assert code == 0
    assert [result["question_id"] for result in from_jsonl(out)] == ["q2"]
    assert SUMMARY.format(21, 0, 1) in err
    assert aggregated(folder) == 21


def test_ctrl_c_writes_computed_results(folder: Folder, trickle: subprocess.Popen[bytes]) -> None:
    send(trickle, b"{", response("q1"))
    receive(trickle)
    trickle.send_signal(signal.SIGINT)
    code, out, err = finish(trickle)
    assert code == 130
    assert not out
    assert SUMMARY.format(1, 1, 2) in err
    assert "Error" not in err
    assert "Traceback" not in err
    assert aggregated(folder) == 1
    assert len(folder.read("rejects")) == 1


def test_ctrl_c_that_comes_twice_is_one(folder: Folder, trickle: subprocess.Popen[bytes]) -> None:
    send(trickle, response("q1"))
    receive(trickle)
    interrupt(trickle, seconds=0.1)  # Far less than tells two apart, even if the process is slow to see it.
    code, _, err = finish(trickle)
    assert code == 130
    assert SUMMARY.format(1, 0, 2) in err
    assert aggregated(folder) == 1


def test_a_later_ctrl_c_stops_at_once(folder: Folder) -> None:
    reader, writer = full_pipe()
    command = ["evaluate", folder.reference, "-", "--aggregates", folder.file("a.json")]
    process = start(*command, stdin=PIPE, stderr=writer)
    send(process, response("q1"))
    receive(process)
    process.send_signal(signal.SIGINT)  # It writes the aggregates, and then waits to show them.
    until(process, lambda: (folder.path / "a.json").exists(), "the aggregates")
    interrupt(process)
    assert finish(process)[0] == 130
    assert aggregated(folder) == 1
    os.close(reader)
    os.close(writer)


def test_ctrl_c_while_nobody_reads_rejects() -> None:
    """The process waits for a reader once nothing more is read from its input."""
    reader, writer = full_pipe()
    process = start("aggregate", "-", "--rejects", "-", stdin=PIPE, stdout=writer)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    sent = 0
    # Until it has begun to read, no more can be sent than a pipe holds.
    while select.select([], [process.stdin], [], 3 * SAME_SECONDS if sent > 1 << 16 else DEADLINE_SECONDS)[1]:
        with suppress(BlockingIOError):
            sent += os.write(process.stdin.fileno(), b"{\n" * 1000)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "rejected lines: 1" in err
    os.close(reader)
    os.close(writer)


def test_a_closed_pipe_ends_it_cleanly(folder: Folder, trickle: subprocess.Popen[bytes]) -> None:
    send(trickle, b"{", response("q1"))
    receive(trickle)
    assert trickle.stdout is not None
    trickle.stdout.close()
    send(trickle, response("q2"))
    trickle.wait(DEADLINE_SECONDS)  # Though more could come in.
    assert trickle.stderr is not None
    err = trickle.stderr.read().decode()
    assert trickle.returncode == 3
    assert SUMMARY.format(2, 1, 1) in err
    assert "Error" not in err
    assert "Exception" not in err
    assert aggregated(folder) == 2
    assert len(folder.read("rejects")) == 1
    assert trickle.stdin is not None
    trickle.stdin.close()
    trickle.stderr.close()


def test_output_without_readers(folder: Folder) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = folder.lines(*[b"{"] * 1000, response("q1"))
    process = start("evaluate", folder.reference, lines, stdout=writer, stderr=writer)
    os.close(writer)
    assert finish(process)[0] == 3


@pytest.mark.parametrize("arguments", [["-o", "/dev/full"], ["--rejects", "/dev/full"]], ids=" ".join)
def test_a_full_disk_is_one_line(folder: Folder, arguments: list[str]) -> None:
    responses = folder.lines(response("q1"), b"{", response("q2"))
    code, out, err = finish(start("evaluate", folder.reference, responses, *arguments))
    assert code == 4
    assert err.splitlines()[-1] == "Error: /dev/full: No space left on device"
    # Whether the second line was read by the time that the first result could not be written is open.
    assert re.search(r"results: 1, rejected lines: [01], ", out + err)


def test_the_first_exit_code_that_applies(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    folder.write("broken.json", b"[]")
    folder.lines(b"{", response("q1"), name="bad.jsonl")
    folder.lines(response("q1"), name="good.jsonl")
    for command, code in [
        ("nonsense", 2),
        ("evaluate broken.json bad.jsonl -o /dev/full --gate steps_score>1", 2),
        ("evaluate reference.json bad.jsonl -o /dev/full --gate steps_score>1", 4),
        ("evaluate reference.json bad.jsonl -o r --gate steps_score>1", 3),
        ("evaluate reference.json good.jsonl -o r --gate steps_score>1", 1),
        ("evaluate reference.json good.jsonl -o r --gate steps_score>=1", 0),
    ]:
        assert run(*command.split()) == code, command


def test_ctrl_c_comes_after_gates(folder: Folder) -> None:
    process = start("evaluate", folder.reference, "-", "--gate", "steps_score > 1", stdin=PIPE)
    send(process, response("q1"))
    receive(process)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 1


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_standard_streams(folder: Folder, closed: int) -> None:
    responses = folder.lines(response("q1"))
    command = ["evaluate", folder.reference, responses]
    process = start(*command, "-o", folder.file("r"), closed=closed)
    assert finish(process)[0] == 0
    assert len(folder.read("r")) == 1


def test_no_progress_bar_between_results(folder: Folder) -> None:
    command = ["evaluate", folder.reference, folder.lines(response("q1"))]
    shown = terminal_output(*command, "-o", "-", stdout=True)
    assert '"question_id":"q1"' in shown
    assert "all results" in shown
    assert "\x1b" not in shown
    # Without -o, there is only the page.
    shown = terminal_output(*command, stdout=True)
    assert '"question_id"' not in shown
    assert "all results" in shown


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


@pytest.mark.parametrize("name", ["graphrag_eval_async.cli.exits", "click"])
def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT_IMPORT.format(name=name)],
        capture_output=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
