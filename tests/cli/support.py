"""A small reference set with responses to it, and the command line run on them."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
import pytest

from graphrag_eval_async.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[2]

ODD = "a:b=c"
"""A template whose name holds what separates the parts of a gate."""

COLOURS = "colours"

DEADLINE_SECONDS = 60
"""How long a test waits for one step of a process; more than a run has to finish after a signal."""

_started: list[subprocess.Popen[bytes]] = []
"""The processes of the current test."""


def step(output: str, **more: Any) -> dict[str, Any]:
    return {"name": "look_up", "args": {}, "output": output, **more}


def question(question_id: str, output: str) -> dict[str, Any]:
    return {
        "id": question_id,
        "question_text": f"What of {question_id}?",
        "reference_steps": [[step(output)]],
    }


REFERENCE: list[dict[str, Any]] = [
    {"template_id": COLOURS, "questions": [question("q1", "red"), question("q2", "blue")]},
    {"template_id": ODD, "questions": [question("q3", "green")]},
]

OUTPUTS = {"q1": "red", "q2": "blue", "q3": "green"}


def response(question_id: str, right: bool = True, /, **more: Any) -> dict[str, Any]:
    output = OUTPUTS.get(question_id, "") if right else "wrong"
    steps = [step(output, id="call_1", status="success")]
    return {"question_id": question_id, "actual_steps": steps, "elapsed_sec": 1.5, **more}


def failed(question_id: str) -> dict[str, Any]:
    return {"question_id": question_id, "error": "no answer"}


def to_jsonl(items: Iterable[Any]) -> bytes:
    """Lines of JSON; items that are bytes already stay as they are."""
    return b"".join(
        (item if isinstance(item, bytes) else orjson.dumps(item)) + b"\n" for item in items
    )


def from_jsonl(text: bytes | str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in text.splitlines()]


class Folder:
    """Files in `path`, and the command line run on them in this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reference = self.write("reference.json", orjson.dumps(REFERENCE))

    def write(self, name: str, content: bytes) -> str:
        (self.path / name).write_bytes(content)
        return str(self.path / name)

    def lines(self, *items: Any, name: str = "responses.jsonl") -> str:
        return self.write(name, to_jsonl(items))

    def read(self, name: str) -> list[dict[str, Any]]:
        return from_jsonl((self.path / name).read_bytes())

    def file(self, name: str) -> str:
        return str(self.path / name)


def run(*arguments: str) -> int:
    """The exit code of the command line, run in this process."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert isinstance(end.value.code, int)
    return end.value.code


def full_pipe() -> tuple[int, int]:
    """The descriptors of a pipe that takes no more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(select.PIPE_BUF))
    os.set_blocking(writer, True)
    return reader, writer


def start(
    *arguments: str,
    stdin: int | BinaryIO = subprocess.DEVNULL,
    stdout: int | BinaryIO = subprocess.PIPE,
    stderr: int | BinaryIO = subprocess.PIPE,
    open_files: int | None = None,
) -> subprocess.Popen[bytes]:
    """The command line in a process of its own, in which any warning is an error.

    `open_files` limits how many files it may have open.
    """

    def prepare() -> None:
        # Where the tests run in the background, children would ignore what their parent does.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "graphrag_eval_async", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        preexec_fn=prepare,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
    )
    _started.append(process)
    return process


def end_processes() -> None:
    """Kill the processes of the current test that still run."""
    for process in _started:
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE_SECONDS)
    _started.clear()


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """The exit code and what came out, of a process that is expected to end."""
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def told(process: subprocess.Popen[bytes], awaited: str) -> str:
    """The next line of stderr that has a text."""
    while awaited not in (line := next_line(process, awaited, errors=True).decode()):
        pass
    return line.rstrip()


def until(process: subprocess.Popen[bytes], condition: Callable[[], bool], awaited: str) -> None:
    """Wait until a running process has made the condition true; errors name it as `awaited`."""
    end = monotonic() + DEADLINE_SECONDS
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)
        assert process.poll() is None, f"the process ended before {awaited}"
        assert monotonic() < end, f"waited {DEADLINE_SECONDS} s for {awaited}"


def next_line(
    process: subprocess.Popen[bytes], awaited: str = "a line", *, errors: bool = False
) -> bytes:
    """The next line of stdout or, for `errors`, stderr, waited for without reading beyond it."""
    stream = process.stderr if errors else process.stdout
    assert stream is not None
    timer = Timer(DEADLINE_SECONDS, process.kill)
    timer.start()
    line: bytes = stream.readline()
    timer.cancel()
    assert line.endswith(b"\n"), (
        f"the process ended, or took {DEADLINE_SECONDS} s, before {awaited}"
    )
    return line
