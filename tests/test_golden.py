"""The 40 questions and responses of the golden set, whose results and aggregates were computed
elsewhere.

`GRAPHRAG_EVAL_GOLDEN` names its folder; the tests skip without it, and fail if the folder is not
there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from graphrag_eval_async import (
    compute_aggregates,
    evaluate_stream,
    run_evaluation,
)
from graphrag_eval_async.reference.schemas import SHAPES
from tests.cli.support import from_jsonl

GOLDEN = Path(os.environ.get("GRAPHRAG_EVAL_GOLDEN", "golden"))
REFERENCE = GOLDEN / "reference.yaml"
RESPONSES = GOLDEN / "responses.jsonl"

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(
        "GRAPHRAG_EVAL_GOLDEN" not in os.environ, reason="GRAPHRAG_EVAL_GOLDEN is not set"
    ),
]


def load(name: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    return yaml.load((GOLDEN / name).read_text(), Loader=loader)  # noqa: S506


@pytest.fixture(scope="module")
def expected_results() -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = load("results.yaml")
    assert len(results) == 40
    return results


@pytest.fixture(scope="module")
def expected_aggregates() -> dict[str, Any]:
    aggregates: dict[str, Any] = load("aggregates.yaml")
    assert len(aggregates["per_template"]) == 4
    return aggregates


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Where `found` is not `expected`; keys of its own are fine."""
    if isinstance(expected, dict) and isinstance(found, dict):
        absent = [f"{place}.{key}: absent" for key in expected if key not in found]
        common = [key for key in expected if key in found]
        return absent + [
            d for k in common for d in differences(expected[k], found[k], f"{place}.{k}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [d for i, (e, f) in pairs for d in differences(e, f, f"{place}[{i}]")]
    return [] if expected == found else [f"{place}: {str(expected)[:80]} is not {str(found)[:80]}"]


async def test_stream(expected_results: list[Any], expected_aggregates: dict[str, Any]) -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    results = []
    async for result in stream:
        results.append(result)
        assert stream.aggregates.snapshot() == compute_aggregates(results, reference=REFERENCE)
    by_id = {result["question_id"]: result for result in results}
    assert not differences(
        expected_results, [by_id[result["question_id"]] for result in expected_results]
    )
    snapshot = stream.aggregates.snapshot()
    assert not differences(expected_aggregates, snapshot)
    assert list(snapshot["per_template"]) == list(expected_aggregates["per_template"])
    assert (stream.missing, stream.rejects.total) == ([], 0)


async def test_finished_set(
    expected_results: list[Any], expected_aggregates: dict[str, Any]
) -> None:
    results = await run_evaluation(REFERENCE, RESPONSES)
    assert not differences(expected_results, results)
    for expected, found in zip(expected_results, results, strict=True):
        assert [key for key in found if key in expected] == list(expected)
    assert not differences(expected_aggregates, compute_aggregates(results, reference=REFERENCE))
    assert not differences(expected_aggregates, compute_aggregates(expected_results))


async def test_schemas(expected_aggregates: dict[str, Any]) -> None:
    msgspec.convert(load("reference.yaml"), SHAPES["reference"])
    for line in from_jsonl(RESPONSES.read_bytes()):
        msgspec.convert(line, SHAPES["responses"])
    for result in await run_evaluation(REFERENCE, RESPONSES):
        msgspec.convert(json.loads(json.dumps(result)), SHAPES["results"])
    msgspec.convert(expected_aggregates, SHAPES["aggregates"])
