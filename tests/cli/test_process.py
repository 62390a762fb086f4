"""What only a process of its own can show: pipes, signals, terminals and exit codes."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import (
    DEADLINE_SECONDS,
    Folder,
    failed,
    finish,
    from_jsonl,
    full_pipe,
    next_line,
    response,
    start,
    terminal_output,
    to_jsonl,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPE = subprocess.PIPE
FULL_LOOKS = 20
"""A pipe is full if for so many looks, one after the other, nothing more came from a process that sleeps."""
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


def unread(pipe: int) -> int:
    """How many bytes are in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))[0]  # type: ignore[no-any-return]


def sleeps(process: subprocess.Popen[bytes]) -> bool:
    """Whether no thread of the process runs or is about to; True on systems that do not tell."""
    states = Path(f"/proc/{process.pid}/task").glob("*/stat")
    try:
        return all(state.read_text().rpartition(")")[2].split()[0] == "S" for state in states)
    except OSError:  # One has just ended.
        return False


def interrupted_while_nobody_reads(arguments: Sequence[str]) -> tuple[int, bytes, str]:
    """The exit code and what came out, of a process interrupted once its stdout is full.

    The last page of a full pipe may take some more lines: it is full when no more come.
    """
    reader, writer = os.pipe()
    process = start(*arguments, stdout=writer)
    before, looks = -1, 0
    deadline = monotonic() + DEADLINE_SECONDS
    while select.select([], [writer], [], 0)[1] or looks < FULL_LOOKS:
        looks += 1
        if before < unread(reader) or not sleeps(process):
            before, looks = unread(reader), 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        assert process.poll() is None, "the process ended before the pipe was full"
        assert monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for the pipe to fill: {before} bytes"
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    os.close(writer)
    with open(reader, "rb") as pipe:
        return code, pipe.read(), err


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


@pytest.mark.parametrize("bad", [[], [b"{"]], ids=["clean", "with a reject"])
def test_ctrl_c_writes_computed_results(
    folder: Folder, trickle: subprocess.Popen[bytes], bad: list[bytes]
) -> None:
    send(trickle, *bad, response("q1"))
    receive(trickle)
    trickle.send_signal(signal.SIGINT)
    code, out, err = finish(trickle)
    assert code == 130
    assert not out
    assert SUMMARY.format(1, len(bad), 2) in err
    assert "Error" not in err
    assert "Traceback" not in err
    assert aggregated(folder) == 1
    assert len(folder.read("rejects")) == len(bad)


def test_ctrl_c_in_the_middle_of_a_file(folder: Folder) -> None:
    responses = folder.lines(*[response("q1", note="n" * 300)] * 20_000)
    command = ["evaluate", folder.reference, responses, "--aggregates", folder.file("a.json")]
    process = start(*command, module="tests.cli.patient")
    received = [receive(process) for _ in range(300)]
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert not out or out.endswith("\n")
    assert len(received) + len(from_jsonl(out)) == aggregated(folder) < 20_000
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["aggregate", "validate"])
def test_ctrl_c_while_waiting_for_input(folder: Folder, command: str) -> None:
    arguments = (
        ["aggregate", "-", "--rejects", "-"]
        if command == "aggregate"
        else ["validate", folder.reference, "-"]
    )
    process = start(*arguments, stdin=PIPE)
    send(process, b"x")
    assert b"invalid_json" in next_line(process, "a reject")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "Traceback" not in err


def test_ctrl_c_before_anything_else(folder: Folder) -> None:
    os.mkfifo(folder.path / "reference")
    process = start("validate", folder.file("reference"))
    with open(folder.path / "reference", "wb"):  # Waits until the other end is opened, too.
        process.send_signal(signal.SIGINT)
        code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert "KeyboardInterrupt" not in err


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


