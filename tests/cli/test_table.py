from __future__ import annotations

import io
from typing import Any

import pytest

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.cli.table import render_means, wrap_name
from graphrag_eval_async.records.metrics import RESULT_KEYS, RESULT_METRICS, RETRIEVAL_METRICS


def render(snapshot: dict[str, Any], encoding: str = "utf-8") -> str:
    return render_means(snapshot, io.TextIOWrapper(io.BytesIO(), encoding=encoding))


def page(results: list[dict[str, Any]]) -> str:
    return render(compute_aggregates(results, detail=True))


def result(template: str, question: str = "q", **more: Any) -> dict[str, Any]:
    return {"template_id": template, "question_id": question, "status": "success", **more}


def test_rows_and_columns() -> None:
    text = page(
        [
            result("one", "a", steps_score=0.5, total_tokens=123456, input_tokens=7),
            result("one", "b", steps_score=1.0, total_tokens=123456, elapsed_sec=1.25),
            result("one", "b", sample=2, steps_score=0.75, total_tokens=123456),
            result("[red]two[/red]", "c", steps_score=0.0),
            {"template_id": "three", "status": "error", "question_id": "d"},
        ]
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
        "[low, high]: 95 % interval, for one look at a finished run (3 questions).",
        "Means are over questions, each the mean of its samples.",
    ]


def test_intervals_that_are_valid_at_any_time_are_said_so() -> None:
    snapshot = compute_aggregates(
        [result("t", f"q{i}", steps_score=1.0) for i in range(9)], detail=True, interval="anytime", level=0.8
    )
    assert "[low, high]: 80 % interval, valid however often you look (9 questions)." in render(snapshot)


def test_everything_that_is_judged_fits_into_80_columns() -> None:
    outputs = ["sparql_recall", "a-custom-output-of-many-words", "x" * 64, "__", "n_" + "y" * 30]
    scores: dict[str, Any] = dict.fromkeys((*RESULT_METRICS, *outputs), -1.23456e-5)
    scores |= {key: 1.23456e-5 for key in RESULT_KEYS if key.endswith("_cost")} | {"own_cost": 123456.789}
    step = {"name": "retrieval", **dict.fromkeys(RETRIEVAL_METRICS, 0.123456)}
    names = ["list_all_transformers_within_Substation_SUBSTATION", "lines", "n" * 999]
    text = page(
        [result(name, judge={"outputs": outputs}, actual_steps=[step], **scores) for name in names]
    )  # fmt: skip
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert text.count("template") > 1
    assert text.count("samples") == 1
    words = set(text.split())
    assert {"relevance", "recall", "precision", "context", "tokens", "seconds"} <= words
    assert not {"input", "cost", "micro", "macro"} & words
    assert "transformers_" in text or "transformers_within_" in text


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("list_all_transformers_within", 16, ["list_all_", "transformers_", "within"]),
        ("a b c", 3, ["a b", "c"]),
        ("very long names of templates-0", 12, ["very long", "names of", "templates-0"]),
        ("n" * 30, 10, ["n" * 7 + "..."]),
        ("", 10, [""]),
        ("__", 2, ["__"]),
    ],
)
def test_names_are_broken_between_words(name: str, width: int, lines: list[str]) -> None:
    assert wrap_name(name, width).split("\n") == lines


def test_a_narrow_terminal_keeps_names_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_eval_async.cli.table._width", lambda _stream: 30)
    scores: dict[str, Any] = {"steps_score": 0.5, "total_tokens": 123456, "elapsed_sec": 1.5}
    lines = page([result(name, **scores) for name in ("substations_" * 3, "lines")]).splitlines()
    assert any(line.split() == ["lines", "1", "0", "0.5", "123456", "1.5"] for line in lines)
    assert sum(line.startswith("substations_") for line in lines) == 3


def test_control_characters_in_a_template_do_not_reach_the_terminal() -> None:
    text = page([result("\x1b[31m\nred\x07\x9b")])
    assert all(c.isprintable() or c == "\n" for c in text)


def test_no_results() -> None:
    assert page([]).splitlines()[-1].split() == ["all", "results", "0", "0"]


def test_a_stream_that_cannot_take_lines_of_boxes() -> None:
    snapshot = compute_aggregates([result("t", f"q{i}", steps_score=1) for i in range(3)], detail=True)
    text = render(snapshot, "ascii")
    assert text.isascii()
    assert "1.000 [0." in text
