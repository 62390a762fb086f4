"""The examples are as complete as they claim, and run."""

from __future__ import annotations

from contextlib import aclosing
from runpy import run_path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import (
    RunningAggregates,
    evaluate_agent,
    http_agent,
    load_reference,
    run_evaluation,
)
from graphrag_eval_async.records.snapshots import counts_of
from tests.cli.judged import KEY, serving
from tests.support.example_server import endpoint
from tests.support.examples import EXAMPLES, WITH_FRAMEWORKS
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

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


WITH_LADYBUG = "execute_cypher.py"
"""It needs the extra `cypher`."""

WITH_OPENAI = "openai_judge.py"

SERVER = "text2sparql_server.py"

WITH_REDIS = "redis_stream.py"
"""It runs in `test_redis_stream.py`."""


async def test_responses_are_scored_as_meant() -> None:
    results = await run_evaluation(EXAMPLES / "reference.yaml", EXAMPLES / "responses.jsonl")
    graphs = EXAMPLES / "graphs_reference.yaml", EXAMPLES / "graphs_responses.jsonl"
    results += await run_evaluation(*graphs, missing="skip")
    scores = [
        (result["question_id"], result["sample"], result["steps_score"]) for result in results
    ]
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


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
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
    lines = [
        line
        for path in (folder / "results").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert len(lines) == 8
    merged = RunningAggregates()
    for path in (folder / "results").glob("*.aggregates"):
        merged.merge(RunningAggregates.from_bytes(path.read_bytes()))
    assert counts_of(merged.snapshot()["micro"]) == (8, 1)


def test_scripts_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *SCRIPTS,
        *WITH_FRAMEWORKS,
        SERVER,
        WITH_LADYBUG,
        WITH_OPENAI,
        WITH_REDIS,
    }
    for script, lines in SCRIPTS.items():
        run_path(str(EXAMPLES / script), run_name="__main__")
        out, err = capfd.readouterr()
        assert (len(out.splitlines()), err) == (lines, ""), script


def test_a_client_of_the_sdk_judges(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        run_path(str(EXAMPLES / WITH_OPENAI), run_name="__main__")
    *results, summary = capfd.readouterr().out.splitlines()
    judged = [line for line in results if not line.endswith(" None")]
    assert summary.startswith(f"{len(judged)} requests, 0.00")
    assert server.counts.requests == len(judged) > 0


async def test_the_server_answers_as_endpoints_do() -> None:
    folder = EXAMPLES / "benchmark"
    reference = load_reference(folder / "text2sparql.yml", format="text2sparql")
    config: Any = {"execute": {"graph": str(folder / "graph.ttl")}}
    right = {"grid:1-en", "grid:2-en", "grid:4-en"}
    with endpoint() as address:
        url = f"http://{address}"
        for method in ("GET", "POST"):
            agent = http_agent(url, method=method)
            async with evaluate_agent(reference, agent, repeats=2, config=config) as stream:
                results = [result async for result in stream]
            assert len(results) == 14
            for result in results:
                is_right = result["question_id"] in right
                found = result["steps_score"], result["failure"]
                assert found == ((1, "none") if is_right else (0, "no_steps"))
        refused: list[tuple[dict[str, Any], str]] = [
            ({"params": {"dataset": "urn:x"}}, (
                "unknown dataset; the only one is https://example.org/grid/"
            )),
            ({"params": {"text": "{question}"}}, "expected the parameter dataset, which is text"),
            ({"method": "POST", "body": {"dataset": "", "question": ["{question}"]}},
             "expected the parameter question, which is text"),
            ({"method": "POST", "body": ["{question}"]}, (
                "expected a JSON object with dataset and question"
            )),
        ]  # fmt: skip
        for options, error in refused:
            async with aclosing(http_agent(url, **options)) as agent:
                response = await agent(next(iter(reference)))
            assert response["error"] == f'HTTP 400: {{"error":"{error}"}}'


def test_cypher_is_run(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ladybug", reason="needs the extra cypher")
    run_path(str(EXAMPLES / WITH_LADYBUG), run_name="__main__")
    out, err = capfd.readouterr()
    assert (out.splitlines(), err) == (
        [
            "right 1.0 none",
            "wrong 0.0 wrong_query_result",
            "invalid 0.0 query_invalid",
            "refused 0.0 step_error",
        ],
        "",
    )
