"""Evaluation on a Ray cluster of this machine, with workers and drivers that are killed."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    JournalMismatch,
    JudgeUnavailable,
    RunningAggregates,
    SourceError,
    UsageError,
    WorkerError,
    read_jsonl,
)
from graphrag_eval_async.scale import evaluate_dataset
from tests.cli.support import run
from tests.scale.responses import CONFIG, REFERENCE, Judge, alike, in_one_process, response
from tests.support.data import templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.scale import DatasetEvaluation

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
SECONDS = 300.0
"""How long anything may take."""


def start() -> None:
    """Start Ray on two cores, as far as it believes."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False


def drive(responses: str, folder: str) -> None:
    """Evaluate responses, the later ones of which are never judged."""
    start()
    judge = Judge(Path(folder), held_from=200)
    results = os.path.join(folder, "out")
    evaluate_dataset(REFERENCE, responses, results=results, batch_size=20, config=CONFIG, judge=judge)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    module = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start()
        yield module
        module.shutdown()


def rows(found: DatasetEvaluation) -> list[dict[str, Any]]:
    """The results."""
    return [orjson.loads(row["result"]) for row in found.results.take_all()]


def write(path: Path, number: int, *bad: bytes) -> Path:
    path.write_bytes(b"\n".join([*(orjson.dumps(response(i)) for i in range(number)), *bad]))
    return path


def test_refuses_files_before_it_starts() -> None:
    for path, problem, kind in [
        ("absent.jsonl", "absent.jsonl: does not exist; all hosts", SourceError),
        ("s3://user:secretword@bucket/log.jsonl", "s3://bucket/log.jsonl: pass ray.data", UsageError),
    ]:
        with pytest.raises(kind, match=problem) as caught:
            evaluate_dataset(templates(), path)
        assert "secretword" not in str(caught.value)


BAD = (b"{", b"", b'{"question_id": "nobody"}', b"\xff", b'{"question_id": "q1", "actual_answer": "%s"}')


@pytest.mark.parametrize("kept", [True, False], ids=["directory", "memory"])
def test_files_equal_one_process(tmp_path: Path, kept: bool) -> None:
    plain = write(tmp_path / "a.jsonl", 3000, *BAD, b'{"question_id": "q1", "note": "' + b"x" * 5000 + b'"}')
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    paths, limit = [plain, packed], 4000
    folder = tmp_path / "out" if kept else None
    found = evaluate_dataset(
        REFERENCE, paths, concurrency=2, results=folder, batch_size=500, max_line_bytes=limit
    )
    rejects: list[Any] = []
    options: dict[str, Any] = {"max_line_bytes": limit, "on_reject": rejects.append}
    results, aggregates = asyncio.run(in_one_process(read_jsonl(paths), **options))
    evaluated = rows(found)
    assert found.aggregates.to_bytes() == aggregates.to_bytes()
    assert alike(evaluated) == alike(results)
    places = {(one["source"]["file"], one["source"]["offset"]) for one in evaluated}
    assert len(places) == len(evaluated)
    assert not any("sample" in one for one in evaluated)
    expected, shown = (
        {(one.path, one.offset, one.reason, one.message, one.sha256) for one in some}
        for some in (rejects, found.rejects)
    )
    assert shown == expected
    assert found.rejects.total == len(rejects)
    assert found.missing == []
    assert found.skipped == 0


def test_rows_of_datasets(tmp_path: Path, ray: Any) -> None:
    from pyarrow import Table, parquet

    given = [response(i) for i in range(400)]
    _, aggregates = asyncio.run(in_one_process(given))
    for one in given:
        if "actual_steps" in one:
            one["actual_steps"] = json.dumps(one["actual_steps"])
    columns = dict.fromkeys(key for one in given for key in one)
    table = Table.from_pydict({key: [one.get(key) for one in given] for key in columns})
    parquet.write_table(table, tmp_path / "r.parquet", row_group_size=150)
    lines = write(tmp_path / "r.jsonl", 400)
    for responses in (str(tmp_path / "r.parquet"), ray.data.read_text(str(lines))):
        found = evaluate_dataset(REFERENCE, responses, concurrency=2)
        assert found.aggregates.to_bytes() == aggregates.to_bytes()
        assert found.results.count() == 400
    folder = tmp_path / "out"
    evaluate_dataset(REFERENCE, ray.data.from_items(given[:120]), results=folder)
    found = evaluate_dataset(REFERENCE, ray.data.from_items(given), results=folder, resume=True)
    assert (found.skipped, found.results.count()) == (120, 400)
    assert found.aggregates.to_bytes() == aggregates.to_bytes()


