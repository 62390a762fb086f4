"""Limits of concurrency, rate, time and money, as the server sees them; and calls that are not
made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JudgeUnavailable, evaluate_stream
from tests.judged.support import (
    KEYS,
    Call,
    aimed,
    collect_by_question,
    config,
    costs_of,
    dollars,
    flat,
    response,
    serving,
    steps_only,
    stream_of,
    templates,
)
from tests.support.judge_server import FAULTS, NEVER, Reply
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import JudgeServer, Request

COST = 0.0003
"""Of one completion."""


def claims_of(server: JudgeServer, records: int, **more: Any) -> EvaluationStream:
    """One call for each record."""
    settings = config(server, answer_correctness={}, **more)
    return evaluate_stream(templates(records), map(response, range(records)), config=settings)


@pytest.mark.ragas
@without_waiting
async def test_one_record_takes_three_latencies() -> None:
    async with serving(latency=100) as server:
        settings = config(server, limits={"call_timeout_sec": 1000, "result_timeout_sec": 1000})
        settings["answer_relevance"] = {"strictness": 3}
        start = now()
        async with evaluate_stream(templates(1, 5), [response(0, 5)], config=settings) as stream:
            (result,) = (await collect_by_question(stream)).values()
        assert now() - start < 3 * 100
        assert not [key for key in flat(result) if key.endswith("_error")]
        assert server.counts.requests == 1 + 4 + 2 * 6 + 4 + 1
        assert server.counts.most_in_flight <= 32


@pytest.mark.ragas
@without_waiting
async def test_what_is_unfinished_at_the_deadline_of_a_result() -> None:
    targets = Call("custom", 0), Call("retrieval_answer_precision", 0), Call("classes", 0)
    async with serving(aimed(lambda _: NEVER, *targets)) as server:
        start = now()
        async with stream_of(server, 2, documents=2, limits={"result_timeout_sec": 10}) as stream:
            first = await anext(stream)
            assert first["question_id"] == "q1"
            assert now() - start < 5
            second = await anext(stream)
            assert 9 < now() - start < 15
        late = flat(second)
        failed = ("ragas_answer_correctness", "custom", "retrieval_answer_precision")
        text = "timeout: the result was not finished within 10 seconds"
        errors = {key: value for key, value in late.items() if key.endswith("_error")}
        assert errors == {f"{metric}_error": text for metric in failed}
        lost = {key for name in failed[::2] for key in KEYS[name][1]}
        assert flat(first).keys() - late.keys() == lost - {"retrieval_answer_precision_reason"}
        assert stream.usage.outcomes == {"ok": 13, "timeout": 3, "skipped": 0}


@pytest.mark.ragas
@without_waiting
async def test_a_fatal_error_is_told_though_the_judge_is_paused() -> None:
    def script(request: Request) -> Reply:
        late = replace(FAULTS["quota"](request), latency=1)
        return late if request.number else FAULTS["429 long"](request)

    async with serving(script) as server:
        start = now()
        with pytest.raises(JudgeUnavailable, match="quota"):
            await collect_by_question(stream_of(server, 4, limits={"max_concurrency": 2}))
        assert now() - start < 10
        assert server.counts.requests == 2


@pytest.mark.ragas
@without_waiting
async def test_a_budget_that_is_spent_on_the_way() -> None:
    async with serving() as server:
        limits = {"budget_usd": 20.5 * COST, "max_concurrency": 4}
        responses = [*map(response, range(20)), steps_only(0)]
        async with evaluate_stream(
            templates(20), responses, config=config(server, limits=limits)
        ) as stream:
            results = [result async for result in stream]
        assert len(results) == 21
        spent = stream.usage.dollars
        assert spent is not None
        assert spent == pytest.approx(dollars(server))
        assert spent == pytest.approx(sum(cost for result in results for cost in costs_of(result)))
        assert 20.5 * COST <= spent < 24.5 * COST
        assert {*stream.usage.errors} == {"budget"}
        # four that do not apply to the last
        assert sum(stream.usage.outcomes.values()) == 20 * 8 + 4
        errors = {result["custom_error"] for result in results if "custom_error" in result}
        assert errors == {"budget: the budget of 0.00615 US dollars is spent"}


@pytest.mark.ragas
@without_waiting
async def test_a_second_run_on_a_cache_asks_nobody(tmp_path: Path) -> None:
    async with serving() as server:
        settings = config(server, cache=str(tmp_path / "calls.sqlite"))
        runs = []
        for _ in range(2):
            responses = [response(i) for i in range(4)]
            async with evaluate_stream(
                templates(4), responses, config=settings, ordered=True
            ) as stream:
                runs.append([result async for result in stream])
        assert server.counts.requests == stream.usage.cache_hits == 48
    assert (stream.usage.calls, stream.usage.attempts, stream.usage.dollars) == (0, 0, 0)
    for paid, free in zip(*runs, strict=True):
        assert {*costs_of(free)} == {0.0}
        assert list(paid) == list(free)
        assert paid["answer_relevance"] == free["answer_relevance"]
        assert paid["judge"] == free["judge"]
