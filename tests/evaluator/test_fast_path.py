"""The fast path of a response gives what the slow path gives."""

from __future__ import annotations

import asyncio
import json
import math
import warnings
from collections import OrderedDict
from copy import deepcopy
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import (
    Evaluator,
    GraphragEvalWarning,
    RejectedResponse,
    compute_aggregates,
    evaluate_stream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SPARQL = "application/sparql-results+json"


def odd_table(member: str, *, is_last: bool) -> str:
    """Return the table of the reference set with one more member."""
    usual = table("1", "2")
    return f"{usual[:-1]}, {member}}}" if is_last else f"{{{member}, {usual[1:]}"


def table(*values: str, **more: Any) -> str:
    rows = [{"n": {"type": "literal", "value": value}} for value in values]
    return json.dumps({**more, "head": {"vars": ["n"]}, "results": {"bindings": rows}})


def step(name: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "args": {"query": f"about {name}"}, "output": output, **more}


QUERY = step("sparql_query", table("1", "2"), output_media_type=SPARQL, required_columns=["n"])
SETS: dict[str, list[list[dict[str, Any]]] | None] = {
    "table": [[QUERY]],
    "untyped": [[step("sparql_query", table("1", "2"))]],
    "text": [[step("look_up", "Nordnett")]],
    "two": [[step("look_up", "Lindau"), QUERY]],
    "twice": [[step("look_up", "Lindau"), step("look_up", "Lindau")]],
    "groups": [[step("look_up", "Lindau")], [QUERY]],
    "in part": [[{**QUERY, "score": "f1"}]],
    "values": [[{**QUERY, "score": "values_f1", "required_columns": None}]],
    "json": [[step("look_up", '{"a": [1, 2]}', output_media_type="application/json")]],
    "empty": [[step("sparql_query", table(), output_media_type=SPARQL)]],
    "found": [[step("retrieval", '[{"id": "1"}]')]],
    "compared": [[{**QUERY, "reference_query": "SELECT ?n {?n ?p 1}"}]],
    "args": [[step("look_up", "Lindau", args_match="exact")]],
    "order": [[step("look_up", "Lindau", order="strict"), step("look_up", "Nordnett")]],
    "limits": [[QUERY]],
    "none": None,
}
REFERENCE = [
    {
        "template_id": f"of {name}",
        "questions": [
            {
                "id": name,
                "question_text": f"{name}?",
                **({} if groups is None else {"reference_steps": groups}),
                **({"reference_answer": "Nordnett"} if answered else {}),
                **({"forbidden_steps": ["look_up"]} if name == "limits" else {}),
            }
        ],
        **({"tags": {"hops": answered, "hard": True}} if answered % 2 else {}),
    }
    for answered, (name, groups) in enumerate(SETS.items())
]
ACTUAL: list[list[dict[str, Any]]] = [
    [{"name": "look_up", "status": "success", "output": "Nordnett", "id": "1"}],
    [
        {
            "name": "sparql_query",
            "status": "success",
            "output": table("1", "2", n=1),
            "args": {"query": "q"},
        }
    ],
    [{"name": "sparql_query", "status": "success", "output": table("2", "1")}],
    [{"name": "autocomplete_search", "status": "success", "output": table()}],
    [{"name": "SPARQL-Query", "status": "success", "output": table("1", "2")}],
    [{"name": "look_up", "status": "success", "output": "Lindau", "id": str(i)} for i in range(2)],
    [{"name": "sparql_query", "status": "error", "error": "timed out"}],
    [{"name": "look_up", "status": "success", "output": '{"a":[1,2]}'}],
    [{"name": "retrieval", "status": "success", "output": '[{"id": "1"}]', "retrieval_cost": 1}],
    [],
]
VALUES: list[Any] = [
    None, True, 0, -1, 2.5, 10**19, "", " ", "success", "error", "Error: a\nb", "x\x00", "Nordnett",
    "look_up", "lookup", "sparql_query", [], {}, [[[]]], {"a": {"b": [1]}},
    table("1", "2"), table("2", "1", a=1), table(), "[]", "a" * 300, '{"results": {"bindings": [',
    '{"head": {"vars": ["n"]}, "results": {"bindings": [{}]}}',
]  # fmt: skip
ODD_MEMBERS = [
    '"x": 1e999', '"x": [true, -1e999]', '"x": {"y": 1e400}', f'"x": {"1" * 400}', '"1e999": 1',
    r'"x": "\ud800"', r'"\udc00": 1', '"x": "\x7f"', '"x": 01', '"x": NaN', '"x": [1,]',
    '"x": 12345678901234567890123', '"boolean": 1e999', '"head": {"vars": ["n"], "x": 1e999}',
    '"results": 1e999', '"link": [], "boolean": null', f'"x": {"[" * 300}{"]" * 300}',
]  # fmt: skip
"""Members beside the head and the rows of a table; decoders differ in some of them."""

KEYS = [
    "question_id", "id", "status", "error", "actual_answer", "actual_steps", "input_tokens",
    "elapsed_sec", "metadata", "model", "name", "args", "output", "trace_problems",
]  # fmt: skip


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    """A response that may be usual, with up to three changes."""
    response: dict[str, Any] = {"question_id": draw(st.sampled_from([*SETS]))}
    if draw(st.booleans()):
        response["actual_answer"] = draw(st.sampled_from(["Nordnett", "", " "]))
    parts: list[list[dict[str, Any]]] = draw(st.lists(st.sampled_from(ACTUAL), max_size=2))
    response["actual_steps"] = deepcopy([each for part in parts for each in part])
    for step in response["actual_steps"]:
        if draw(st.integers(0, 4)) == 0:
            member = draw(st.sampled_from(ODD_MEMBERS))
            step["output"] = odd_table(member, is_last=draw(st.booleans()))
    for key in draw(
        st.lists(st.sampled_from(["input_tokens", "output_tokens", "total_tokens"]), unique=True)
    ):
        response[key] = draw(st.integers(0, 9))
    for _ in range(draw(st.integers(0, 3))):
        changed: Any = draw(st.sampled_from([response, *(response.get("actual_steps") or [])]))
        key = draw(st.sampled_from(KEYS))
        if isinstance(changed, dict) and draw(st.booleans()):
            changed[key] = draw(st.sampled_from(VALUES))
        elif isinstance(changed, dict):
            changed.pop(key, None)
        if not isinstance(response.get("actual_steps"), list):
            break
    return response


class _Text(str):
    __slots__ = ()


class _Texts(StrEnum):
    NORDNETT = "Nordnett"


ODD_VALUES = {
    "a text": "Nordnett",
    "a subclass of text": _Text("Nordnett"),
    "an enum of texts": _Texts.NORDNETT,
    "text of NumPy": numpy.str_("Nordnett"),
    "a lone surrogate": "\ud800",
    "a whole decimal": Decimal(2),
    "a decimal": Decimal("2.5"),
    "a number of NumPy": numpy.float64(2.5),
    "minus zero": -0.0,
    "the largest integer": 2**63 - 1,
    "a larger integer": 2**63,
    "an integer beyond 64 bits": 2**64,
    "NaN": math.nan,
    "infinity": math.inf,
    "null": None,
    "a tuple": ("Nordnett", 1),
    "an ordered dict": OrderedDict(a=[1.0]),
    "NaN in a list": [{"a": -math.nan}],
    "a null in a list": [None],
    "a date": date(2026, 1, 2),
    "a UUID": UUID(int=5),
    "bytes": b"Nordnett",
}


@pytest.mark.parametrize("key", ["question_id", "actual_answer", "elapsed_sec", "args"])
@pytest.mark.parametrize("value", [*ODD_VALUES.values()], ids=[*ODD_VALUES])
async def test_what_is_pushed_as_a_dict_is_plain_in_results(value: Any, key: str) -> None:
    """Equal to the result of the slow path, in its types, too; also if it changes afterwards."""
    steps: list[dict[str, Any]] = deepcopy(ACTUAL[1])
    response: dict[str, Any] = {"question_id": "table", "actual_steps": steps}
    place = steps[0] if key == "args" else response
    place[key] = value
    try:
        expected: Any = await Evaluator(REFERENCE).evaluate(response)
    except RejectedResponse as error:
        expected = error.reject.reason, error.reject.message

    async def push() -> AsyncGenerator[dict[str, Any]]:
        yield response
        steps[0].clear()
        steps.clear()
        response["question_id"] = "another"

    async with evaluate_stream(REFERENCE, push()) as stream:
        found: list[Any] = [result async for result in stream]
        found += [(reject.reason, reject.message) for reject in stream.rejects]
    # `repr` tells apart what is equal, such as 2 and 2.0, or a text and an enum of texts.
    assert repr(found) == repr([expected])
    if isinstance(expected, dict):
        assert types_in(found) <= {dict, list, str, int, float, bool, type(None)}


def types_in(value: Any) -> set[type]:
    """Return the types of a JSON value and of all values in it."""
    values = value.values() if isinstance(value, dict) else value
    parts = values if isinstance(value, dict | list) else ()
    return {type(value)}.union(*map(types_in, parts))


async def carefully(evaluator: Evaluator, lines: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for line in lines:
        try:
            found.append(await evaluator.evaluate(line))
        except RejectedResponse as error:
            found.append((error.reject.reason, error.reject.message))
    return found


@given(st.lists(responses(), min_size=1, max_size=5), st.sampled_from(["last", "all"]))
def test_both_ways_agree(given_responses: list[dict[str, Any]], groups: Any) -> None:
    check_both(given_responses, groups)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param('"boolean": null', id="a null that counts"),
        pytest.param('"boolean": true', id="a boolean"),
        pytest.param('"x": 1', id="an unknown key"),
        *(pytest.param(member, id=member[:20]) for member in ODD_MEMBERS),
    ],
)
@pytest.mark.parametrize("is_last", [False, True])
def test_tables_with_other_keys_are_compared_in_full(more: str, is_last: bool) -> None:
    output = odd_table(more, is_last=is_last)
    steps = [{"name": "sparql_query", "status": "success", "output": output}]
    check_both([{"question_id": "table", "actual_steps": steps}], "last")


