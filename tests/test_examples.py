"""The examples are as complete as they claim, and run."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

import yaml

from graphrag_eval_async import RunningAggregates, run_evaluation
from graphrag_eval_async.records.metrics import counts_of
from tests.support.cases import each
from tests.support.shell import Shell

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = {
    "calibrate_judge.py": 5,
    "execute_queries.py": 4,
    "follow_log.py": 10,
    "live_harness.py": 7,
    "own_judge.py": 8,
    "own_metric.py": 11,
    "pushing_harness.py": 6,
    "test_agent.py": 0,  # Its tests are collected with ours.
}
"""And how many lines they print."""

WITH_FRAMEWORKS = {"agents_processor.py": 6, "langchain_handler.py": 6}
"""Those that need the extra `examples`; they run in `tests/traces/frameworks`."""


async def test_responses_are_scored_as_meant() -> None:
    results = await run_evaluation(EXAMPLES / "reference.yaml", EXAMPLES / "responses.jsonl")
    graphs = EXAMPLES / "graphs_reference.yaml", EXAMPLES / "graphs_responses.jsonl"
    results += await run_evaluation(*graphs, missing="skip")
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
        ("ratings-bergheim", 1, 1.0),
        ("ratings-bergheim", 2, 0.0),
        ("describe-lindau", 1, 1.0),
        ("describe-lindau", 2, 0.0),
    ]
    assert "not RDF in any known format" in results[-1]["steps_score_error"]


@each("scheduler", ["slurm", "kubernetes"])
def test_tasks_of_a_scheduler_evaluate_all(
    scheduler: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / scheduler
    folder.mkdir()
    for name in ("reference.yaml", "responses.jsonl"):
        (folder / name).symlink_to(EXAMPLES / name)
    shell = Shell(folder, capfd)
    for index in map(str, range(4)):
        if scheduler == "slurm":
            script = str(EXAMPLES / "slurm_array.sh")
            numbers = {"SLURM_ARRAY_TASK_ID": index, "SLURM_ARRAY_TASK_COUNT": "4"}
            shell.run("sh", script, "reference.yaml", "responses.jsonl", "results", **numbers)
        else:
            job = yaml.safe_load((EXAMPLES / "kubernetes_job.yaml").read_text())["spec"]
            assert job["completions"] == 4
            [container] = job["template"]["spec"]["containers"]
            shell.run(*container["command"], *container["args"], JOB_COMPLETION_INDEX=index)
    lines = [line for path in (folder / "results").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == 8
    merged = RunningAggregates()
    for path in (folder / "results").glob("*.aggregates"):
        merged.merge(RunningAggregates.from_bytes(path.read_bytes()))
    assert counts_of(merged.snapshot()["micro"]) == (8, 1)


def test_scripts_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SCRIPTS, *WITH_FRAMEWORKS}
    for script, lines in SCRIPTS.items():
        run_path(str(EXAMPLES / script), run_name="__main__")
        out, err = capfd.readouterr()
        assert (len(out.splitlines()), err) == (lines, ""), script
