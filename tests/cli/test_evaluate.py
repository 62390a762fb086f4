"""``evaluate``: results, rejects, aggregates, tables, gates, and what is found before any work."""

from __future__ import annotations

import asyncio
import csv
import os
from typing import Any

import orjson
import pytest
import yaml
from pyarrow import parquet

from graphrag_eval_async import compute_aggregates, run_evaluation
from graphrag_eval_async.reports.wording import NOTHING_SCORED
from tests.cli.support import COLOURS, ODD, REFERENCE, Folder, failed, response, run

RESPONSES = [
    response("q1", id="r1", model="m", elapsed_sec=0.1),
    response("q2", False, input_tokens=2**64 - 1, actual_answer="=SUM(A1)"),
    failed("q3"),
    response("q1", False, input_tokens=2**64 - 1),
]


def by_question(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda result: (result["question_id"], result["sample"]))


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
def test_results_and_aggregates_are_those_of_the_api(folder: Folder, suffix: str) -> None:
    path = folder.path / f"aggregates.{suffix}"
    outputs = ["-o", folder.file("results.jsonl"), "--aggregates", str(path)]
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES), *outputs) == 0
    expected = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    assert by_question(folder.read("results.jsonl")) == by_question(expected)
    snapshot = yaml.safe_load(path.read_bytes())
    assert snapshot == compute_aggregates(expected, reference=REFERENCE, detail=True)
    assert list(snapshot["per_template"]) == [COLOURS, ODD]
    assert snapshot["micro"]["input_tokens"]["sum"] == 2**65 - 2


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_results_on_stdout_leave_the_table_to_stderr(
    folder: Folder, capfd: pytest.CaptureFixture[str], output: str
) -> None:
    assert run("evaluate", folder.reference, folder.lines(response("q1")), "-o", output) == 0
    out, err = capfd.readouterr()
    assert [orjson.loads(line)["question_id"] for line in out.splitlines()] == ["q1"]
    assert "results: 1, rejected lines: 0, questions without a response: 2 of 3" in err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_csv_and_parquet(folder: Folder, jobs: str) -> None:
    command = ["evaluate", folder.reference, folder.lines(*RESPONSES, {"question_id": "x"}), "-o"]
    assert run(*command, folder.file("results.csv"), "--jobs", jobs, "--ordered") == 3
    with open(folder.file("results.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["question_id"], row["status"], row["steps_score"]) for row in rows[:3]] == [
        ("q1", "success", "1.0"),
        ("q2", "success", "0.0"),
        ("q3", "error", ""),
    ]
    assert rows[1]["actual_answer"] == "'=SUM(A1)"
    assert run(*command, folder.file("results.parquet"), "--stages") == 3
    questions = parquet.read_table(folder.file("results.parquet"))["question_id"].to_pylist()
    assert sorted(questions) == ["q1", "q1", "q2", "q3"]


def test_rejects_go_to_their_file_whole(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lines = folder.lines(b"\xef\xbb\xbf", response("q1"), b"[\xc3\xa9", b"\xff")
    outputs = ["-o", folder.file("r"), "--rejects", folder.file("rejects.jsonl")]
    assert run("evaluate", folder.reference, lines, *outputs) == 3
    json, utf8 = folder.read("rejects.jsonl")
    assert (json["line"], json["reason"], json["content"]) == (3, "invalid_json", "[\u00e9")
    assert (utf8["line"], utf8["reason"], utf8["content_base64"]) == (4, "invalid_utf8", "/w==")
    assert capfd.readouterr().err == "rejected: 1 invalid_json, 1 invalid_utf8\n"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no files"),
        pytest.param(["--no-such-option"], id="unknown option"),
        pytest.param(["--aggregates", "a.txt"], id="name of the aggregates"),
        pytest.param(["-o", "no/such/folder/results"], id="missing folder"),
        pytest.param(["-o", "responses.jsonl"], id="output is an input"),
        pytest.param(["-o", "reference.json"], id="output is the reference"),
        pytest.param(["-o", "link.jsonl"], id="output links to an input"),
        pytest.param(["-o", "x.json", "--rejects", "./x.json"], id="output is the rejects"),
        pytest.param(["-o", "-", "--rejects", "-"], id="both to the terminal"),
        pytest.param(["--dedupe", "first"], id="unknown choice"),
        pytest.param(["--gate", "steps_score >= "], id="gate without a number"),
    ],
)
def test_wrong_usage_is_found_before_any_work(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    responses = folder.lines(response("q1"))
    if not os.path.lexists("link.jsonl"):
        os.symlink("responses.jsonl", "link.jsonl")
    before = (folder.path / "responses.jsonl").read_bytes()
    names = [folder.reference, responses] if arguments else [folder.reference]
    assert run("evaluate", *names, *arguments) == 2
    out, err = capfd.readouterr()
    assert not out
    assert [line.startswith("Error: ") for line in err.splitlines()].count(True) == 1
    assert (folder.path / "responses.jsonl").read_bytes() == before


def test_a_broken_reference_lists_every_problem_and_touches_no_file(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = folder.write(
        "broken.json", b'[{"template_id": 1, "questions": [{"id": "a\\nb\\u001b"}]}]'
    )
    folder.write("r", b"earlier results")
    assert run("evaluate", broken, folder.lines(), "-o", folder.file("r")) == 2
    assert capfd.readouterr().err.splitlines()[0] == f"Error: reference set: 2 problems in {broken}"
    assert (folder.path / "r").read_bytes() == b"earlier results"


ANSWERS = [
    {"question_id": "q1", "actual_answer": "red"},
    {"question_id": "q2", "actual_answer": "blue"},
]


@pytest.mark.parametrize(
    ("responses", "told"),
    [
        pytest.param([*ANSWERS, failed("q3")], True, id="nothing to score"),
        pytest.param([*ANSWERS, response("q3")], False, id="steps missing"),
        pytest.param([failed("q1")], False, id="only errors"),
    ],
)
def test_an_evaluation_that_scores_nothing_says_what_to_do(
    folder: Folder, capfd: pytest.CaptureFixture[str], responses: list[Any], told: bool
) -> None:
    """In the terminal, on the page and in the summary of a pull request."""
    results = folder.file("results.jsonl")
    evaluation = ["evaluate", folder.reference, folder.lines(*responses), "-o", results]
    for command in (
        [*evaluation, "--report", folder.file("page.html")],
        ["report", results],
        ["aggregate", results],
    ):
        assert run(*command) == 0
        # In Markdown, names of keys are code.
        out = " ".join(capfd.readouterr().out.replace("`", "").split())
        assert (NOTHING_SCORED in out) == told
    assert (NOTHING_SCORED in (folder.path / "page.html").read_text()) == told
    if told:
        assert run(*evaluation, "--gate", "steps_score >= 0") == 1
        assert "gate failed: steps_score >= 0: no values; " in capfd.readouterr().err


GATED = [response("q1"), response("q2", False), failed("q1"), failed("q2")]


@pytest.mark.parametrize(
    ("gates", "code"),
    [
        pytest.param(
            ["steps_score >= 0.5", "elapsed_sec <= 1.5", "error_rate <= 0.5"], 0, id="all hold"
        ),
        pytest.param(["elapsed_sec <= 1.49"], 1, id="mean too high"),
        pytest.param(["error_rate <= 0.4"], 1, id="rate too high"),
        pytest.param(
            [
                "missing_rate <= 0.34",
                f"{COLOURS}:missing_rate <= 0",
                f"{COLOURS}:steps_score >= 0.5",
            ],
            0,
            id="gates of templates hold",
        ),
        pytest.param([f"{ODD}:missing_rate <= 0.5"], 1, id="rate of a template too high"),
        pytest.param(["steps_score >= 0", "steps_score >= 1"], 1, id="one of two holds"),
    ],
)
def test_gates_decide_the_exit_code(
    folder: Folder, capfd: pytest.CaptureFixture[str], gates: list[str], code: int
) -> None:
    results, options = (
        folder.file("results.jsonl"),
        [word for gate in gates for word in ("--gate", gate)],
    )
    assert run("evaluate", folder.reference, folder.lines(*GATED), "-o", results, *options) == code
    assert run("aggregate", results, "--reference", folder.reference, *options) == code
    assert capfd.readouterr().err.count("gate failed: ") == 2 * code


CUSTOM = """\
llm: {generation: {provider: openai, model: m, api_key: k}}
custom_evaluations:
- {name: tone, inputs: [actual_answer], instructions: Judge., outputs: {politeness: "fraction 0-1"}}
"""


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        pytest.param(
            "step_score >= 0.8", "no metric 'step_score'; did you mean steps_score?", id="misspelt"
        ),
        pytest.param(
            "answer_f1 >= 0.8",
            "nothing judges 'answer_f1'; a configuration (--config) with the section",
            id="not judged",
        ),
        pytest.param(
            "politness >= 0.8", "no metric 'politness'; did you mean politeness?", id="unknown"
        ),
        pytest.param(
            "colors:steps_score >= 0.8",
            "no template 'colors' in the reference set; did you mean colours?",
            id="misspelt template",
        ),
    ],
)
def test_an_unknown_gate_is_found_before_anything_runs(
    folder: Folder, capfd: pytest.CaptureFixture[str], gate: str, words: str
) -> None:
    config = folder.write("judges.yaml", CUSTOM.encode())
    arguments = [folder.reference, folder.lines(*GATED), "-o", folder.file("r"), "--config", config]
    for command in (["evaluate"], ["evaluate", "--dry-run"], ["watch", "--until-idle", "1s"]):
        assert run(*command, *arguments, "--gate", gate) == 2
        out, err = capfd.readouterr()
        assert not out
        assert err.startswith(f"Error: --gate: {words}")
        assert not (folder.path / "r").exists()
    config = folder.write("judges.yaml", CUSTOM.encode() + b"answer_correctness: {}\n")
    metrics = ("politeness", "tone_cost", "answer_f1", "answer_correctness_cost")
    known = [word for metric in metrics for word in ("--gate", f"{metric} >= 0")]
    assert run("evaluate", *arguments, "--dry-run", *known) == 0
    capfd.readouterr()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            "results.jsonl",
            "results are in results.jsonl; to see each question: "
            "graphrag-eval-async report results.jsonl",
            id="lines",
        ),
        pytest.param("my results.jsonl", "report 'my results.jsonl'", id="a name with a blank"),
        pytest.param("results.csv", "results are in results.csv", id="a table"),
        pytest.param("a\x1b[2J.jsonl", r"results are in a\x1b[2J.jsonl; ", id="a hostile name"),
    ],
)
def test_the_end_says_where_the_results_are(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    expected: str,
) -> None:
    responses = folder.lines(response("q1"))
    monkeypatch.chdir(folder.path)
    assert run("evaluate", folder.reference, responses, "-o", output) == 0
    out, _ = capfd.readouterr()
    assert expected in out
    assert ".jsonl" not in expected or "worst" not in out


def test_the_end_shows_the_worst_answers(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Each with its question, its scores and reason, and what was expected."""
    output = folder.file("results.jsonl")
    responses = [response("q1"), response("q2", False), failed("q3")]
    assert run("evaluate", folder.reference, folder.lines(*responses), "-o", output) == 0
    out, _ = capfd.readouterr()
    lines = out.splitlines()
    start = lines.index("2 of the worst answers:")
    assert lines[start + 1].startswith("- q3")
    assert lines[start + 2] == "  agent_error"
    assert lines[start + 3] == "  got an error: no answer"
    assert any(line.startswith("- q2") for line in lines[start + 3 :])
    assert any(line.startswith("  steps_score 0; ") for line in lines[start + 3 :])