@pytest.mark.parametrize("note", ["", "n" * 3 * select.PIPE_BUF], ids=["short", "long"])
def test_ctrl_c_while_nobody_reads_results(folder: Folder, note: str) -> None:
    responses = folder.lines(*[response("q1", note=note)] * 2000)
    command = ["evaluate", folder.reference, responses, "--aggregates", folder.file("a.json")]
    code, out, err = interrupted_while_nobody_reads(command)
    assert code == 130
    assert SUMMARY.format(aggregated(folder), 0, 2) in err
    *lines, rest = out.split(b"\n")
    assert len(lines) == aggregated(folder) - 1  # That of the last result did not fit.
    assert note or not rest


@pytest.mark.parametrize("command", ["evaluate", "aggregate"])
def test_ctrl_c_while_nobody_reads_rejects(folder: Folder, command: str) -> None:
    responses = folder.lines(*[b"{"] * 5000)
    inputs = [folder.reference, responses, "-o", folder.file("r")]
    command_line = [command, *(inputs if command == "evaluate" else [responses])]
    code, out, err = interrupted_while_nobody_reads([*command_line, "--rejects", "-"])
    assert code == 130
    rejected = out.count(b"\n") + 1  # The last did not fit.
    assert f"rejected lines: {rejected}" in err


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


@pytest.mark.parametrize(("gate", "code"), [("steps_score >= 0.5", 0), ("steps_score > 1", 1)])
def test_a_closed_pipe_and_gates(folder: Folder, gate: str, code: int) -> None:
    responses = folder.lines(*[response("q1", note="n" * 300)] * 5000)
    process = start("evaluate", folder.reference, responses, "--gate", gate)
    receive(process)
    assert process.stdout is not None
    process.stdout.close()
    assert finish(process)[0] == code


