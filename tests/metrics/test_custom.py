from __future__ import annotations

import json
import math
from typing import Any

import pytest

from graphrag_eval_async.config.model import CustomEvaluationConfig, OutputConfig
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.custom import custom_evaluation
from graphrag_eval_async.metrics.metric import Case, Metric
from tests.metrics.support import ScriptedMetricJudge, applies, evaluate

SEARCH = {
    "name": "search",
    "args": {"query": "Ø"},
    "id": "1",
    "status": "success",
    "output": "no JSON: é",
}
SPARQL = {
    "name": "sparql",
    "args": {"query": "SELECT"},
    "id": "2",
    "output": '{ "a": ["\\u00e9"] }',
}
FAILED = {"name": "sparql", "args": {"query": "ASK"}, "id": "3", "status": "error", "error": "no"}
FULL = Case(
    "Which?",
    reference_answer="R",
    reference_steps=[[SEARCH], [SPARQL, SEARCH]],
    actual_answer="",
    actual_steps=[SEARCH, SPARQL, FAILED, {"args": {}}],
)


def custom(inputs: Any = ("question",), outputs: Any = None, **more: Any) -> Metric:
    settings = {"name": "mine", "instructions": "Judge {question}."} | more
    outputs = outputs or {"mine_reason": "Why."}
    return custom_evaluation(CustomEvaluationConfig(inputs=inputs, outputs=outputs, **settings))


async def sent(metric: Metric, case: Case = FULL) -> dict[str, str]:
    """The blocks of data that the judge gets."""
    asking = ScriptedMetricJudge({"mine_reason": "x"})
    await evaluate(metric, asking, case)
    return asking.blocks


async def test_what_the_judge_is_told() -> None:
    outputs = {
        "share": "Fraction 0-1: é",
        "any": "whatever",
        "number": OutputConfig(type="number", description="how many"),
        "default": OutputConfig(type="string", description="why"),
    }
    metric = custom(outputs=outputs, instructions='Judge {question} {"a": 1}.')
    asking = ScriptedMetricJudge({"default": "", "any": "x", "number": -3, "share": 0.5, "more": 1})
    keys = await evaluate(metric, asking)
    assert list(keys.items()) == [("share", 0.5), ("any", "x"), ("number", -3), ("default", "")]
    schema = asking.forms[0].schema
    assert schema["properties"] == {
        "share": {"type": "number", "description": "Fraction 0-1: é"},
        "any": {"anyOf": [{"type": "number"}, {"type": "string"}], "description": "whatever"},
        "number": {"type": "number", "description": "how many"},
        "default": {"type": "string", "description": "why"},
    }
    assert (schema["title"], schema["required"]) == ("mine", [*outputs])
    system = asking.messages[0][0]["content"]
    assert system.startswith('Judge <question> {"a": 1}.\n\n')
    assert '- "share", a number from 0 to 1: Fraction 0-1: é\n' in system
    assert '- "default", a string: why\n' in system
    assert (metric.prompts[0], json.loads(metric.prompts[1])) == (system, schema)


@pytest.mark.parametrize(
    ("output", "right", "wrong"),
    [
        pytest.param(
            "fraction 0-1: share",
            [0, 1, 0.5],
            [-0.1, 1.0000000000000002, True, "0.5", None],
            id="fraction by words",
        ),
        pytest.param(
            OutputConfig(type="number", description="fraction 0-1"),
            [1.0],
            [2],
            id="fraction by type",
        ),
        pytest.param("fraction 0-10", [10, "", -1], [True, math.nan, [0.5]], id="range of numbers"),
        pytest.param(
            OutputConfig(type="number", description="how many"),
            [2**64 - 1, -3.5],
            ["0.5", 2**64, math.inf],
            id="any number",
        ),
        pytest.param(
            OutputConfig(type="string", description="fraction 0-1: in words"),
            ["0.5"],
            [0, None, {}],
            id="text",
        ),
    ],
)
async def test_an_output_is_what_it_must_be(
    output: Any, right: list[Any], wrong: list[Any]
) -> None:
    metric = custom(outputs={"x": output})
    for value in right:
        assert (await evaluate(metric, ScriptedMetricJudge({"x": value})))["x"] is value
    for value in wrong:
        with pytest.raises(JudgeError, match=r"^invalid_reply: "):
            await evaluate(metric, ScriptedMetricJudge({"x": value}, {"x": value}))


async def test_the_judge_is_told_of_each_mistake() -> None:
    asking = ScriptedMetricJudge({"b": 2}, {"a": "x", "b": 0.5, "c": "z"})
    await evaluate(custom(outputs={"a": "why", "b": "fraction 0-1: share", "c": "why"}), asking)
    assert asking.corrections == [
        "'a': missing; 'c': missing; 'b': must be a number from 0 to 1, not 2"
    ]


async def test_inputs_come_in_the_configured_order_and_steps_as_compact_json() -> None:
    inputs = ("actual_steps", "actual_answer", "reference_steps", "reference_answer", "question")
    blocks = await sent(custom(inputs))
    search = (
        '{"name":"search","args":{"query":"Ø"},"id":"1","status":"success","output":"no JSON: é"}'
    )
    sparql = '{"name":"sparql","args":{"query":"SELECT"},"id":"2","output":{"a":["é"]}}'
    failed = '{"name":"sparql","args":{"query":"ASK"},"id":"3","status":"error","error":"no"}'
    steps = f'[{search},{sparql},{failed},{{"args":{{}}}}]'
    values = (steps, "", f"[[{search}],[{sparql},{search}]]", "R", "Which?")
    assert [*blocks.items()] == [*zip(inputs, values, strict=True)]


async def test_steps_of_one_name_with_some_keys() -> None:
    inputs, keys = ("actual_steps", "reference_steps"), ("output", "args", "nothing")
    blocks = await sent(custom(inputs, steps_name="sparql", steps_keys=keys))
    sparql = '{"output":{"a":["é"]},"args":{"query":"SELECT"}}'
    assert blocks["actual_steps"] == f'[{sparql},{{"args":{{"query":"ASK"}}}}]'
    assert blocks["reference_steps"] == f"[[{sparql}]]"
    assert await sent(custom(inputs, steps_name="other")) == dict.fromkeys(inputs, "[]")


def test_an_input_that_is_missing_skips_the_evaluation() -> None:
    for name in FULL._fields[1:5]:
        without = Case(**FULL._asdict() | {name: None})
        others = tuple(other for other in FULL._fields[:5] if other != name)
        assert applies(custom(("question", name)), without) == [False]
        assert applies(custom(others), without) == [True]
    assert applies(custom(), Case(" ")) == [False]


def test_prompts_change_with_all_that_changes_what_is_asked() -> None:
    inputs = ("question", "actual_steps")
    variants = [
        custom(),
        custom(inputs),
        custom(inputs, steps_name="sparql"),
        custom(inputs, steps_keys=("id",)),
    ]
    variants += [
        custom(instructions="Other."),
        custom(name="other"),
        custom(outputs={"mine_reason": "No?"}),
    ]
    assert len({tuple(metric.prompts) for metric in variants}) == len(variants)
