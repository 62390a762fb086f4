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
from graphrag_eval_async.catalogue.metrics import RESULT_METRICS
from graphrag_eval_async.records.response import read_response
from graphrag_eval_async.reference.schemas import SHAPES, json_schema
from tests.cli.support import ROOT, from_jsonl, run

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = {"name": "x", "output": "y"}
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "success",
    "x",
    "exact",
    [],
    ["x"],
    [[]],
    [[STEP]],
    {},
]
MODEL = {"provider": "openai", "model": "m", "api_key": "k"}


def accepts(name: str, value: Any) -> bool:
    try:
        msgspec.convert(value, SHAPES[name])
    except msgspec.ValidationError:
        return False
    return True


def agree(
    name: str,
    read: Callable[[Any], object],
    raw: Any,
    part: dict[str, Any],
    keys: list[str],
    values: list[Any] = VALUES,
) -> None:
    """With each key of a part of a value left out, and with each of `values` in it."""
    before, verdicts = dict(part), {}
    for key in keys:
        for other in [*values, ...]:
            part.clear()
            part.update(before | {key: other})
            if other is ...:
                del part[key]
            try:
                read(copy.deepcopy(raw))
                is_read = True
            except GraphragEvalError:
                is_read = False
            verdicts[f"{key}: {other!r}"] = accepts(name, raw), is_read
    part.clear()
    part.update(before)
    assert {accepted for accepted, _ in verdicts.values()} == {True, False}
    assert [case for case, (accepted, is_read) in verdicts.items() if accepted != is_read] == []


@pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")
def test_reference_sets() -> None:
    step: dict[str, Any] = {"name": "x", "output": "y"}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    raw: Any = [{"template_id": "t", "questions": [question]}]
    agree("reference", load_reference, raw, raw[0], ["template_id", "questions"])
    agree("reference", load_reference, raw, question, [*question])
    texts = [value for value in VALUES if not isinstance(value, list)]  # Lists need a `match`.
    agree("reference", load_reference, raw, question, ["reference_answer"], texts)
    keys = ["name", "args", "ordered", "ignore_duplicates", "output_media_type", "score"]
    agree("reference", load_reference, raw, step, keys)
    assert not accepts("reference", [])
    assert accepts("reference", yaml.safe_load((ROOT / "examples/reference.yaml").read_text()))


def test_responses_and_results() -> None:
    raw: dict[str, Any] = {"question_id": "x", "actual_steps": [{"name": "a", "status": "success"}]}
    keys = [
        field.encode_name for field in fields(SHAPES["responses"]) if field.name != "actual_steps"
    ]

    def read(value: Any) -> object:
        return read_response(orjson.dumps(value), {"x": 1, "success": 1, "exact": 1})

    agree("responses", read, raw, raw, keys)
    for line in from_jsonl((ROOT / "examples/responses.jsonl").read_bytes()):
        assert accepts("responses", line)
    raw = {"template_id": "t", "question_id": "q", "status": "success"}
    agree(
        "results", lambda value: compute_aggregates([value]), raw, raw, [*RESULT_METRICS, "status"]
    )


async def test_results_and_aggregates_of_the_examples() -> None:
    results = await run_evaluation(
        ROOT / "examples/reference.yaml", ROOT / "examples/responses.jsonl"
    )
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
    agree(
        "configuration",
        load_config,
        raw,
        raw,
        keys,
        [value for value in VALUES if value is not None],
    )


def test_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    for name in SHAPES:
        assert run("schema", name) == 0
        schema = json.loads(capfd.readouterr().out)
        assert schema == json_schema(name)
        assert r"\A" not in json.dumps(schema)
        responses = [each for each in schema["$defs"].values() if each["title"] == "Response"]
        assert all(each.get("description") for each in responses)
    with pytest.raises(UsageError, match=r"no schema 'refrence'; did you mean reference\?"):
        json_schema("refrence")
