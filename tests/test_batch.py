"""Finished sets: run_evaluation, compute_aggregates and compare."""

from __future__ import annotations

import asyncio
import copy
import gzip
import inspect
import random
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest

from graphrag_eval_async import (
    AggregationError,
    MissingResponses,
    RejectedResponses,
    RunningAggregates,
    SourceError,
    UsageError,
    compare,
    compute_aggregates,
    read_jsonl,
    run_evaluation,
    run_evaluation_sync,
)
from graphrag_eval_async.records.line import MAX_LINE_BYTES, MAX_RESULT_BYTES
from tests.support.data import REFERENCE, answer, heavy, templates

if TYPE_CHECKING:
    from pathlib import Path


async def test_results_stand_in_the_order_of_the_reference() -> None:
    responses = [(heavy if i % 2 else answer)(i % 3, id=i) for i in range(12)]
    random.Random(1).shuffle(responses)
    results = await run_evaluation(REFERENCE, responses, max_in_flight=3)
    assert [(r["question_id"], r["sample"]) for r in results] == [
        (f"q{question}", sample) for question in range(3) for sample in range(1, 5)
    ]
    expected = [r["id"] for q in range(3) for r in responses if r["question_id"] == f"q{q}"]
    assert [r["response_id"] for r in results] == expected
    without = await run_evaluation(None, [response | {"question": "?"} for response in responses])
    assert [r["response_id"] for r in without] == [r["id"] for r in responses], (
        "in the order of the input"
    )


async def test_a_dict_by_question_id() -> None:
    by_id = {f"q{i}": answer(i) for i in (2, 0, 1)}
    del by_id["q2"]["question_id"]
    before = copy.deepcopy(by_id)
    results = await run_evaluation(REFERENCE, by_id)
    assert [(r["question_id"], r["steps_score"]) for r in results] == [
        (f"q{i}", 1.0) for i in range(3)
    ]
    assert by_id == before
    with pytest.raises(UsageError, match=r"'q0'.*'q1'"):
        await run_evaluation(REFERENCE, {"q0": answer(1)})
    wrong: Any = {"q9": {}, 5: {}, "q0": None, "q1": {"actual_steps": 1}}
    with pytest.raises(RejectedResponses) as caught:
        await run_evaluation(REFERENCE, wrong)
    reasons = ["unknown_question_id", "invalid_field", "not_an_object", "invalid_field"]
    assert [reject.reason for reject in caught.value.rejects] == reasons


async def test_missing_responses_are_all_named() -> None:
    for responses in ([answer(1)], {"q1": {"error": "x"}}):
        with pytest.raises(MissingResponses, match="q0, q2") as caught:
            await run_evaluation(REFERENCE, responses)
        assert caught.value.question_ids == ["q0", "q2"]
        (result,) = await run_evaluation(REFERENCE, responses, missing="skip")
        assert result["question_id"] == "q1"
    assert await run_evaluation(REFERENCE, [], missing="skip") == []
    with pytest.raises(UsageError, match="missing"):
        await run_evaluation(REFERENCE, [], missing="ignore")  # type: ignore[arg-type]


async def test_rejects_are_all_listed() -> None:
    responses: list[Any] = [answer(0), "{", answer(1), {"question_id": "q9"}, answer(2)]
    with pytest.raises(RejectedResponses) as caught:
        await run_evaluation(REFERENCE, responses)
    assert caught.value.total == 2
    expected = [(2, "invalid_json"), (4, "unknown_question_id")]
    assert [(reject.line, reject.reason) for reject in caught.value.rejects] == expected
    assert all(word in str(caught.value) for word in ("line 2", "invalid_json", "line 4", "'q9'"))
    assert len(await run_evaluation(REFERENCE, responses, on_reject="collect")) == 3
    with pytest.raises(RejectedResponses, match="too_long"):
        await run_evaluation(
            REFERENCE, [answer(0), answer(1, note="x" * MAX_LINE_BYTES), answer(2)]
        )
    seen: list[Any] = []
    assert len(await run_evaluation(REFERENCE, responses, on_reject=seen.append)) == 3
    assert [reject.line for reject in seen] == [2, 4]
    with pytest.raises(MissingResponses):
        await run_evaluation(REFERENCE, responses[:-1], on_reject="collect")


def test_a_result_may_be_longer_than_a_response(tmp_path: Path) -> None:
    results = run_evaluation_sync(templates(2), [answer(1), answer(0)])
    results[0]["metadata"] = {"note": "x" * MAX_LINE_BYTES}
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"".join(orjson.dumps(result) + b"\n" for result in results))
    assert compare(path, path)["results"] == {"baseline": 2, "candidate": 2}
    with path.open("ab") as file:
        file.write(b'{"question_id": "' + b"x" * MAX_RESULT_BYTES + b'"}\n')
    with pytest.raises(
        AggregationError, match=r"line 3 .* too_long: .*; shorten the line, for example the"
    ):
        compare(path, path)


