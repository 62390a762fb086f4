"""Results, aggregates and comparisons as rows, in notebooks and in pandas."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from graphrag_eval_async import (
    Last,
    RunningAggregates,
    UsageError,
    compare,
    evaluate_stream,
    results_to_rows,
)
from tests.support.data import answer, templates
from tests.support.journals import CONFIG, Judge

HOSTILE = "<script>alert('x')</script>&"


def result(template: str = "sums", question: str = "q0", score: float = 0.5, **more: Any) -> dict[str, Any]:
    required = {"template_id": template, "question_id": question, "sample": 1, "status": "success"}
    return {**required, "steps_score": score, **more}


def aggregates(*results: dict[str, Any], **options: Any) -> RunningAggregates:
    running = RunningAggregates(**options)
    for each in results:
        running.add(each)
    return running


def test_the_rows_are_the_numbers_of_the_snapshot() -> None:
    running = aggregates(result(), result("other", "q1", 1.0), result("micro", "q2", 0.0, failure="none"))
    rows = running.to_rows()
    assert all(list(row) == ["scope", "template", "metric", "statistic", "value"] for row in rows)
    found = {(r["scope"], r["template"], r["metric"], r["statistic"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert found["template", "micro", "steps_score", "mean"] == 0.0
    assert found["micro", None, "steps_score", "mean"] == found["macro", None, "steps_score", "mean"] == 0.5
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
    assert frame[(frame.metric == "steps_score") & (frame.statistic == "mean")].value.tolist() == [0.5] * 3
    assert list(RunningAggregates().to_pandas().columns) == list(frame.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        RunningAggregates().to_pandas()
    steps = [{"name": "calculator", "output": "42"}]
    whole = result(actual_steps=steps, error=None, metadata={"a": True}, good=True)
    texts = {"actual_steps": '[{"name":"calculator","output":"42"}]', "metadata": '{"a":true}'}
    assert results_to_rows([whole, result(pending=["answer_f1"])]) == [whole | texts]
    assert whole["actual_steps"] is steps


def test_aggregates_in_a_notebook() -> None:
    running = aggregates(result(HOSTILE, score=0.25), result("b", status="error"))
    before = running.to_bytes()
    assert repr(running) == "<RunningAggregates: 2 results, 1 of them errors>"
    shown = running._repr_html_()
    name = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;"
    assert f"<td>{name}</td><td>1</td><td>0</td><td>0.25</td>" in shown
    assert "<script" not in shown
    assert "<th>steps_score</th>" in shown
    assert running.to_bytes() == before
    lately = aggregates(*[result()] * 5, window=Last(3))
    assert repr(lately) == "<RunningAggregates: 3 results in the window, 0 of them errors>"


def test_a_comparison() -> None:
    after = [result(HOSTILE, f"q{i}", 0.9, judge={"model": HOSTILE}) for i in range(20)]
    before = [result(HOSTILE, f"q{i}", 0.1, judge={"model": "other"}) for i in range(20)]
    compared = compare(before, after[:19])
    text = (
        "19 questions on both sides, 1 missing from the candidate: error_rate undecided, steps_score better"
    )
    assert repr(compared) == f"<Comparison: {text}>"
    shown = compared._repr_html_()
    assert "<td>steps_score</td><td>19</td><td>0.1</td><td>0.9</td>" in shown
    assert "judged by different models" in shown
    assert "<script" not in shown


async def test_a_stream() -> None:
    stream = evaluate_stream(templates(3), [answer(0), answer(1, error="boom"), {"question_id": HOSTILE}])
    rest = "0 rejects, 0 in flight, 3 of 3 questions without a response"
    assert repr(stream) == f"<EvaluationStream: not started, 0 results, 0 of them errors, {rest}>"
    async with stream:
        assert [result async for result in stream]
    rest = "1 rejects, 0 in flight, 1 of 3 questions without a response"
    assert repr(stream) == f"<EvaluationStream: ended, 2 results, 1 of them errors, {rest}>"
    shown = stream._repr_html_()
    assert "<td>sums</td><td>2</td><td>1</td><td>1</td>" in shown
    assert "<script" not in shown
    async with evaluate_stream(templates(1), [answer(0)], config=CONFIG, judge=Judge()) as stream:
        assert [result async for result in stream]
    assert stream.usage is not None
    assert repr(stream.usage).startswith("<JudgeUsage: ")
    for shown in (stream._repr_html_(), stream.usage._repr_html_()):
        assert "<td>attempts</td><td>0</td>" in shown
