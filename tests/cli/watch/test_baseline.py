"""``watch --baseline``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import run_evaluation
from graphrag_eval_async.cli.watch.baseline import comparison_lines, final_lines
from graphrag_eval_async.inference.comparison import RunningComparison
from tests.cli.support import REFERENCE, failed, response, run
from tests.cli.watch.support import append
from tests.cli.watch.test_watch import IDLE, facts, watch

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder

BEFORE = [response("q1"), response("q2"), response("q3", elapsed_sec=3.0)]
AFTER = [response("q1"), response("q2", False), failed("q3"), response("q2")]


def evaluated(responses: list[Any]) -> list[dict[str, Any]]:
    return asyncio.run(run_evaluation(REFERENCE, responses, missing="skip"))


def test_results_are_compared_as_they_come(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Also with a journal: results of earlier runs are compared, too."""
    baseline = folder.lines(*evaluated(BEFORE), name="baseline.jsonl")
    options = (*IDLE, "--baseline", baseline, "--resume", "-o", folder.file("journal"))
    folder.lines(*AFTER[:2])
    assert run(*watch(folder, *options)) == 0
    append(folder, *AFTER[2:])
    capfd.readouterr()
    assert run(*watch(folder, *options)) == 0
    out, err = capfd.readouterr()
    live = facts(out)[-1]["comparison"]
    assert (live["warnings"], live["only_in_baseline"], live["only_in_candidate"]) == ([], 0, 0)
    assert live["overall"]["steps_score"]["difference"] == -0.25
    told = err[err.index("compared with the baseline:") :].splitlines()
    assert told[1].startswith("error_rate: 0 -> 0.3333, +0.333 (98.75%: ")
    assert told[3].startswith("steps_score: 1 -> 0.75, -0.25 (98.75%: ")
    assert "sign test" not in err


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
    told = final_lines(comparison, 0.95)
    assert {"worse in a (steps_score)", "better in b (steps_score)"} < {*told}


def test_a_baseline_that_cannot_be_read(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*AFTER)
    bad = folder.lines(*evaluated(BEFORE), {}, name="bad.jsonl")
    for path, told in (
        (bad, f"--baseline: {bad}: line 4 (byte "),
        ("no-such-file", "Error: "),
        ("-", "Error: "),
    ):
        assert run(*watch(folder, *IDLE, "--baseline", path)) == 2
        out, err = capfd.readouterr()
        assert not out
        assert told in err
