"""``watch --baseline``."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compare, run_evaluation
from graphrag_eval_async.cli.watch.baseline import comparison_lines, final_lines
from graphrag_eval_async.inference.comparison import RunningComparison
from tests.cli.support import COLOURS, ODD, REFERENCE, failed, response, run
from tests.cli.watch.support import append
from tests.cli.watch.test_watch import IDLE, facts, watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cli.support import Folder

BEFORE = [response("q1"), response("q2"), response("q3", elapsed_sec=3.0)]
AFTER = [response("q1"), response("q2", False), failed("q3"), response("q2")]


def evaluated(responses: list[Any]) -> list[dict[str, Any]]:
    return asyncio.run(run_evaluation(REFERENCE, responses, missing="skip"))


OF_TESTS = {"p", "p_adjusted", "verdict", "interval"}
"""What a finished comparison has, which a live one has not, or has otherwise."""


def without(keys: set[str], rows: dict[str, Any]) -> dict[str, Any]:
    """Rows as they are in JSON, but for some of their keys."""
    kept = {name: {key: row[key] for key in row if key not in keys} for name, row in rows.items()}
    return dict(json.loads(json.dumps(kept)))


def check_live(comparison: dict[str, Any], expected: dict[str, Any]) -> None:
    """Take the rows out of a live comparison, and hold them against those of a finished one."""
    overall, others = comparison.pop("overall"), OF_TESTS | {"confidence"}
    assert without(others, overall) == without(others, expected["overall"])
    assert {row["confidence"]["level"] for row in overall.values() if "verdict" in row} == {
        1 - (1 - 0.95) / 4
    }
    groups = comparison.pop("per_template")
    assert [*groups] == [*expected["per_template"]]
    for name, group in expected["per_template"].items():
        assert without(OF_TESTS | {"confidence"}, groups[name]) == without(OF_TESTS | {"confidence"}, group)
        levels = {row["confidence"]["level"] for row in groups[name].values() if "confidence" in row}
        assert levels == {1 - (1 - 0.95) / 8}


def standing(lone: int = 0, *, strange: int = 0, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """What is said besides."""
    return {"warnings": [*warnings], "only_in_baseline": lone, "only_in_candidate": strange}


@pytest.fixture
def baseline(folder: Folder) -> str:
    return folder.lines(*evaluated(BEFORE), name="baseline.jsonl")


def test_the_difference_is_shown_and_told(
    folder: Folder, baseline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*AFTER)
    assert run(*watch(folder, *IDLE, "--baseline", baseline, "-o", folder.file("results"))) == 0
    out, err = capfd.readouterr()
    [last] = facts(out)
    assert last["comparison"]["overall"]["steps_score"]["difference"] == -0.25
    assert [*last["comparison"]["per_template"]] == [ODD, COLOURS]
    check_live(last["comparison"], compare(baseline, folder.file("results")))
    assert last["comparison"] == standing()
    told = err[err.index("compared with the baseline:") :].splitlines()
    assert told[1].startswith("error_rate: 0 -> 0.3333, +0.333 (98.75 %: ")
    assert told[3].startswith("steps_score: 1 -> 0.75, -0.25 (98.75 %: ")
    assert "sign test" not in err


def test_only_primary_metrics_have_a_verdict(
    folder: Folder, baseline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*AFTER)

    def decided(*options: str) -> list[str]:
        assert run(*watch(folder, *IDLE, "--baseline", baseline, *options)) == 0
        rows = facts(capfd.readouterr().out)[-1]["comparison"]["overall"]
        return [metric for metric, row in rows.items() if "verdict" in row]

    assert decided() == ["error_rate", "steps_score"]
    folder.write("config.yaml", b"primary: [steps_score]\n")
    assert decided("--config", folder.file("config.yaml")) == ["steps_score"]


def test_no_baseline_no_comparison(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*AFTER)
    assert run(*watch(folder, *IDLE)) == 0
    out, err = capfd.readouterr()
    assert facts(out)[-1]["comparison"] is None
    assert "baseline" not in err


def test_journaled_results_are_compared(
    folder: Folder, baseline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options = (*IDLE, "--baseline", baseline, "--resume", "-o", folder.file("journal"))
    folder.lines(*AFTER[:2])
    assert run(*watch(folder, *options)) == 0
    append(folder, *AFTER[2:])
    assert run(*watch(folder, *options)) == 0
    last = facts(capfd.readouterr().out)[-1]
    check_live(last["comparison"], compare(evaluated(BEFORE), evaluated(AFTER)))
    assert last["comparison"] == standing()


def test_a_damaged_line_of_a_journal_is_not_compared(
    folder: Folder, baseline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its response is evaluated again."""
    options = (*IDLE, "--baseline", baseline, "--resume", "-o", folder.file("journal"))
    folder.lines(*AFTER)
    assert run(*watch(folder, *options)) == 0
    journal = folder.path / "journal"
    journal.write_bytes(journal.read_bytes().replace(b'"q2"', b'"q1"', 1))
    capfd.readouterr()
    assert run(*watch(folder, *options)) == 0
    last = facts(capfd.readouterr().out)[-1]
    assert last["journal"] == {"restored": 3}
    check_live(last["comparison"], compare(evaluated(BEFORE), evaluated(AFTER)))