def test_a_killed_worker_loses_and_repeats_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", 400)
    (tmp_path / "kill").touch()
    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path)}
    found = evaluate_dataset(
        REFERENCE, path, concurrency=2, results=tmp_path / "out", batch_size=20, **options
    )
    assert not (tmp_path / "kill").exists()
    calls = Counter((tmp_path / "calls").read_text().split())
    results, aggregates = asyncio.run(in_one_process(str(path), **options))
    assert found.aggregates.to_bytes() == aggregates.to_bytes()
    assert alike(rows(found)) == alike(results)
    assert sum(calls.values()) - len(calls) <= 20, "calls of one batch may be repaid"


def test_a_killed_driver_resumes(tmp_path: Path) -> None:
    path, folder = write(tmp_path / "r.jsonl", 400), tmp_path / "out"
    code = f"from tests.scale.test_ray import drive; drive({str(path)!r}, {str(tmp_path)!r})"
    command = [sys.executable, "-c", code]
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while len([*folder.glob("results/*/*.parquet")]) < 3:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait(SECONDS)
    with pytest.raises(UsageError, match="has results already"):
        evaluate_dataset(REFERENCE, path, results=folder)
    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path)}
    found = evaluate_dataset(
        REFERENCE, path, concurrency=2, results=folder, batch_size=20, resume=True, **options
    )
    assert 60 <= found.skipped < 400
    results, aggregates = asyncio.run(in_one_process(str(path), **options))
    assert found.aggregates.to_bytes() == aggregates.to_bytes()
    assert alike(rows(found)) == alike(results)
    again = evaluate_dataset(REFERENCE, path, results=folder, resume=True, **options)
    assert again.skipped == 400
    assert again.aggregates.to_bytes() == aggregates.to_bytes()
    other = templates(2)
    with pytest.raises(JournalMismatch, match="reference"):
        evaluate_dataset(other, path, results=folder, resume=True, **options)


def test_what_ends_the_run(tmp_path: Path) -> None:
    """A response that kills workers, and a judge that refuses."""
    path = write(tmp_path / "r.jsonl", 50)
    for judge, problem, kind in [
        (Judge(tmp_path, poison=7), "4 workers died", WorkerError),
        (Judge(tmp_path, refuses=True), r"^unavailable: wrong key", JudgeUnavailable),
    ]:
        with pytest.raises(kind, match=problem):
            evaluate_dataset(REFERENCE, path, results=tmp_path / kind.__name__, config=CONFIG, judge=judge)


def test_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reference, path = tmp_path / "reference.json", write(tmp_path / "r.jsonl", 100, b"{")
    reference.write_text(json.dumps(REFERENCE.templates and templates(7)))
    arguments = ["scale", "ray", str(reference), str(path), "--results", str(tmp_path / "out")]
    arguments += ["--aggregates", str(tmp_path / "a.aggregates"), "--rejects", str(tmp_path / "rejects")]
    assert run(*arguments, "--concurrency", "2") == 3
    out, _ = capfd.readouterr()
    assert "results: 100, rejected lines: 1, questions without a response: 0 of 7" in out
    assert orjson.loads((tmp_path / "rejects").read_bytes())["content"] == "{"
    counted = RunningAggregates.from_bytes((tmp_path / "a.aggregates").read_bytes()).snapshot()
    assert counted["micro"]["number_of_error_samples"] == 9
    assert run(*arguments) == 2
    assert run(*arguments, "--resume") == 3
    out, _ = capfd.readouterr()
    assert "skipped as done: 101" in out
