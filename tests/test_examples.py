"""The examples are as complete as they claim, and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graphrag_eval_async import RunningAggregates, load_reference, run_evaluation
from graphrag_eval_async.records.metrics import counts_of
from tests.support.deadlines import PROCESS_SECONDS

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = {
    "calibrate_judge.py": 5,
    "execute_queries.py": 4,
    "follow_log.py": 10,
    "live_harness.py": 7,
    "own_judge.py": 8,
    "pushing_harness.py": 6,
}
"""And how many lines they print."""

WITH_FRAMEWORKS = {"agents_processor.py": 6, "langchain_handler.py": 6}
"""Those that need the extra `examples`; they run in `tests/traces/frameworks`."""


def test_reference_holds_every_kind_of_step() -> None:
    steps = [
        step
        for question in load_reference(EXAMPLES / "reference.yaml")
        for group in question.reference_steps or ()
        for step in group
    ]
    names = {step["name"] for step in steps}
    assert names > {"retrieval", "retrieve_time_series", "retrieve_data_points", "iri_discovery"}
    media_types = {step.get("output_media_type") for step in steps}
    assert media_types == {"application/sparql-results+json", "application/json", None}


async def test_responses_are_scored_as_meant() -> None:
    results = await run_evaluation(EXAMPLES / "reference.yaml", EXAMPLES / "responses.jsonl")
    scores = [(result["question_id"], result["sample"], result["steps_score"]) for result in results]
    assert scores == [
        ("transformers-bergheim", 1, 1.0),
        ("transformers-bergheim", 2, 0.25),
        ("transformers-lindau", 1, 0.0),
        ("lines-bergheim", 1, 1.0),
        ("connected-lindau-tannau", 1, 1.0),
        ("load-bergheim-t1", 1, 1.0),
        ("settings-lindau", 1, None),
        ("settings-lindau", 2, 0.5),
    ]


async def test_graphs_are_scored_as_meant() -> None:
    results = await run_evaluation(
        EXAMPLES / "graphs_reference.yaml", EXAMPLES / "graphs_responses.jsonl", missing="skip"
    )
    scores = [(result["question_id"], result["sample"], result["steps_score"]) for result in results]
    assert scores == [
        ("ratings-bergheim", 1, 1.0),
        ("ratings-bergheim", 2, 0.0),
        ("describe-lindau", 1, 1.0),
        ("describe-lindau", 2, 0.0),
    ]
    assert "not RDF in any known format" in results[3]["steps_score_error"]


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_tasks_of_a_scheduler_evaluate_all(scheduler: str, tmp_path: Path) -> None:
    for name in ("reference.yaml", "responses.jsonl"):
        (tmp_path / name).symlink_to(EXAMPLES / name)
    program = tmp_path / "bin" / "graphrag-eval-async"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphrag_eval_async "$@"\n')
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for index in range(4):
        if scheduler == "slurm":
            command = ["sh", str(EXAMPLES / "slurm_array.sh"), "reference.yaml", "responses.jsonl", "results"]
            numbers = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": "4"}
        else:
            job = yaml.safe_load((EXAMPLES / "kubernetes_job.yaml").read_text())["spec"]
            assert job["completions"] == 4
            [container] = job["template"]["spec"]["containers"]
            command = [*container["command"], *container["args"]]
            numbers = {"JOB_COMPLETION_INDEX": str(index)}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=path | numbers,
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    lines = [
        line for each in (tmp_path / "results").glob("*.jsonl") for line in each.read_text().splitlines()
    ]
    assert len(lines) == 8
    merged = RunningAggregates()
    for each in (tmp_path / "results").glob("*.aggregates"):
        merged.merge(RunningAggregates.from_bytes(each.read_bytes()))
    assert counts_of(merged.snapshot()["micro"]) == (8, 1)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / script],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == SCRIPTS[script]


def test_all_scripts_are_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SCRIPTS, *WITH_FRAMEWORKS}