def test_without_an_event_loop() -> None:
    results = run_evaluation_sync(templates(2), [answer(1), answer(0)])
    assert [(result["question_id"], result["steps_score"]) for result in results] == [
        ("q0", 1),
        ("q1", 1),
    ]
    with pytest.raises(MissingResponses):
        run_evaluation_sync(templates(2), [answer(0)])
    assert inspect.signature(run_evaluation_sync) == inspect.signature(run_evaluation)


async def test_error_inside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"use `await run_evaluation\(\.\.\.\)` there"):
        run_evaluation_sync(templates(2), [])


def test_aggregates_of_results() -> None:
    results: list[Any] = [
        {"template_id": t, "input_tokens": n} for t, n in (("b", 1), ("a", 2), ("b", 3))
    ]
    running = RunningAggregates()
    for result in results:
        running.add(result)
    assert compute_aggregates(iter(results)) == running.snapshot()
    assert list(running.snapshot()["per_template"]) == ["a", "b"]
    raw: list[dict[str, Any]] = [{"template_id": t, "questions": []} for t in ("b", "a")]
    assert list(compute_aggregates(results, reference=raw)["per_template"]) == ["b", "a"]
    failed = {"template_id": "a", "status": "error", "input_tokens": 5}
    assert "input_tokens" not in compute_aggregates([failed])["micro"]
    assert compute_aggregates([failed], include_errors=True)["micro"]["input_tokens"]["sum"] == 5


def test_invalid_results_and_numbers_of_numpy() -> None:
    result: dict[str, Any] = {
        "template_id": "t",
        "steps_score": np.float32(0.5),
        "input_tokens": np.int64(7),
    }
    micro = compute_aggregates([result])["micro"]
    assert (micro["steps_score"]["sum"], micro["input_tokens"]["sum"]) == (0.5, 7)
    wrong = (
        None,
        {},
        *(result | {"steps_score": score} for score in ("1", np.float32("nan"), Decimal(1))),
    )
    for each in wrong:
        with pytest.raises(AggregationError):
            compute_aggregates([each])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="results: expected"):
        compute_aggregates("results")  # type: ignore[arg-type]


def scored(*scores: float) -> list[dict[str, Any]]:
    return [
        {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": score}
        for i, score in enumerate(scores)
    ]


BASELINE, CANDIDATE = scored(1.0, 0.5, 0.0), scored(1.0, 1.0)


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = b"".join(orjson.dumps(item) + b"\n" for item in items)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


async def test_comparing_dicts_and_files(tmp_path: Path) -> None:
    compared = compare(BASELINE, (each for each in CANDIDATE), level=0.9)
    assert (compared["level"], compared["questions"], compared["only_in_baseline"]) == (
        0.9,
        2,
        ["q2"],
    )
    assert compared["overall"]["steps_score"]["difference"] == 0.25
    baseline = write(tmp_path / "a" / "1.jsonl", BASELINE[:1])
    write(tmp_path / "a" / "2.jsonl.gz", BASELINE[1:])
    candidate = write(tmp_path / "b.jsonl", CANDIDATE)
    # Also where an event loop runs, as here.
    assert compare(baseline.parent, read_jsonl([candidate]), level=0.9) == compared
    assert await asyncio.to_thread(compare, BASELINE, candidate, level=0.9) == compared


def test_invalid_comparisons(tmp_path: Path) -> None:
    candidate = write(tmp_path / "b.jsonl", CANDIDATE)
    content = candidate.read_bytes()
    invalid = {
        b"{": "invalid_json",
        b"[]": "not_an_object",
        b'{"template_id": "t"}': "invalid_field: question_id: must be a string, not None",
    }
    for line, told in invalid.items():
        candidate.write_bytes(content + line + b"\n")
        with pytest.raises(AggregationError, match=re.escape(told)) as error:
            compare(BASELINE, candidate)
        assert str(error.value).startswith(f"{candidate}: line 3 (byte ")
    with pytest.raises(SourceError, match=r"none\.jsonl: cannot be read"):
        compare(BASELINE, tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match=r"^level: expected"):  # Before anything is read.
        compare(tmp_path / "none.jsonl", BASELINE, level=2.0)


def test_outputs_of_custom_evaluations_in_results_made_elsewhere() -> None:
    outputs = {"tone": "fraction 0-1: how polite", "why": {"type": "string", "description": "why"}}
    evaluation = {
        "name": "mine",
        "inputs": ["question"],
        "instructions": "Judge.",
        "outputs": outputs,
    }
    results = [
        {"template_id": "t", "question_id": f"q{i}", "tone": i / 2, "why": "x"} for i in (0, 1)
    ]
    micro = compute_aggregates(results, config={"custom_evaluations": [evaluation]})["micro"]
    assert micro["tone"]["mean"] == 0.25
    assert "why" not in micro
    assert "tone" not in compute_aggregates(results)["micro"]
    own = [results[1] | {"judge": {"outputs": ["other"]}, "other": 1}]
    assert (
        "tone" not in compute_aggregates(own, config={"custom_evaluations": [evaluation]})["micro"]
    )
