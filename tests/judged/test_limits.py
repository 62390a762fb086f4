"""Limits of concurrency, rate, time and money, as the server sees them; and calls that are not made."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JudgeUnavailable, evaluate_stream
from graphrag_eval_async.judge.dry import DryJudge
from graphrag_eval_async.metrics import metric
from tests.conftest import LoopClock
from tests.judge_server import FAULTS, Never, Reply
from tests.judged.support import (
    Call,
    aimed,
    collect,
    config,
    costs_of,
    dollars,
    requests_of,
    response,
    sensible,
    serving,
    steps_only,
    stream_of,
    templates,
    without_waiting,
)

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream
    from tests.judge_server import Fault, JudgeServer, Request

COST = 0.0003
"""Of one completion."""


def claims_of(server: JudgeServer, records: int, **more: Any) -> EvaluationStream:
    """One call for each record."""
    settings = config(server, answer_correctness={}, **more)
    return evaluate_stream(templates(records), map(response, range(records)), config=settings)


def now() -> float:
    return asyncio.get_running_loop().time()


# Concurrency


async def test_prompts_are_not_all_written_in_one_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    write, written, clock = metric.messages, Counter[int](), LoopClock()

    def counted(*prompt: Any) -> Any:
        written[clock.turn] += 1
        return write(*prompt)

    monkeypatch.setattr(metric, "messages", counted)
    one = {"inputs": ["question"], "instructions": "Judge."}
    custom = [one | {"name": f"custom{i}", "outputs": {f"score{i}": "a score"}} for i in range(100)]
    settings: Any = {"custom_evaluations": custom}
    responses = map(response, range(3))
    async with evaluate_stream(templates(3), responses, config=settings, judge=DryJudge()) as stream:
        assert [result async for result in stream]
    clock.stop()
    assert written.total() == 3 * 100
    assert max(written.values()) <= 16


@pytest.mark.ragas
@without_waiting
async def test_the_server_sees_no_more_requests_at_a_time_than_allowed() -> None:
    async with serving(latency=0.5) as server:
        async with stream_of(server, 12, documents=2, limits={"max_concurrency": 7}) as stream:
            assert len(await collect(stream)) == 12
        assert server.counts.most_in_flight == server.counts.most_connections == 7


@without_waiting
async def test_a_refusal_halves_the_concurrency_once_and_successes_raise_it_again() -> None:
    seen: list[int] = []

    def script(request: Request) -> Reply | Fault:
        seen.append(stream.usage.concurrency)
        assert server.counts.in_flight < stream.usage.concurrency
        return FAULTS["429"](request) if request.number in {0, 5, 6} else sensible(request)

    async with serving(script, latency=1) as server:
        stream = claims_of(server, 60, limits={"max_concurrency": 8})
        async with stream:
            assert len(await collect(stream)) == 60
        assert seen[:9] == [8] * 8 + [4]
        assert seen[-1] == 8
        assert all(0 <= later - earlier <= 1 for earlier, later in pairwise(seen[8:]))
        assert stream.usage.retries == {"rate_limited": 3}
        assert len(seen) == 63


@pytest.mark.ragas
@without_waiting
async def test_one_record_takes_three_latencies() -> None:
    async with serving(latency=100) as server:
        settings = config(server, limits={"call_timeout_sec": 1000, "result_timeout_sec": 1000})
        settings["answer_relevance"] = {"strictness": 3}
        start = now()
        async with evaluate_stream(templates(1, 5), [response(0, 5)], config=settings) as stream:
            (result,) = (await collect(stream)).values()
        assert now() - start < 3 * 100
        assert not [key for key in {**result, **result["actual_steps"][0]} if key.endswith("_error")]
        assert server.counts.requests == 1 + 4 + 2 * 6 + 4 + 1


# Rates


@without_waiting
async def test_requests_per_minute() -> None:
    async with serving() as server:
        async with claims_of(server, 40, limits={"requests_per_minute": 600}) as stream:
            await collect(stream)
        times = [request.time for request in server.requests]
        assert 2 < times[-1] - times[0] < 3.5  # Without the time that the first takes to connect.
        assert all(later - earlier > 0.5 for earlier, later in zip(times, times[20:], strict=False))


# Time


@pytest.mark.ragas
@without_waiting
async def test_what_is_unfinished_at_the_deadline_of_a_result() -> None:
    targets = Call("custom", 0), Call("retrieval_answer_precision", 0, 1), Call("classes", 0)
    async with serving(aimed(lambda _: Never(), *targets)) as server:
        start = now()
        async with stream_of(server, 2, documents=2, limits={"result_timeout_sec": 10}) as stream:
            first = await anext(stream)
            assert first["question_id"] == "q1"
            assert now() - start < 5
            second = await anext(stream)
            assert 9 < now() - start < 15
        late = {**second, **second["actual_steps"][0]}
        text = "timeout: the result was not finished within 10 seconds"
        assert {key: value for key, value in late.items() if key.endswith("_error")} == {
            "ragas_answer_correctness_error": text,
            "custom_error": text,
            "retrieval_answer_precision_error": text,
        }
        assert late["custom_score"] is None
        lost = {"ragas_answer_correctness", "custom_score", "retrieval_answer_precision"}
        lost |= {"retrieval_answer_f1", *(f"ragas_answer_correctness_{name}" for name in ("tp", "fp", "fn"))}
        lost |= {"ragas_answer_correctness_similarity", "answer_relevance"}
        in_time = {**first, **first["actual_steps"][0]}
        unknown = {"custom_cost"}  # since its only request was given up
        assert {key for key in in_time if key not in late} | {
            "custom_score",
            "answer_relevance",
        } == lost | unknown
        assert stream.usage.outcomes == {"ok": 13, "timeout": 3, "skipped": 0}


@without_waiting
async def test_the_time_of_a_result_begins_with_its_first_request() -> None:
    async with serving(latency=5) as server:
        limits = {"max_concurrency": 1, "result_timeout_sec": 8}
        async with claims_of(server, 30, limits=limits) as stream:
            await collect(stream)
        assert stream.usage.outcomes == {"ok": 30, "skipped": 0}


@pytest.mark.ragas
@without_waiting
async def test_a_fatal_error_is_told_though_the_judge_is_paused() -> None:
    def script(request: Request) -> Reply | Fault:
        late = FAULTS["quota"](request)
        assert isinstance(late, Reply)
        return FAULTS["429 long"](request) if request.number == 0 else replace(late, latency=1)

    for on_fatal in ("raise", "continue"):
        async with serving(script) as server:
            start = now()
            limits = {"max_concurrency": 2}
            stream = stream_of(server, 4, limits=limits, on_fatal=on_fatal)
            if on_fatal == "raise":
                with pytest.raises(JudgeUnavailable, match="quota"):
                    await anext(stream)
            else:
                assert len(await collect(stream)) == 4
                assert stream.usage.errors == {"unavailable": 32}
            assert now() - start < 10
            assert server.counts.requests == 2


# Money


@pytest.mark.ragas
@without_waiting
async def test_a_budget_that_is_spent_on_the_way() -> None:
    async with serving() as server:
        limits = {"budget_usd": 20.5 * COST, "max_concurrency": 4}
        responses = [*map(response, range(20)), steps_only(0)]
        async with evaluate_stream(templates(20), responses, config=config(server, limits=limits)) as stream:
            results = [result async for result in stream]
        assert len(results) == 21
        assert all(result["steps_score"] in {0.0, 1.0} for result in results)
        spent = stream.usage.dollars
        assert spent is not None
        assert spent == pytest.approx(dollars(server))
        assert spent == pytest.approx(sum(cost for result in results for cost in costs_of(result)))
        assert 20.5 * COST <= spent < 24.5 * COST
        assert {*stream.usage.errors} == {"budget"}
        assert sum(stream.usage.outcomes.values()) == 20 * 8 + 4  # four that do not apply to the last
        errors = {result["custom_error"] for result in results if "custom_error" in result}
        assert errors == {"budget: the budget of 0.00615 US dollars is spent"}


@without_waiting
async def test_a_budget_counts_retries_and_replies_that_cannot_be_used() -> None:
    async with serving(FAULTS["wrong schema"]) as server:
        limits = {"budget_usd": 5 * COST, "max_concurrency": 1}
        async with claims_of(server, 10, limits=limits) as stream:
            await collect(stream)
        assert server.counts.requests == 5
        assert stream.usage.errors == {"invalid_reply": 2, "budget": 8}


# Calls that are not made


@pytest.mark.ragas
@without_waiting
async def test_a_second_run_on_a_cache_asks_nobody(tmp_path: Path) -> None:
    async with serving() as server:
        settings = config(server, cache=str(tmp_path / "calls.sqlite"))
        runs = []
        for _ in range(2):
            responses = [response(i) for i in range(4)]
            async with evaluate_stream(templates(4), responses, config=settings, ordered=True) as stream:
                runs.append([result async for result in stream])
            runs[-1].append({"spent": stream.usage.dollars})
        assert server.counts.requests == 48
        assert stream.usage.as_dict() | {"concurrency": 0} == stream.usage.as_dict() | {
            "calls": 0,
            "attempts": 0,
            "cache_hits": 48,
            "dollars": 0,
            "concurrency": 0,
        }
        first, second = runs
        assert first.pop() != second.pop()
        for paid, free in zip(first, second, strict=True):
            assert {*costs_of(free)} == {0.0}
            assert list(paid) == list(free)
            assert paid["answer_relevance"] == free["answer_relevance"]
            assert paid["judge"] == free["judge"]


@pytest.mark.ragas
@without_waiting
async def test_repeats_on_purpose_are_not_shared() -> None:
    async with serving(latency=1) as server:
        settings = config(server, answer_correctness={}, answer_relevance={"strictness": 3})
        async with evaluate_stream(templates(1), [response(0)], config=settings) as stream:
            results = [result async for result in stream]
        assert requests_of(server, Call("answer_correctness", 0)) == 1
        assert requests_of(server, Call("answer_relevance", 0)) == 3
        assert requests_of(server, Call("relevance_vectors", 0)) == 1
        assert sum(cost for result in results for cost in costs_of(result)) == pytest.approx(dollars(server))
