from __future__ import annotations

from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.monitor.counting import Latest, Worst, shorten
from graphrag_eval_async.records.results import observe

RESULT: dict[str, Any] = {
    "template_id": "t",
    "question_id": "q",
    "sample": 2,
    "status": "success",
    "steps_score": 0.5,
    "elapsed_sec": 3,
    "answer_f1": None,
    "answer_eval_error": "timeout: no reply",
    "answer_correctness_cost": 0.25,
    "score": 0.75,
    "judge": {"outputs": ["score", "why"]},
    "why": "since",
    "actual_steps": [
        {
            "name": "retrieval",
            "retrieval_answer_recall": 1.0,
            "retrieval_answer_recall_cost": 0.5,
            "retrieval_answer_precision_cost": 1.0,
            "retrieval_answer_f1_cost": 1.5,
        }
    ],
}


def short(result: dict[str, Any], *, include_errors: bool = False) -> dict[str, Any]:
    return shorten(result, observe(result, include_errors=include_errors).values)


def test_a_result_in_short() -> None:
    assert short(RESULT) == {
        "question_id": "q",
        "template_id": "t",
        "sample": 2,
        "status": "success",
        "error": "timeout: no reply",
        "metrics": {"steps_score": 0.5, "elapsed_sec": 3, "score": 0.75},
        "cost": 1.75,
    }


def test_the_reason_of_a_failure_in_short() -> None:
    assert short(RESULT | {"failure": "wrong_order"})["failure"] == "wrong_order"
    assert "failure" not in short(RESULT | {"failure": None})


def test_an_error_in_short() -> None:
    result = {"template_id": "t", "question_id": "q", "sample": 1, "status": "error", "elapsed_sec": 3}
    assert short(result) == {key: result[key] for key in result if key != "elapsed_sec"} | {"metrics": {}}
    assert short(result | {"error": {"x": "y" * 10_000}})["error"].startswith("{'x': 'yyy")
    assert len(short(result | {"error": "y" * 10_000})["error"]) == 500
    assert short(result, include_errors=True)["metrics"] == {"elapsed_sec": 3}


def of(number: int, status: str = "success", **metrics: float) -> dict[str, Any]:
    return {"question_id": str(number), "status": status, "metrics": metrics}


def test_the_last() -> None:
    last = Latest(3)
    for i in range(5):
        last.add(of(i))
    assert [result["question_id"] for result in last.facts()] == ["4", "3", "2"]


SCORES = st.dictionaries(
    st.sampled_from(
        ["steps_score", "answer_f1", "answer_relevance", "ragas_answer_correctness", "elapsed_sec"]
    ),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)


@given(st.lists(st.tuples(st.sampled_from(["error", "success"]), SCORES), max_size=30), st.integers(1, 8))
def test_the_worst_against_sorting_all(results: list[tuple[str, dict[str, float]]], kept: int) -> None:
    worst = Worst(kept)
    rated = []
    for i, (status, metrics) in enumerate(results):
        worst.add(of(i, status, **metrics))
        scores = [value for name, value in metrics.items() if name != "elapsed_sec"]
        if status == "error" or scores:
            rated.append((-inf if status == "error" else sum(scores) / len(scores), -i))
    assert [result["question_id"] for result in worst.facts()] == [str(-i) for _, i in sorted(rated)[:kept]]
