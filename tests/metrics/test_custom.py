from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config.model import CustomEvaluationConfig, OutputConfig
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.custom import custom_evaluation
from graphrag_eval_async.metrics.metric import Case, Metric
from tests.metrics.support import ScriptedMetricJudge, evaluate, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

SEARCH = {"name": "search", "args": {"query": "Ø"}, "id": "1", "status": "success", "output": "no JSON: é"}
SPARQL = {"name": "sparql", "args": {"query": "SELECT"}, "id": "2", "output": '{ "a": ["\\u00e9"] }'}
FAILED = {"name": "sparql", "args": {"query": "ASK"}, "id": "3", "status": "error", "error": "no"}
NAMELESS: dict[str, Any] = {"args": {}}
FULL = Case(
    "Which?",
    reference_answer="R",
    reference_steps=[[SEARCH], [SPARQL, SEARCH]],
    actual_answer="",
    actual_steps=[SEARCH, SPARQL, FAILED, NAMELESS],
)


def custom(inputs: Any = ("question",), outputs: Any = None, **more: Any) -> Metric:
    settings = {"name": "mine", "instructions": "Judge {question}."} | more
    outputs = outputs or {"mine_reason": "Why."}
    return custom_evaluation(CustomEvaluationConfig(inputs=inputs, outputs=outputs, **settings))


async def sent(metric: Metric, case: Case = FULL) -> dict[str, str]:
    """The blocks of data that the judge gets."""
    asking = ScriptedMetricJudge({"mine_reason": "x"})
    await evaluate(metric, asking, case)
    return read_blocks(asking.messages[0][1]["content"])


async def sent_steps(steps: Any, **more: Any) -> Any:
    return json.loads(
        (await sent(custom(("actual_steps",), **more), Case("Q", actual_steps=steps)))["actual_steps"]
    )


async def test_outputs_come_in_the_configured_order() -> None:
    metric = custom(outputs={"b": "fraction 0-1: share", "a": OutputConfig(type="string", description="why")})
    asking = ScriptedMetricJudge({"a": "because", "b": 1})
    assert list((await evaluate(metric, asking)).items()) == [("b", 1), ("a", "because")]
    assert len(asking.messages) == 1


async def test_the_schema_is_strict() -> None:
    outputs = {
        "share": "Fraction 0-1: share",
        "any": "whatever",
        "number": OutputConfig(type="number", description="how many"),
        "default": OutputConfig(type="string", description="why"),
    }
    asking = ScriptedMetricJudge({"share": 0.5, "any": "x", "number": -3, "default": ""})
    await evaluate(custom(outputs=outputs), asking)
    assert asking.forms[0].schema == {
        "title": "mine",
        "type": "object",
        "properties": {
            "share": {"type": "number", "description": "Fraction 0-1: share"},
            "any": {"anyOf": [{"type": "number"}, {"type": "string"}], "description": "whatever"},
            "number": {"type": "number", "description": "how many"},
            "default": {"type": "string", "description": "why"},
        },
        "required": ["share", "any", "number", "default"],
        "additionalProperties": False,
    }


def is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -(2**63) <= value < 2**64 if isinstance(value, int) else math.isfinite(value)


