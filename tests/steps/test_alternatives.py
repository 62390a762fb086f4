"""Reference steps with several right outputs."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async import ReferenceDataError, load_reference, run_evaluation_sync

OWN = "film\nurn:playtime\n"
OTHER = "film\nurn:parade\nurn:playtime\n"


def result_of(actual_output: str, **keys: Any) -> dict[str, Any]:
    step = {
        "name": "sparql_query",
        "output": OWN,
        "output_media_type": "text/csv",
        "alternatives": [{"output": OTHER}],
        **keys,
    }
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    actual = {"name": "sparql_query", "output": actual_output}
    [result] = run_evaluation_sync(
        [{"template_id": "t", "questions": [question]}],
        [{"question_id": "q", "actual_steps": [actual]}],
    )
    return result


CASES: dict[str, tuple[str, dict[str, Any], float]] = {
    "own output": (OWN, {}, 1),
    "alternative": (OTHER, {}, 1),
    "neither": ("film\nurn:jour\n", {}, 0),
    "in part, like the alternative": (
        "film\nurn:parade\nurn:jour\n",
        {"score": "values_f1"},
        0.5,
    ),
    "best of both": ("film\nurn:parade\n", {"score": "values_f1"}, 2 / 3),
    "in another format": (
        "Parade",
        {"alternatives": [{"output": "Parade", "output_media_type": "text/plain"}]},
        1,
    ),
}


@pytest.mark.parametrize(("actual", "keys", "score"), CASES.values(), ids=CASES.keys())
def test_the_best_output_counts(actual: str, keys: dict[str, Any], score: float) -> None:
    result = result_of(actual, **keys)
    assert result["steps_score"] == pytest.approx(score)
    [[step]] = result["reference_steps"]
    assert step["alternatives"] == keys.get("alternatives", [{"output": OTHER}])


def test_differences_are_those_of_the_best_output() -> None:
    result = result_of("film\nurn:parade\n", score="values_f1")
    [[step]] = result["reference_steps"]
    assert step["diff"] == [{"kind": "missing_value", "value": "urn:playtime"}]


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"output": OTHER}, "alternatives"),
    "no output": ([{}], "alternatives[0]: must have output, output_media_type, reference_query"),
    "unknown key": ([{"outputs": OTHER}], "alternatives[0]"),
    "unreadable": (
        [{"output": "<", "output_media_type": "application/sparql-results+xml"}],
        "output",
    ),
    "no query": ([{"reference_query": "films?"}], "reference_query: expected a SPARQL query"),
}


@pytest.mark.parametrize(("alternatives", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_alternatives_are_refused(alternatives: Any, message: str) -> None:
    step = {"name": "sparql_query", "output": OWN, "output_media_type": "text/csv"}
    question = {
        "id": "q",
        "question_text": "?",
        "reference_steps": [[{**step, "alternatives": alternatives}]],
    }
    with pytest.raises(ReferenceDataError) as error:
        load_reference([{"template_id": "t", "questions": [question]}])
    assert message in str(error.value)
