from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.support import Folder, failed, response, run
from tests.support.summaries import result

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY = "GITHUB_STEP_SUMMARY"
RESULTS = [result("a"), result("b", 0.5), result("c", None, status="error", error="down")]
BASELINE = [result(name) for name in "abc"]
SCORE = (
    "`steps_score` 0.750 [0.01, 1.00] over 2 of 3 questions, without errors. "
    "`error_rate` 0.333 in 1 of 3 results."
)
COUNTS = "3 results, 1 of them an error of the agent."
PAGE = f"## Evaluation: 1 of 3 questions passed, 2 did not\n\n{SCORE}\n\n{COUNTS}\n"
FAILED, HELD = "\N{CROSS MARK}", "\N{WHITE HEAVY CHECK MARK}"


@pytest.fixture(autouse=True)
def _outside_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)


def report(folder: Folder, *arguments: str, results: Sequence[Any] = RESULTS) -> int:
    return run("report", folder.lines(*results, name="r.jsonl"), *arguments)


def test_markdown_is_the_default(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert report(folder) == 0
    out, err = capfd.readouterr()
    assert out.startswith(PAGE)
    assert "| `b` | `t` | `wrong_order` | `r.jsonl:2` | `steps_score` 0.5 |" in out
    assert not err
    assert report(folder, "--markdown", folder.file("new/page.md"), "--worst", "0") == 0
    page = (folder.path / "new" / "page.md").read_text()
    assert page.startswith(PAGE)
    assert "Worst" not in page
    assert capfd.readouterr() == ("", "")


def test_only_the_page_needs_the_extra_web(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert report(folder) == report(folder, "--github") == 0
    capfd.readouterr()
    assert report(folder, "-o", folder.file("page.html")) == 2
    assert (
        "a report needs the extra web; in the checkout, run pip install '.[web]'"
        in capfd.readouterr().err
    )


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param((0.25, 0.75), id="rising"),
        pytest.param((0.75, 0.25), id="falling"),
        pytest.param((0.25, None), id="unscored"),
    ],
)
def test_the_worst_result_of_a_question_is_named(
    folder: Folder, capfd: pytest.CaptureFixture[str], scores: tuple[float, float | None]
) -> None:
    """An error is worse than any score."""
    status = ["error" if score is None else "success" for score in scores]
    results = [result("b", score, status=told) for score, told in zip(scores, status, strict=True)]
    assert report(folder, results=results) == 0
    assert f"`r.jsonl:{1 if scores == (0.25, 0.75) else 2}`" in capfd.readouterr().out


def test_what_evaluate_wrote(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """In two files, with questions that have no response."""
    for name, line in (("a.jsonl", response("q1")), ("b.jsonl", failed("q3"))):
        assert run("evaluate", folder.reference, folder.lines(line), "-o", folder.file(name)) == 0
    capfd.readouterr()
    files = [folder.file("a.jsonl"), folder.file("b.jsonl")]
    gate = [
        "--reference",
        folder.reference,
        "--gate",
        "missing_rate <= 0.5",
        "--junit",
        folder.file("j.xml"),
    ]
    assert run("report", *files, "--markdown", "-", *gate) == 0
    out, _ = capfd.readouterr()
    assert out.startswith(
        f"## {HELD} Evaluation: 1 gate held\n\n`steps_score` 1.000 over 1 of 3 questions, "
        "without errors. `error_rate` 0.500 in 1 of 2 results.\n"
    )
    assert "\n1 of 3 questions passed, 1 did not, 1 not decided.\n" in out
    assert "\n2 results, 1 of them an error of the agent.\n" in out
    assert "\n1 of 3 questions without a response.\n" in out
    assert "`agent_error: no answer` | `b.jsonl:1` |" in out
    cases = ET.parse(folder.file("j.xml")).getroot().iter("testcase")  # noqa: S314  (it is our own)
    assert [[child.tag for child in case] for case in cases] == [[], ["skipped"], ["error"], []]


def test_github(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUMMARY, folder.write("summary.md", b"before\n"))
    assert report(folder, "--github", "--gate", "steps_score >= 1") == 1
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "::error title=Gate failed::steps_score >= 1: the mean is 0.75",
        "::warning title=c%3A agent_error::down (r.jsonl:3)",
        "::notice title=b%3A wrong_order::steps_score is 0.5, expected >= 1 (r.jsonl:2)",
    ]
    hint, gate = err.splitlines()
    assert hint.startswith("--github: annotations are not attached to questions; add --reference")
    assert gate == "gate failed: steps_score >= 1: the mean is 0.75"
    assert report(folder, "--github", "--markdown", "-") == 0
    assert PAGE in capfd.readouterr().out
    summary = Path(folder.file("summary.md")).read_text()
    assert summary.startswith(f"before\n## {FAILED} Evaluation: 1 of 1 gate failed\n\n{SCORE}")
    assert f"\n\n{PAGE}" in summary


@pytest.mark.parametrize(
    ("name", "in_repository"),
    [("set.yaml", True), ("set.json", True), ("deep/set.yaml", True), ("set.yaml", False)],
)
def test_annotations_name_the_line_of_a_question(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    in_repository: bool,
) -> None:
    templates = [
        {
            "template_id": "t",
            "questions": [{"id": key, "question_text": f"{key}?"} for key in ("a", "b", "c")],
        }
    ]
    text = json.dumps(templates, indent=2) if name.endswith("json") else yaml.dump(templates)
    (folder.path / name).parent.mkdir(exist_ok=True)
    reference = folder.write(name, text.encode())
    workspace = folder.path if in_repository else folder.path / "elsewhere"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(workspace))
    assert report(folder, "--github", "--reference", reference) == 0
    out, err = capfd.readouterr()
    line = next(
        number
        for number, each in enumerate(text.splitlines(), start=1)
        if each.strip().strip("-, ").replace('"', "") == "id: b"
    )
    if name.endswith("json"):
        line -= 1  # The question begins at its brace.
    shown = name if in_repository else reference
    assert f"::notice file={shown},line={line},title=b%3A wrong_order::" in out
    assert "not attached" not in err
