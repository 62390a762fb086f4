from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from graphrag_eval_async import (
    Evaluator,
    RejectedResponse,
    evaluate_stream,
    load_reference,
)
from tests.support.data import answer, templates


@pytest.fixture
def evaluator() -> Evaluator:
    return Evaluator(templates(3))


async def test_equals_a_stream(evaluator: Evaluator) -> None:
    response = answer(2, actual_answer="42", x={"y": [1.5, None]})
    text = json.dumps(response)
    (expected,) = [result async for result in evaluate_stream(evaluator.reference, [response])]
    for form in (response, MappingProxyType(response), text, text.encode(), text + "\r\n"):
        assert await evaluator.evaluate(form) == expected
    assert await evaluator.evaluate(response, sample=7) == expected | {"sample": 7}


INVALID: list[tuple[Any, str]] = [
    ({"question_id": "x"}, "unknown_question_id"),
    ({"question_id": "q0", "x": {1}}, "invalid_field"),
    ("", "invalid_json"),
    ("\ud800", "invalid_utf8"),
    (b'{"question_id": "q0"}\n{"question_id": "q0"}', "invalid_json"),
    (None, "not_an_object"),
]


async def test_invalid_responses(evaluator: Evaluator) -> None:
    for response, reason in INVALID:
        with pytest.raises(RejectedResponse) as caught:
            await evaluator.evaluate(response)
        assert caught.value.reject.reason == reason


async def test_without_steps_there_is_no_score(evaluator: Evaluator) -> None:
    for response in ({"question_id": "q0"}, {"question_id": "q0", "actual_steps": None}):
        assert (await evaluator.evaluate(response))["steps_score"] is None
    assert (await evaluator.evaluate({"question_id": "q0", "actual_steps": []}))[
        "steps_score"
    ] == 0.0
    bare = Evaluator([{"template_id": "t", "questions": [{"id": "q0", "question_text": "?"}]}])
    result = await bare.evaluate(answer(0))
    assert result["steps_score"] is None
    assert "reference_steps" not in result
    assert "reference_answer" not in result


async def test_comparators_of_a_reference_apply_everywhere() -> None:
    """Also in a stream, which has a quick way for steps that are compared as usual; own ones
    come first.
    """
    reference = load_reference(
        templates(2), comparators={"calculator": lambda _reference, _actual: 0.25}
    )
    other = Evaluator(reference, comparators={"calculator": lambda _reference, _actual: 0.5})
    assert (await other.evaluate(answer(0)))["steps_score"] == 0.5
    assert (await Evaluator(reference).evaluate(answer(0)))["steps_score"] == 0.25
    results = [
        result async for result in evaluate_stream(reference, [answer(0), json.dumps(answer(1))])
    ]
    assert [result["steps_score"] for result in results] == [0.25, 0.25]
