from __future__ import annotations

import io
from typing import Any

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.catalogue.metrics import RESULT_KEYS, RESULT_METRICS, RETRIEVAL_METRICS
from graphrag_eval_async.cli.table import failure_reasons, render_detail, render_means
from tests.support.cases import each


def stream(encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def result(template: str, question: str = "q", **more: Any) -> dict[str, Any]:
    common = {
        "template_id": template,
        "question_id": question,
        "status": "success",
        "actual_answer": "so",
    }
    return common | more


def means(*results: dict[str, Any], encoding: str = "utf-8") -> str:
    return render_means(compute_aggregates([*results], detail=True), stream(encoding))


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
    text = means(
        result("one", "a", steps_score=0.5, total_tokens=123456, input_tokens=7),
        result("one", "b", steps_score=1.0, total_tokens=123456, elapsed_sec=1.25),
        result("one", "b", sample=2, steps_score=0.75, total_tokens=123456),
        result("[red]two[/red]", "c", steps_score=0.0),
        result("three", "d", status="error"),
    )
    assert text.splitlines() == [
        "                                              steps",
        "template        samples  errors               score  tokens  seconds",
        "─" * 69,
        "[red]two[/red]        1       0                   0",
        "one                   3       0  0.688 [0.02, 1.00]  123456     1.25",
        "three                 1       1",
        "",
        "all results           5       1  0.458 [0.04, 0.95]  123456     1.25",
        "[low, high]: 95% interval, for one look at a finished run (3 questions).",
        "Means are over questions, each the mean of its samples.",
        "",
        "samples  pass@k  pass^k  questions",
        "───────────────────────────────────",
        "1         0.125   0.125          4",
        "2         1.000   0.000          1",
        "steps_score: variance 0.181 between questions, 0.0312 between samples of a",
        "  question.",
    ]


def test_details() -> None:
    snapshot = compute_aggregates(SOME, detail=True, level=0.9)
    low, high = (
        f"{snapshot['micro']['steps_score']['interval'][end]:.3f}" for end in ("low", "high")
    )
    lines = render_detail(snapshot, stream()).splitlines()
    assert lines[2] == "steps_score                0.5             0.5           0.5"
    trust = lines.index("of all results    values        interval     were 0 or 1  missing")
    assert lines[trust - 1] == "                                     90%       if errors"
    assert lines[trust + 2 : trust + 8] == [
        f"steps_score            2  {low} to {high}  0.250 to 0.750  1 no_steps",
        "                                                          1 response_error",
        "answer_relevance       1                                  1 budget",
        "                                                          1 response_error",
        "                                                          1 timeout",
        "                                                          1 pending",
    ]
    assert "90% interval           score" in lines
    assert f"t             {low} to {high}" in lines
    assert "steps_score         0.5    0.9   0.95   0.99" in lines
    lacking = "only 1 of 5 values of answer_relevance: 1 budget, 1 response_error, 1 timeout"
    assert failure_reasons(snapshot) == ["failure: 2 no_steps, 1 empty_result", lacking]


@each("encoding", ["utf-8", "ascii"])
def test_everything_that_is_judged_fits_into_80_columns(encoding: str) -> None:
    outputs = ["sparql_recall", "a-custom-output-of-many-words", "x" * 64, "__", "n_" + "y" * 30]
    scores: dict[str, Any] = dict.fromkeys((*RESULT_METRICS, *outputs), -1.23456e-5)
    scores |= {key: 1.23456e-5 for key in RESULT_KEYS if key.endswith("_cost")} | {
        "own_cost": 123456.789
    }
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
    text = means(*every, encoding=encoding)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("samples") == 1
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.isascii() == (encoding == "ascii")
    text = render_detail(compute_aggregates(every, detail=True), stream(encoding))
    assert max(map(len, text.splitlines())) <= 80
