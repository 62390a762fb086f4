"""A system that is not POSIX: the modules and functions of Python that only POSIX has are taken
away.
"""

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
flags = ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")
for name in (*flags, "pread", "fchmod", "register_at_fork"):
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

STEPS = [[{"name": "sparql", "output": "red"}]]
QUESTION = {"id": "q1", "question_text": "?", "reference_steps": STEPS}
REFERENCE = [{"template_id": "t", "questions": [QUESTION]}]

async def main():
    async with evaluate_stream(REFERENCE, "responses.jsonl") as stream:
        print([result["steps_score"] async for result in stream])
    await evaluate_file(REFERENCE, "responses.jsonl", results="results.jsonl")

asyncio.run(main())
for need in (
    lambda: evaluate_stream(REFERENCE, [], journal="journal.jsonl"),
    lambda: follow_jsonl("responses.jsonl"),
    lambda: read_jsonl("responses.jsonl", shuffle=1),
    lambda: asyncio.run(evaluate_file(REFERENCE, "responses.jsonl", jobs=2)),
):
    try:
        need()
    except UsageError as error:
        print(error)
from graphrag_eval_async.cli import answer_correctness, main
for command in (main, answer_correctness):
    try:
        command()
    except SystemExit as end:
        print(end.code)
"""

NEEDS = "needs a POSIX system, such as Linux, macOS or WSL"


def test_the_library_works_and_says_what_needs_file_locks(tmp_path: Path) -> None:
    step = {"name": "sparql", "status": "success", "output": "red"}
    line = orjson.dumps({"question_id": "q1", "actual_steps": [step]}) + b"\n"
    (tmp_path / "responses.jsonl").write_bytes(line)
    done = subprocess.run(
        [sys.executable, "-c", SYSTEM + LIBRARY],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    needing = ["a journal", "follow_jsonl", "shuffle", "jobs other than 1"]
    told = ["[1.0]", *(f"{name} {NEEDS}" for name in needing), "2", "2"]
    assert done.stdout.splitlines() == told, done.stderr
    assert done.stderr == f"Error: the command line {NEEDS}\n" * 2
    assert (done.returncode, (tmp_path / "results.jsonl").read_bytes().count(b"\n")) == (0, 1)
