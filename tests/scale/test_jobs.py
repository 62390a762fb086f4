"""Several processes give what one gives, and what ends them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
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
from hypothesis import assume, given
from hypothesis import strategies as st

from graphrag_eval_async import (
    RejectedResponse,
    RunningAggregates,
    UsageError,
    WorkerError,
    evaluate_file,
    load_reference,
)
from graphrag_eval_async.batch import read_results
from graphrag_eval_async.scale.merging import Merging
from graphrag_eval_async.scale.pieces import Work, unsplittable
from graphrag_eval_async.sinks import LineFile, RejectWriter
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.shards import Window
from tests.scale.support import FILES, REFERENCE, SECONDS, in_one_process, in_ranges, told, write
from tests.support.data import answer, heavy, templates

ROOT = Path(__file__).parents[2]
LINES = [orjson.dumps(answer(index % 2, elapsed_sec=index / 7)) for index in range(400)]
"""Longer than a piece."""

SIZES = st.sampled_from([1, 2, 7, 64, 300, 1000, 5000, 1 << 20])
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


async def evaluate(files: Any, limit: int = 1 << 20, *, jobs: int = 2, errors: bool = False) -> Any:
    rejects: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        found = await evaluate_file(
            *(REFERENCE, files),
            jobs=jobs,
            results=out,
            on_reject=lambda reject: rejects.append(told(reject)),
            max_line_bytes=limit,
            include_errors=errors,
        )
        return out.read_bytes(), found.aggregates.to_bytes(), rejects, found.missing


@given(FILES, SIZES, REPLIES, LIMITS, st.booleans())
def test_any_pieces_give_what_one_process_gives(
    files: Any, size: int, reply_bytes: int, limit: int, errors: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), files)
        assume(unsplittable(paths) is None)
        with in_ranges(size, reply_bytes=reply_bytes):
            found = asyncio.run(evaluate(paths, limit, errors=errors))
        assert found == asyncio.run(in_one_process(paths, limit, include_errors=errors))


@pytest.mark.parametrize("jobs", [1, 2, 0])
async def test_processes_give_equal_results(path: Path, jobs: int) -> None:
    async with asyncio.timeout(SECONDS):
        assert await evaluate(path, jobs=jobs) == await in_one_process([str(path)], 1 << 20)
        found = await evaluate_file(REFERENCE, path, jobs=jobs)
    assert (found.missing, found.rejects.counts) == (["q2"], {"invalid_json": 1})


RESULTS = st.builds(
    lambda question, template, more: orjson.dumps(
        {"template_id": template, "question_id": question, "status": "success", "sample": 1} | more
    ),
    st.sampled_from(["q0", "q1"]),
    st.sampled_from(["t", "u"]),
    st.sampled_from(
        [
            {},
            {"steps_score": 0.25},
            {"status": "error", "steps_score": 1},
            {"status": "nonsense"},
            {"elapsed_sec": 1e300},
            {"question_id": 5},
        ]
    ),
)
OTHER = st.sampled_from([b"", b"{", b"[1]", b"\xef\xbb\xbf", b"x" * 700, b'{"steps_score": 1}'])
RESULT_FILES = st.lists(
    st.tuples(st.lists(st.one_of(RESULTS, RESULTS, OTHER), max_size=25), st.just(b"\n"), st.booleans()),
    min_size=1,
    max_size=3,
)


async def aggregate(files: list[str], *, in_processes: bool) -> tuple[Any, ...]:
    aggregates, rejects, answered = RunningAggregates(), list[Any](), set[str]()

    def on_reject(reject: Any) -> None:
        rejects.append(told(reject))

    def add(result: dict[str, Any]) -> None:
        aggregates.add(result)
        if isinstance(question_id := result.get("question_id"), str):
            answered.add(question_id)

    if in_processes:
        work = Work(max_line_bytes=600, content=True)
        merging = Merging(work, [*map(Window, files)], 2, aggregates=aggregates, on_reject=on_reject)
        await merging.run()
        assert merging.consumed == merging.size == sum(Path(file).stat().st_size for file in files)
        answered.update(merging.samples)
    else:
        await read_results(read_jsonl(files), add, on_reject, max_line_bytes=600)
    return aggregates.to_bytes(), rejects, answered


@given(RESULT_FILES, SIZES, REPLIES)
def test_aggregates_of_any_pieces(files: Any, size: int, reply_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, in_ranges(size, reply_bytes=reply_bytes):
        paths = write(Path(folder), files)
        found = asyncio.run(aggregate(paths, in_processes=True))
        assert found == asyncio.run(aggregate(paths, in_processes=False))


def test_what_one_process_reads(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"note": "pending"}\n')
    assert unsplittable([str(path)]) is None
    path.write_bytes(b"x" * 65_530 + b'\n{"pending":["answer_correctness"]}')
    assert "in several versions, as --stages writes them" in str(unsplittable([str(path)], results=True))
    for other in ("-", f"{path}.gz", str(tmp_path), "/dev/null"):
        assert unsplittable([str(path), other]) is not None


async def test_a_reject_may_end_it(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    async with asyncio.timeout(SECONDS):
        with pytest.raises(RejectedResponse, match="line 401 "):
            await evaluate_file(REFERENCE, path, jobs=2, results=results, on_reject="raise")
    assert results.read_bytes().count(b"\n") == 400


async def test_a_killed_worker_is_told_with_its_place(tmp_path: Path) -> None:
    deadly_line = orjson.dumps(answer()).replace(b'"42"', b'"die"')
    path, results = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    path.write_bytes(b"\n".join([*LINES, deadly_line, *LINES]))
    comparators: Any = {"calculator": deadly}
    reference = load_reference(templates(), comparators=comparators)
    async with asyncio.timeout(SECONDS):
        with pytest.raises(
            WorkerError, match=r"responses\.jsonl: bytes (\d+) to .*: a worker .* died"
        ) as error:
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
    async with asyncio.timeout(SECONDS):
        while not multiprocessing.active_children():  # noqa: ASYNC110  (they tell nobody)
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not multiprocessing.active_children()


async def test_results_among_the_responses(path: Path) -> None:
    with pytest.raises(UsageError, match="would be overwritten"):
        await evaluate_file(REFERENCE, path.parent, results=path, jobs=2)
    assert path.stat().st_size


class Noting(RejectWriter):
    """Notes on which threads it writes."""

    threads: set[int]

    def __call__(self, reject: Any) -> None:
        self.threads.add(threading.get_ident())
        super().__call__(reject)


async def test_rejects_are_written_in_a_thread_and_a_callable_is_called_on_the_loop(
    path: Path, tmp_path: Path
) -> None:
    writer = Noting(LineFile(tmp_path / "rejects.jsonl"))
    writer.threads = set()
    told_on: set[int] = set()
    async with asyncio.timeout(SECONDS):
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=writer)
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=lambda _: told_on.add(threading.get_ident()))
    assert orjson.loads((tmp_path / "rejects.jsonl").read_bytes())["line"] == 401
    assert told_on == {threading.get_ident()}
    assert writer.threads
    assert not writer.threads & told_on


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
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(("guard", "code"), [("", 1), ('if __name__ == "__main__": ', 0)])
def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path, guard: str, code: int) -> None:
    done = run_script(tmp_path, f"{guard}asyncio.run(evaluate_file(reference, 'in.jsonl', jobs=2))\n")
    assert done.returncode == code, done.stderr
    assert ('put the call under `if __name__ == "__main__":`' in done.stderr) is bool(code)


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        'if __name__ == "__main__":\n'
        "    threading.Thread(target=kill_when_working).start()\n"
        "    asyncio.run(evaluate_file(reference, ['in.jsonl'] * 500, jobs=2))\n",
    )
    # The output has ended: nobody is left who holds it open.
    assert (done.returncode, done.stdout) == (-9, "\n")
