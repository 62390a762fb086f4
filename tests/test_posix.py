"""A system that is not POSIX: the modules and functions of Python that only POSIX has are taken away."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import orjson

from tests.support.deadlines import PROCESS_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = """
import asyncio, os, select, signal, subprocess, sys, tempfile
import aiofiles, anyio._backends._asyncio, anyio.to_thread
for module in ("fcntl", "resource", "termios", "tty", "pty"):
    sys.modules[module] = None
for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "pread", "fchmod", "register_at_fork"):
    delattr(os, name)
for name in ("SIGKILL", "SIGTSTP", "pthread_sigmask"):
    delattr(signal, name)
del select.poll, select.PIPE_BUF
"""

LIBRARY = """
import graphrag_eval_async as package
from graphrag_eval_async import *
for name in package.__all__:
    getattr(package, name)

REFERENCE = [{"template_id": "t", "questions": [{"id": "q1", "question_text": "?", "reference_steps": [
    [{"name": "sparql", "output": "red"}]]}]}]
STEP = {"name": "sparql", "status": "success", "output": "red"}

async def main():
    response = {"question_id": "q1", "actual_steps": [STEP]}
    async with evaluate_stream(REFERENCE, [response]) as stream:
        print([result["steps_score"] async for result in stream])
    async with evaluate_stream(REFERENCE, "responses.jsonl") as stream:
        print([result["steps_score"] async for result in stream])
    print((await evaluate_file(REFERENCE, "responses.jsonl", results="results.jsonl")).aggregates)
    for need in (
        lambda: evaluate_stream(REFERENCE, [], journal="journal.jsonl"),
        lambda: follow_jsonl("responses.jsonl"),
        lambda: read_jsonl("responses.jsonl", shuffle=1),
    ):
        try:
            need()
        except UsageError as error:
            print(error)
    try:
        await evaluate_file(REFERENCE, "responses.jsonl", jobs=2)
    except UsageError as error:
        print(error)

asyncio.run(main())
"""

COMMANDS = """
from graphrag_eval_async.cli import answer_correctness, main
for command in (main, answer_correctness):
    try:
        command()
    except SystemExit as end:
        print(end.code)
"""

NEEDS = "needs a POSIX system, such as Linux, macOS or WSL"


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SYSTEM + script],
        capture_output=True,
        check=False,
        cwd=folder,
        text=True,
        timeout=PROCESS_SECONDS,
    )


def test_the_library_is_imported_and_says_what_needs_file_locks(tmp_path: Path) -> None:
    step = {"name": "sparql", "status": "success", "output": "red"}
    line = orjson.dumps({"question_id": "q1", "actual_steps": [step]}) + b"\n"
    (tmp_path / "responses.jsonl").write_bytes(line)
    done = run(tmp_path, LIBRARY)
    *lines, journal, follow, shuffle, jobs = done.stdout.splitlines() or [done.stderr] * 5
    assert lines[:2] == ["[1.0]", "[1.0]"]
    assert journal == f"a journal {NEEDS}"
    assert follow == f"follow_jsonl {NEEDS}"
    assert shuffle == f"shuffle {NEEDS}"
    assert jobs == f"jobs other than 1 {NEEDS}"
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results.jsonl").read_bytes().count(b"\n") == 1


def test_the_command_line_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, COMMANDS)
    assert (done.returncode, done.stdout) == (0, "2\n2\n"), done.stderr
    assert done.stderr == f"Error: the command line {NEEDS}\n" * 2
