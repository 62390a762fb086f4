"""Responses of many steps with one name: each pair of steps is paid for, whatever compares it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import Evaluator
from graphrag_eval_async.steps import Budget, prepare_step, score_steps
from tests.steps.test_failure import STATIONS, table, templates
from tests.support.cases import each
from tests.support.cpu import affordable

EXHAUSTED = "not compared: the comparison budget of this response is exhausted"


def actual(outputs: list[str], name: str = "sparql_query") -> list[Any]:
    return [{"name": name, "output": output, "status": "success"} for output in outputs]


TEXTS = [f"x{index}" for index in range(1000)]
TABLES = [table((f"{index}.5",)) for index in range(1000)]


@each(
    ("name", "expected", "found"),
    [
        ("sparql_query", [table((f"-{index}",)) for index in range(1000)], TABLES),
        ("sparql_query", TABLES, TEXTS),
        ("text", TEXTS, TABLES),
        ("own", TEXTS, TEXTS),
        # A step of 100 bytes does not buy a look at 1 MiB of reference each time.
        ("sparql_query", [table(*((f"{index}",) for index in range(10_000)))], TABLES * 5),
    ],
)
def test_a_response_with_one_step_name_ends_within_the_budget(
    name: str, expected: list[str], found: list[str]
) -> None:
    own = {"own": lambda _reference, _actual: 0.0}
    steps = [{**STATIONS, "name": name, "output": output, "ordered": False} for output in expected]
    if name != "sparql_query":
        steps = [{"name": name, "output": output} for output in expected]
    group, response = [prepare_step(step, own) for step in steps], actual(found, name)
    with affordable(len(json.dumps(response))):
        scored = score_steps([group], response, mode="last")
    assert scored.score == 0
    assert 0 < len(scored.errors) <= 10
    assert EXHAUSTED in scored.errors[-1]


def test_stopping_ends_any_comparison() -> None:
    calls = []

    def own(reference: object, _: object) -> float:
        calls.append(reference)
        budget.stop()
        return 0.0

    budget = Budget()
    group = [prepare_step({"name": "own", "output": "a"}, {"own": own})]
    scored = score_steps([group], actual(TEXTS, "own"), budget, mode="last")
    assert len(calls) == 1
    assert "stopped" in scored.errors[0]


@pytest.mark.parametrize(("times", "is_reported"), [(1, False), (20, True)])
async def test_the_result_reports_it(times: int, is_reported: bool) -> None:
    group = [{"name": "text", "output": f"a{index}"} for index in range(20)]
    response = {"question_id": "q", "actual_steps": actual(TEXTS * times, "text")}
    result = await Evaluator(templates(group)).evaluate(response)
    assert result["steps_score"] == 0
    assert (EXHAUSTED in result.get("steps_score_error", "")) == is_reported
