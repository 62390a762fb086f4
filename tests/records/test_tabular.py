"""Results, aggregates and comparisons as rows, in notebooks and in pandas."""

from __future__ import annotations

import re
import sys
from html import escape
from typing import Any
from xml.etree import ElementTree

import pytest

from graphrag_eval_async import (
    RESULT_COLUMNS,
    RunningAggregates,
    UsageError,
    compare,
    evaluate_stream,
    results_to_rows,
)
from tests.support.data import answer, templates
from tests.support.journals import CONFIG, Judge

HOSTILE = "<script>alert('x')</script>&"


def result(
    template: str = "sums", question: str = "q0", score: float = 0.5, **more: Any
) -> dict[str, Any]:
    required = {"template_id": template, "question_id": question, "sample": 1, "status": "success"}
    return {**required, "steps_score": score, **more}


def aggregates(*results: dict[str, Any], **options: Any) -> RunningAggregates:
    running = RunningAggregates(**options)
    for each in results:
        running.add(each)
    return running


def test_the_rows_are_the_numbers_of_the_snapshot() -> None:
    running = aggregates(
        result(), result("other", "q1", 1.0), result("micro", "q2", 0.0, failure="none")
    )
    rows = running.to_rows()
    assert all(list(row) == ["scope", "template", "metric", "statistic", "value"] for row in rows)
    found = {(r["scope"], r["template"], r["metric"], r["statistic"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert found["template", "micro", "steps_score", "mean"] == 0.0
    assert (
        found["micro", None, "steps_score", "mean"]
        == found["macro", None, "steps_score", "mean"]
        == 0.5
    )
    assert found["micro", None, "number_of_success_samples", "count"] == 3
    rows = running.to_rows(detail=True, level=0.9)
    detail = {(r["scope"], r["metric"], r["statistic"]): r["value"] for r in rows}
    assert detail["micro", "steps_score", "confidence.level"] == 0.9
    assert detail["micro", "steps_score", "coverage.values"] == 3
    assert detail["micro", "failure", "none"] == 1
    with pytest.raises(UsageError, match="level"):
        running.to_rows(level=2)


def test_pandas_and_results_as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = aggregates(result()).to_pandas()
    assert list(frame.columns) == ["scope", "template", "metric", "statistic", "value"]
    assert (
        frame[(frame.metric == "steps_score") & (frame.statistic == "mean")].value.tolist()
        == [0.5] * 3
    )
    assert list(RunningAggregates().to_pandas().columns) == list(frame.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        RunningAggregates().to_pandas()
    steps = [{"name": "calculator", "output": "42"}]
    whole = result(actual_steps=steps, error=None, metadata={"a": True}, good=True)
    texts = {"actual_steps": '[{"name":"calculator","output":"42"}]', "metadata": '{"a":true}'}
    columns = dict.fromkeys(RESULT_COLUMNS)
    assert results_to_rows([whole, result(pending=["answer_f1"])]) == [columns | whole | texts]
    # Each row has the other keys of all results, in the same order.
    rows = results_to_rows([result(brevity=1.0), result(cost=0.5)])
    assert [list(row) for row in rows] == [[*RESULT_COLUMNS, "brevity", "cost"]] * 2
    assert results_to_rows([]) == []
    assert whole["actual_steps"] is steps


async def test_what_a_notebook_shows() -> None:
    async with evaluate_stream(templates(3), [answer(0), answer(1, error="boom"), b"{"]) as stream:
        results = [result async for result in stream]
    whole = (
        "2 results, 1 of them errors, 1 rejects, 0 in flight, 1 of 3 questions without a response"
    )
    assert repr(stream) == f"<EvaluationStream: ended, {whole}>"
    running = aggregates(*results, result(HOSTILE, score=0.25))
    assert "<td>all results</td><td>3</td><td>1</td>" in running._repr_html_()
    before = running.to_bytes()
    assert repr(running) == "<RunningAggregates: 3 results, 1 of them errors>"
    after = [result(HOSTILE, f"q{i}", 0.9, judge={"model": HOSTILE}) for i in range(20)]
    compared = compare(
        [result(HOSTILE, f"q{i}", 0.1, judge={"model": "x"}) for i in range(20)], after
    )
    assert repr(compared).startswith(
        "<Comparison: 20 questions on both sides: error_rate no_change, "
    )
    for shown, cells in [
        (running._repr_html_(), f"<td>{escape(HOSTILE)}</td><td>1</td><td>0</td><td>0.25</td>"),
        (compared._repr_html_(), "<td>steps_score</td><td>20</td><td>0.1</td><td>0.9</td>"),
        (stream._repr_html_(), "<td>sums</td><td>2</td><td>1</td><td>1</td>"),
    ]:
        assert cells in shown
        assert "<script" not in shown
    assert running.to_bytes() == before
    async with evaluate_stream(templates(1), [answer(0)], config=CONFIG, judge=Judge()) as stream:
        assert [result async for result in stream]
    assert "<td>attempts</td><td>0</td>" in stream._repr_html_()


def shown_in_notebook(*results: dict[str, Any], finished: bool = True) -> str:
    """What a notebook shows of the aggregates of results."""
    running = aggregates(*results)
    if finished:
        running.finish()
    return running._repr_html_()


HALF_RIGHT = [result(question=f"q{i}", score=i % 2) for i in range(20)]
REPEATED = [result(question="q0"), result(question="q1"), result(question="q1", sample=2, score=1)]


@pytest.mark.parametrize(
    ("results", "finished", "expected"),
    [
        pytest.param(
            HALF_RIGHT, True, "<td>all results</td><td>20</td><td>0</td><td>0.500 [", id="mean"
        ),
        pytest.param(
            HALF_RIGHT,
            True,
            "<li>[low, high]: 95% interval, for one look at a finished run</li>",
            id="finished run",
        ),
        pytest.param(
            HALF_RIGHT,
            False,
            "<li>[low, high]: 95% interval, valid however often you look</li>",
            id="run in progress",
        ),
        pytest.param(
            REPEATED, False, "<li>first samples: steps_score 0.500 [", id="repeated questions"
        ),
        pytest.param(
            [*[result(failure="missing_rows")] * 2, result(failure="none")],
            True,
            "<tr><th>failure</th><th>results</th></tr></thead>"
            "<tbody><tr><td>missing_rows</td><td>2</td></tr></tbody>",
            id="failures",
        ),
        pytest.param(
            [
                result(answer_relevance=1.0),
                result(answer_relevance_error="timeout: no reply"),
            ],
            True,
            "<li>answer_relevance: only 1 of 2 values; missing: 1 timeout</li>",
            id="judge that failed",
        ),
        pytest.param(
            [result("a\u202eb\x1b[2J")], True, "<td>a\\u202eb\\x1b[2J</td>", id="invisible text"
        ),
        pytest.param([], True, "<td>all results</td><td>0</td><td>0</td>", id="no results"),
    ],
)
def test_a_notebook_shows_aggregates(
    results: list[dict[str, Any]], finished: bool, expected: str
) -> None:
    assert expected in shown_in_notebook(*results, finished=finished)


def test_a_notebook_shows_the_interval_of_a_change() -> None:
    """It excludes 0 if the change is decided; equal runs have no change."""
    before = [result(question=f"q{i}", score=i % 2 / 10) for i in range(20)]
    after = [result(question=f"q{i}", score=0.9) for i in range(20)]
    html = compare(before, after)._repr_html_()
    assert "<th>difference</th><th>interval</th>" in html
    # The p-value is the one by which the verdict beside it is decided.
    assert "<th>p_adjusted</th><th>verdict</th>" in html
    row = html[html.index("<td>steps_score</td>") :]
    low, high = re.findall(r"<td>([+-][\d.]+) to ([+-][\d.]+)</td>", row)[0]
    assert 0.5 < float(low) < 0.85 < float(high) < 0.95


def test_a_notebook_shows_no_empty_tables_and_lists() -> None:
    html = shown_in_notebook(result(failure="none"))
    assert html.count("<table>") == 1
    assert "<ul>" not in html


def test_a_notebook_shows_tables_that_are_well_formed() -> None:
    """Every row has as many cells as the heading, whatever the names are."""
    html = shown_in_notebook(
        result(HOSTILE, failure=HOSTILE), result("b", "q1", answer_f1=0.5), *HALF_RIGHT
    )
    root = ElementTree.fromstring(f"<div>{html}</div>")  # noqa: S314
    assert {element.tag for element in root.iter()} <= {
        *("div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li")
    }
    for table in root.iter("table"):
        widths = {len(row) for row in table.iter("tr")}
        assert len(widths) == 1
    assert [cell.text for cell in root.iter("td")].count(HOSTILE) == 2
