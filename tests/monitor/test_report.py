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
from graphrag_eval_async.traces.grouping import LateSpans
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


def test_late_spans_are_on_the_page() -> None:
    late = LateSpans("out.jsonl.late", spans=3, traces=1, trace_ids=["4bf92f3577b34da6"])
    html = report_of([], late=late.facts())
    assert "3 spans of 1 trace came after the trace was evaluated: 4bf92f3577b34da6." in html
    assert "whole responses in out.jsonl.late" in html


def test_a_resumed_run_reports_earlier_results_too(folder: Folder) -> None:
    out, page = folder.file("out.jsonl"), folder.file("report.html")
    options = ["-o", out, "--resume", "--report", page]
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES[:2]), *options) == 0
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES), *options) == 0
    assert "over 3 of 4 results" in Path(page).read_text()


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


def test_wrong_uses(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    responses = folder.lines(*RESPONSES)
    arguments = ["evaluate", folder.reference, responses, "-o", folder.file("o.jsonl"), "--report"]
    assert run(*arguments, folder.file("report.txt")) == 2
    assert run(*arguments, folder.file("none/report.html")) == 2
    assert run(*arguments, folder.file("report.html"), "--jobs", "2") == 2
    errors = capfd.readouterr().err
    assert "expected a name that ends in .html" in errors
    assert "its directory does not exist" in errors
    assert "--jobs cannot be combined with --report" in errors


async def test_ten_thousand_results_are_at_most_five_megabytes() -> None:
    results = await run_evaluation(REFERENCE, RESPONSES, missing="skip")
    chosen = Random(1).choices(results, k=10_000)
    many = [result | {"question_id": f"{result['question_id']}-{i}"} for i, result in enumerate(chosen)]
    html = report_of(many)
    assert len(html.encode()) < 5_000_000
    assert html.count('class="detail"') == DETAILED
    listed = html.partition('id="results-table"')[2].partition("</table>")[0]
    assert listed.count("<tr") == 10_001


def test_results_of_other_programs_may_lack_keys() -> None:
    html = report_of([{"template_id": "t", "steps_score": 0.5}, {"template_id": "t", "status": "error"}])
    assert "steps_score 0.500" in html
    assert "None" not in html.partition("<main")[2].replace("None.", "")


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


def test_a_result_of_a_journal_has_no_metric_of_the_journal(folder: Folder) -> None:
    out, page = folder.file("out.jsonl"), folder.file("report.html")
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES), "-o", out, "--resume") == 0
    assert run("report", out, "-o", page) == 0
    html = Path(page).read_text()
    assert "crc32" not in html
    details = html.partition('id="details"')[2]
    assert f"<dt>template</dt><dd>{COLOURS}</dd>" in details
    assert "<dt>failure</dt><dd>wrong_query_result: the step returned something else</dd>" in details
