"""Means as QALD and TEXT2SPARQL publish them, on small sets that were computed by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import RunningAggregates, run_evaluation_sync

TRUE, FALSE = '{"head": {}, "boolean": true}', '{"head": {}, "boolean": false}'


def table(*values: str) -> str:
    """Return SPARQL results with one variable."""
    bindings = [{"x": {"type": "literal", "value": value}} for value in values]
    return json.dumps({"head": {"vars": ["x"]}, "results": {"bindings": bindings}})


def results_of(*pairs: tuple[str, str | None]) -> list[dict[str, Any]]:
    """Evaluate a question for each pair of an expected and an actual output, None for an error."""
    questions = []
    responses = []
    for number, (expected, actual) in enumerate(pairs):
        step = {"name": "sparql", "output": expected, "score": "values_f1"}
        step["output_media_type"] = "application/sparql-results+json"
        question_id = str(number)
        questions.append({"id": question_id, "question_text": "?", "reference_steps": [[step]]})
        response: dict[str, Any] = {"question_id": question_id}
        if actual is None:
            response["error"] = "timeout"
        else:
            response["actual_steps"] = [{"name": "sparql", "output": actual}]
        responses.append(response)
    return run_evaluation_sync([{"template_id": "t", "questions": questions}], responses)


def published_means(results: list[dict[str, Any]]) -> dict[str, Any]:
    aggregates = RunningAggregates()
    for result in results:
        aggregates.add(result)
    means: dict[str, Any] = aggregates.snapshot()["micro"]["published_means"]
    return means


TEXT2SPARQL_CASES = {
    "equal tables": (table("a", "b"), table("b", "a"), 1),
    "half of the values": (table("a", "b"), table("a"), 2 / 3),
    "wrong values": (table("a"), table("b"), 0),
    "nothing expected and nothing returned": (table(), table(), 0),
    "nothing expected": (table(), table("a"), 0),
    "nothing returned": (table("a"), table(), 0),
    "true expected and returned": (TRUE, TRUE, 1),
    "true expected, false returned": (TRUE, FALSE, 1),
    "false expected and returned": (FALSE, FALSE, 0),
    "false expected, true returned": (FALSE, TRUE, 0),
    "true expected, a table returned": (TRUE, table("a"), 0),
    "a table expected, true returned": (table("a"), TRUE, 0),
    "an error": (table("a"), None, 0),
}


@pytest.mark.parametrize(
    ("expected", "actual", "f1"), TEXT2SPARQL_CASES.values(), ids=TEXT2SPARQL_CASES.keys()
)
def test_text2sparql_divides_by_all_questions(expected: str, actual: str | None, f1: float) -> None:
    right = (table("right"), table("right"))
    means = published_means(results_of((expected, actual), right))
    assert means["questions"] == 2
    assert means["published"] == pytest.approx((f1 + 1) / 2)


QALD_CASES = {
    "all right": ([(table("a"), table("a"))], 1, 1),
    "an empty answer is precise": ([(table("a"), table())], 1, 0),
    "an error is an empty answer": ([(table("a"), None)], 1, 0),
    "both are empty": ([(table(), table())], 1, 1),
    "only the expected answer is empty": ([(table(), table("a"))], 0, 0),
    "wrong values": ([(table("a"), table("b"))], 0, 0),
    "a part": ([(table("a", "b"), table("a", "c", "d"))], 1 / 3, 1 / 2),
    "yes for no": ([(FALSE, TRUE)], 0, 0),
    "several questions": (
        [
            (table("a", "b"), table("a")),
            (table("a"), table()),
            (table("a"), table("b", "a")),
            (table("a"), None),
        ],
        (1 + 1 + 1 / 2 + 1) / 4,
        (1 / 2 + 0 + 1 + 0) / 4,
    ),
}


@pytest.mark.parametrize(
    ("pairs", "precision", "recall"), QALD_CASES.values(), ids=QALD_CASES.keys()
)
def test_macro_f1_qald_is_of_the_mean_precision_and_recall(
    pairs: list[tuple[str, str | None]], precision: float, recall: float
) -> None:
    right = (table("right"), table("right"))
    means = published_means(results_of(*pairs, right))
    questions = len(pairs) + 1
    mean_precision = (precision * len(pairs) + 1) / questions
    mean_recall = (recall * len(pairs) + 1) / questions
    expected = 2 * mean_precision * mean_recall / (mean_precision + mean_recall)
    assert means == {
        "questions": questions,
        "qald_f1": pytest.approx(expected),
        "published": means["published"],
    }


def test_samples_of_a_question_count_as_their_mean() -> None:
    [right, wrong, other] = results_of(
        (table("a"), table("a")), (table("a"), table("b")), (table("a"), table("a"))
    )
    samples = [right, {**wrong, "question_id": "0", "sample": 2}, other]
    means = published_means(samples)
    assert means["questions"] == 2
    assert means["published"] == pytest.approx((1 / 2 + 1) / 2)


def test_other_steps_have_no_published_means() -> None:
    step = {"name": "sparql", "output": "done"}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    [result] = run_evaluation_sync(
        [{"template_id": "t", "questions": [question]}],
        [{"question_id": "q", "actual_steps": [step]}],
    )
    aggregates = RunningAggregates()
    aggregates.add(result)
    assert "published_means" not in aggregates.snapshot(detail=True)["micro"]
