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
    JudgeUnavailable,
    RunningAggregates,
    SourceError,
    UsageError,
    WorkerError,
    evaluate_file,
    save_reference,
)
from graphrag_eval_async.scale import evaluate_dataset
from tests.cli.judged import config, serving
from tests.cli.support import run
from tests.scale.responses import CONFIG, REFERENCE, Judge, response
from tests.support.data import templates

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    judge = Judge(Path(folder), held_from=1500)
    results = os.path.join(folder, "out.jsonl")
    evaluate_dataset(REFERENCE, responses, results=results, config=CONFIG, judge=judge)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    module = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start()
        yield module
        module.shutdown()


def write(path: Path, number: int, *bad: bytes) -> Path:
    lines = [orjson.dumps(response(i, note="x" * 200)) for i in range(number)]
    path.write_bytes(b"\n".join([*lines, *bad]))
    return path


def test_refuses_files_before_it_starts(tmp_path: Path) -> None:
    for path, problem, kind in [
        ("absent.jsonl", "absent.jsonl: does not exist; all hosts", SourceError),
        (
            "s3://user:secretword@bucket/log.jsonl",
            "s3://bucket/log.jsonl is not a local file; pass a dataset",
            UsageError,
        ),
        ("-", "standard input cannot be split", UsageError),
    ]:
        with pytest.raises(kind, match=problem) as caught:
            evaluate_dataset(templates(), path, results=tmp_path / "out.jsonl")
        assert "secretword" not in str(caught.value)


BAD = (
    b"{",
    b"",
    b'{"question_id": "nobody"}',
    b"\xff",
    b'{"question_id": "q1", "actual_answer": "%s"}',
)


def test_files_equal_one_process(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.jsonl", 3000, *BAD)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    paths, results, alone = [plain, packed], tmp_path / "out.jsonl", tmp_path / "alone.jsonl"
    found = evaluate_dataset(REFERENCE, paths, concurrency=2, results=results)
    expected = asyncio.run(evaluate_file(REFERENCE, paths, results=alone))
    assert results.read_bytes() == alone.read_bytes()
    assert found.aggregates.to_bytes() == expected.aggregates.to_bytes()
    assert found.rejects == expected.rejects
    assert found.missing == []
    assert not Path(f"{results}.shards").exists()


def test_rows_of_datasets(tmp_path: Path, ray: Any) -> None:
    from pyarrow import Table, parquet

    given = [response(i) for i in range(5000)]
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, given)))
    alone = tmp_path / "alone.jsonl"
    expected = asyncio.run(evaluate_file(REFERENCE, path, results=alone))
    nested = ray.data.from_items(given)
    for one in given:
        if "actual_steps" in one:
            one["actual_steps"] = json.dumps(one["actual_steps"])
    columns = dict.fromkeys(key for one in given for key in one)
    table = Table.from_pydict({key: [one.get(key) for one in given] for key in columns})
    parquet.write_table(table, tmp_path / "r.parquet", row_group_size=150)
    for dataset in (
        nested,
        ray.data.read_parquet(str(tmp_path / "r.parquet")),
        ray.data.read_text(str(path)),
    ):
        results = tmp_path / "out.jsonl"
        found = evaluate_dataset(REFERENCE, dataset, concurrency=2, results=results)
        assert found.aggregates.snapshot() == expected.aggregates.snapshot()
        assert alike(results) == alike(alone)
        assert not Path(f"{results}.shards").exists()


def alike(results: Path) -> list[bytes]:
    """Results in one order, without the numbers of their samples, which depend on the order."""
    rows = [orjson.loads(line) for line in results.read_bytes().splitlines()]
    return sorted(
        orjson.dumps({**row, "sample": None}, option=orjson.OPT_SORT_KEYS) for row in rows
    )


def test_rejected_rows(tmp_path: Path, ray: Any) -> None:
    dataset = ray.data.from_items([{"question_id": "nobody"}, response(1)])
    found = evaluate_dataset(REFERENCE, dataset, results=tmp_path / "out.jsonl")
    assert [(each.reason, each.line) for each in found.rejects] == [("unknown_question_id", 0)]


