"""What a schema takes is what is read, and the other way round."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest
import yaml
from msgspec.structs import fields

from graphrag_eval_async import (
    GraphragEvalError,
    UsageError,
    compute_aggregates,
    load_config,
    load_reference,
    run_evaluation,
)
from graphrag_eval_async.records.metrics import RESULT_METRICS
from graphrag_eval_async.records.response import read_response
from graphrag_eval_async.reference.schemas import SHAPES, json_schema
from tests.cli.support import ROOT, from_jsonl, run

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = {"name": "x", "output": "y"}
VALUES: list[Any] = [None, True, 0, -1, 1.5, "", "success", "x", "exact", [], ["x"], [[]], [[STEP]], {}]
MODEL = {"provider": "openai", "model": "m", "api_key": "k"}


def accepts(name: str, value: Any) -> bool:
    try:
        msgspec.convert(value, SHAPES[name])
    except msgspec.ValidationError:
        return False
    return True


def variations(value: Any, part: dict[str, Any], keys: list[str]) -> list[tuple[str, Any]]:
    """Copies of a value with each key of a part of it left out, and with each of `VALUES` in it."""
    found, before = [], dict(part)
    for key in keys:
        for other in [*VALUES, ...]:
            part.clear()
            part.update(before | {key: other})
            if other is ...:
                del part[key]
            found.append((f"{key}: {other!r}", copy.deepcopy(value)))
    part.clear()
    part.update(before)
    return found


def agree(name: str, read: Callable[[Any], object], cases: list[tuple[str, Any]]) -> None:
    """What a schema takes is what is read."""

    def is_read(value: Any) -> bool:
        try:
            read(value)
        except GraphragEvalError:
            return False
        return True

    verdicts = {case: (accepts(name, value), is_read(value)) for case, value in cases}
    assert {accepted for accepted, _ in verdicts.values()} == {True, False}
    assert [case for case, (accepted, read) in verdicts.items() if accepted != read] == []


@pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")
def test_reference_sets() -> None:
    step: dict[str, Any] = {"name": "x", "output": "y"}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    raw: Any = [{"template_id": "t", "questions": [question]}]
    agree("reference", load_reference, variations(raw, raw[0], ["template_id", "questions"]))
    agree("reference", load_reference, variations(raw, question, [*question, "reference_answer"]))
    keys = ["name", "args", "ordered", "ignore_duplicates", "output_media_type", "score"]
    agree("reference", load_reference, variations(raw, step, keys))
    assert not accepts("reference", [])
    assert accepts("reference", yaml.safe_load((ROOT / "examples/reference.yaml").read_text()))


def test_responses() -> None:
    raw: dict[str, Any] = {"question_id": "x", "actual_steps": [{"name": "a", "status": "success"}]}
    keys = [field.encode_name for field in fields(SHAPES["responses"]) if field.name != "actual_steps"]

    def read(value: Any) -> object:
        return read_response(orjson.dumps(value), {"x": 1, "success": 1, "exact": 1})

    agree("responses", read, variations(raw, raw, keys))
    for line in from_jsonl((ROOT / "examples/responses.jsonl").read_bytes()):
        assert accepts("responses", line)


def test_results() -> None:
    raw: dict[str, Any] = {"template_id": "t", "question_id": "q", "status": "success"}

    cases = variations(raw, raw, [*RESULT_METRICS, "status"])
    agree("results", lambda value: compute_aggregates([value]), cases)


async def test_results_and_aggregates_of_the_examples() -> None:
    results = await run_evaluation(ROOT / "examples/reference.yaml", ROOT / "examples/responses.jsonl")
    assert all(accepts("results", orjson.loads(orjson.dumps(result))) for result in results)
    for detail in (False, True):
        aggregates = json.loads(json.dumps(compute_aggregates(results, detail=detail)))
        assert accepts("aggregates", aggregates)
    aggregates["micro"]["steps_score"]["mean"] = "high"
    assert not accepts("aggregates", aggregates)


@pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")
def test_configurations() -> None:
    raw: dict[str, Any] = {"llm": {"generation": MODEL, "embedding": MODEL}}
    keys = ["steps", "answer_correctness", "answer_relevance", "metrics", "aliases", "unknown"]
    # Nothing turns a metric on, or it is an error; both are allowed by the types.
    nothing = {f"{key}: None" for key in keys}
    agree(
        "configuration", load_config, [case for case in variations(raw, raw, keys) if case[0] not in nothing]
    )


@pytest.mark.parametrize("name", SHAPES)
def test_the_command(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("schema", name) == 0
    schema = json.loads(capfd.readouterr().out)
    assert schema == json_schema(name)
    assert r"\A" not in json.dumps(schema)
    assert all(each.get("description") for each in schema["$defs"].values() if each["title"] == "Response")
    with pytest.raises(UsageError, match=r"no schema 'refrence'; did you mean reference\?"):
        json_schema("refrence")
