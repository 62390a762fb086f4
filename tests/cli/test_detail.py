"""What the tables say beside the means."""

from __future__ import annotations

import io
from typing import Any

import pytest

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.cli.table import failure_reasons, render_detail, render_means
from graphrag_eval_async.records.metrics import RESULT_METRICS, RETRIEVAL_METRICS
from graphrag_eval_async.text import percent


def detail(results: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    common = {"template_id": "t", "status": "success", "actual_answer": "so"}
    some = [{"question_id": f"q{i}", **common, **result} for i, result in enumerate(results)]
    return compute_aggregates(some, detail=True, **options)


def render(snapshot: dict[str, Any], encoding: str = "utf-8") -> str:
    return render_detail(snapshot, io.TextIOWrapper(io.BytesIO(), encoding=encoding))


def test_tables() -> None:
    snapshot = detail(
        [
            {"steps_score": 1.0, "answer_relevance": 0.25, "failure": "none"},
            {"steps_score": 0.0, "answer_relevance_error": "timeout: 9 s", "failure": "empty_result"},
            {"reference_steps": [[]], "answer_relevance_error": "budget: spent", "failure": "no_steps"},
            {"reference_steps": [[]], "status": "error", "failure": "no_steps"},
            {"elapsed_sec": 12345.6},
        ],
        level=0.9,
    )
    low, high = (f"{snapshot['micro']['steps_score']['interval'][end]:.3f}" for end in ("low", "high"))
    assert render(snapshot).splitlines() == [
        "mean              of questions  of all results  of templates",
        "─" * 61,
        "steps_score                0.5             0.5           0.5",
        "elapsed_sec              12346           12346         12346",
        "answer_relevance          0.25            0.25          0.25",
        "",
        "                                    90 %       if failed",
        "of all results    values        interval     were 0 or 1  missing",
        "─" * 75,
        f"steps_score            2  {low} to {high}  0.250 to 0.750  1 no_steps",
        "                                                          1 response_error",
        "answer_relevance       1                                  1 budget",
        "                                                          1 response_error",
        "                                                          1 timeout",
        "",
        "                        steps",
        "90 % interval           score",
        "─" * 30,
        f"t              {low} to {high}",
        "",
        "of all results      p50    p90    p95    p99",
        "─" * 45,
        "steps_score         0.5    0.9   0.95   0.99",
        "elapsed_sec       12346  12346  12346  12346",
        "answer_relevance   0.25   0.25   0.25   0.25",
    ]
    assert failure_reasons(snapshot) == ["failure: 2 no_steps, 1 empty_result"]


def test_a_metric_that_always_failed_is_in_the_table_without_a_mean() -> None:
    snapshot = detail([{"answer_eval_error": "refused: no"}, {"steps_score": 1.0}])
    row = next(line for line in render(snapshot).splitlines() if line.startswith("answer_f1"))
    assert row.split() == ["answer_f1", "0", "0.000", "to", "1.000", "1", "refused"]
    means = render_means(snapshot, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert "score" in means
    assert "f1" not in means


@pytest.mark.parametrize(
    ("level", "shown"),
    [(0.99999, "99.999 %"), (1 - 2**-53, "99.99999999999999 %"), (0.07, "7 %"), (0.5, "50 %")],
)
def test_the_level_is_shown_as_it_is(level: float, shown: str) -> None:
    headings = render(detail([{"steps_score": 1.0}, {"steps_score": 0.5}], level=level)).split("─")
    assert any(heading.strip().endswith(f"{shown} interval           score") for heading in headings)
    assert percent(level) == shown


def test_pending_results() -> None:
    snapshot = detail([{"steps_score": 1.0}, {"question_id": "q", "pending": ["answer_relevance"]}])
    row = next(line for line in render(snapshot).splitlines() if line.startswith("answer_relevance"))
    assert row.split() == ["answer_relevance", "0", "1", "pending"]


def test_no_tables_without_results() -> None:
    assert render(detail([])) == ""
    assert failure_reasons(detail([])) == []
    assert render(detail([{"elapsed_sec": 1}])).splitlines()[-1].split() == ["elapsed_sec", *"1111"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_tables_fit_into_80_columns(encoding: str) -> None:
    kinds = [
        "timeout",
        "rate_limited",
        "refused",
        "invalid_request",
        "invalid_reply",
        "budget",
        "unavailable",
    ]
    step = {"name": "retrieval", **dict.fromkeys(RETRIEVAL_METRICS, 0.123456)}
    whole = {**dict.fromkeys(RESULT_METRICS, 0.123456), "actual_steps": [step], "x_cost": 1.2345e-5}
    failed = [{"answer_eval_error": f"{kind}: so it was"} for kind in kinds]
    text = render(detail([whole, *failed]), encoding)
    assert max(map(len, text.splitlines())) <= 80
    assert all(kind in text for kind in kinds)
    assert all(metric in text for metric in (*RESULT_METRICS, *RETRIEVAL_METRICS, "x_cost"))
    assert text.isascii() == (encoding == "ascii")


def test_an_interval_of_first_answers_has_a_row_of_its_own() -> None:
    repeated = [
        {"question_id": f"q{i % 3}", "steps_score": float(i < 4), "sample": 1 + i // 3} for i in range(9)
    ]
    lines = [line.split() for line in render(detail(repeated, interval="anytime")).splitlines()]
    assert ["steps_score", "9"] in lines
    [first] = [line for line in lines if line[:3] == ["first", "answers", "3"]]
    assert first[4] == "to"
    assert ["95", "%", "interval,", "first", "answers", "score"] in lines
