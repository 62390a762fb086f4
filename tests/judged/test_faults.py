"""Each misbehaviour of a server, met by one call of one metric of one record of a stream."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JudgeUnavailable, compute_aggregates, evaluate_stream
from tests.judged.support import (
    KEY,
    KEYS,
    METRIC_OF,
    REPLIES,
    Call,
    aimed,
    call_of,
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
)
from tests.support.judge_server import FAULTS, Reply, completion
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
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import JudgeServer, Request

pytestmark = pytest.mark.ragas

LIMITS = {"max_attempts": ATTEMPTS, "call_timeout_sec": 5}
VICTIM = 1
"""The record that meets the fault."""


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a result, those of its first step among them, but for costs."""
    keys = {**result, **result["actual_steps"][0]}
    return {k: v for k, v in keys.items() if k != "actual_steps" and not k.endswith("_cost")}


@pytest.fixture(scope="module")
def whole() -> dict[str, dict[str, Any]]:
    """The results where nothing fails."""
    found: dict[str, dict[str, Any]] = {}

    @without_waiting
    async def judge() -> None:
        async with serving() as server:
            results, stream = await run(server)
            found.update({question: flat(result) for question, result in results.items()})
            assert stream.usage.outcomes == {"ok": 16, "skipped": 0}

    judge()
    return found


async def run(server: JudgeServer) -> tuple[dict[str, dict[str, Any]], EvaluationStream]:
    """The results of a stream, and the stream."""
    async with stream_of(server, limits=LIMITS) as stream:
        results = await collect(stream)
    usage = stream.usage
    assert usage.in_flight == usage.waiting == 0
    assert sum(usage.outcomes.values()) == 8 * len(results)
    assert stream.aggregates.snapshot() == compute_aggregates(list(results.values()))
    costs = [cost for result in results.values() for cost in costs_of(result)]
    assert sum(costs) == pytest.approx(usage.dollars)
    return results, stream


def check_accounts(stream: EvaluationStream, server: JudgeServer) -> None:
    usage, counts = stream.usage, server.counts
    assert usage.attempts == counts.requests
    assert (usage.input_tokens, usage.output_tokens) == (counts.input_tokens, counts.output_tokens)
    assert usage.embedding_tokens == counts.embedding_tokens
    assert usage.dollars == pytest.approx(dollars(server))


async def check(name: str, target: Call, times: float, whole: Any) -> None:
    """What becomes of the results where the target meets the fault so often."""
    fault = FAULTS[name]
    fails = times > 1 or fault.once == 1
    requests = fault.once if times == 1 else fault.always
    async with serving(aimed(fault, target, times=times)) as server:
        results, stream = await run(server)
        found, wanted = {question: flat(result) for question, result in results.items()}, dict(whole)
        if fails:  # That metric has an error and no values, and all else is there.
            error_key, lost = KEYS[METRIC_OF.get(target.purpose, target.purpose)]
            victim = f"q{target.record}"
            wanted[victim] = {key: value for key, value in whole[victim].items() if key not in lost}
            assert found[victim].pop(error_key).startswith(f"{fault.kind}: ")
        assert found == wanted
        reopened = requests_of(server, target) - requests  # A reset may meet a reused connection.
        assert reopened in range(1 + (name == "reset"))
        assert stream.usage.errors == ({fault.kind: 1} if fails else {})
        assert sum(stream.usage.retries.values()) == requests + reopened - 1
        check_accounts(stream, server)


@pytest.mark.parametrize("times", [1, inf])
@pytest.mark.parametrize("name", [*HTTP_FAULTS, *CHAT_FAULTS])
@without_waiting
async def test_a_completion(name: str, times: float, whole: Any) -> None:
    await check(name, Call("answer_correctness", VICTIM), times, whole)


@pytest.mark.parametrize("times", [1, inf])
@pytest.mark.parametrize("name", ["503", "never", "html", "400", *EMBEDDING_FAULTS])
@without_waiting
async def test_embeddings(name: str, times: float, whole: Any) -> None:
    await check(name, Call("relevance_vectors", VICTIM), times, whole)


@without_waiting
async def test_a_server_that_does_not_tell_of_tokens(whole: Any) -> None:
    def script(request: Request) -> Reply:
        reply = REPLIES["AnswerClaims"]
        is_target = call_of(request) == Call("answer_correctness", VICTIM)
        return completion(reply, usage=None) if is_target else sensible(request)

    async with serving(script) as server, stream_of(server) as stream:
        results = await collect(stream)
        assert {question: flat(result) for question, result in results.items()} == whole
        assert "answer_correctness_cost" in results["q0"]
        assert "answer_correctness_cost" not in results["q1"]
        assert stream.usage.unmetered == 1
        assert (stream.usage.dollars or 0.0) > dollars(server)  # by an estimate


