"""Any output is scored from 0 to 1, or said to be beyond the budget; nothing is raised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps import check_step, prepare_step, score_steps
from tests.fuzz.seeds import repeat, sizes, spoil
from tests.support.cpu import affordable

if TYPE_CHECKING:
    import random

MEDIA_TYPE = "application/sparql-results+json"
XSD = "http://www.w3.org/2001/XMLSchema#"
KINDS = [None, "integer", "decimal", "double", "boolean", "string", "nonsense"]


def cell(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(20)
    near = [f"{number}.0", f"{number}e0", f"{number}.000000001", f" {number} ", str(number * (2**61 - 1))]
    text = rng.choice([str(number), *near, "INF", "NaN", "true", "é", "1" * 299, "1" * 400, "0" * 9 + "+"])
    kind = rng.choice(KINDS)
    return {"type": "literal", "value": text} | ({"datatype": XSD + kind} if kind else {})


def table(rng: random.Random) -> dict[str, Any]:
    names = [f"v{index}" for index in range(rng.randint(1, 5))]
    few = [cell(rng) for _ in range(rng.randint(1, 6))]
    rows = [
        {name: dict(rng.choice(few)) for name in names if rng.random() < 0.9}
        for _ in range(rng.choice([0, 1, 3, 30]))
    ]
    return {"head": {"vars": names}, "results": {"bindings": rows}}


def output(expected: dict[str, Any], rng: random.Random) -> Any:
    found = expected if rng.random() < 0.5 else table(rng)
    if rng.random() < 0.7:
        found = spoil(found, rng, times=rng.randint(1, 4))
    if rng.random() < 0.5:
        return found
    text = json.dumps(found, default=str)
    return text if rng.random() < 0.7 else text[: rng.randrange(len(text) + 1)]


def check(rng: random.Random) -> None:
    expected = table(rng)
    step = {"name": "q", "output": json.dumps(expected), "output_media_type": MEDIA_TYPE}
    how = {"ordered": rng.random() < 0.3, "ignore_duplicates": rng.random() < 0.5}
    prepared = prepare_step(step | how)
    actual = [{"name": "q", "status": "success", "output": output(expected, rng)} for _ in range(3)]
    with affordable(1):
        scored = score_steps([[prepared]], actual, mode="last")
    assert 0 <= scored.score <= 1
    itself = [{"name": "q", "status": "success", "output": step["output"]}]
    assert score_steps([[prepared]], itself, mode="last").score == 1


@sizes
def test_any_output_is_scored(count: int) -> None:
    repeat(check, count)


def is_valid(output: Any, required: list[str]) -> bool:
    step = {"name": "q", "output": output, "output_media_type": MEDIA_TYPE, "required_columns": required}
    try:
        check_step(step)
    except MalformedStep:
        return False
    return True


@sizes
def test_text_and_objects_are_checked_alike(count: int) -> None:
    """Text is checked more quickly, and after some tables with the same columns more quickly still."""

    def check(rng: random.Random) -> None:
        found = table(rng)
        required = [*found["head"]["vars"][: rng.randint(0, 5)], *rng.choice([[], [], ["v2"]])]
        if rng.random() < 0.5:
            found = spoil(found, rng, times=rng.randint(1, 2))
        text = json.dumps(found, default=str)
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        if isinstance(document, dict):
            assert is_valid(text, required) == is_valid(document, required), text

    repeat(check, 3 * count)