@pytest.mark.parametrize("member", ['"x": 1e999', f'"x": {"9" * 400}', '"x": {"y": [-1e999]}'])
async def test_a_key_that_says_nothing_of_the_rows_does_not_matter(member: str) -> None:
    """Even if its value is no number of Python's."""
    output = odd_table(member, is_last=False)
    steps = [{"name": "sparql_query", "status": "success", "output": output}]
    result = await Evaluator(REFERENCE).evaluate({"question_id": "table", "actual_steps": steps})
    assert result["steps_score"] == 1.0


def check_both(given_responses: list[dict[str, Any]], groups: Any) -> None:
    """Check that results, rejects and aggregates do not depend on the path."""
    lines = [json.dumps(response).encode() for response in given_responses]

    async def both() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphragEvalWarning)
            stream = evaluate_stream(REFERENCE, lines, ordered=True, steps_groups=groups)
            results = [result async for result in stream]
            rejects = [(reject.reason, reject.message) for reject in stream.rejects]
        expected = await carefully(Evaluator(REFERENCE, steps_groups=groups), lines)
        careful = [each for each in expected if isinstance(each, dict)]
        for result in (*results, *careful):
            del result["sample"]
        assert results == careful
        assert [[*result] for result in results] == [[*result] for result in careful]
        assert rejects == [each for each in expected if not isinstance(each, dict)]
        order = [template["template_id"] for template in REFERENCE]
        again = compute_aggregates(careful, reference=REFERENCE)
        assert stream.aggregates.snapshot() == again
        assert list(again["per_template"]) == [
            name for name in order if name in again["per_template"]
        ]

    asyncio.run(both())
