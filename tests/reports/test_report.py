"""The report of a run as one file, and the worst questions, which are the same ones on every
screen.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from html import unescape
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, run_evaluation
from graphrag_eval_async.reports.report_results import DETAILED
from graphrag_eval_async.reports.worst import questions_in_slices, worst_questions
from tests.cli.support import REFERENCE, response, run
from tests.cli.support import failed as not_answered
from tests.support import hostile
from tests.support.summaries import failed, report_of, result

if TYPE_CHECKING:
    from tests.cli.support import Folder

pytest.importorskip("jinja2")

RESPONSES = [response("q1"), response("q2", False), response("q3"), not_answered("q3")]


def test_pages_of_a_run_and_of_finished_runs(folder: Folder) -> None:
    out, base, page = (
        folder.file("out.jsonl"),
        folder.file("base.jsonl"),
        folder.file("report.html"),
    )
    better = [response("q1"), response("q2"), response("q3")]
    assert run("evaluate", folder.reference, folder.lines(*better), "-o", base) == 0
    assert (
        run("evaluate", folder.reference, folder.lines(*RESPONSES), "-o", out, "--report", page)
        == 0
    )
    html = Path(page).read_text()
    assert '<span class="big">0.667</span>' in html
    assert "for one look at a finished run" in html
    assert "1 of 3 questions passed, 2 did not" in html
    assert html.count('class="detail"') == 2
    gates = ["--gate", "steps_score >= 0.5", "--max-regressions", "0"]
    assert run("report", out, "--baseline", base, "-o", page, *gates) == 1
    html = Path(page).read_text()
    assert "Questions that got worse" in html
    assert html.count(">held</strong>") == html.count(">failed</strong>") == 1
    losses = html.partition('id="losses"')[2].partition("</section>")[0]
    assert ">What of q2?</a>" in losses
    assert html.index('id="verdict"') < html.index('id="moved"') < html.index('id="failures"')
    assert html.index('id="details"') < html.index('id="questions"')
    assert (
        run(
            "report",
            out,
            base,
            "--pass-if",
            "steps_score >= 0.9",
            "-o",
            page,
            "--markdown",
            page + ".md",
        )
        == 0
    )
    for html in (Path(page).read_text(), Path(page + ".md").read_text()):
        assert "no error, steps_score >= 0.9, as far as" in unescape(html).replace("`", "")
        assert "between questions, 0.167 between samples of a question" in html


async def test_markup_in_any_field_stays_text() -> None:
    hostile.check(
        report_of(await run_evaluation(hostile.reference(), hostile.responses(), missing="skip"))
    )


async def test_ten_thousand_results_are_at_most_five_megabytes() -> None:
    """Their page allows only the style and the script of the file itself."""
    results = await run_evaluation(REFERENCE, RESPONSES, missing="skip")
    chosen = Random(1).choices(results, k=10_000)
    html = report_of(
        each | {"question_id": f"{each['question_id']}-{i}"} for i, each in enumerate(chosen)
    )
    assert len(html.encode()) < 5_000_000
    assert html.count('class="detail"') == DETAILED
    listed = html.partition('id="questions-table"')[2].partition("</table>")[0]
    assert listed.count("<tr") == 10_001
    assert listed.count('data-kinds="failures"') == sum(
        each.get("steps_score") != 1 for each in chosen
    )
    head = html.partition("<body")[0]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', head)
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in unescape(policy)
    assert "default-src 'none'" in unescape(policy)
    assert not re.search(r"https?://(?!www\.w3\.org)", head)


COUNTS = {
    "gone": (0, 3),
    "bad": (90, 1),
    "poor": (40, 6),
    "fair": (20, 0),
    "rare": (2, 1),
    "good": (0, 0),
}
"""How many of the results of a question are wrong, and how many are errors; the worst first."""

WORST = [*COUNTS][:-1]


def results() -> list[dict[str, Any]]:
    found = []
    for question, (wrong, errors) in COUNTS.items():
        found += [result(question, 0.0, failure="missed_retrieval")] * wrong
        found += [failed(question, "TimeoutError")] * errors
        found += [result(question)] * (100 - wrong - errors if question != "gone" else 0)
    Random(1).shuffle(found)
    return found


def order_in(text: str) -> list[str]:
    return [*dict.fromkeys(re.findall(rf"\b({'|'.join(COUNTS)})\b", text))]


def test_every_screen_names_the_same_worst_questions_in_the_same_order(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    lines, page, html = folder.lines(*results()), folder.file("page.md"), folder.file("page.html")
    assert run("aggregate", lines) == 0
    told = capfd.readouterr()
    assert "worst questions by steps_score: gone (3 of 3 errors), bad (0.09, 1 of 100" in told.out
    assert order_in((told.out + told.err).partition("worst questions by steps_score:")[2]) == WORST
    assert run("report", lines, "--markdown", page, "--github", "-o", html) == 0
    annotations = capfd.readouterr().out
    assert (
        order_in(Path(page).read_text().partition("### Worst questions")[2].partition("###")[0])
        == WORST
    )
    for kind, names in (("warning", WORST[:1]), ("notice", WORST[1:])):
        shown = "\n".join(
            line for line in annotations.splitlines() if line.startswith(f"::{kind} title=")
        )
        assert order_in(shown) == names
    text = Path(html).read_text()
    worst = text.partition('id="worst"')[2].partition("</section>")[0]
    assert order_in(worst) == WORST
    listed = text.partition('id="questions-table"')[2].partition("</table>")[0]
    assert set(order_in(listed)) == {*COUNTS}


OUTCOMES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0.0, 0.5, 1.0])), max_size=30
)


@given(OUTCOMES, st.integers(0, 30))
def test_errors_count_as_zero_however_results_are_split(
    outcomes: list[tuple[str, float | None]], cut: int
) -> None:
    made = [failed(name) if score is None else result(name, score) for name, score in outcomes]
    parts = []
    for some in (made[:cut], made[cut:]):
        part = RunningAggregates()
        for each in some:
            part.add(each)
        parts.append(RunningAggregates.from_bytes(part.to_bytes()))
    aggregates = parts[0].merge(parts[1])
    means = {
        name: fmean(score or 0.0 for other, score in outcomes if other == name)
        for name, _ in outcomes
    }
    has_scores = any(score is not None for _, score in outcomes)
    expected = {(mean, name) for name, mean in means.items() if mean < 1 and has_scores}
    found = worst_questions(aggregates)
    assert {(each.mean, each.question) for each in found} == expected
    assert found == sorted(found, key=lambda each: each.rank)
    assert asyncio.run(questions_in_slices(aggregates)) == found
