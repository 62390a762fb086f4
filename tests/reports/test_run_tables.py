"""The tables of a run, as a terminal shows them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.catalogue.metrics import RESULT_KEYS, RESULT_METRICS, RETRIEVAL_METRICS
from graphrag_eval_async.reports.run_tables import (
    failures_table,
    means_by_template,
    missing_values_table,
    run_tables,
)
from graphrag_eval_async.reports.tables import Table, render_terminal


def result(template: str, question: str = "q", **more: Any) -> dict[str, Any]:
    common = {
        "template_id": template,
        "question_id": question,
        "status": "success",
        "actual_answer": "so",
    }
    return common | more


def tables_of(*results: dict[str, Any], **options: Any) -> list[Table]:
    return run_tables(compute_aggregates([*results], detail=True, level=0.9), **options)


def table_of(key: str, *results: dict[str, Any], **options: Any) -> Table:
    [table] = [each for each in tables_of(*results, **options) if each.key == key]
    return table


SOME = [
    result("t", "q0", steps_score=1.0, answer_relevance=0.25, failure="none"),
    result(
        "t", "q1", steps_score=0.0, answer_relevance_error="timeout: 9 s", failure="empty_result"
    ),
    result(
        "t", "q2", reference_steps=[[]], answer_relevance_error="budget: spent", failure="no_steps"
    ),
    result("t", "q3", reference_steps=[[]], status="error", failure="no_steps"),
    result("t", "q4", elapsed_sec=12345.6),
    result("t", "q5", pending=["answer_relevance"]),
]


def test_rows_and_columns() -> None:
    tables = tables_of(
        result("one", "a", steps_score=0.5, total_tokens=123456, input_tokens=7),
        result("one", "b", steps_score=1.0, total_tokens=123456, elapsed_sec=1.25),
        result("one", "b", sample=2, steps_score=0.75, total_tokens=123456),
        result("[red]two[/red]", "c", steps_score=0.0),
        result("three", "d", status="error"),
    )
    assert render_terminal(tables).splitlines() == [
        "Means by template",
        "template        results  errors         steps_score  tokens  seconds",
        "────────────────────────────────────────────────────────────────────",
        "[red]two[/red]        1       0                   0",
        "one                   3       0  0.688 [0.06, 0.99]  123456     1.25",
        "three                 1       1",
        "",
        "all results           5       1  0.458 [0.07, 0.90]  123456     1.25",
        "[low, high]: 90% interval, for one look at a finished run (3 questions).",
        "Means are over questions, each the mean of its samples.",
        "steps_score: over 3 of 4 questions.",
        "",
        "Repeats: pass@k if any, pass^k if all of k samples of a question are right",
        "samples  pass@k  pass^k  questions",
        "──────────────────────────────────",
        "      1   0.125   0.125          4",
        "      2   1.000   0.000          1",
        "A sample is right if it has no error, steps_score >= 1, answer_match >= 0.5,",
        "  answer_f1 >= 0.5, ragas_answer_correctness >= 0.5, as far as the run has them.",
        "steps_score: variance 0.181 between questions, 0.0312 between samples of a",
        "  question.",
    ]


def test_only_one_template_has_no_row_for_all_results() -> None:
    table = table_of("templates", result("t", "a", steps_score=1), result("t", "b", steps_score=1))
    assert [row[0] for row in table.rows] == ["t"]
    assert table.totals == 0


def test_a_column_that_repeats_another_is_a_note() -> None:
    same = [result(name, steps_score=1, answer_match=1, answer_f1=0.5) for name in ("a", "b")]
    table = table_of("templates", *same)
    assert table.headings == ["template", "results", "steps_score", "answer_f1"]
    assert "answer_match has the values of steps_score in each row." in table.notes


def test_failures_and_missing_values_are_counted_once() -> None:
    snapshot = compute_aggregates(SOME, detail=True)
    assert [row[-1] for row in failures_table(snapshot).rows] == ["2", "1"]
    assert missing_values_table(snapshot).rows == [
        ["answer_relevance", "1 budget, 1 pending, 1 response_error, 1 timeout", "1 of 5"]
    ]


def test_details() -> None:
    snapshot = compute_aggregates(SOME, detail=True, level=0.9)
    interval = snapshot["micro"]["steps_score"]["interval"]
    ends = f"{interval['low']:.3f} to {interval['high']:.3f}"
    bounds = table_of("bounds", *SOME, detail=True)
    assert bounds.headings == [
        "metric",
        "values",
        "mean of questions",
        "90% interval",
        "bounds",
    ]
    assert bounds.rows[0] == ["steps_score", "2", "0.5", ends, "0.250 to 0.750"]
    quantiles = table_of("quantiles", *SOME, detail=True)
    assert quantiles.headings == ["metric", "p50", "p90", "p95", "p99"]
    assert quantiles.rows[0] == ["steps_score", "0.5", "0.9", "0.95", "0.99"]
    assert not {"bounds", "quantiles"} & {table.key for table in tables_of(*SOME)}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_everything_that_is_judged_fits_into_80_columns(encoding: str) -> None:
    outputs = ["sparql_recall", "a-custom-output-of-many-words", "x" * 64, "__", "n_" + "y" * 30]
    scores: dict[str, Any] = dict.fromkeys((*RESULT_METRICS, *outputs), -1.23456e-5)
    scores |= {key: 1.23456e-5 for key in RESULT_KEYS if key.endswith("_cost")}
    scores |= {"own_cost": 123456.789}
    scores |= {name: place / 1000 for place, name in enumerate(RESULT_METRICS)}
    step = {"name": "retrieval", **dict.fromkeys(RETRIEVAL_METRICS, 0.123456)}
    names = [
        "list_all_transformers_within_Substation_SUBSTATION",
        "lines",
        "\x1b[31m\nred\x9b",
        "n" * 999,
    ]
    every = [
        result(name, judge={"outputs": outputs}, actual_steps=[step], **scores) for name in names
    ]
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    text = render_terminal(tables_of(*every, detail=True), stream)
    assert max(map(len, text.splitlines())) <= 80
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.isascii() == (encoding == "ascii")


def test_the_means_of_a_template_follow_the_order_of_the_snapshot() -> None:
    snapshot = compute_aggregates([result("b"), result("a")], detail=True)
    assert [row[0] for row in means_by_template(snapshot).rows][:2] == [*snapshot["per_template"]]
