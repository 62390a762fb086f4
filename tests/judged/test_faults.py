"""Each misbehaviour of a server, met by one call of one metric of one record of a stream."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from graphrag_eval_async import JudgeUnavailable, compute_aggregates, evaluate_stream
from tests.judge_server import FAULTS, Reply, completion
from tests.judge_server.faults import FATAL
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
    without_waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async import EvaluationStream
    from tests.judge_server import Fault, JudgeServer, Request

pytestmark = pytest.mark.ragas

ATTEMPTS = 3
LIMITS = {"max_attempts": ATTEMPTS, "call_timeout_sec": 5}
VICTIM = 1
"""The record that meets the fault."""


class Expected(NamedTuple):
    """What a fault means: `once` and `always` are the requests of a call that meets it so often."""

    kind: str
    once: int
    always: int

    @property
    def is_mended(self) -> bool:
        """Whether the call succeeds that meets it only once."""
        return self.once > 1


TIMEOUT = Expected("timeout", 2, ATTEMPTS)
RATE_LIMITED = Expected("rate_limited", 2, ATTEMPTS)
UNAVAILABLE = Expected("unavailable", 2, ATTEMPTS)
INVALID_REPLY = Expected("invalid_reply", 2, 2)
INVALID_REQUEST = Expected("invalid_request", 1, 1)
REFUSED = Expected("refused", 1, 1)

HTTP = {
    "429": RATE_LIMITED,
    "429 seconds": RATE_LIMITED,
    "429 fraction": RATE_LIMITED,
    "429 milliseconds": RATE_LIMITED,
    "429 date": RATE_LIMITED,
    "429 past date": RATE_LIMITED,
    "429 nonsense": RATE_LIMITED,
    "500": UNAVAILABLE,
    "502": UNAVAILABLE,
    "503": UNAVAILABLE,
    "408": TIMEOUT,
    "409": UNAVAILABLE,
    "reset": Expected("unavailable", 2, ATTEMPTS + 1),
    "reset mid-body": UNAVAILABLE,
    "never": TIMEOUT,
    "drip": TIMEOUT,
    "html": INVALID_REPLY,
    "html 502": UNAVAILABLE,
    "truncated": INVALID_REPLY,
    "400": INVALID_REQUEST,
    "413": INVALID_REQUEST,
    "422": INVALID_REQUEST,
    "redirect": INVALID_REQUEST,
}
CHAT = {
    "truncated content": INVALID_REPLY,
    "wrong schema": INVALID_REPLY,
    "out of range": INVALID_REPLY,
    "nan": INVALID_REPLY,
    "null content": INVALID_REPLY,
    "no choices": INVALID_REPLY,
    "refusal": REFUSED,
    "content filter": REFUSED,
    "length": INVALID_REPLY._replace(once=1, always=1),
    "400 content filter": REFUSED,
}
EMBEDDING = {
    "count": INVALID_REPLY,
    "null number": INVALID_REPLY,
    "nan number": INVALID_REPLY,
    "infinite number": INVALID_REPLY,
    "lengths": INVALID_REPLY,
    "index twice": INVALID_REPLY,
    "no numbers": INVALID_REPLY,
}
ELSEWHERE = {"429 long", "schema refused", "no usage", "unordered", *FATAL}

"""Each call of the record."""


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


async def run(server: JudgeServer, **more: Any) -> tuple[dict[str, dict[str, Any]], EvaluationStream]:
    """The results of a stream, and the stream."""
    async with stream_of(server, **{"limits": LIMITS, **more}) as stream:
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


def check_failed(results: Mapping[str, Any], whole: Mapping[str, Any], target: Call, kind: str) -> None:
    """That metric has an error of that kind and no values, and all else is there."""
    metric = METRIC_OF.get(target.purpose, target.purpose)
    error_key, lost = KEYS[metric]
    found = {question: flat(result) for question, result in results.items()}
    wanted = dict(whole)
    victim = f"q{target.record}"
    wanted[victim] = {key: value for key, value in whole[victim].items() if key not in lost}
    if metric == "custom":
        wanted[victim] |= dict.fromkeys(lost)
    assert found[victim].pop(error_key).startswith(f"{kind}: ")
    assert found == wanted


async def check(
    fault: Callable[[Request], Reply | Fault], target: Call, expected: Expected, times: float, whole: Any
) -> None:
    """What becomes of the results where the target meets the fault so often."""
    fails = times > 1 or not expected.is_mended
    requests = expected.once if times == 1 else expected.always
    async with serving(aimed(fault, target, times=times)) as server:
        results, stream = await run(server)
        if fails:
            check_failed(results, whole, target, expected.kind)
        else:
            assert {question: flat(result) for question, result in results.items()} == whole
        assert requests_of(server, target) == requests
        assert stream.usage.errors == ({expected.kind: 1} if fails else {})
        assert sum(stream.usage.retries.values()) == requests - 1
        if not fails or METRIC_OF.get(target.purpose) != "ragas_answer_correctness":
            check_accounts(stream, server)  # There, the calls beside a failed one are given up unread.


def test_every_fault_is_tested() -> None:
    assert {*HTTP, *CHAT, *EMBEDDING} | ELSEWHERE == {*FAULTS}


@pytest.mark.parametrize("times", [1, inf])
@pytest.mark.parametrize("name", [*HTTP, *CHAT])
@without_waiting
async def test_a_completion(name: str, times: float, whole: Any) -> None:
    await check(FAULTS[name], Call("answer_correctness", VICTIM), {**HTTP, **CHAT}[name], times, whole)


@pytest.mark.parametrize("times", [1, inf])
@pytest.mark.parametrize("name", ["429", "503", "never", "reset mid-body", "html", "400", *EMBEDDING])
@without_waiting
async def test_embeddings(name: str, times: float, whole: Any) -> None:
    await check(FAULTS[name], Call("relevance_vectors", VICTIM), {**HTTP, **EMBEDDING}[name], times, whole)


"""Replies that fit the schema and say nothing: asking again would not help."""


@without_waiting
async def test_a_server_that_does_not_tell_of_tokens(whole: Any) -> None:
    def script(request: Request) -> Reply | Fault:
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


# A pause


@without_waiting
async def test_a_long_pause_is_seen_and_no_error(whole: Any) -> None:
    async with serving(aimed(FAULTS["429 long"], Call("custom", 0), times=3)) as server:
        responses = [response(0), response(1), steps_only(0), steps_only(1)]
        limits = {"result_timeout_sec": 10, "max_attempts": 1}
        stream = evaluate_stream(templates(2), responses, config=config(server, limits=limits))
        async with stream:
            for _ in range(2):
                assert "judge" not in await anext(stream)
            await server.until(lambda: server.counts.statuses[429] == 1)
            with pytest.raises(TimeoutError):
                await wait(stream, 250)
            assert stream.usage.paused_sec > 200
            assert stream.usage.errors == {}
            results = {question: flat(result) for question, result in (await collect(stream)).items()}
        assert results == whole
        assert requests_of(server, Call("custom", 0)) == 4
        check_accounts(stream, server)


async def wait(stream: EvaluationStream, seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await anext(stream)


# Fatal errors


DENIED = {"401", "403", "404"}
"""Faults that end a run only if they come ten times in a row, or no request succeeds."""


@pytest.mark.parametrize("name", sorted(FATAL - DENIED))
@without_waiting
async def test_a_fatal_error_ends_the_stream(name: str, whole: Any) -> None:
    def script(request: Request) -> Reply | Fault:
        if call_of(request).record == 0:
            return sensible(request)
        fault = FAULTS[name](request)
        assert isinstance(fault, Reply)
        return replace(fault, latency=50)

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


@pytest.mark.parametrize("name", sorted(FATAL))
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


@without_waiting
async def test_a_denied_embedding_is_the_error_of_its_metric(whole: Any) -> None:
    target = Call("relevance_vectors", VICTIM)
    async with serving(aimed(FAULTS["404"], target)) as server:
        results, stream = await run(server, on_fatal="continue", limits={"max_concurrency": 1})
        assert results["q1"]["answer_relevance_error"].startswith(
            "invalid_request: text-embedding-3-small at "
        )
        assert requests_of(server, target) == 1
        check_accounts(stream, server)
        assert flat(results["q0"]) == whole["q0"]
