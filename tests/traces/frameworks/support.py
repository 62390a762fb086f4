"""What a framework's history of the scenario must become."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async import Evaluator, load_reference
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, STEPS
from tests.traces.test_formats import REFERENCE

EVALUATOR = Evaluator(load_reference(REFERENCE))


async def check(
    response: dict[str, Any],
    *,
    ids: bool = True,
    why: str = PROBLEM,
    question: bool = True,
    answer: str | None = ANSWER,
    problems: tuple[str, ...] = (),
) -> None:
    """Check the response that the adapter made, and its score."""
    found = [(step["name"], step["args"], step["status"]) for step in response["actual_steps"]]
    assert found == [(step["name"], step["args"], step["status"]) for step in STEPS]
    if ids:
        assert [step["id"] for step in response["actual_steps"]] == [step["id"] for step in STEPS]
    right, wrong = (step["output"] for step in response["actual_steps"])
    assert (right, why in wrong) == (STEPS[0]["output"], True), wrong
    assert response.get("actual_answer") == answer
    assert response.get("trace_problems", []) == list(problems)
    if question:
        assert response["question"] == QUESTION
    result = await EVALUATOR.evaluate(response | {"question_id": "q1"})
    assert result["steps_score"] == 1
