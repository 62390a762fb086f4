"""Files of several systems are not merged as repeats without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cli.support import Folder, run
from tests.support.cases import each

if TYPE_CHECKING:
    import pytest

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


SYSTEMS = [
    [results("yes"), results("no"), results("maybe")],
    [results("yes"), [*results("no", "a"), *results("yes", "bc")]],
    # Questions that only one file has.
    [results("yes", "ab"), results("no", "bc")],
    [results("yes", **steps("x")), results("yes", **steps("y"))],
    [results("yes"), results("yes", actual_answer=None, status="error", error="down")],
    [without("sample", results("yes")), without("sample", results("no"))],
    # Scores of another program, without answers.
    [without("actual_answer", results("", steps_score=score)) for score in (0.25, 0.75)],
]

ONE_SYSTEM = [
    # Parts of a run.
    [results("yes", "ab"), results("no", "c")],
    [without("sample", results("yes", "ab")), without("sample", results("no", "c"))],
    # Repeats with numbers of their samples.
    [results("yes"), results("no", sample=2), results("maybe", sample=3)],
    # In one file, questions may have several answers.
    [results("yes") + results("no")],
    # The same answers, such as of two evaluations.
    [results("yes"), results("yes", elapsed_sec=2.0, steps_score=0.5)],
    [results("yes", **steps("x", id="1")), results("yes", **steps("x", id="2", diff={}))],
    # The complete results follow those with pending metrics.
    [results("yes", pending=["answer_f1"]), results("no")],
]


@each("command", ["aggregate", "report"])
@each(
    ("files", "warns"),
    [*((files, True) for files in SYSTEMS), *((files, False) for files in ONE_SYSTEM)],
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
