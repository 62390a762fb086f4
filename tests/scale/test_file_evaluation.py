from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import operator
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from graphrag_eval_async import (
    Evaluator,
    RejectedResponse,
    SourceError,
    UsageError,
    WorkerError,
    evaluate_file,
    load_reference,
)
from graphrag_eval_async.judge.dry import DryJudge
from graphrag_eval_async.scale import merging
from graphrag_eval_async.scale.file_evaluation import FileEvaluation
from tests.conftest import answer, heavy, templates
from tests.scale.support import REFERENCE, SECONDS, copy, evaluator, in_one_process, in_ranges, told

LINES = [orjson.dumps(answer(index % 2, elapsed_sec=index / 7)) for index in range(40)]


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


def small(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(merging, "range_bytes", lambda *_: size)


@pytest.mark.parametrize("jobs", [1, 2, 0])
async def test_processes_give_equal_results(
    path: Path, tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, 1500)
    results, rejects = tmp_path / "results.jsonl", list[Any]()
    async with asyncio.timeout(SECONDS):
        found = await evaluate_file(
            REFERENCE, path, jobs=jobs, results=results, on_reject=lambda reject: rejects.append(told(reject))
        )
    expected = await in_one_process([str(path)], 1 << 20)
    assert (results.read_bytes(), found.aggregates.to_bytes(), rejects, found.missing) == expected
    assert found.missing == ["q2"]
    assert found.rejects.counts == {"invalid_json": 1}


async def test_without_results(path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        one, two = [await evaluate_file(REFERENCE, path, jobs=jobs) for jobs in (1, 2)]
    assert one.aggregates.to_bytes() == two.aggregates.to_bytes()
    assert (one.missing, [*one.rejects]) == (two.missing, [*two.rejects])


@pytest.mark.parametrize("size", [100, 1 << 20])
async def test_a_reject_may_end_it(path: Path, tmp_path: Path, size: int) -> None:
    results = tmp_path / "results"
    with in_ranges(size), pytest.raises(RejectedResponse, match="line 41 "):
        await evaluate_file(REFERENCE, path, jobs=2, results=results, on_reject="raise")
    assert results.read_bytes().count(b"\n") == 40


async def test_a_killed_worker_is_told_with_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, 1000)
    deadly_line = orjson.dumps(answer()).replace(b'"42"', b'"die"')
    lines = [*LINES, deadly_line, *LINES, deadly_line]
    path, results = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    path.write_bytes(b"\n".join(lines))
    reference = load_reference(templates(), comparators={"calculator": deadly})
    async with asyncio.timeout(SECONDS):
        with pytest.raises(WorkerError, match=r"responses\.jsonl: bytes (\d+) to (\d+): .* SIGKILL") as error:
            await evaluate_file(reference, path, jobs=2, results=results, comparators={"calculator": deadly})
    start, end = map(int, re.findall(r"bytes (\d+) to (\d+):", str(error.value))[0])
    text = path.read_bytes()
    assert b"die" in text[start:end]
    written = results.read_bytes()
    assert written.count(b"\n") == text[:start].count(b"\n")
    assert written.endswith(b"\n")


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


async def test_only_so_many_ranges_are_out(path: Path) -> None:
    with in_ranges(1):
        evaluation = FileEvaluation(evaluator(), [str(path)], 3)
        handed: list[int] = []

        async def send(_: bytes) -> None:
            handed.append(len(evaluation.merging._outstanding))

        await evaluation.run(send)
    assert max(handed) == 5  # and the one that is being written
    assert evaluation.aggregates.snapshot()["micro"]["number_of_success_samples"] == 81


async def test_long_replies_come_in_several(path: Path) -> None:
    sizes: list[int] = []
    with in_ranges(1 << 20, reply_bytes=2000):
        evaluation = FileEvaluation(evaluator(), [str(path)], 1)

        async def take(parts: list[Any], _: Any) -> None:
            sizes.append(sum(len(part.text) for part in parts))

        await evaluation.merging.run(take)
    assert sorted(sizes)[-2] < 4000 < sum(sizes)


async def test_stopping_leaves_no_gap(path: Path) -> None:
    sent: list[bytes] = []
    with in_ranges(1):
        evaluation = FileEvaluation(evaluator(), [str(path)], 2)

        async def send(lines: bytes) -> None:
            sent.append(lines)
            evaluation.merging.stop()

        await evaluation.run(send)
    expected = await in_one_process([str(path)], 1 << 20)
    assert len(sent) == 4
    assert expected[0].startswith(b"".join(sent))


async def test_a_file_that_is_missing_comes_after_the_results_before(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"{}")

    evaluation = FileEvaluation(evaluator(), [str(path), str(other)], 2)
    other.unlink()
    lines: list[bytes] = []

    async def send(text: bytes) -> None:
        lines.append(text)

    async with asyncio.timeout(SECONDS):
        with pytest.raises(SourceError, match=r"other\.jsonl: cannot be read"):
            await evaluation.run(send)
    assert b"".join(lines).count(b"\n") == 81


async def test_unsplittable_files_are_evaluated_in_this_process(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(LINES)))
    found = await evaluate_file(REFERENCE, path, jobs=3, results=tmp_path / "results")
    assert found.aggregates.snapshot()["micro"]["number_of_success_samples"] == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": -1}, "jobs: expected an integer of 0 or more, got -1"),
        ({"jobs": True}, "jobs: expected an integer"),
        ({"jobs": 2, "on_reject": "keep"}, "on_reject: expected"),
        ({"jobs": 2, "max_line_bytes": 0}, "max_line_bytes: expected"),
        ({"jobs": 2, "steps_groups": "first"}, "steps_groups: expected"),
        ({"jobs": 2, "comparators": {"calculator": lambda *_: 1.0}}, "comparators: with several jobs"),
        ({"jobs": 2, "comparators": {"calculator": 5}}, "comparators"),
    ],
)
async def test_wrong_options(path: Path, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await evaluate_file(REFERENCE, path, **options)


async def test_results_among_the_responses(path: Path) -> None:
    with pytest.raises(UsageError, match="would be overwritten"):
        await evaluate_file(REFERENCE, path.parent, results=path, jobs=2)
    assert path.stat().st_size


async def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    found = await evaluate_file(REFERENCE, path, jobs=2, results=tmp_path / "results")
    assert (found.missing, found.rejects.total) == (["q0", "q1", "q2"], 0)
    assert (tmp_path / "results").read_bytes() == b""


def test_evaluators_and_reference_sets_pickle() -> None:
    reference = copy(REFERENCE)
    assert [*reference] == [*REFERENCE]
    assert (reference.templates, repr(reference)) == (REFERENCE.templates, repr(REFERENCE))
    assert reference.prepared["q0"].steps == REFERENCE.prepared["q0"].steps
    first, second = Evaluator(REFERENCE, steps_groups="all"), Evaluator(REFERENCE)
    assert copy(first).fingerprints() == first.fingerprints() != second.fingerprints()
    judging = Evaluator(REFERENCE, judge=DryJudge())
    with pytest.raises(TypeError, match="an evaluator that judges cannot be pickled"):
        copy(judging)


async def test_comparators_that_can_be_imported(path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        found = await evaluate_file(templates(), path, jobs=2, comparators={"calculator": operator.eq})
    assert found.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 0


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    """Its workers see the end of their connections."""
    script = """
import multiprocessing, os, signal, sys, time
from graphrag_eval_async.scale.processes import Workers
from tests.scale.test_processes import work
import asyncio

async def main():
    workers = Workers(work, 1)
    _, (_, process) = await workers.submit(("parts",))
    print(process, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(main())
"""
    program = tmp_path / "program.py"
    program.write_text(script)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == -9
    assert done.stdout.strip().isdigit()  # The output has ended: nobody is left who holds it open.
