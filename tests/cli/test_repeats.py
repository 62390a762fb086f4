"""Files of several systems are not merged as repeats without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.support import Folder, run

if TYPE_CHECKING:
    Results = list[dict[str, Any]]

QUESTIONS = ("a", "b", "c")


def results(answer: str, questions: Any = QUESTIONS, **more: Any) -> Results:
    return [
        {
            "template_id": "t",
            "question_id": question,
            "status": "success",
            "sample": 1,
            "actual_answer": f"{answer} to {question}",
            "steps_score": 1.0,
            **more,
        }
        for question in questions
    ]


def steps(output: str, **more: Any) -> dict[str, Any]:
    step = {"name": "sparql_query", "status": "success", "output": output, **more}
    return {"actual_answer": None, "actual_steps": [step]}


def without(key: str, several: Results) -> Results:
    return [{name: value for name, value in one.items() if name != key} for one in several]


SYSTEMS = {
    "three answers": [results("yes"), results("no"), results("maybe")],
    "one question differs": [results("yes"), [*results("no", "a"), *results("yes", "bc")]],
    "questions of one file only": [results("yes", "ab"), results("no", "bc")],
    "steps differ": [results("yes", **steps("x")), results("yes", **steps("y"))],
    "an error": [
        results("yes"),
        results("yes", actual_answer=None, status="error", error="down"),
    ],
    "no numbers of samples": [without("sample", results("yes")), without("sample", results("no"))],
    "scores without answers": [
        without("actual_answer", results("", steps_score=score)) for score in (0.25, 0.75)
    ],
}
ONE_SYSTEM = {
    "parts of a run": [results("yes", "ab"), results("no", "c")],
    "parts without numbers of samples": [
        without("sample", results("yes", "ab")),
        without("sample", results("no", "c")),
    ],
    "numbered samples": [results("yes"), results("no", sample=2), results("maybe", sample=3)],
    "several answers in one file": [results("yes") + results("no")],
    # Such as those of two evaluations.
    "same answers": [results("yes"), results("yes", elapsed_sec=2.0, steps_score=0.5)],
    "same steps": [
        results("yes", **steps("x", id="1")),
        results("yes", **steps("x", id="2", diff={})),
    ],
    # The complete results follow those with pending metrics.
    "pending metrics": [results("yes", pending=["answer_f1"]), results("no")],
}


@pytest.mark.parametrize("command", ["aggregate", "report"])
@pytest.mark.parametrize(
    ("files", "warns"),
    [
        *(pytest.param(files, True, id=name) for name, files in SYSTEMS.items()),
        *(pytest.param(files, False, id=name) for name, files in ONE_SYSTEM.items()),
    ],
)
def test_files_of_several_systems(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    command: str,
    files: list[Results],
    warns: bool,
) -> None:
    paths = [folder.lines(*lines, name=f"r{i}.jsonl") for i, lines in enumerate(files)]
    assert run(command, *paths) == 0
    shown = " ".join(" ".join(capfd.readouterr()).split())
    if warns:
        assert "answer the same question differently" in shown
        assert f"run: compare {' '.join(paths)}." in shown
    else:
        assert "differently" not in shown
    assert run(command, *paths, "--repeats") == 0
    assert "differently" not in " ".join(" ".join(capfd.readouterr()).split())


def test_the_baseline_of_a_report_is_another_system(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    baseline = folder.lines(*results("yes"), name="b.jsonl")
    candidate = folder.lines(*results("no"), name="c.jsonl")
    assert run("report", candidate, "--baseline", baseline) == 0
    assert not capfd.readouterr().err


def test_kept_aggregates_have_no_answers_to_compare(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name in ("yes", "no"):
        path = folder.lines(*results(name), name=f"{name}.jsonl")
        paths.append(folder.file(f"{name}.aggregates"))
        assert run("aggregate", path, "--aggregates", paths[-1]) == 0
    capfd.readouterr()
    assert run("aggregate", *paths) == 0
    assert "differently" not in "".join(capfd.readouterr())


def test_a_pull_request_shows_that_systems_were_merged(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    paths = [folder.lines(*results(name), name=f"{name}.jsonl") for name in ("yes", "no")]
    assert run("report", *paths, "--github", "--markdown", folder.file("page.md")) == 0
    out, _ = capfd.readouterr()
    assert "::warning title=Several systems::3 results of " in out
    assert "answer the same question differently" in (folder.path / "page.md").read_text()
