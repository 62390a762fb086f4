from __future__ import annotations

import json
import runpy
import shlex
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async import load_config, load_reference
from tests.cli.support import run

if TYPE_CHECKING:
    from pathlib import Path


def test_written_folder_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "a/new folder") == 0
    out, err = capfd.readouterr()
    assert not err
    assert run("init", "a/new folder") == 0  # Again, it finds what it would write.
    assert capfd.readouterr() == (
        "a/new folder has all files already\n" + out.partition("\n")[2],
        "",
    )
    evaluate, report, harness, validate = commands_in(out)
    assert run(*evaluate[1:]) == run(*report[1:]) == run(*validate[1:]) == 0
    assert "`films-of-tati`" in (told := capfd.readouterr().out)
    assert "answer_match is 0, expected >= 0.5 (contains: lacks Mon Oncle)" in told
    folder = tmp_path / "a" / "new folder"
    assert harness == ["python", str(folder.relative_to(tmp_path) / "harness.py")]
    assert (
        run("validate", "--strict", str(folder / "reference.yaml"), str(folder / "responses.jsonl"))
        == 0
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert [*load_config(folder / "judges.yaml").metrics] == ["answer_correctness"]
    capfd.readouterr()
    runpy.run_path(str(folder / "harness.py"), run_name="__main__")
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [
        "films-of-tati 0.0 wrong_query_result",
        "films-of-varda 1.0 none",
    ]
    assert not err
    assert run("compare", "results.jsonl", str(folder / "results.jsonl")) == 0


def commands_in(out: str) -> list[list[str]]:
    """The commands that `init` says to run next."""
    return [shlex.split(line) for line in out.splitlines() if line.startswith("  ")]


def test_own_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table, answers = tmp_path / "questions.csv", tmp_path / "answers.jsonl"
    table.write_text(
        'question;answer;query\nWhich films?;Cleo: "5 to 7" # 1;SELECT ?f { ?f a <urn:F> }\n'
    )
    assert run("init", "films", "--questions", str(table)) == 0
    out, err = capfd.readouterr()
    assert (err, sorted(path.name for path in (tmp_path / "films").iterdir())) == (
        "",
        ["harness.py", "judges.yaml", "reference.yaml"],
    )
    validate, harness = commands_in(out)
    assert run(*validate[1:]) == 0
    assert harness == ["python", "films/harness.py"]
    [question] = load_reference("films/reference.yaml", strict=True)
    assert question.as_dict() == {
        "template_id": "all",
        "id": "which-films",
        "text": "Which films?",
        "reference_answer": 'Cleo: "5 to 7" # 1',
        "reference_steps": [
            [{"name": "sparql_query", "reference_query": "SELECT ?f { ?f a <urn:F> }"}],
        ],
    }
    assert "`execute: {graph: data.ttl}`" in (tmp_path / "films" / "reference.yaml").read_text()

    answers.write_text('{"question_id": "q", "question": "Why?", "actual_answer": "So."}\n')
    assert run("init", "films", "--questions", str(answers)) == 2
    assert run("init", "why", "--questions", str(answers)) == 0
    assert run("validate", "why/reference.yaml", str(answers)) == 0
    assert (
        "questions[0].reviewed: the reference answer comes from an agent" in capfd.readouterr().out
    )
    answers.write_text("{}\n")
    assert run("init", "new", "--questions", str(answers)) == 2
    told = (
        f"Error: reference set: 1 problem in {answers}\n  line 1: no question; add it; `convert` "
        "traces\n"
    )
    assert (capfd.readouterr().err, (tmp_path / "new").exists()) == (told, False)


def test_it_overwrites_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "judges.yaml").symlink_to(tmp_path / "nothing")
    assert run("init", str(tmp_path)) == 2
    assert "has judges.yaml already; give another folder" in capfd.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["judges.yaml"]
    (tmp_path / "file").write_text("")
    assert run("init", str(tmp_path / "file")) == 2
    assert "cannot be written: File exists" in capfd.readouterr().err


def test_an_example_with_cypher_runs_its_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ladybug", reason="needs the extra cypher")
    monkeypatch.chdir(tmp_path)
    folder = "a/films é"
    assert run("init", folder, "--cypher") == 0
    out, err = capfd.readouterr()
    assert not err
    assert sorted(path.name for path in (tmp_path / folder).iterdir()) == [
        "execute.yaml",
        "films.lbug",
        "reference.yaml",
        "responses.jsonl",
    ]
    assert run("init", folder, "--cypher") == 0
    assert capfd.readouterr().out.startswith(f"{folder} has all files already\n")

    evaluate, report, validate = commands_in(out)
    assert run(*evaluate[1:]) == run(*report[1:]) == run(*validate[1:]) == 0
    capfd.readouterr()
    reference, responses = (f"{folder}/{name}" for name in ("reference.yaml", "responses.jsonl"))
    assert run("validate", "--strict", reference, responses) == 0
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert {result["question_id"]: result["steps_score"] for result in results} == {
        "films-of-varda": 1,
        "films-of-tati": 0,
    }
    assert all("executed_output" in result["actual_steps"][0] for result in results)


def test_an_example_with_cypher_has_its_own_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.csv").write_text("question\nWhich?\n")
    assert run("init", "films", "--cypher", "--questions", "questions.csv") == 2
    assert "--cypher: not with --questions" in capfd.readouterr().err
    assert not (tmp_path / "films").exists()
