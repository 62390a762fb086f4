"""``validate`` and ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.support import Folder, failed, question, response, run
from tests.traces.otlp import line as span_line
from tests.traces.otlp import span
from tests.traces.scenario import ANSWER, ANTHROPIC, CHAT, EVENTS, REFERENCE


def test_every_problem_of_a_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a"), question("q1", "b"), {"id": "x\ny"}]
    broken = [{"template_id": "t", "questions": questions}]
    reference = folder.write("broken.json", orjson.dumps(broken))
    assert run("validate", reference, folder.lines(b"{")) == 2
    out, err = capfd.readouterr()
    first, *problems = out.splitlines()
    assert first == f"reference set: {len(problems)} problems in {reference}"
    assert [problem.split(":")[0] for problem in problems] == [
        "  templates[0].questions[1].id",
        "  templates[0].questions[2].question_text",
    ]
    assert not err


def test_every_problem_of_responses(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    bad = [b"{"] * 20
    responses = folder.lines(response("q1"), *bad, failed("q3"), response("q9"))
    assert run("validate", folder.reference, responses) == 3
    out, err = capfd.readouterr()
    syntax_error, unknown_id, missing, summary = out.splitlines()
    assert syntax_error.startswith(f"{responses}: line 2 ")
    assert syntax_error.endswith("; in 20 lines, also line 3, line 4 and 17 more")
    assert unknown_id.startswith(f"{responses}: line 23 ")
    assert "'q9'" in unknown_id
    assert missing == "1 question without a response: 'q2'"
    assert summary == (
        "reference set valid (templates: 2, questions: 3); "
        "responses: 2, rejected lines: 21, questions without a response: 1"
    )
    assert not err


def test_lines_with_the_same_mistake_are_one(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    responses = folder.lines(response("q8"), response("q9"), {"question_id": 1}, response("x"))
    assert run("validate", folder.reference, responses) == 3
    unknown_ids, no_text, *_ = capfd.readouterr().out.splitlines()
    assert unknown_ids.startswith(f"{responses}: line 1 (byte 0): ")
    assert unknown_ids.endswith("; in 3 lines, also line 2, line 4")
    assert no_text.startswith(f"{responses}: line 3 ")
    assert "also" not in no_text


def test_warnings_are_listed_beside_problems(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = [{"id": 1, "question_text": "?"}, {"id": "q2", "question_text": "?", "mach": "x"}]
    reference = folder.write(
        "broken.json", orjson.dumps([{"template_id": "t", "questions": questions}])
    )
    assert run("validate", reference) == 2
    headline, problem, warning = capfd.readouterr().out.splitlines()
    assert headline == f"reference set: 1 problem in {reference}"
    assert problem.startswith("  templates[0].questions[0].id: expected text, got the number 1")
    assert warning.startswith("warning: templates[0].questions[1].mach: unknown key, ignored; did")


def test_strict_counts_warnings_beside_problems(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = [{"id": 1, "question_text": "?"}, {"id": "q2", "question_text": "?", "mach": "x"}]
    reference = folder.write(
        "broken.json", orjson.dumps([{"template_id": "t", "questions": questions}])
    )
    assert run("validate", reference, "--strict") == 2
    headline, problem, doubt = capfd.readouterr().out.splitlines()
    assert headline == f"reference set: 2 problems in {reference}"
    assert problem.startswith("  templates[0].questions[0].id: expected text, got the number 1")
    assert doubt.startswith("  templates[0].questions[1].mach: unknown key, ignored; did you mean")


def test_steps_under_a_wrong_key_are_a_problem(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    step = {"name": "find", "output": "x"}
    asked = {"id": "q", "question_text": "?", "expected_steps": [[step]]}
    templates = [{"template_id": "t", "questions": [asked]}]
    reference = folder.write("broken.json", orjson.dumps(templates))
    assert run("validate", reference) == 2
    assert "did you mean reference_steps?" in capfd.readouterr().out


def test_questions_without_a_response_are_counted_in_one_line(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = [question(f"q{number}", "a") for number in range(300)]
    templates = [{"template_id": "t", "questions": questions}]
    reference = folder.write("large.json", orjson.dumps(templates))
    assert run("validate", reference, folder.lines(response("q0"))) == 0
    missing, summary = capfd.readouterr().out.splitlines()
    assert missing == "299 questions without a response: 'q1', 'q2', 'q3' and 296 more"
    assert summary.endswith("responses: 1, rejected lines: 0, questions without a response: 299")


def test_a_set_without_questions_is_a_warning(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = folder.write("none.json", orjson.dumps([{"template_id": "t", "questions": []}]))
    assert run("validate", reference) == 0
    assert capfd.readouterr().out.startswith("warning: there are no questions\n")


@pytest.fixture
def traced(folder: Folder) -> Folder:
    folder.reference = folder.write("films.json", orjson.dumps(REFERENCE))
    histories = (CHAT, EVENTS, ANTHROPIC)
    folder.lines(*({"payload": {"log": history}, "meta": {"q": "q1"}} for history in histories))
    return folder


@pytest.mark.parametrize(
    ("question", "jobs"),
    [
        pytest.param((), "1", id="default id"),
        pytest.param(("--question-id", "meta.q"), "2", id="chosen id"),
    ],
)
def test_traces_are_evaluated(traced: Folder, question: tuple[str, ...], jobs: str) -> None:
    options = ["--format", "auto", "--select", "payload.log", *question, "--jobs", jobs]
    gate = ["-o", traced.file("results.jsonl"), "--gate", "steps_score >= 1"]
    assert run("evaluate", traced.reference, traced.file("responses.jsonl"), *options, *gate) == 0
    results = traced.read("results.jsonl")
    assert [result["metadata"]["trace_format"] for result in results] == [
        "openai",
        "langchain",
        "anthropic",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param(
            "otlp",
            span_line(span(1, "GET /", {"http.method": "GET"}, parent=None)),
            id="span without a question",
        ),
        pytest.param("otlp", {"resourceLogs": []}, id="logs"),
        pytest.param("otlp", {"resourceSpans": []}, id="no spans"),
        pytest.param(
            "otlp", {"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}, id="empty spans"
        ),
        pytest.param(
            "auto",
            [{"role": "assistant", "toolRequests": [{"name": "sparql_query"}]}],
            id="unknown history",
        ),
    ],
)
def test_a_run_that_made_no_result_of_its_input_does_not_exit_with_0(
    traced: Folder, capfd: pytest.CaptureFixture[str], name: str, line: Any
) -> None:
    log = traced.lines(line, name="log.jsonl")
    assert run("evaluate", traced.reference, log, "--format", name) == 3
    assert "not_a_trace" in capfd.readouterr().err


@pytest.mark.parametrize(
    "text", [pytest.param("", id="empty"), pytest.param("\n\n", id="blank lines")]
)
@pytest.mark.parametrize("name", [None, "auto", "otlp", "plain"])
def test_a_file_without_lines_has_no_results_in_any_format(
    traced: Folder, name: str | None, text: str
) -> None:
    log = traced.file("log.jsonl")
    Path(log).write_text(text)
    options = [] if name is None else ["--format", name]
    assert run("evaluate", traced.reference, log, *options) == 0


def test_converted_traces_are_responses(traced: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    log = traced.lines(CHAT, CHAT[:2], {"x": 1}, name="log.jsonl")
    assert (
        run("convert", log, "--reference", traced.reference, "-o", traced.file("converted.jsonl"))
        == 3
    )
    out, err = capfd.readouterr()
    assert not out
    assert "not_a_trace: no known format; it has the keys 'x'" in err
    assert "1 trace: no result" in err
    whole, cut = traced.read("converted.jsonl")
    assert (whole["question_id"], whole["actual_answer"]) == ("q1", ANSWER)
    assert cut["trace_problems"] == [
        "sparql_query call_1: no result",
        "retrieval_search call_2: no result",
    ]
    assert run("evaluate", traced.reference, traced.file("converted.jsonl")) == 0
