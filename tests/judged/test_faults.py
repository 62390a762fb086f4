"""Each misbehaviour of a server, met by one call of one record of a stream, and all of them at
random.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compute_aggregates, evaluate_stream
from tests.judged.support import (
    KEY,
    KEYS,
    METRIC_OF,
    METRICS,
    Call,
    aimed,
    call_of,
    collect_by_question,
    config,
    costs_of,
    dollars,
    flat,
    requests_of,
    response,
    sensible,
    serving,
    stream_of,
    templates,
)
from tests.support.judge_server import FAULTS, Reply
from tests.support.judge_server.faults import (
    ATTEMPTS,
    CHAT_FAULTS,
    DENIED,
    EMBEDDING_FAULTS,
    FATAL,
    HTTP_FAULTS,
    random_faults,
)
from tests.support.virtual_time import without_waiting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import JudgeServer, Request

pytestmark = pytest.mark.ragas

LIMITS = {"max_attempts": ATTEMPTS, "call_timeout_sec": 5, "result_timeout_sec": 1e5}


def check_accounts(stream: EvaluationStream, server: JudgeServer) -> None:
    usage, counts = stream.usage, server.counts
    assert usage.in_flight == usage.waiting == 0
    assert usage.attempts == counts.requests == usage.calls + usage.retries.total()
    assert (usage.input_tokens, usage.output_tokens) == (counts.input_tokens, counts.output_tokens)
    assert usage.embedding_tokens == counts.embedding_tokens
    assert usage.dollars == pytest.approx(dollars(server))


async def check_faults(names: Sequence[str], purpose: str, others: Mapping[str, Any]) -> None:
    """What becomes of a metric and its neighbours where each record's call meets another fault.

    Each fault is met by two records: once, and always. The first record meets none, and comes
    first, so that it is known how the server takes requests.
    """
    metric = METRIC_OF.get(purpose, purpose)
    settings = {metric: METRICS[metric], **others}
    cases = [(name, times) for name in names for times in (1, 99)]
    left = {Call(purpose, record): times for record, (_, times) in enumerate(cases, 1)}

    def script(request: Request) -> Reply:
        call = call_of(request)
        if left.get(call, 0) <= 0:
            return sensible(request)
        left[call] -= 1
        return FAULTS[cases[call.record - 1][0]](request)

    async with serving(script) as server:

        async def responses() -> AsyncGenerator[dict[str, Any]]:
            yield response(0)
            await server.until(lambda: server.counts.replies == 2)
            for record in range(1, 1 + len(cases)):
                yield response(record)

        found = config(server, limits=LIMITS, **settings)
        async with evaluate_stream(templates(1 + len(cases)), responses(), config=found) as stream:
            results = await collect_by_question(stream)
        check_accounts(stream, server)
        assert stream.aggregates.snapshot() == compute_aggregates(list(results.values()))

    error_key, lost = KEYS[metric]
    whole = {*flat(results["q0"])}
    errors: Counter[str] = Counter()
    for record, (name, times) in enumerate(cases, 1):
        result, fault = flat(results[f"q{record}"]), FAULTS[name]
        fails = times > 1 or fault.once == 1
        error = result.pop(error_key, "none: ")
        assert error.startswith(f"{fault.kind if fails else 'none'}: "), (name, times, error)
        assert {*result} == whole - ({*lost} if fails else set()), (name, times)
        requests = fault.always if times > 1 else fault.once
        # A reset of a reused connection does not count as an attempt.
        sent = requests_of(server, Call(purpose, record)) - (name == "reset")
        assert sent in {requests, requests - (name == "reset")}, (name, times)
        errors += Counter([fault.kind] if fails else [])
    assert stream.usage.errors == errors


@without_waiting
async def test_each_fault_of_a_completion_is_an_error_of_its_metric_alone() -> None:
    custom = {"custom_evaluations": METRICS["custom_evaluations"]}
    await check_faults([*HTTP_FAULTS, *CHAT_FAULTS], "answer_correctness", custom)


@without_waiting
async def test_each_fault_of_embeddings_is_an_error_of_its_metric_alone() -> None:
    await check_faults(["503", "never", "html", "400", *EMBEDDING_FAULTS], "relevance_vectors", {})


@without_waiting
async def test_a_long_pause_is_seen_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(aimed(FAULTS["429 long"], Call("custom", 0), times=3)) as server:
        async with stream_of(
            server, limits={"result_timeout_sec": 10, "max_attempts": 1}
        ) as stream:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(250):
                    await anext(stream)
            assert stream.usage.paused_sec > 200
            assert stream.usage.errors == {}
            assert len(await collect_by_question(stream)) == 2
        assert stream.usage.outcomes == {"ok": 16, "skipped": 0}
        assert requests_of(server, Call("custom", 0)) == 4
        check_accounts(stream, server)
        told = [
            record.message
            for record in caplog.records
            if record.name == "graphrag_eval_async.judge"
        ]
        assert told[0].startswith("the judge's server asks to wait 300 s; requests resume at ")


@without_waiting
async def test_a_fatal_error_becomes_that_of_each_metric() -> None:
    for name in FATAL:
        limits = {"max_concurrency": 4}
        async with serving(FAULTS[name], latency=1) as server:
            stream = stream_of(server, 3, limits=limits, on_fatal="continue")
            results = await collect_by_question(stream)
        for result in results.values():
            assert result["steps_score"] == 1.0
            keys = flat(result)
            for error_key, lost in KEYS.values():
                assert keys[error_key].startswith("unavailable: gpt-4o-mini at http://127.0.0.1:")
                assert all(keys.get(key) is None for key in lost)
        assert stream.usage.errors == {"unavailable": 24}
        assert stream.usage.attempts == server.counts.requests
        assert stream.usage.attempts in (range(10, 20) if name in DENIED else [4])
        assert KEY not in repr(results)


KINDS = {"timeout", "rate_limited", "refused", "invalid_request", "invalid_reply", "unavailable"}
NAMES = [
    name for name in (*HTTP_FAULTS, *CHAT_FAULTS, *EMBEDDING_FAULTS) if not name.startswith("429")
]


@pytest.mark.parametrize("records", [40, pytest.param(1000, marks=pytest.mark.soak)])
@without_waiting
async def test_nothing_is_lost_and_all_is_counted(records: int) -> None:
    """Soak: the same with 1000 records, 12,000 calls of which a third meet faults; about 30 s."""
    script = random_faults(0.3, ["429", *NAMES * 2], sensible)
    async with serving(script, keep_requests=False) as server:
        settings = config(server, limits=LIMITS | {"max_concurrency": 64})
        responses = (response(i) for i in range(records))
        async with evaluate_stream(templates(records), responses, config=settings) as stream:
            results = [result async for result in stream]
        check_accounts(stream, server)
    usage = stream.usage
    assert sorted(result["question_id"] for result in results) == sorted(
        f"q{i}" for i in range(records)
    )
    assert usage.dollars == pytest.approx(
        sum(cost for result in results for cost in costs_of(result))
    )
    assert sum(usage.outcomes.values()) == len(KEYS) * records
    assert len(KEYS) * records * 0.75 < usage.outcomes["ok"]
    assert stream.aggregates.snapshot() == compute_aggregates(results)
    for result in results:
        keys = flat(result)
        for error_key, values in KEYS.values():
            error = keys.get(error_key)
            assert (error is None) == (keys.get(values[0]) is not None)
            assert error is None or error.partition(": ")[0] in KINDS