def test_a_killed_worker_loses_and_repeats_nothing(tmp_path: Path) -> None:
    path, results, alone = (
        write(tmp_path / "r.jsonl", 800),
        tmp_path / "out.jsonl",
        tmp_path / "alone.jsonl",
    )
    (tmp_path / "kill").touch()
    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path)}
    found = evaluate_dataset(REFERENCE, path, concurrency=2, results=results, **options)
    assert not (tmp_path / "kill").exists()
    calls = Counter((tmp_path / "calls").read_text().split())
    expected = asyncio.run(evaluate_file(REFERENCE, path, results=alone, **options))
    assert found.aggregates.to_bytes() == expected.aggregates.to_bytes()
    assert results.read_bytes() == alone.read_bytes()
    assert sum(calls.values()) - len(calls) <= 200, "calls of one shard may be repeated"


def test_a_killed_driver_resumes(tmp_path: Path) -> None:
    path, results, alone = (
        write(tmp_path / "r.jsonl", 2000),
        tmp_path / "out.jsonl",
        tmp_path / "alone.jsonl",
    )
    shards = Path(f"{results}.shards")
    code = f"from tests.scale.test_ray import drive; drive({str(path)!r}, {str(tmp_path)!r})"
    command = [sys.executable, "-c", code]
    driver = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + SECONDS
    while len([*shards.glob("[!.]*/outcome")]) < 3:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait(SECONDS)
    kept = len([*shards.glob("[!.]*/outcome")])

    (tmp_path / "calls").unlink()
    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path)}
    found = evaluate_dataset(REFERENCE, path, concurrency=2, results=results, **options)
    calls = len((tmp_path / "calls").read_text().split())
    expected = asyncio.run(evaluate_file(REFERENCE, path, results=alone, **options))
    assert calls < expected.usage.calls - 50 * kept
    assert found.aggregates.to_bytes() == expected.aggregates.to_bytes()
    assert results.read_bytes() == alone.read_bytes()


def test_what_ends_the_run(tmp_path: Path) -> None:
    """A response that kills workers, and a judge that refuses."""
    path = write(tmp_path / "r.jsonl", 50)
    for judge, problem, kind in [
        (Judge(tmp_path, poison=7), "4 workers died", WorkerError),
        (Judge(tmp_path, refuses=True), r"^unavailable: wrong key$", JudgeUnavailable),
    ]:
        with pytest.raises(kind, match=problem):
            evaluate_dataset(
                REFERENCE, path, results=tmp_path / kind.__name__, config=CONFIG, judge=judge
            )


def test_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reference, path = tmp_path / "reference.json", write(tmp_path / "r.jsonl", 100, b"{")
    reference.write_text(json.dumps(templates(7)))
    results = tmp_path / "out.jsonl"
    arguments = ["scale", "ray", str(reference), str(path), "-o", str(results)]
    arguments += [
        "--aggregates",
        str(tmp_path / "a.aggregates"),
        "--rejects",
        str(tmp_path / "rejects"),
    ]
    assert run(*arguments, "--concurrency", "2") == 3
    out, _ = capfd.readouterr()
    assert "results: 100, rejected lines: 1, questions without a response: 0 of 7" in out
    reject = orjson.loads((tmp_path / "rejects").read_bytes())
    assert (reject["content"], reject["line"]) == ("{", 101)
    assert results.read_bytes().count(b"\n") == 100
    counted = RunningAggregates.from_bytes((tmp_path / "a.aggregates").read_bytes()).snapshot()
    assert counted["micro"]["number_of_error_samples"] == 9


def test_command_line_with_a_spent_budget(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reference, path = tmp_path / "reference.yaml", write(tmp_path / "r.jsonl", 50)
    save_reference(REFERENCE, reference)
    with serving() as server:
        options = ["--max-in-flight", "1"]
        options += ["-c", config(tmp_path, server, llm={"limits": {"budget_usd": 0.0005}})]
        assert (
            run("scale", "ray", str(reference), str(path), "-o", str(tmp_path / "out"), *options)
            == 0
        )
    assert (
        "to judge the rest, raise llm.limits.budget_usd and start again" in capfd.readouterr().out
    )


@pytest.mark.parametrize("argument", ["resume", "batch_size", "advance"])
def test_removed_arguments_say_what_to_use(argument: str) -> None:
    removed: Any = {argument: True}
    with pytest.raises(UsageError, match=f"{argument}= is gone; "):
        evaluate_dataset(REFERENCE, "r.jsonl", results="out.jsonl", **removed)
