"""What only a process of its own can show: pipes, signals, closed streams; and the bar on a
terminal.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import orjson
import pytest

from tests.cli.beside import terminal_output
from tests.cli.support import (
    DEADLINE_SECONDS,
    ROOT,
    Folder,
    finish,
    from_jsonl,
    next_line,
    response,
    run,
    start,
    to_jsonl,
    until,
)

COLOURS = re.compile(r"\x1b\[[\d;]*m")
SUMMARY = "results: {}, rejected lines: {}, questions without a response: {} of 3"


def send(process: subprocess.Popen[bytes], *items: Any) -> None:
    assert process.stdin is not None
    os.write(process.stdin.fileno(), to_jsonl(items))


def receive(process: subprocess.Popen[bytes]) -> Any:
    """The next result."""
    return orjson.loads(next_line(process, "a result"))


def trickle(folder: Folder, *more: str) -> subprocess.Popen[bytes]:
    """An evaluation of what is sent, of which each result can be received."""
    outputs = ["--aggregates", folder.file("a.json"), "--rejects", folder.file("rejects")]
    return start("evaluate", folder.reference, "-", *outputs, *more, stdin=subprocess.PIPE)


def aggregated(folder: Folder) -> int:
    micro = orjson.loads((folder.path / "a.json").read_bytes())["micro"]
    return int(micro["number_of_success_samples"])


def test_ctrl_c_writes_what_is_there(folder: Folder) -> None:
    """Each result comes out before the next response goes in. Ctrl-C that comes twice at once is
    one.
    """
    process = trickle(folder)
    for sample in range(1, 11):
        send(process, response("q1"))
        assert receive(process)["sample"] == sample
    send(process, b"{", response("q2"))
    receive(process)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)  # Far less than tells two apart, even if the process is slow to see it.
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert SUMMARY.format(11, 1, 1) in err
    assert "Error" not in err
    assert "Traceback" not in err
    assert aggregated(folder) == 11
    assert len(folder.read("rejects")) == 1


def test_sigterm_with_a_journal_fails_gates_first(folder: Folder) -> None:
    process = trickle(folder, "-o", folder.file("journal"), "--resume", "--gate", "steps_score > 1")
    send(process, response("q1"))
    journal = folder.path / "journal"
    until(process, lambda: journal.exists() and b"\n" in journal.read_bytes(), "the first result")
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert code == 1
    assert err == "gate failed: steps_score > 1: the mean is 1\n"
    assert "results: 1, rejected lines: 0" in out
    assert (len(from_jsonl(journal.read_bytes())), aggregated(folder)) == (1, 1)


def test_a_closed_pipe_ends_it_cleanly(folder: Folder) -> None:
    """Its gates are not decided, for it was to read more."""
    process = trickle(folder, "--gate", "steps_score >= 0")
    send(process, response("q1"))
    receive(process)
    assert process.stdout is not None
    process.stdout.close()
    send(process, response("q2"))
    process.wait(DEADLINE_SECONDS)  # Though more could come in.
    code, _, err = finish(process)
    assert (code, aggregated(folder)) == (1, 2)
    assert SUMMARY.format(2, 0, 1) in err
    *_, gate, cut = err.splitlines()
    assert gate == "gate failed: steps_score >= 0: not decided"
    assert cut == "the output was closed by its reader, so the run ended early"


INTERRUPT_AT_IMPORT = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "click":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
sys.meta_path.insert(0, Interrupting())
sys.argv = ["graphrag-eval-async", "--help"]
runpy.run_module("graphrag_eval_async", run_name="__main__")
"""


def test_ctrl_c_while_modules_are_imported_leaves_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT_IMPORT],
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_first_exit_code_that_applies(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.path)
    folder.write("broken.json", b"[]")
    folder.lines(response("q1"), b"{", response("q2"), name="bad.jsonl")
    folder.lines(response("q1"), name="good.jsonl")
    full = "Error: /dev/full: No space left on device"
    for command, code, told in [
        ("nonsense", 2, "No such command"),
        ("evaluate broken.json bad.jsonl -o /dev/full --gate steps_score>1", 2, "reference set: "),
        ("evaluate reference.json bad.jsonl -o /dev/full --gate steps_score>1", 4, full),
        ("evaluate reference.json bad.jsonl -o r --rejects /dev/full", 4, full),
        ("evaluate reference.json bad.jsonl -o r --gate steps_score>1", 3, "gate failed"),
        ("evaluate reference.json good.jsonl -o r --gate steps_score>1", 1, "gate failed"),
        ("evaluate reference.json good.jsonl -o r --gate steps_score>=1", 0, ""),
    ]:
        assert run(*command.split()) == code, command
        assert told in capfd.readouterr().err


def test_a_terminal_has_a_bar_but_not_between_results(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    command = ["evaluate", folder.reference, folder.lines(response("q1"))]
    code, shown = terminal_output(*command, "-o", "-")
    assert (code, "Means by template" in shown, '"question_id":"q1"' in shown) == (0, True, True)
    assert "\x1b" not in shown
    # Without -o, there is only the page.
    code, shown = terminal_output(*command)
    assert (code, "Means by template" in shown, '"question_id"' in shown) == (0, True, False)
    assert "steps_score 1.000" in shown
    assert "\x1b[?25l" not in shown  # Which hides the cursor, for ever if the process is killed.


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([response("q1"), response("q2")], "2 of 2 ", id="done of all"),
        pytest.param([response("q1")], "100%", id="share"),
        pytest.param([response("q1")], "00:00 left", id="time left"),
        pytest.param([response("q1")], "/s", id="rate"),
        pytest.param([response("q1")], "0 errors", id="no errors"),
        pytest.param([{"question_id": "q1", "error": "down"}], "1 error", id="an error"),
        pytest.param([response("q1"), b"{"], "1 of 1 ", id="a rejected line is no result"),
    ],
)
def test_the_bar_says_how_far_the_run_is(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, lines: list[Any], expected: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    _, shown = terminal_output("evaluate", folder.reference, folder.lines(*lines))
    bar, _, _ = COLOURS.sub("", shown).partition("Means by template")
    assert expected in bar


def test_the_bar_of_a_pipe_has_no_share(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.pipe()
    os.write(writer, to_jsonl([response("q1"), response("q2")]))
    os.close(writer)
    saved = os.dup(0)
    os.dup2(reader, 0)
    try:
        code, shown = terminal_output("evaluate", folder.reference, "-")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)
    assert code == 0
    assert "2 results  " in COLOURS.sub("", shown)
    assert " left" not in shown
