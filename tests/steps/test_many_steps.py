"""Responses of many steps with one name: each pair of steps is paid for, whatever compares it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator
from graphrag_eval_async.steps import Budget, prepare_step, score_steps
from tests.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Callable

SPARQL = "application/sparql-results+json"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def table(values: list[str], **more: str) -> str:
    rows = [{"v": {"type": "literal", "value": value} | more} for value in values]
    return json.dumps({"head": {"vars": ["v"]}, "results": {"bindings": rows}})


def numbers(index: int) -> list[str]:
    return [str(index), "1", "2", "3", "4"]


# For some comparators, how to make a reference step and an actual one, of which no two match.
STEPS: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "SPARQL": (
        lambda i: {"name": "q", "output": table(numbers(-i)), "output_media_type": SPARQL},
        lambda i: {"name": "q", "output": table(numbers(i + 5))},
    ),
    "no SPARQL": (
        lambda i: {"name": "q", "output": table(numbers(i)), "output_media_type": SPARQL},
        lambda i: {"name": "q", "output": f"x{i}"},
    ),
    "text": (lambda i: {"name": "q", "output": f"a{i}"}, lambda i: {"name": "q", "output": f"b{i}"}),
    "custom": (lambda i: {"name": "own", "output": f"a{i}"}, lambda i: {"name": "own", "output": f"b{i}"}),
}
OWN = {"own": lambda _reference, _actual: 0.0}


def actual(make: Callable[[int], Any], count: int) -> list[Any]:
    return [make(index) | {"id": str(index), "status": "success"} for index in range(count)]


@pytest.mark.parametrize(("expected", "found"), STEPS.values(), ids=STEPS)
def test_a_response_with_one_step_name_ends_within_the_budget(
    expected: Callable[[int], Any], found: Callable[[int], Any]
) -> None:
    group = [prepare_step(expected(index), OWN) for index in range(1000)]
    response = actual(found, 1000)
    with affordable(len(json.dumps(response))):
        scored = score_steps([group], response, mode="last")
    assert scored.score == 0
    assert 0 < len(scored.errors) <= 10
    assert "not compared: the comparison budget of this response is exhausted" in scored.errors[-1]


def test_small_steps_against_a_large_one_end_within_the_budget() -> None:
    """A step of 100 bytes does not buy a look at 1 MiB of reference each time."""
    output = table([str(number) for number in range(10_000)], datatype=DOUBLE)
    group = [prepare_step({"name": "q", "output": output, "output_media_type": SPARQL})]
    response = actual(lambda i: {"name": "q", "output": table([f"{i}.5"], datatype=DOUBLE)}, 5_000)
    with affordable(len(json.dumps(response))):
        scored = score_steps([group], response, mode="last")
    assert scored.score == 0
    assert "budget of this response is exhausted" in scored.errors[-1]


def test_matches_before_the_budget_is_spent_count() -> None:
    group = [prepare_step(STEPS["text"][0](index)) for index in range(1000)]
    response = [*actual(STEPS["text"][1], 1000), {"name": "q", "status": "success", "output": "a0"}]
    scored = score_steps([group], response, mode="last")
    assert scored.score == 1 / 1000
    assert scored.errors[0].startswith("reference_steps[0][2")


def test_stopping_ends_any_comparison() -> None:
    calls = []

    def own(reference: object, _: object) -> float:
        calls.append(reference)
        budget.stop()
        return 0.0

    budget = Budget()
    group = [prepare_step({"name": "own", "output": "a"}, {"own": own})]
    scored = score_steps([group], actual(STEPS["custom"][1], 1000), budget, mode="last")
    assert len(calls) == 1
    assert "stopped" in scored.errors[0]


async def test_the_result_reports_it() -> None:
    group = [STEPS["text"][0](index) for index in range(20)]
    question = {"id": "1", "question_text": "?", "reference_steps": [group]}
    evaluator = Evaluator([{"template_id": "t", "questions": [question]}])
    response = {"question_id": "1", "actual_steps": actual(STEPS["text"][1], 20_000)}
    result = await evaluator.evaluate(response)
    assert result["steps_score"] == 0
    assert "budget of this response is exhausted" in result["steps_score_error"]
    again = await evaluator.evaluate(response | {"actual_steps": actual(STEPS["text"][1], 100)})
    assert "steps_score_error" not in again
