from __future__ import annotations

import signal
import subprocess
import warnings
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import DEADLINE_SECONDS, REFERENCE, failed, next_line, question, response, run, start

if TYPE_CHECKING:
    from tests.cli.support import Folder


def test_a_valid_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("validate", folder.reference) == 0
    assert capfd.readouterr() == ("reference set valid (templates: 2, questions: 3)\n", "")


def test_every_problem_of_a_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a"), question("q1", "b"), {"id": "x\ny"}]
    broken = [{"template_id": "t", "questions": questions}]
    reference = folder.write("broken.json", orjson.dumps(broken))
    assert run("validate", reference, folder.lines(b"{")) == 2
    out, err = capfd.readouterr()
    first, *problems, last = out.splitlines()
    assert first == f"reference set: {len(problems)} problems in {reference}"
    assert [problem.split(":")[0] for problem in problems] == [
        "  templates[0].questions[1].id",
        "  templates[0].questions[2]",
    ]
    assert last == f"{folder.file('responses.jsonl')}: not checked, since the reference set is broken"
    assert not err


def test_responses_without_a_reference_set(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    responses = folder.lines({"question": "Why?"}, {"question": "How?"}, {"actual_answer": "So."})
    assert run("validate", "--no-reference", responses) == 3
    problem, summary = capfd.readouterr().out.splitlines()
    assert "line 3" in problem
    assert summary == "no reference set; responses: 2, rejected lines: 1"
    assert run("validate") == 2
    assert "expected REFERENCE, or --no-reference RESPONSES" in capfd.readouterr().err


def test_every_problem_of_responses(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    bad = [b"{"] * 20
    responses = folder.lines(response("q1"), *bad, failed("q3"), response("q9", n="n" * 300))
    assert run("validate", folder.reference, responses, "--max-line-bytes", "400") == 3
    out, err = capfd.readouterr()
    *rejects, missing, summary = out.splitlines()
    assert [int(line.split(" line ")[1].split()[0]) for line in rejects] == [*range(2, 22), 23]
    assert all(line.startswith(f"{responses}: line ") for line in rejects)
    assert missing == "question 'q2': no response"
    assert summary == (
        "reference set valid (templates: 2, questions: 3); "
        "responses: 2, rejected lines: 21, questions without a response: 1"
    )
    assert not err


@pytest.mark.parametrize("end", ["Ctrl-C", "error"])
def test_unread_lines_are_not_missing(folder: Folder, end: str) -> None:
    # Can be opened, and then not read.
    source = "-" if end == "Ctrl-C" else "/proc/self/mem"
    process = start("validate", folder.reference, source, stdin=subprocess.PIPE)
    assert process.stdin is not None
    if end == "Ctrl-C":
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert b"invalid_json" in next_line(process, "a reject")
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == (130 if end == "Ctrl-C" else 4)
    assert b"no response" not in out
    assert b"without a response" not in out
    assert out.endswith(b", not all lines were read\n")


def test_questions_without_a_response_are_no_problem(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("validate", folder.reference, folder.lines()) == 0
    assert len(capfd.readouterr().out.splitlines()) == 4


def test_nothing_is_evaluated(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        pytest.fail("a response was evaluated")

    monkeypatch.setattr("graphrag_eval_async.evaluator.score_steps", refuse)
    monkeypatch.setattr("graphrag_eval_async.evaluator.Evaluator.score", refuse)
    responses = [response(item["id"]) for template in REFERENCE for item in template["questions"]]
    assert run("validate", folder.reference, folder.lines(*responses)) == 0


@pytest.mark.parametrize(
    "arguments", [[], ["no-such-file"], ["reference.json", "no-such-file"]], ids=" ".join
)
def test_wrong_usage(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    assert run("validate", *arguments) == 2
    assert "Error: " in capfd.readouterr().err


def test_probable_mistakes(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a") | {"refrence_answer": "x"}]
    reference = folder.write("r.json", orjson.dumps([{"template_id": "t", "questions": questions}]))
    doubt = (
        "templates[0].questions[0].refrence_answer: unknown key, ignored; did you mean "
        "reference_answer? (line 1)"
    )
    assert run("validate", reference) == 0
    valid = "reference set valid (templates: 1, questions: 1)"
    assert capfd.readouterr() == (f"warning: {doubt}\n{valid}\n", "")
    assert run("validate", "--strict", reference) == 2
    assert capfd.readouterr() == (f"reference set: 1 problem in {reference}\n  {doubt}\n", "")


def test_names_of_steps(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    def named(name: str) -> str:
        return folder.lines(response("q1") | {"actual_steps": [{"name": name, "output": "red"}]})

    assert run("validate", folder.reference, named("Look-Up"), "--strict") == 0
    assert "warning" not in capfd.readouterr().out
    line = 'aliases: {"look_up": ["find_it"]}'
    assert run("validate", folder.reference, named("find_it")) == 0
    assert line in capfd.readouterr().out.splitlines()
    assert run("validate", folder.reference, named("find_it"), "--strict") == 2
    assert line in capfd.readouterr().out.splitlines()
    config = folder.write(
        "config.yaml", line.encode() + b"\nllm: {generation: {api_key: '${NO_SUCH_VARIABLE}'}}\n"
    )
    assert run("validate", folder.reference, named("find_it"), "--strict", "--config", config) == 0
    assert "warning" not in capfd.readouterr().out
    config = folder.write("config.yaml", b"aliases: 5\n")
    assert run("validate", folder.reference, named("find_it"), "-c", config) == 2
    assert "aliases: expected" in capfd.readouterr().err


def test_warnings_as_errors_are_wrong_usage(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a") | {"refrence_answer": "x"}]
    reference = folder.write("r.json", orjson.dumps([{"template_id": "t", "questions": questions}]))
    assert run("evaluate", reference, folder.lines(response("q1"))) == 2
    assert capfd.readouterr().err.startswith("Error: GraphragEvalWarning: reference set ")


def test_other_commands_warn_of_them(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a") | {"refrence\x1b_answer": "x"}]
    reference = folder.write("r.json", orjson.dumps([{"template_id": "t", "questions": questions}]))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("evaluate", reference, folder.lines(response("q1"))) == 0
    err = capfd.readouterr().err
    assert err.startswith("Warning: reference set ")
    assert "did you mean reference_answer?" in err
    assert "\x1b" not in err
