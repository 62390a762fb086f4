"""``evaluate`` with a judge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.judged import KEY, MODEL, config, failing, serving
from tests.cli.support import question, run, step
from tests.support.judge_server import FAULTS

if TYPE_CHECKING:
    from tests.cli.support import Folder

REFERENCE = [
    {
        "template_id": "colours",
        "questions": [
            question(f"q{i}", "red") | {"reference_answer": f"red blue word{i}"} for i in range(4)
        ],
    }
]
STEPS = {"actual_steps": [step("red", id="call_1", status="success")], "elapsed_sec": 1.5}
RESPONSES = [
    *({"question_id": f"q{i}", "actual_answer": f"red green word{i}", **STEPS} for i in range(3)),
    {"question_id": "q3", **STEPS},
]
"""Three to be judged, and one without an answer."""


@pytest.fixture
def names(folder: Folder) -> list[str]:
    """Reference data and responses."""
    return [folder.write("r.json", orjson.dumps(REFERENCE)), folder.lines(*RESPONSES)]


def by_question(folder: Folder, name: str = "out") -> dict[str, dict[str, Any]]:
    results = {result["question_id"]: result for result in folder.read(name)}
    assert len(results) == len(folder.read(name))
    return results


def test_results_and_report(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as server:
        code = run("evaluate", *names, "-o", folder.file("out"), "-c", config(folder.path, server))
        seen = server.counts
    assert code == 0
    results = by_question(folder)
    for i in range(3):
        result = results[f"q{i}"]
        assert (result["answer_recall"], result["answer_precision"]) == (2 / 3, 2 / 3)
        assert result["judge"]["model"] == MODEL
    assert "answer_recall" not in results["q3"]
    out, err = capfd.readouterr()
    assert not err
    lines = out.splitlines()
    assert any("no_answer" in line for line in lines)
    assert "worst questions by answer_f1: q0 (0.667), q1 (0.667), q2 (0.667)" in lines
    assert "3 of the worst answers:" in lines
    assert lines[-3:] == [
        f"judge {MODEL}: 3 calls, 3 attempts, 0 cached, $0.0009",
        f"tokens: {seen.input_tokens} in, {seen.output_tokens} out, 0 embedded",
        "metrics: 3 ok, 1 skipped, 0 errors",
    ]


def test_a_judge_without_quota_ends_the_run(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    script = failing("word2", FAULTS["quota"])
    options = ["-o", folder.file("out"), "--aggregates", folder.file("a.json")]
    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 1}})
        assert run("evaluate", *names, *options, "-c", path) == 4
    results = by_question(folder)
    assert results["q0"]["answer_f1"] == results["q1"]["answer_f1"]
    assert "q2" not in results
    micro = json.loads((folder.path / "a.json").read_text())["micro"]
    assert micro["number_of_success_samples"] == len(results)
    out, err = capfd.readouterr()
    assert "Means by template" in out
    assert "\n1 response not evaluated: q2\n" in out
    assert err.splitlines()[-1].startswith("Error: unavailable: ")
    assert KEY not in out + err


def test_without_a_reference_set(folder: Folder) -> None:
    path = folder.lines(
        *({"question": f"Why {i}?", "template": "t", "total_tokens": i} for i in range(3))
    )
    options = ["-o", folder.file("out"), "--gate", "t:total_tokens > 0"]
    for command in (["evaluate"], ["watch", "--until-idle", "0.1s"]):
        assert run(*command, "--no-reference", path, *options) == 0
        assert len(folder.read("out")) == 3


@pytest.mark.filterwarnings("always:without a reference set")
def test_metrics_that_no_response_can_have_are_named(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder.lines({"question": "Why?", "actual_answer": "So."})
    metrics: dict[str, Any] = {"answer_correctness": {}, "context_relevance": {}}
    inputs = {"inputs": ["actual_answer"], "instructions": "?", "outputs": {"politeness": "0-9"}}
    idle = "Warning: without a reference set, these do nothing: answer_correctness\n"
    lacking = [
        "answer_correctness needs an answer and a reference answer, which no result has",
        "context_relevance needs the texts of a retrieval step, which no result has",
    ]
    with serving() as server:
        command = ["evaluate", "--no-reference", path, "-o", folder.file("out"), "-c"]
        assert run(*command, config(folder.path, server, **metrics)) == 4
        assert capfd.readouterr().err == f"{idle}Error: nothing was judged: {'; '.join(lacking)}\n"
        metrics["custom_evaluations"] = [{"name": "tone", **inputs}]
        assert run(*command, config(folder.path, server, **metrics)) == 0
    out, err = capfd.readouterr()
    assert err == idle
    assert all(f"\nnot judged: {text}\n" in out for text in lacking)


@pytest.mark.parametrize(
    ("jobs", "remedy"),
    [
        pytest.param("1", "llm.cache or --resume would have kept what is paid", id="one job"),
        pytest.param("2", "llm.cache would have kept what is paid", id="two jobs"),
    ],
)
def test_a_spent_budget_is_reported_with_what_to_do(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str], jobs: str, remedy: str
) -> None:
    with serving() as server:
        path = config(folder.path, server, llm={"limits": {"budget_usd": 0.0005}})
        options = ["-o", folder.file("out"), "--jobs", jobs, "--max-in-flight", "1", "-c", path]
        assert run("evaluate", *names, *options) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert f"to judge the rest, raise llm.limits.budget_usd and start again; {remedy}" in told


def test_results_with_failed_metrics_are_evaluated_again(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    command = [
        "evaluate",
        *names,
        "-o",
        folder.file("out"),
        "--max-in-flight=1",
        "--gate=answer_f1 > 0",
    ]
    told = []
    with serving() as server:
        for budget, *more in (0.0005,), (1,), (1, "--retry-failed"), (1,):
            path = config(folder.path, server, llm={"limits": {"budget_usd": budget}})
            assert run(*command, "--resume", "-c", path, *more) == 0
            told.append(" ".join(capfd.readouterr().out.split()))
        assert server.counts.requests == 3
    assert "1 result from before with failed metrics: kept; --retry-failed evaluates" in told[1]
    assert (
        f"1 result from before with failed metrics: set aside in {folder.file('out')}.replaced"
        in told[2]
    )
    assert not (folder.path / "out.damaged").exists()
    assert "3 lines skipped as done" in told[2]
    assert "$0.0009, $0.0006 of it before" in told[2]
    assert "failed metrics" not in told[0] + told[3]
    assert "gate held: answer_f1 > 0: the mean is 0.667 over 2 of 4 results" in told[0]
    assert "answer_recall, answer_precision, 1 budget, 1 no_answer 2 of 4 answer_f1" in told[0]
    assert "budget_usd, which counts earlier costs, and resume with --retry-failed" in told[0]
    results = by_question(folder)
    assert [results[f"q{i}"]["steps_score"] for i in range(4)] == [1] * 4
    assert results["q2"]["answer_f1"] == 2 / 3
    assert run(*command, "--retry-failed") == 2
    assert "--retry-failed needs --resume" in capfd.readouterr().err
