from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import orjson
import pytest

from tests.cases import each
from tests.cli.support import REFERENCE, Folder, failed, finish, from_jsonl, response, run, start, to_jsonl
from tests.monitor.summaries import result

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY = "GITHUB_STEP_SUMMARY"
RESULTS = [result("a"), result("b", 0.5), result("c", None, status="error", error="down")]
BASELINE = [result(name) for name in "abc"]
COUNTS = "3 results, 1 error, 0 rejected lines; 3 questions: 1 passed, 1 failed, 1 with an error."
PAGE = f"## Evaluation\n\n{COUNTS}\n"
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
    assert "| `b` | `t` | `steps_score` 0.5 | `wrong_order` | `r.jsonl:2` |" in out
    assert not err
    assert report(folder, "--markdown", folder.file("new/page.md"), "--worst", "0") == 0
    page = (folder.path / "new" / "page.md").read_text()
    assert page.startswith(PAGE)
    assert "Worst" not in page
    assert capfd.readouterr() == ("", "")


def test_names_of_steps_are_on_every_page(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    step = {"name": "find_it", "output": "red"}
    responses, results = folder.lines(response("q1") | {"actual_steps": [step]}), folder.file("results.jsonl")
    pages = folder.file("live.html"), folder.file("report.html")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("evaluate", folder.reference, responses, "-o", results, "--report", pages[0]) == 0
    assert capfd.readouterr().err.count("other tools: find_it.") == 1
    groups: list[Any] = [5, [5, [5, {"name": 5}]], [], [[]]]
    odd = [{"template_id": "t", "reference_steps": each} for each in groups]
    Path(results).write_bytes(
        Path(results).read_bytes() + b"".join(orjson.dumps(each) + b"\n" for each in odd)
    )
    for options in ([], ["--reference", folder.reference]):
        assert run("report", results, *options, "-o", pages[1]) == 0
        for page in pages:
            assert "{&#34;look_up&#34;: [&#34;find_it&#34;]}" in Path(page).read_text()
        capfd.readouterr()
        for command in (["report"], ["aggregate"], ["aggregate", "--jobs", "2"]):
            assert run(*command, results, *options) == 0
            assert 'aliases: {"look_up": ["find_it"]}' in capfd.readouterr().out


@each(
    ("question_id", "shown"),
    [("b\x1b[31m", r"`b\x1b[31m`"), ('b "quoted"', '`b "quoted"`'), ("b\\c", "`b\\c`"), ("bé", "`bé`")],
)
def test_places_of_ids_that_json_escapes(
    folder: Folder, capfd: pytest.CaptureFixture[str], question_id: str, shown: str
) -> None:
    wrong = json.dumps(result(question_id, 0.5)).encode()  # All but ASCII is escaped.
    assert report(folder, "--github", "--markdown", folder.file("page.md"), results=[wrong]) == 0
    out = capfd.readouterr().out
    page = (folder.path / "page.md").read_text()
    assert f"| {shown} | `t` | `steps_score` 0.5 | `wrong_order` | `r.jsonl:1` |" in page
    assert "expected >= 1 (r.jsonl:1)" in out


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
        f"## {HELD} Evaluation: gates held: 1 of 1\n\n2 results, 1 error, 0 rejected lines; 3 "
    )
    assert "1 passed, 1 with an error, 1 skipped.\n" in out
    assert "`response_error: no answer` | `b.jsonl:1` |" in out
    cases = ET.parse(folder.file("j.xml")).getroot().iter("testcase")  # noqa: S314  (it is our own)
    found = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in cases]
    templates = [(t["template_id"], q["id"]) for t in REFERENCE for q in t["questions"]]
    assert [each[:2] for each in found] == [*templates, ("gates", "missing_rate <= 0.5")]
    assert [each[2] for each in found] == [[], ["skipped"], ["error"], []]


