"""The report of a run as one file."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import RunningAggregates, run_evaluation
from graphrag_eval_async.monitor.report import DETAILED, ReportResults, html_report
from tests.cli.support import COLOURS, REFERENCE, failed, from_jsonl, response, run
from tests.monitor import hostile

if TYPE_CHECKING:
    from tests.cli.support import Folder

pytest.importorskip("jinja2")

RESPONSES = [response("q1"), response("q2", False), response("q3"), failed("q3")]


def report_of(results: list[dict[str, Any]], **more: Any) -> str:
    aggregates, collected = RunningAggregates(), ReportResults()
    for result in results:
        aggregates.add(result)
        collected.add(result)
    aggregates.finish()
    return html_report(aggregates.snapshot(detail=True), collected, **more)


def test_evaluate_writes_a_report(folder: Folder) -> None:
    responses, out, page = folder.lines(*RESPONSES), folder.file("out.jsonl"), folder.file("report.html")
    assert run("evaluate", folder.reference, responses, "-o", out, "--report", page) == 0
    html = Path(page).read_text()
    assert "steps_score 0.667" in html
    assert "for one look at a finished run" in html
    assert f"{COLOURS}<br>steps_score 0.500" in html
    assert html.count('class="detail"') == 2
    assert len(from_jsonl(Path(out).read_bytes())) == 4


def test_report_writes_a_page_of_finished_runs(folder: Folder) -> None:
    out, base, page = folder.file("out.jsonl"), folder.file("base.jsonl"), folder.file("report.html")
    better = [response("q1"), response("q2"), response("q3")]
    assert run("evaluate", folder.reference, folder.lines(*better), "-o", base) == 0
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES), "-o", out) == 0
    gates = ["--gate", "steps_score >= 0.5", "--max-regressions", "0"]
    assert run("report", out, "--baseline", base, "-o", page, *gates) == 1
    html = Path(page).read_text()
    assert "Questions that got worse" in html
    assert html.count(">held<") == html.count(">failed<") == 1
    assert ">q2</th>" in html


async def test_ten_thousand_results_are_at_most_five_megabytes() -> None:
    results = await run_evaluation(REFERENCE, RESPONSES, missing="skip")
    chosen = Random(1).choices(results, k=10_000)
    many = [result | {"question_id": f"{result['question_id']}-{i}"} for i, result in enumerate(chosen)]
    html = report_of(many)
    assert len(html.encode()) < 5_000_000
    assert html.count('class="detail"') == DETAILED
    listed = html.partition('id="results-table"')[2].partition("</table>")[0]
    assert listed.count("<tr") == 10_001


async def test_markup_in_any_field_stays_text() -> None:
    results = await run_evaluation(hostile.reference(), hostile.responses(), missing="skip")
    html = report_of(results)
    assert "<img" not in html
    assert html.count("<script") == 1
    assert not {"\x1b", "\x07", "\u202e", "\u2028"} & {*html}


async def test_the_policy_allows_just_the_style_and_the_script_of_the_file() -> None:
    html = report_of(await run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy.replace("'", "&#39;")
    assert "default-src" in policy
    assert not re.search(r"https?://(?!www\.w3\.org)", html.partition("<body")[0])