def is_fraction(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_either(value: Any) -> bool:
    return is_number(value) or is_text(value)


VALUES: list[Any] = [0, 1, -1, 0.5, 1.0, -0.0, 1.0000000000000002, 5e-324, -5e-324, 1e308, "", "0.5"]
VALUES += [2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**5000, math.nan, math.inf, -math.inf]
VALUES += [True, False, None, [], [0.5], {}, {"number": 1}]


@pytest.mark.parametrize(
    ("output", "allowed"),
    [
        ("fraction 0-1: share", is_fraction),
        ("fraction 0-1", is_fraction),
        ("  FRACTION 0-1. Of all", is_fraction),
        (OutputConfig(type="number", description="fraction 0-1: share"), is_fraction),
        ("fraction 0-10", is_either),
        ("fraction 0-1.5", is_either),
        ("the fraction 0-1", is_either),
        ("", is_either),
        (OutputConfig(type="number", description="how many"), is_number),
        (OutputConfig(type="string", description="why"), is_text),
        (OutputConfig(type="string", description="fraction 0-1: in words"), is_text),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_an_output_is_what_it_must_be(output: Any, allowed: Callable[[Any], bool]) -> None:
    metric = custom(outputs={"x": output})
    for value in VALUES:
        asking = ScriptedMetricJudge({"x": value}, {"x": value})
        if allowed(value):
            returned = (await evaluate(metric, asking))["x"]
            assert (type(returned), returned) == (type(value), value)
        else:
            with pytest.raises(JudgeError, match=r"^invalid_reply: "):
                await evaluate(metric, asking)


@pytest.mark.parametrize(
    ("wrong", "correction"),
    [
        ({"share": 1.5, "why": "x"}, "'share': must be a number from 0 to 1, not 1.5"),
        ({"share": "1", "why": "x"}, "'share': must be a number from 0 to 1, not '1'"),
        (
            {"share": 1, "why": None},
            "'why': must be a finite number of at most 64 bits or a string, not None",
        ),
        ({"share": 1}, "'why': missing"),
        ({}, "'share': missing; 'why': missing"),
        ([], "the reply must be a JSON object"),
        (None, "the reply must be a JSON object"),
        ("share", "the reply must be a JSON object"),
    ],
)
async def test_a_reply_that_does_not_fit_is_asked_for_once_more(wrong: Any, correction: str) -> None:
    asking = ScriptedMetricJudge(wrong, {"share": 0, "why": 7})
    metric = custom(outputs={"share": "fraction 0-1", "why": "Why?"})
    assert await evaluate(metric, asking) == {"share": 0, "why": 7}
    assert asking.corrections == [correction]


async def test_inputs_come_in_the_configured_order() -> None:
    inputs = ("actual_steps", "actual_answer", "reference_steps", "reference_answer", "question")
    blocks = await sent(custom(inputs))
    assert tuple(blocks) == inputs
    assert [blocks[name] for name in ("question", "reference_answer", "actual_answer")] == ["Which?", "R", ""]
    assert list(await sent(custom(("question", "actual_answer")))) == ["question", "actual_answer"]


async def test_steps_are_compact_json_with_what_is_json_in_them_unquoted() -> None:
    blocks = await sent(custom(("actual_steps", "reference_steps")))
    search = '{"name":"search","args":{"query":"Ø"},"id":"1","status":"success","output":"no JSON: é"}'
    sparql = '{"name":"sparql","args":{"query":"SELECT"},"id":"2","output":{"a":["é"]}}'
    failed = '{"name":"sparql","args":{"query":"ASK"},"id":"3","status":"error","error":"no"}'
    assert blocks["actual_steps"] == f'[{search},{sparql},{failed},{{"args":{{}}}}]'
    assert blocks["reference_steps"] == f"[[{search}],[{sparql},{search}]]"
    assert SPARQL["output"] == '{ "a": ["\\u00e9"] }'


async def test_steps_of_one_name_with_some_keys() -> None:
    metric = custom(
        ("actual_steps", "reference_steps"), steps_name="sparql", steps_keys=("output", "args", "nothing")
    )
    blocks = await sent(metric)
    assert blocks["actual_steps"] == (
        '[{"output":{"a":["é"]},"args":{"query":"SELECT"}},{"args":{"query":"ASK"}}]'
    )
    assert blocks["reference_steps"] == '[[{"output":{"a":["é"]},"args":{"query":"SELECT"}}]]'


async def test_steps_without_any_of_the_name_are_an_empty_list() -> None:
    metric = custom(("actual_steps", "reference_steps"), steps_name="other")
    assert await sent(metric) == {"actual_steps": "[]", "reference_steps": "[]"}
    assert await sent_steps([]) == []


@pytest.mark.parametrize(
    "output",
    ["", "text", "NaN", "[1", '{"a": 1} trailing', "1e400", '"\\ud800"', "[" * 100_000, "'a'"],
    ids=lambda output: output[:10],
)
async def test_an_output_that_is_no_json_is_a_text(output: str) -> None:
    assert await sent_steps([{"output": output}]) == [{"output": output}]


@pytest.mark.parametrize(
    "output", ["null", " 12\n", '"T1"', "[]", "9" * 40, "0.1", "[" * 250 + "]" * 250, '{"b":1,"a":2}']
)
async def test_an_output_that_is_json_is_its_value(output: str) -> None:
    (step,) = await sent_steps([{"output": output}])
    assert step == {"output": json.loads(output)}


async def test_however_deep_an_output_nests_it_is_sent() -> None:
    metric = custom(("actual_steps",))

    async def is_value(depth: int) -> bool:
        output = "[" * depth + "]" * depth
        block = (await sent(metric, Case("Q", actual_steps=[{"output": output}])))["actual_steps"]
        assert block in {f'[{{"output":{output}}}]', f'[{{"output":"{output}"}}]'}
        return block == f'[{{"output":{output}}}]'

    read, unread = 200, 100_000
    assert await is_value(read)
    assert not await is_value(unread)
    while unread - read > 1:
        depth = (read + unread) // 2
        read, unread = (depth, unread) if await is_value(depth) else (read, depth)
    for depth in range(read - 8, read):
        assert await is_value(depth)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
async def test_any_json_arrives_as_it_is(value: Any) -> None:
    texts = [json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)]
    steps = [{"output": text, "args": value} for text in texts] + [{"output": None}, {"output": [value]}]
    arrived = await sent_steps(steps)
    step = {"output": value, "args": value}
    assert arrived == [step, step, {"output": None}, {"output": [value]}]


@pytest.mark.parametrize("name", FULL._fields[1:5])
def test_an_input_that_is_missing_skips_the_evaluation(name: str) -> None:
    without = Case(**FULL._asdict() | {name: None})
    for inputs in (("question", name), (name,)):
        (evaluation,) = custom(inputs).tasks(without)
        assert evaluation.call is None
    others = tuple(other for other in FULL._fields[:5] if other != name)
    (evaluation,) = custom(others).tasks(without)
    assert evaluation.call is not None


def test_where_the_values_go() -> None:
    outputs = {"b": "fraction 0-1", "a": "Why?"}
    (evaluation,) = custom(outputs=outputs).tasks(Case("Q"))
    assert evaluation._replace(call=None) == ("mine", None, "mine_error", "mine_cost", None, ("b", "a"))


async def test_instructions_name_their_inputs_and_are_sent_with_the_outputs_in_words() -> None:
    outputs = {
        "share": "fraction 0-1: é",
        "n": OutputConfig(type="number", description="how many"),
        "x": "Why?",
    }
    metric = custom(outputs=outputs, instructions='Judge {question} {"a": 1}.')
    asking = ScriptedMetricJudge({"share": 0, "n": 1, "x": ""})
    await evaluate(metric, asking)
    system = asking.messages[0][0]["content"]
    assert system.startswith(
        'Judge <question> {"a": 1}.\n\n'
        "Reply with a JSON object of exactly these keys:\n"
        '- "share", a number from 0 to 1: fraction 0-1: é\n'
        '- "n", a finite number of at most 64 bits: how many\n'
        '- "x", a finite number of at most 64 bits or a string: Why?\n\n'
    )
    assert metric.prompts[0] == system
    assert json.loads(metric.prompts[1]) == asking.forms[0].schema


def test_prompts_change_with_all_that_changes_what_is_asked() -> None:
    variants = [
        custom(),
        custom(("question", "actual_steps")),
        custom(("question", "actual_steps"), steps_name="sparql"),
        custom(("question", "actual_steps"), steps_keys=("output",)),
        custom(instructions="Other."),
        custom(outputs={"mine_reason": "Why not?"}),
        custom(outputs={"other": "Why."}),
        custom(outputs={"mine_reason": OutputConfig(type="string", description="Why.")}),
        custom(name="other"),
    ]
    assert len({tuple(metric.prompts) for metric in variants}) == len(variants)
    assert custom().prompts == variants[0].prompts
