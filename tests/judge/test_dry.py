from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.dry import (
    ASSUMED_OUTPUT_TOKENS,
    MESSAGE_TOKENS,
    DryJudge,
    estimate_tokens,
    fitting,
)
from graphrag_eval_async.judge.form import form_of
from graphrag_eval_async.judge.protocol import Judge, TokenUsage


def dry(schema: dict[str, Any]) -> Any:
    return fitting(schema, schema)


class Leaf(msgspec.Struct):
    verdict: Literal[0, 1]
    share: Annotated[float, msgspec.Meta(gt=0, lt=0.5)]
    kind: Literal["a", "b"] | None
    word: Annotated[str, msgspec.Meta(min_length=6, max_length=8)]


class Tree(msgspec.Struct):
    leaves: list[Leaf]
    pair: tuple[int, str]
    many: Annotated[list[Annotated[int, msgspec.Meta(ge=3, multiple_of=5)]], msgspec.Meta(min_length=2)]
    either: int | str | None
    none: None
    names: dict[str, int]
    yes: bool
    anything: Any


def test_a_reply_can_be_read() -> None:
    form = form_of(Tree)
    leaf = Leaf(verdict=0, share=0.25, kind="a", word="textxx")
    expected = Tree([leaf], (0, "text"), [5, 5], 0, None, {}, False, "text")
    reply = dry({**form.schema})
    assert form.read(reply) == expected
    assert type(reply["leaves"][0]["share"]) is float


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, "text"),
        ({"properties": {"a": {"items": {"type": "null"}}}}, {"a": [None]}),
        ({"const": None}, None),
        ({"const": 0, "type": "integer"}, 0),
        ({"type": "string", "enum": ["b", "a"]}, "b"),
        ({"type": ["null", "string"]}, None),
        ({"type": ["string", "null"], "maxLength": 2}, "te"),
        ({"oneOf": [False, {"enum": []}, {"type": "boolean"}]}, False),
        ({"anyOf": [True, False]}, "text"),
        ({"type": "integer", "anyOf": [{"minimum": 3, "maximum": 2}, {"minimum": 4}]}, 4),
        ({"allOf": [{"$ref": "#/$defs/n"}], "minimum": 2, "$defs": {"n": {"type": "integer"}}}, 2),
        ({"$ref": "#/definitions/a/b", "definitions": {"a": {"b": {"const": "c"}}}}, "c"),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, []),
        ({"type": "array", "items": False}, []),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1}, [1]),
        ({"type": "array", "prefixItems": [{"const": 1}], "minItems": 3, "items": {"const": 2}}, [1, 2, 2]),
        ({"type": "array", "prefixItems": [{"const": 1}, False, {"const": 3}]}, [1]),
        ({"type": "object", "properties": {"a": False, "b": {"const": 1}}, "required": ["b"]}, {"b": 1}),
        ({"type": "integer", "minimum": 0.5}, 1),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "maximum": -7, "multipleOf": 4}, -8),
        ({"type": "number", "minimum": 0.2, "maximum": 0.4}, 0.2),
        ({"type": "number", "exclusiveMinimum": 0.2, "exclusiveMaximum": 0.4}, pytest.approx(0.3)),
        ({"type": "number", "exclusiveMinimum": 2**60, "maximum": 2**61}, 2.0**61),
    ],
)
def test_of_several_values_a_simple_one(schema: dict[str, Any], value: Any) -> None:
    found = dry(schema)
    assert found == value
    assert type(found) in {type(value), float}


NODE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}


def test_a_schema_within_itself_comes_to_an_end() -> None:
    children = {"type": "array", "items": {"$ref": "#/$defs/node"}}
    node = {"type": "object", "properties": {"children": children, "self": {"$ref": "#/$defs/node"}}}
    assert dry({"$ref": "#/$defs/node", "$defs": {"node": node}}) == {"children": []}
    assert dry({"anyOf": [{"$ref": "#"}, {"type": "null"}]}) is None


@pytest.mark.parametrize(
    "schema",
    [
        NODE,
        {"$ref": "#"},
        {"anyOf": []},
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 1, "maximum": 0},
        {"type": "array", "items": NODE | {"$ref": "#"}, "minItems": 1},
        {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
    ],
)
async def test_a_schema_that_nothing_fits(schema: dict[str, Any]) -> None:
    with pytest.raises(JudgeError, match=r"^invalid_request: "):
        await DryJudge().complete([], schema)