@without_waiting
async def test_a_long_pause_is_seen_and_no_error(whole: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(aimed(FAULTS["429 long"], Call("custom", 0), times=3)) as server:
        responses = [response(0), response(1), steps_only(0), steps_only(1)]
        limits = {"result_timeout_sec": 10, "max_attempts": 1}
        stream = evaluate_stream(templates(2), responses, config=config(server, limits=limits))
        async with stream:
            for _ in range(2):
                assert "judge" not in await anext(stream)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(250):
                    await anext(stream)
            assert stream.usage.paused_sec > 200
            assert stream.usage.errors == {}
            results = {question: flat(result) for question, result in (await collect(stream)).items()}
        assert results == whole
        assert requests_of(server, Call("custom", 0)) == 4
        check_accounts(stream, server)
        told = [record.message for record in caplog.records if record.name == "graphrag_eval_async.judge"]
        assert told[0].startswith("the judge's server asks to wait 300 s; requests resume at ")


@pytest.mark.parametrize("name", ["402", "quota"])
@without_waiting
async def test_a_fatal_error_ends_the_stream(name: str, whole: Any) -> None:
    def script(request: Request) -> Reply:
        if call_of(request).record == 0:
            return sensible(request)
        return replace(FAULTS[name](request), latency=50)

    async with serving(script, latency=1) as server:
        responses = [response(0), response(1), steps_only(0)]
        stream = evaluate_stream(templates(2), responses, config=config(server))
        first, second = await anext(stream), await anext(stream)
        assert "judge" not in first
        assert flat(second) == whole["q0"]
        with pytest.raises(JudgeUnavailable) as caught:
            await anext(stream)
        assert KEY not in str(caught.value)
        assert await anext(stream, None) is None
        await stream.aclose()
        assert stream.usage.attempts == server.counts.requests == 12 + 10
        assert stream.aggregates.snapshot() == compute_aggregates([first, second])


@pytest.mark.parametrize("name", FATAL)
@without_waiting
async def test_a_fatal_error_becomes_that_of_each_metric(name: str) -> None:
    async with serving(FAULTS[name], latency=1) as server:
        async with stream_of(server, 10, limits={"max_concurrency": 4}, on_fatal="continue") as stream:
            results = await collect(stream)
        assert len(results) == 10
        for result in results.values():
            assert result["steps_score"] == 1.0
            for error_key, lost in KEYS.values():
                keys = flat(result)
                assert keys[error_key].startswith("unavailable: gpt-4o-mini at http://127.0.0.1:")
                assert all(keys.get(key) is None for key in lost)
        assert stream.usage.errors == {"unavailable": 80}
        assert stream.usage.attempts == server.counts.requests
        assert stream.usage.attempts in (range(10, 20) if name in DENIED else [4])
        assert KEY not in repr(results)


RATE_LIMITED = [name for name in HTTP_FAULTS if name.startswith("429")]
OTHERS = [*sorted({*HTTP_FAULTS} - {*RATE_LIMITED}), *CHAT_FAULTS, *EMBEDDING_FAULTS]

KINDS = {"timeout", "rate_limited", "refused", "invalid_request", "invalid_reply", "unavailable"}


class Ledger:
    """What each metric of each record was sent: the price of all replies that came whole."""

    def __init__(self, faults: Sequence[str]) -> None:
        self._faults = random_faults(0.3, faults, sensible)
        self.costs: defaultdict[tuple[int, str], float] = defaultdict(float)

    def __call__(self, request: Request) -> Reply:
        answer = self._faults(request)
        if answer.usage is not None and answer.how == "":
            call = call_of(request)
            read, written = answer.usage
            price = read + written * 10 if request.is_chat else read * 0.5
            self.costs[call.record, METRIC_OF.get(call.purpose, call.purpose)] += price / 1e6
        return answer

    def check(self, result: Mapping[str, Any], metrics: Iterable[str]) -> float:
        """Each metric has its values, or an error, and the cost that the server knows of; returns the sum."""
        keys = {**result, **result["actual_steps"][0]}
        record = int(result["question_id"].removeprefix("q"))
        for metric in metrics:
            error_key, values = KEYS[metric]
            error = keys.get(error_key)
            assert (error is None) == (keys.get(values[0]) is not None)
            assert error is None or error.partition(": ")[0] in KINDS
            cost, told = keys.get(f"{metric}_cost", 0.0), self.costs[record, metric]
            assert cost == pytest.approx(told)
        return sum(costs_of(result))


@pytest.mark.parametrize("records", [75, pytest.param(5000, marks=pytest.mark.soak)])
@without_waiting
async def test_nothing_is_lost_and_all_is_counted(records: int) -> None:
    ledger = Ledger([*RATE_LIMITED, *OTHERS * 4])
    async with serving(ledger, keep_requests=False) as server:
        settings = config(server, limits=LIMITS | {"result_timeout_sec": 1e5, "max_concurrency": 64})
        responses = (response(i) for i in range(records))
        async with evaluate_stream(templates(records), responses, config=settings) as stream:
            results = [result async for result in stream]
        usage = stream.usage
        assert sorted(result["question_id"] for result in results) == sorted(f"q{i}" for i in range(records))
        assert usage.dollars == pytest.approx(sum(ledger.check(result, KEYS) for result in results))
        assert sum(usage.outcomes.values()) == len(KEYS) * records
        assert len(KEYS) * records * 0.75 < usage.outcomes["ok"]
        assert usage.in_flight == usage.waiting == 0
        assert stream.aggregates.snapshot() == compute_aggregates(results)
        assert usage.attempts == usage.calls + sum(usage.retries.values())
        check_accounts(stream, server)
