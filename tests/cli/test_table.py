from __future__ import annotations

import io
from typing import Any

import pytest

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.cli.table import render_table
from graphrag_eval_async.records.metrics import RESULT_KEYS, RESULT_METRICS, RETRIEVAL_METRICS


def render(snapshot: dict[str, Any], encoding: str = "utf-8") -> str:
    return render_table(snapshot, io.TextIOWrapper(io.BytesIO(), encoding=encoding))


def result(template: str, **more: Any) -> dict[str, Any]:
    return {"template_id": template, "status": "success", **more}


def test_rows_and_columns() -> None:
    snapshot = compute_aggregates(
        [
            result("one", steps_score=0.5, input_tokens=123456),
            result("one", steps_score=1.0, input_tokens=123456),
            result("[red]two[/red]", steps_score=0.0),
            {"template_id": "three", "status": "error"},
        ]
    )
    assert render(snapshot).splitlines() == [
        "                                 steps   input",
        "template        samples  errors  score  tokens",
        "─" * 47,
        "[red]two[/red]        1       0      0",
        "one                   2       0   0.75  123456",
        "three                 1       1",
        "",
        "micro                 4       1    0.5  123456",
        "macro                            0.375  123456",
    ]


def test_a_wide_table_fits_into_80_columns() -> None:
    names = ["list_all_substations_that_are_connected_via_an_ac_line_or_a_dc_line_to_SUBSTATION", "n" * 999]
    scores = dict.fromkeys((*RESULT_METRICS, "answer_relevance_cost"), 123456.789)
    step = {"name": "retrieval", **dict.fromkeys(RETRIEVAL_METRICS, 2.0**63)}
    text = render(compute_aggregates([result(name, **scores, actual_steps=[step]) for name in names]))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert sum(line.startswith("micro") for line in lines) == 4
    assert text.count("samples") == 1
    for metric in (*scores, *RETRIEVAL_METRICS):
        assert set(metric.split("_")) <= set(text.split())


def test_everything_that_is_judged_fits_into_80_columns() -> None:
    outputs = ["sparql_recall", "a-custom-output-of-many-words", "x" * 64, "__", "n_" + "y" * 30]
    scores: dict[str, Any] = dict.fromkeys((*RESULT_METRICS, *outputs), -1.23456e-5)
    scores |= {key: 1.23456e-5 for key in RESULT_KEYS if key.endswith("_cost")} | {"own_cost": 123456.789}
    step = {"name": "retrieval", **dict.fromkeys(RETRIEVAL_METRICS, 0.123456)}
    names = ["list_all_transformers_within_Substation_SUBSTATION", "lines"]
    text = render(
        compute_aggregates(
            [result(name, judge={"outputs": outputs}, actual_steps=[step], **scores) for name in names]
        )
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\u2026" not in text
    assert text.count("-1.235e-05") == 4 * (len(RESULT_METRICS) + len(outputs))
    assert text.count(" 1.235e-05") == 4 * sum(key.endswith("_cost") for key in RESULT_KEYS)
    for name in names:
        assert sum(line.startswith(name[:16]) for line in lines) == text.count("template")
    assert "x" * 12 in text
    assert "x" * 13 not in text


@pytest.mark.parametrize("width", [1, 30, 40])
def test_names_of_templates_stay_readable(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("graphrag_eval_async.cli.table._width", lambda _stream: width)
    scores = {"steps_score": 0.5, "input_tokens": 123456, "elapsed_sec": 1.5}
    names = ["substations_" * 3, "lines", "\u53d8" * 20]
    lines = render(compute_aggregates([result(name, **scores) for name in names])).splitlines()
    assert any(line.split() == ["lines", "1", "0", "0.5", "123456", "1.5"] for line in lines)
    assert any(line.startswith("substations_subs ") for line in lines)
    assert any(line.startswith("\u53d8" * 8 + " ") for line in lines)


def test_a_short_name_makes_no_room() -> None:
    table = render(compute_aggregates([result("t", steps_score=1)]))
    assert table.splitlines()[1].startswith("template  samples")


def test_control_characters_in_a_template_do_not_reach_the_terminal() -> None:
    text = render(compute_aggregates([result("\x1b[31m\nred\x07\x9b")]))
    assert all(c.isprintable() or c == "\n" for c in text)


def test_no_results() -> None:
    assert render(compute_aggregates([])).splitlines()[-1] == "macro"


def test_a_stream_that_cannot_take_lines_of_boxes() -> None:
    assert render(compute_aggregates([result("t", steps_score=1)]), "ascii").isascii()