@pytest.mark.parametrize("command", ["evaluate", "aggregate", "validate"])
def test_output_without_readers(folder: Folder, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = folder.lines(*[b"{"] * 1000, response("q1"))
    inputs = [lines] if command == "aggregate" else [folder.reference, lines]
    process = start(command, *inputs, stdout=writer, stderr=writer)
    os.close(writer)
    assert finish(process)[0] == 3


USAGE = [
    ("--help", 0),
    ("--version", 0),
    ("", 2),
    ("evaluate reference.json no-such-file", 2),
    ("evaluate reference.json responses.jsonl --gate x", 2),
    ("evaluate reference.json responses.jsonl -o /no/such/folder", 2),
    ("validate responses.jsonl", 2),
]


@pytest.mark.parametrize(("command", "code"), USAGE, ids=[command for command, _ in USAGE])
def test_usage_without_a_reader(folder: Folder, command: str, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    folder.lines()
    process = start(*command.split(), stdout=writer, stderr=writer, cwd=folder.path)
    os.close(writer)
    assert finish(process)[0] == code


@pytest.mark.parametrize(("command", "code"), [("nonsense", 2), ("evaluate - -", 2), ("--help", 4)])
def test_usage_on_a_full_disk(command: str, code: int) -> None:
    with open("/dev/full", "wb") as full:
        process = start(*command.split(), stdout=full, stderr=full)
    assert finish(process)[0] == code


@pytest.mark.parametrize("arguments", [["-o", "/dev/full"], ["--rejects", "/dev/full"]], ids=" ".join)
def test_a_full_disk_is_one_line(folder: Folder, arguments: list[str]) -> None:
    responses = folder.lines(response("q1"), b"{", response("q2"))
    code, out, err = finish(start("evaluate", folder.reference, responses, *arguments))
    assert code == 4
    assert err.splitlines()[-1] == "Error: /dev/full: No space left on device"
    # Whether the second line was read by the time that the first result could not be written is open.
    assert re.search(r"results: 1, rejected lines: [01], ", out + err)


@pytest.mark.parametrize("arguments", [[], ["-o", "/dev/null"]], ids=["results", "table"])
def test_a_full_disk_behind_stdout(folder: Folder, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = start("evaluate", folder.reference, folder.lines(response("q1")), *arguments, stdout=full)
    code, _, err = finish(process)
    assert code == 4
    assert re.fullmatch("Error: (standard output|<stdout>): No space left on device", err.splitlines()[-1])


def test_a_source_that_fails_in_the_middle(folder: Folder) -> None:
    results = folder.lines({"template_id": "t"})
    # Can be opened, and then not read.
    code, out, err = finish(start("aggregate", results, "/proc/self/mem"))
    assert code == 4
    assert "results: 1" in out
    assert err.count("\n") == 1
    assert err.startswith("Error: ")


ORDER = [
    ("no such command", "nonsense", 2),
    ("broken reference", "evaluate broken.json bad.jsonl -o /dev/full --gate steps_score>1", 2),
    ("run failed", "evaluate reference.json bad.jsonl -o /dev/full --gate steps_score>1", 4),
    ("rejects", "evaluate reference.json bad.jsonl -o r --gate steps_score>1", 3),
    ("gate", "evaluate reference.json good.jsonl -o r --gate steps_score>1", 1),
    ("all is well", "evaluate reference.json good.jsonl -o r --gate steps_score>=1", 0),
]


@pytest.mark.parametrize(("command", "code"), [case[1:] for case in ORDER], ids=[case[0] for case in ORDER])
def test_the_first_exit_code_that_applies(folder: Folder, command: str, code: int) -> None:
    folder.write("broken.json", b"[]")
    folder.lines(b"{", response("q1"), name="bad.jsonl")
    folder.lines(response("q1"), name="good.jsonl")
    assert finish(start(*command.split(), cwd=folder.path))[0] == code


@pytest.mark.parametrize(("gates", "code"), [((), 130), (("--gate", "steps_score > 1"), 1)])
def test_ctrl_c_comes_after_gates(folder: Folder, gates: Sequence[str], code: int) -> None:
    process = start("evaluate", folder.reference, "-", *gates, stdin=PIPE)
    send(process, response("q1"))
    receive(process)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == code


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_standard_streams(folder: Folder, closed: int) -> None:
    responses = folder.lines(response("q1"))
    command = ["evaluate", folder.reference, responses]
    process = start(*command, "-o", folder.file("r"), closed=closed)
    assert finish(process)[0] == 0
    assert len(folder.read("r")) == 1


def test_results_to_a_closed_stdout_are_wrong_usage(folder: Folder) -> None:
    command = ["evaluate", folder.reference, folder.lines(response("q1"))]
    code, _, err = finish(start(*command, closed=1))
    assert (code, err) == (2, "Error: standard output is closed; -o FILE writes to a file\n")


@pytest.mark.parametrize("command", ["evaluate", "validate"])
def test_empty_stdin_and_a_file(folder: Folder, command: str) -> None:
    assert finish(start(command, folder.reference, "-"))[0] == 0
    with open(folder.lines(response("q1"), b"{"), "rb") as responses:
        assert finish(start(command, folder.reference, "-", stdin=responses))[0] == 3


def test_progress_on_a_terminal(folder: Folder) -> None:
    responses = folder.lines(response("q1"), failed("q2"), response("q3"))
    shown = terminal_output("evaluate", folder.reference, responses, "-o", folder.file("r"))
    assert "100%" in shown
    assert "2 results" not in shown.split("100%")[0]
    assert re.search(r"3 results, \d+\.\d/s", shown)
    assert re.search(r"time left .*0:00:00", shown)


def test_progress_knows_how_much_of_stdin_there_is(folder: Folder) -> None:
    with open(folder.lines(response("q1")), "rb") as responses:
        shown = terminal_output("evaluate", folder.reference, "-", "-o", folder.file("r"), stdin=responses)
    assert "100%" in shown


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


def test_no_progress_without_a_terminal(folder: Folder) -> None:
    code, out, err = finish(
        start("evaluate", folder.reference, folder.lines(response("q1")), "-o", folder.file("r"))
    )
    assert (code, err) == (0, "")
    assert "\x1b" not in out
