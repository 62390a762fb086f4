from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

import orjson
import pytest

from graphrag_eval_async.inference.labels import LabelSample
from tests.inference.labelled import result

RESULTS = [result(i, i / 100, question_text="Why?", answer_correctness_reason="no") for i in range(100)]


def draw(
    results: list[dict[str, Any]], n: int, seed: int = 1, metric: str = "answer_f1"
) -> list[dict[str, Any]]:
    sample = LabelSample(n, metric=metric, seed=seed)
    for each in results:
        sample.add(each)
    return sample.labels()


def test_people_do_not_see_what_the_judge_says() -> None:
    drawn = draw(RESULTS, 1)[0]
    assert drawn == {
        "question_id": drawn["question_id"],
        "template_id": "t",
        "question_text": "Why?",
        "sha256": sha256(orjson.dumps(RESULTS[int(drawn["question_id"].strip("q"))])).hexdigest(),
        "metric": "answer_f1",
        "value": None,
        "drawn": {"n": 1, "of": 100, "seed": 1},
    }


@pytest.mark.parametrize(
    ("metric", "evidence"),
    [
        ("faithfulness", ["texts"]),
        ("sparql_groundedness", ["rows", "more rows"]),
    ],
)
def test_people_see_what_the_answer_should_rest_on(metric: str, evidence: list[str]) -> None:
    steps = [
        {"name": "retrieval", "status": "success", "output": "texts"},
        {"name": "retrieval", "status": "error", "output": "none"},
        {"name": "sparql_query", "status": "success", "output": "rows", "executed_output": "new rows"},
        {"name": "sparql_query", "status": "success", "output": None, "executed_output": "more rows"},
    ]
    drawn = draw([result(0, actual_steps=steps, **{metric: 0.5})], 1, metric=metric)
    assert drawn[0]["evidence"] == evidence


def test_the_order_of_results_does_not_matter() -> None:
    assert draw(Random(1).sample(RESULTS, 100), 20) == draw(RESULTS, 20)


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    ids = [each["question_id"] for each in draw(RESULTS, 50)]
    assert ids[:20] == [each["question_id"] for each in draw(RESULTS, 20)]
    assert ids != [each["question_id"] for each in draw(RESULTS, 50, seed=2)]


def test_only_results_with_a_score() -> None:
    drawn = draw([*RESULTS[:3], result(200), result(201, 1.0, status="error")], 10)
    assert {each["question_id"] for each in drawn} == {"q0", "q1", "q2"}
    assert drawn[0]["drawn"] == {"n": 3, "of": 3, "seed": 1}
