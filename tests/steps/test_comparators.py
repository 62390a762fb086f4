from __future__ import annotations

import copy
import functools
import json
import math
from typing import Any

import msgspec
import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep, UsageError
from graphrag_eval_async.steps import Comparator, StepsScore, check_step, prepare_step, score_steps
from graphrag_eval_async.steps.failure import Facts
from tests.support.cases import each

SPARQL = "application/sparql-results+json"
JSON = "application/json"
TABLE = json.dumps(
    {"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "value": "urn:x"}}]}}
)
DOCS = '[{"id": 1}]'
QUERY = {"name": "q", "output": TABLE, "output_media_type": SPARQL}
SERIES = {"name": "retrieve_time_series", "args": {"mrid": "m"}}


def score(reference: dict[str, Any], actual: dict[str, Any], **comparators: Comparator) -> StepsScore:
    step = {"status": "success", "name": reference["name"], **actual}
    scored = score_steps([[prepare_step(reference, comparators)]], [step], mode="last")
    return msgspec.structs.replace(scored, facts=Facts())  # What decides the failure is not looked at here.


@each(
    ("reference", "actual", "expected"),
    [
        (QUERY, {"output": TABLE.replace('"a"', '"b"')}, 1),
        (QUERY, {"output": TABLE.replace("urn:x", "u:y")}, 0),
        (QUERY, {"output": TABLE, "name": "p"}, 0),
        ({"name": "q", "output": "[1]", "output_media_type": JSON}, {"output": "[1.0]"}, 1),
        ({"name": "q", "output": "[1]", "output_media_type": JSON}, {"output": "[1]", "name": "p"}, 0),
        ({"name": "q", "output": "[1]", "output_media_type": None}, {"output": "[1.0]"}, 0),
        ({"name": "retrieval", "output": DOCS, "output_media_type": JSON}, {"output": DOCS + " "}, 1),
        (SERIES, {"output": "[]", "args": {"mrid": ["m"]}}, 1),
        ({"name": "retrieve_data_points", "args": {"limit": 1}}, {"output": "[]", "args": {"limit": 1}}, 1),
        ({"name": "iri_discovery", "output": "u:x"}, {"name": "sparql_query", "output": "<u:x>"}, 1),
    ],
)  # fmt: skip
def test_the_table(reference: dict[str, Any], actual: dict[str, Any], expected: float) -> None:
    scored = score(reference, actual)
    assert (scored.score, scored.matches) == (expected, ((0, 0, 0),) if expected else ())


@each(
    ("reference", "key"),
    [
        ({"name": "q"}, "output: missing"),
        ({"name": "q", "output": "]", "output_media_type": SPARQL}, "output: not SPARQL JSON: "),
        ({**QUERY, "required_columns": ["z"]}, "required_columns"),
        ({"name": "q", "output": "x", "output_media_type": [JSON]}, "output_media_type: "),
        ({"name": "q", "reference_query": "ASK {}", "score": "f2"}, "score: must be absent, exact or f1"),
        ({"name": "q", "reference_query": "ASK {}", "required_columns": ["a", "a"]}, "required_columns: 'a'"),
        ({"name": "retrieval", "reference_query": "ASK {}"}, "output: missing"),
        ({"name": ["q"], "output": "x"}, "name: "),
    ],
)  # fmt: skip
def test_invalid_reference_steps(reference: dict[str, Any], key: str) -> None:
    with pytest.raises(MalformedStep) as caught:
        check_step(reference)
    assert str(caught.value).startswith(key)


def half(_: dict[str, Any], __: dict[str, Any]) -> float:
    return 0.5


@pytest.mark.parametrize("name", ["influx_query", "retrieval", "retrieve_data_points"])
def test_a_users_comparator_wins(name: str) -> None:
    reference = {"name": name, "output_media_type": "text/plain"}
    assert score(reference, {"output": "x"}, **{name: half}) == StepsScore(0.5, ((0, 0, 0),))


@each("returned", [None, math.nan, -0.1, 1.5, "1", 10**400])
def test_invalid_return_values(returned: Any) -> None:
    result = score({"name": "a"}, {"output": "x"}, a=lambda _, __: returned)
    assert (result.score, result.matches) == (0.0, ())
    assert len(result.errors) == 1
    assert result.errors[0].startswith("reference_steps[0][0] (a) against actual_steps[0]: ")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (ComparisonBudgetExceeded("mine"), "ComparisonBudgetExceeded: mine"),
    ],
)
def test_one_that_raises_scores_zero_and_is_reported(error: Exception, text: str) -> None:
    def fail(_: dict[str, Any], __: dict[str, Any]) -> float:
        raise error

    result = score({"name": "a"}, {"output": "x"}, a=fail)
    assert (result.score, result.matches) == (0.0, ())
    assert len(result.errors) == 1
    assert result.errors[0].startswith("reference_steps[0][0] (a) against actual_steps[0]: ")
    assert text in result.errors[0]


def test_it_gets_copies() -> None:
    def greedy(reference: dict[str, Any], actual: dict[str, Any]) -> float:
        reference["args"].clear()
        reference.clear()
        actual.clear()
        return 1.0

    reference = {"name": "a", "args": {"x": 1}}
    actual = {"name": "a", "status": "success", "output": "x"}
    before = copy.deepcopy((reference, actual))
    step = prepare_step(reference, {"a": greedy})
    for _ in range(2):
        assert score_steps([[step]], [actual], mode="last").score == 1.0
    assert (reference, actual) == before


async def asynchronous(_: dict[str, Any], __: dict[str, Any]) -> float:
    return 1.0


@pytest.mark.parametrize("comparator", ["half", None, asynchronous, functools.partial(asynchronous, {})])
def test_invalid_comparators(comparator: Any) -> None:
    with pytest.raises(UsageError, match=r"^comparators\['a'\]: "):
        prepare_step({"name": "a"}, {"a": comparator})