BOUNDS = st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional=dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], BOUNDS)
    | {"multipleOf": st.integers(1, 100)},
)
SIZES = st.fixed_dictionaries({}, optional={"minItems": st.integers(0, 3), "maxItems": st.integers(0, 3)})
LEAVES = NUMBERS | st.sampled_from(
    [
        {"type": "null"},
        {"type": ["boolean", "null"]},
        {"type": "string", "minLength": 5, "maxLength": 5},
        {"const": "c"},
        {"enum": [1, "two"]},
        {"$ref": "#"},
        {"$ref": "#/$defs/part"},
        True,
        False,
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda items, size: {"type": "array", "items": items, **size}, inner, SIZES)
        | st.builds(
            lambda parts, rest: {"type": "object", "properties": parts, "required": rest},
            st.dictionaries(st.sampled_from("abc"), inner),
            st.just(["a"]) | st.just([]),
        )
        | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, max_size=3))
    ),
)


def fits(value: Any, schema: Any, root: Any, seen: tuple[str, ...] = ()) -> bool:
    """The rules of JSON Schema, read out loud. `seen` are the references already followed for this value."""
    if isinstance(schema, bool):
        return schema
    if reference := schema.get("$ref"):
        target = root if reference == "#" else root["$defs"]["part"]
        if reference in seen or not fits(value, target, root, (*seen, reference)):
            return False
    if "anyOf" in schema and not any(fits(value, part, root, seen) for part in schema["anyOf"]):
        return False
    if "const" in schema or "enum" in schema:
        return any(value == option for option in schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return not kinds or any(fits_type(value, kind, schema, root) for kind in kinds)


TYPES: dict[str, Any] = {
    "array": list,
    "object": dict,
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def fits_type(value: Any, kind: str, schema: Any, root: Any) -> bool:
    if type(value) is not TYPES[kind]:
        return False
    if kind == "array":
        items_fit = all(fits(item, schema["items"], root) for item in value)
        return items_fit and within(schema.get("minItems"), len(value), schema.get("maxItems"))
    if kind == "object":
        parts = schema["properties"]
        needed = {*schema["required"]} & {*parts}
        return needed <= {*value} <= {*parts} and all(fits(value[key], parts[key], root) for key in value)
    if kind == "string":
        return within(schema.get("minLength"), len(value), schema.get("maxLength"))
    return kind in {"boolean", "null"} or (
        within(schema.get("minimum"), value, schema.get("maximum"))
        and value != schema.get("exclusiveMinimum")
        and value != schema.get("exclusiveMaximum")
        and within(schema.get("exclusiveMinimum"), value, schema.get("exclusiveMaximum"))
        and ("multipleOf" not in schema or math.fmod(value, schema["multipleOf"]) == 0)
    )


def within(lowest: float | None, value: float, highest: float | None) -> bool:
    return (lowest is None or lowest <= value) and (highest is None or value <= highest)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), SCHEMAS)
def test_what_is_found_fits(schema: dict[str, Any], part: Any) -> None:
    root = schema | {"$defs": {"part": part}}
    try:
        value = dry(root)
    except JudgeError:
        return
    assert fits(value, root, root)


@given(NUMBERS)
def test_a_whole_number_is_found_if_there_is_one(schema: dict[str, Any]) -> None:
    schema = schema | {"type": "integer"}
    lowest = max(
        math.ceil(schema.get("minimum", -(10**7))), math.floor(schema.get("exclusiveMinimum", -(10**7))) + 1
    )
    highest = min(
        math.floor(schema.get("maximum", 10**7)), math.ceil(schema.get("exclusiveMaximum", 10**7)) - 1
    )
    step = schema.get("multipleOf", 1)
    exists = -(-lowest // step) * step <= highest
    if exists:
        assert fits(dry(schema), schema, schema)
    else:
        with pytest.raises(JudgeError):
            dry(schema)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("слово", 4),
        ("漢字", 2),
        ("\U0001f600", 2),
        ("\ud800", 1),
    ],
)
def test_estimates(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text())
def test_estimates_follow_their_rule(text: str) -> None:
    weights = [3, 8, 12, 16]
    total = sum(weights[len(character.encode()) - 1] for character in text)
    assert estimate_tokens(text) == -(-total // 12)


async def test_usage_is_estimated() -> None:
    judge = DryJudge()
    assert isinstance(judge, Judge)
    schema = {"type": "null"}
    bare = (await judge.complete([], schema))[1]
    messages = [{"role": "system", "content": "x" * 40}, {"role": "user", "content": "y" * 8}]
    reply, usage = await judge.complete(messages, schema)
    assert reply is None
    assert bare.input_tokens > 0
    assert usage == TokenUsage(bare.input_tokens + 12 + 2 * MESSAGE_TOKENS, ASSUMED_OUTPUT_TOKENS)


async def test_embeddings_are_unit_vectors() -> None:
    vectors, usage = await DryJudge().embed(["", "x" * 8, "x"])
    assert [math.hypot(*vector) for vector in vectors] == [1.0, 1.0, 1.0]
    assert usage == TokenUsage(3, 0)
    assert await DryJudge().embed([]) == ([], TokenUsage(0))