def test_comparison_warnings_are_printed(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    before = [each | {"question_text": "Which?"} for each in evaluated(BEFORE[1:])]
    judged = [each | {"judge": {"model": model}} for model in "mn" for each in before]
    odd = before[0] | {"question_id": "q\n0"}
    path = folder.lines(*judged, odd, name="baseline.jsonl")
    folder.lines(*AFTER[:2])
    assert run(*watch(folder, *IDLE, "--baseline", path)) == 0
    out, err = capfd.readouterr()
    last = facts(out)[-1]["comparison"]
    assert [*last.pop("overall")] == ["error_rate", "steps_score", "elapsed_sec"]
    assert [*last.pop("per_template")] == [COLOURS]
    warnings = [
        "the baseline was judged by several models: m, n",
        "the reference sets differ in 1 question",
    ]
    assert last == standing(2, strange=1, warnings=warnings)
    told = err[err.index("compared with the baseline:") :]
    for expected in [
        *(f"\nwarning: {warning}\n" for warning in warnings),
        "candidate  change  result\nq2         steps_score         1          0      -1\n",
        "baseline:\n2 of 3 questions of the baseline are missing from the candidate: q 0, q3\n",
        "\nonly in the candidate: 1 question: q1\n",
    ]:
        assert expected in told
    assert "sign test" not in told


def test_templates_that_are_worse_are_named() -> None:
    comparison = RunningComparison()
    for template, before, after in (("a\n", 1.0, 0.0), ("b", 0.0, 1.0), ("c", 0.5, 0.5)):
        for i in range(60):
            common = {"question_id": f"{template}{i}", "template_id": template, "answer_relevance": 0.5}
            comparison.add_baseline({**common, "steps_score": before, "answer_f1": before})
            comparison.add({**common, "steps_score": after, "answer_f1": before, "total_tokens": 5})
    lines = comparison_lines({**comparison.live_rows(), **comparison.live_facts()})
    assert lines[0].plain == "vs baseline: worse in a (steps_score)"
    assert [line.plain.split()[2] for line in lines[1:]] == [
        *("error_rate", "steps_score", "answer_f1", "answer_relevance")
    ]
    told = " ".join(map(str.strip, final_lines(comparison, 0.95)))
    together = "(intervals at 99.7917 %, which all hold together)"
    assert f"steps_score by template: a is worse, b is better {together}" in " ".join(told.split())
    assert "answer_f1 by template" not in told
    assert "c is" not in told


def test_no_shared_questions(folder: Folder, baseline: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines()
    assert run(*watch(folder, *IDLE, "--baseline", baseline)) == 0
    out, err = capfd.readouterr()
    assert facts(out)[-1]["comparison"] == {"overall": {}, "per_template": {}, **standing(3)}
    assert "compared with the baseline: no question in common" in err


@pytest.mark.parametrize("bad", ["no-such-file", "-", ".", "bad.jsonl", "none.jsonl.gz"])
def test_a_baseline_that_cannot_be_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], bad: str
) -> None:
    monkeypatch.chdir(folder.path)
    folder.lines(*AFTER)
    folder.lines(*evaluated(BEFORE), {}, name="bad.jsonl")
    folder.write("none.jsonl.gz", b"no gzip")
    assert run(*watch(folder, *IDLE, "--baseline", bad, "-o", "results")) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "Error: " in err
    assert not (folder.path / "results").exists()
    assert bad != "bad.jsonl" or "--baseline: bad.jsonl: line 4 (byte " in err


def test_a_baseline_is_not_overwritten(
    folder: Folder, baseline: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*AFTER)
    assert run(*watch(folder, *IDLE, "--baseline", baseline, "-o", baseline)) == 2
    assert "given twice" in capfd.readouterr().err
    assert (tmp_path / "baseline.jsonl").stat().st_size