def test_places_are_those_of_the_worst_samples(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    samples = [result("a"), result("a", 0.2), result("a", 0.5), result("b", 0.0)]
    assert report(folder, results=[*samples, result("b", None, status="error", error="down")]) == 0
    out, _ = capfd.readouterr()
    assert "| `a` | `t` | `steps_score` 0.5667 | `wrong_order` | `r.jsonl:2` |" in out
    assert "down (1 of 2 samples)` | `r.jsonl:5` |" in out


def test_gates_with_a_baseline(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    baseline = ["--baseline", folder.lines(*BASELINE, name="base.jsonl")]
    gates = ["--max-drop", "steps_score=0.1", "--max-regressions", "1", "--fail-on-regression"]
    assert (
        report(folder, *baseline, *gates, "--gate", "error_rate < 0.5", "--junit", folder.file("j.xml")) == 1
    )
    out, err = capfd.readouterr()
    assert not out
    drop = "steps_score 1 -> 0.5, -0.5: may get worse by at most 0.1"
    zeros = "errors count as 0, 0 in the baseline and 1 in the candidate"
    told = [f"{drop}; {zeros}", "2 regressions, at most 1 allowed"]
    assert err.splitlines() == [f"gate failed: {each}" for each in told]
    _, suite = ET.parse(folder.file("j.xml")).getroot()  # noqa: S314  (it is our own)
    names = ["error_rate < 0.5", "--max-drop steps_score=0.1", "--max-regressions", "--fail-on-regression"]
    assert [case.get("name") for case in suite] == names
    assert [failure.get("message") for failure in suite.iter("failure")] == told
    assert report(folder, *baseline, *gates) == 1
    assert f"- {FAILED} failed: `{told[0]}`" in capfd.readouterr().out


def test_missing_questions_fail_the_gates(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lacking = "2 of 3 questions of the baseline are missing from the candidate: `<i>`, `b`. No difference: 1"
    base = folder.lines(BASELINE[0], BASELINE[1], result("<i>"), name="base.jsonl")
    given = ["--baseline", base, "--max-regressions", "0", "--markdown", "-", "-o", folder.file("r.html")]
    assert report(folder, *given, "--github", results=RESULTS[:1]) == 1
    out, err = capfd.readouterr()
    assert f"**Compared with the baseline:** {lacking}" in out
    assert "::warning title=Missing questions::2 of 3 questions of the baseline are missing from" in out
    assert err.splitlines()[1].startswith(
        "gate failed: 0 regressions, at most 0 allowed, but 2 of 3 questions of"
    )
    page = (folder.path / "r.html").read_text()
    told = "<dt>Compared with the baseline</dt><dd>2 of 3 questions of the baseline are missing from the"
    assert page.index(told) < page.index("<dt>Score</dt>")
    assert "candidate: &lt;i&gt;, b. No difference" in page
    assert report(folder, *given, "--allow-missing", results=RESULTS[:1]) == 0


def test_a_question_passes_if_its_mean_meets_a_condition(folder: Folder) -> None:
    junit = folder.file("j.xml")
    for conditions, failures in (
        (["steps_score >= 0.5"], "0"),
        (["t:steps_score > 0.5", "x:steps_score > 1"], "1"),
    ):
        options = [part for condition in conditions for part in ("--pass-if", condition)]
        assert report(folder, "--junit", junit, *options) == 0
        assert ET.parse(junit).getroot().get("failures") == failures  # noqa: S314  (it is our own)


def test_github(folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUMMARY, folder.write("summary.md", b"before\n"))
    assert report(folder, "--github", "--gate", "steps_score >= 1") == 1
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "::error title=Gate failed::steps_score >= 1: the mean is 0.75",
        "::warning title=c%3A response_error::down (r.jsonl:3)",
        "::notice title=b%3A wrong_order::steps_score is 0.5, expected >= 1 (r.jsonl:2)",
    ]
    assert err == "gate failed: steps_score >= 1: the mean is 0.75\n"
    assert report(folder, "--github", "--markdown", "-") == 0
    assert PAGE in capfd.readouterr().out
    summary = Path(folder.file("summary.md")).read_text()
    assert summary.startswith(f"before\n## {FAILED} Evaluation: 1 of 1 gates failed\n\n3 results")
    assert f"\n\n{PAGE}" in summary


def test_github_without_a_summary(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert report(folder, "--github") == 0
    out, err = capfd.readouterr()
    assert out.startswith("::warning ")
    assert err == f"--github: no summary is written: ${SUMMARY} is not set\n"


def test_a_summary_that_cannot_be_written(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUMMARY, str(folder.path))
    assert report(folder, "--github", "--markdown", folder.file("page.md")) == 4
    assert "Is a directory" in capfd.readouterr().err
    assert Path(folder.file("page.md")).read_text().startswith(PAGE)


def test_lines_that_are_no_results_are_rejects(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """With a baseline, so are results that name no question; nothing of them is counted."""
    results = [*RESULTS, b"{", result("d") | {"question_id": None}]
    assert report(folder, results=results) == 3
    assert "### Rejected lines: 1 invalid_json\n\n- `" in capfd.readouterr().out
    rejects = folder.file("rejects.jsonl")
    baseline = folder.lines(*BASELINE, name="base.jsonl")
    assert report(folder, "--baseline", baseline, "--rejects", rejects, results=results) == 3
    assert "3 results, 1 error, 2 rejected lines; 3 questions" in capfd.readouterr().out
    assert [line["line"] for line in from_jsonl(Path(rejects).read_bytes())] == [4, 5]
    assert report(folder, "--rejects", "-", results=results) == 3
    out, err = capfd.readouterr()
    assert [line["reason"] for line in from_jsonl(out)] == ["invalid_json"]
    assert "## Evaluation" in err


def test_standard_input() -> None:
    code, out, err = finish(start("report", "-", stdin=subprocess.PIPE), to_jsonl(RESULTS))
    assert (code, err) == (0, "")
    assert out.startswith(PAGE)


@each(
    ("arguments", "told"),
    [
        (["r.jsonl", "--max-drop", "steps_score=0"], "--max-drop needs --baseline FILE"),
        (["r.jsonl", "--max-regressions", "0"], "--max-regressions needs --baseline FILE"),
        (["r.jsonl", "--fail-on-regression"], "--fail-on-regression needs --baseline FILE"),
        (["r.jsonl", "--gate", "missing_rate <= 0"], "a gate on missing_rate needs --reference REFERENCE"),
        (["-", "--baseline", "-"], "only one of the inputs can come from standard input"),
        (["r.jsonl", "--junit", "r.jsonl"], "'r.jsonl' is given twice; it would be overwritten"),
        (["r.jsonl", "--junit", "-"], "'-' is not a regular file"),
        (["r.jsonl", "--pass-if", "steps_score"], "expected [TEMPLATE:]METRIC >= VALUE"),
        (
            ["r.jsonl", "--pass-if", "nope >= 1"],
            "--pass-if: no result has the metric 'nope'; known: steps_score",
        ),
        (["none.jsonl"], "'none.jsonl' does not exist"),
    ],
)
def test_wrong_usage(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(folder.path)
    folder.lines(*RESULTS, name="r.jsonl")
    assert run("report", *arguments) == 2
    assert told in " ".join(capfd.readouterr().err.split())
