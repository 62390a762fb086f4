"""Results that come twice: scored, and then judged."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest

from graphrag_eval_async import JudgeUnavailable, compute_aggregates, evaluate_stream
from tests.conftest import HEAVY_BYTES
from tests.judge_server import FAULTS, Never
from tests.judged.support import (
    collect,
    config,
    response,
    serving,
    steps_only,
    templates,
    without_waiting,
)

ALL = [
    *("answer_correctness", "answer_relevance", "retrieval_answer", "retrieval_context"),
    *("ragas_answer_correctness", "custom"),
]
BEFORE = [
    *("template_id", "question_id", "question_text", "reference_steps", "reference_answer"),
    *("status", "actual_answer", "actual_steps", "steps_score", "failure", "sample", "pending"),
]


def heavy(record: int) -> dict[str, Any]:
    """A response that is scored in a thread."""
    return response(record, padding="x" * HEAVY_BYTES)


@pytest.mark.ragas
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("make", [response, heavy])
@without_waiting
async def test_first_the_steps_and_then_all(make: Any, ordered: bool) -> None:
    async with serving(latency=1) as server:
        responses = [*map(make, range(4)), steps_only(4)]
        stream = evaluate_stream(templates(5), responses, config=config(server), stages=True, ordered=ordered)
        early: dict[str, Any] = {}
        late: dict[str, Any] = {}
        async with stream:
            async for result in stream:
                stage = early if "pending" in result else late
                assert result["question_id"] not in stage
                stage[result["question_id"]] = copy.deepcopy(result)
                assert stream.aggregates.snapshot()["micro"]["number_of_success_samples"] == len(late)
                if stage is early:
                    assert result["question_id"] not in late
                    change(result)
        assert [*early] == [f"q{i}" for i in range(4)] if make is response else len(early) == 4
        assert sorted(late) == [f"q{i}" for i in range(5)]
        assert [*late] == sorted(late) or not ordered
        for question, result in early.items():
            assert result["pending"] == ALL
            assert [key for key in result if key != "metadata"] == BEFORE
            assert set(result) - {"pending"} < set(late[question])
            assert {*result["actual_steps"][0]} < {*late[question]["actual_steps"][0]}
        plain = evaluate_stream(templates(5), responses, config=config(server))
        assert await collect(plain) == late
        assert stream.aggregates.snapshot() == plain.aggregates.snapshot()
        assert stream.aggregates.snapshot() == compute_aggregates(list(late.values()))


def change(result: dict[str, Any]) -> None:
    """As a consumer might."""
    result["actual_steps"][0]["name"] = "changed"
    result["actual_steps"].clear()
    result["reference_steps"][0][0].clear()
    result["pending"].clear()
    result.clear()


@pytest.mark.ragas
async def test_the_early_result_waits_for_no_judge() -> None:
    async with serving(lambda _: Never()) as server:
        settings = config(server, limits={"max_concurrency": 1})
        responses = [response(i) for i in range(20)]
        async with evaluate_stream(templates(20), responses, config=settings, stages=True) as stream:
            early = [await anext(stream) for _ in range(20)]
            assert [result["question_id"] for result in early] == [f"q{i}" for i in range(20)]
            assert all(result["steps_score"] == 1.0 for result in early)
            assert stream.aggregates.snapshot()["micro"]["number_of_success_samples"] == 0


@pytest.mark.ragas
@pytest.mark.parametrize("on_fatal", ["raise", "continue"])
@without_waiting
async def test_early_results_come_before_a_fatal_error(on_fatal: Any) -> None:
    async with serving(FAULTS["401"]) as server:
        responses = [response(i) for i in range(5)]
        stream = evaluate_stream(
            templates(5), responses, config=config(server), stages=True, on_fatal=on_fatal
        )
        results = []
        with pytest.raises(JudgeUnavailable) if on_fatal == "raise" else nullcontext():
            async for result in stream:
                results.append(result)  # noqa: PERF401  (those before an error count)
        assert ["pending" in result for result in results[:5]] == [True] * 5
        whole = 0 if on_fatal == "raise" else 5
        assert ["pending" in result for result in results[5:]] == [False] * whole
        assert stream.aggregates.snapshot()["micro"]["number_of_success_samples"] == whole
