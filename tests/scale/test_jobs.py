"""Several processes give what one gives, and what ends them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import RejectedResponse, UsageError, WorkerError, evaluate_file, load_reference
from graphrag_eval_async.sinks import LineFile, RejectWriter
from tests.cli.support import run
from tests.scale.support import FILES, REFERENCE, in_one_process, in_ranges, told, write
from tests.support.cases import each
from tests.support.data import answer, heavy, templates
from tests.support.deadlines import WAIT_SECONDS, until

ROOT = Path(__file__).parents[2]
LINES = [orjson.dumps(answer(index % 2, elapsed_sec=index / 7)) for index in range(400)]
"""Longer than a piece."""

SIZES = st.sampled_from([1, 7, 64, 300, 1000, 1 << 20])
REPLIES = st.sampled_from([1, 500, 3000, 1 << 20])
LIMITS = st.sampled_from([1, 5, 250, 600, 1 << 20])


def deadly(_: Any, actual: Any) -> float:
    """A comparator that the kernel ends."""
    if actual["output"] == "die":
        os.kill(os.getpid(), 9)
    return 1.0


def endless(*_: Any) -> float:
    """A comparator that never finds out."""
    while True:
        signal.pause()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b"\n".join([*LINES, b"{", orjson.dumps(heavy(1)), *LINES]))
    return path


async def evaluate(files: Any, limit: int, shard: str | None, *, errors: bool) -> Any:
    rejects: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        found = await evaluate_file(
            *(REFERENCE, files),
            jobs=2,
            results=out,
            shard=shard,
            on_reject=lambda reject: rejects.append(told(reject)),
            max_line_bytes=limit,
            include_errors=errors,
        )
        return out.read_bytes(), found.aggregates.to_bytes(), rejects, found.missing


@settings(max_examples=50, deadline=None)
@given(FILES, SIZES, REPLIES, LIMITS, st.sampled_from([None, None, "0/2", "2/3"]), st.booleans())
def test_any_pieces_give_what_one_process_gives(
    files: Any, size: int, reply_bytes: int, limit: int, shard: str | None, errors: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), files)
        with in_ranges(size, reply_bytes=reply_bytes):
            found = asyncio.run(evaluate(paths, limit, shard, errors=errors))
        assert found == asyncio.run(in_one_process(paths, limit, shard=shard, include_errors=errors))


RESULTS = [
    {"template_id": template, "question_id": "q0", "status": "success", "sample": 1, **more}
    for template in "tu"
    for more in ({}, {"steps_score": 0.25}, {"status": "error"}, {"elapsed_sec": 1e300}, {"question_id": 5})
]
OTHER = [b"", b"{", b"[1]", b"\xef\xbb\xbf", b"x" * 700, b'{"steps_score": 1}', b'{"status": "nonsense"}']
PENDING = {"template_id": "t", "question_id": "q0", "sample": 1, "pending": ["answer_correctness"]}
"""Its complete version follows; its last key is across the end of a chunk of 52 bytes."""


def aggregate(folder: Path, files: list[str], jobs: int) -> tuple[int, bytes, bytes]:
    aggregates, rejects = folder / "found.aggregates", folder / "rejects"
    options = ("--jobs", f"{jobs}", "--aggregates", str(aggregates), "--rejects", str(rejects))
    code = run("aggregate", *files, *options)
    return code, aggregates.read_bytes(), rejects.read_bytes()


@each(("size", "reply_bytes"), [(52, 1), (52, 3000), (1000, 1)])
def test_aggregates_of_any_pieces(tmp_path: Path, size: int, reply_bytes: int) -> None:
    rnd = random.Random(1)
    lines = [orjson.dumps(each) for each in RESULTS] + OTHER
    rnd.shuffle(lines)
    paths = write(tmp_path, [([orjson.dumps(PENDING), *lines], b"\n", True), (lines * 5, b"\n", False)])
    with in_ranges(size, reply_bytes=reply_bytes):
        assert aggregate(tmp_path, paths, 2) == aggregate(tmp_path, paths, 1)


async def test_a_reject_may_end_it(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    with pytest.raises(RejectedResponse, match="line 401 "):
        await evaluate_file(REFERENCE, path, jobs=2, results=results, on_reject="raise")
    assert results.read_bytes().count(b"\n") == 400


async def test_rejects_are_written_or_given_to_a_callable_on_the_loop(path: Path, tmp_path: Path) -> None:
    told_on: set[int] = set()
    await evaluate_file(REFERENCE, path, jobs=2, on_reject=lambda _: told_on.add(threading.get_ident()))
    assert told_on == {threading.get_ident()}
    with LineFile(tmp_path / "rejects.jsonl") as lines:
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=RejectWriter(lines))
    assert orjson.loads((tmp_path / "rejects.jsonl").read_bytes())["line"] == 401


async def test_a_killed_worker_is_told_with_its_place(tmp_path: Path) -> None:
    deadly_line = orjson.dumps(answer()).replace(b'"42"', b'"die"')
    path, results = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    path.write_bytes(b"\n".join([*LINES, deadly_line, *LINES]))
    comparators: Any = {"calculator": deadly}
    reference = load_reference(templates(), comparators=comparators)
    with pytest.raises(WorkerError, match=r"responses\.jsonl: bytes (\d+) to .*: a worker .* died") as error:
        await evaluate_file(reference, path, jobs=2, results=results, comparators=comparators)
    start = int(re.findall(r"bytes (\d+) to", str(error.value))[0])
    text = path.read_bytes()
    assert start <= text.index(b"die")
    written = results.read_bytes()
    assert written.count(b"\n") == text[:start].count(b"\n")
    assert written.endswith(b"\n") or not written
    assert not multiprocessing.active_children()


async def test_nothing_is_left_running_when_cancelled(path: Path) -> None:
    comparators = {"calculator": endless}
    task = asyncio.ensure_future(evaluate_file(templates(), path, jobs=2, comparators=comparators))
    await until(multiprocessing.active_children, "worker processes")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not multiprocessing.active_children()


async def test_results_among_the_responses(path: Path) -> None:
    with pytest.raises(UsageError, match="would be overwritten"):
        await evaluate_file(REFERENCE, path.parent, results=path, jobs=2)
    assert path.stat().st_size


SCRIPT = """
import asyncio, multiprocessing, os, signal, threading, time
from graphrag_eval_async import evaluate_file

def kill_when_working():
    while not multiprocessing.active_children():
        time.sleep(0.01)
    print(flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

reference = [{"template_id": "t", "questions": [{"id": "q0", "question_text": "Q?"}]}]
"""


def run_script(folder: Path, call: str) -> subprocess.CompletedProcess[str]:
    (folder / "in.jsonl").write_bytes(b'{"question_id": "q0"}\n' * 9000)
    (folder / "script.py").write_text(SCRIPT + call)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    done = run_script(tmp_path, "asyncio.run(evaluate_file(reference, 'in.jsonl', jobs=2))\n")
    assert done.returncode == 1
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        'if __name__ == "__main__":\n'
        "    threading.Thread(target=kill_when_working).start()\n"
        "    asyncio.run(evaluate_file(reference, ['in.jsonl'] * 500, jobs=2))\n",
    )
    # The output has ended: nobody is left who holds it open.
    assert (done.returncode, done.stdout) == (-9, "\n")
