"""The calls of a session, in no time, to a judge by script."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.calls import Calls
from tests.judge.support import COST, VERDICT, ScriptedJudge, message, session
from tests.support.deadlines import TEST_SECONDS
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from graphrag_eval_async.judge.session import JudgeSession


def asked(
    judge: ScriptedJudge, use: Callable[[JudgeSession], Awaitable[Any]], **limits: Any
) -> Any:
    """What `use` returns of a session."""

    async def main() -> Any:
        one = session(judge, **limits)
        await one.open()
        try:
            return await use(one)
        finally:
            await one.aclose()

    return run(main())


async def outcome(calls: JudgeSession | Calls, text: str = "?") -> Any:
    """The reply to a call, of a new result or a metric, or the error's kind."""
    calls = calls if isinstance(calls, Calls) else Calls.for_result(calls)
    try:
        return (await calls.ask(partial(message, text), VERDICT)).value
    except JudgeError as error:
        return error.kind


def test_a_reply_that_does_not_fit_is_answered_once() -> None:
    judge = ScriptedJudge(lambda n: {"value": "one"} if n == 0 else {"value": 1})

    async def use(one: JudgeSession) -> None:
        calls = Calls.for_result(one)
        assert calls.cost == 0
        assert await outcome(calls) == 1
        assert calls.cost == 2 * COST
        assert one.usage.tokens == 220
        assert (one.usage.calls, one.usage.attempts, dict(one.usage.retries)) == (
            1,
            2,
            {"invalid_reply": 1},
        )

    asked(judge, use)
    _, again = judge.requests
    assert again[:1] == message()
    assert json.loads(again[1]["content"]) == {"value": "one"}
    assert [each["role"] for each in again[1:]] == ["assistant", "user"]
    assert "Expected `int`, got `str` - at `$.value`" in again[2]["content"]


@pytest.mark.parametrize(
    ("error", "requests"),
    [
        pytest.param(ConnectionResetError("reset"), 5, id="lost connection"),
        pytest.param(KeyError("bug"), 1, id="bug"),
    ],
)
def test_how_often_a_failing_request_is_sent(error: Exception, requests: int) -> None:
    judge = ScriptedJudge(lambda _: error)
    assert asked(judge, outcome) == "unavailable"
    assert len(judge.requests) == requests
    assert all(
        second - first <= 0.5 * 2**i for i, (first, second) in enumerate(pairwise(judge.times))
    )


def test_a_budget_counts_requests_that_timed_out() -> None:
    judge = ScriptedJudge(lambda n: asyncio.Event().wait() if n == 0 else {"value": 1})

    async def use(one: JudgeSession) -> Any:
        found = await outcome(one, "x" * 4000)
        assert one.usage.dollars == 0
        assert one.usage.timed_out_dollars > 0.001
        return found

    assert asked(judge, use, budget_usd=0.001) == "budget"
    assert len(judge.requests) == 1


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(lambda n: asyncio.sleep(1, {"value": n}), id="value"),
        pytest.param(lambda _: JudgeError("refused", "no"), id="refusal"),
    ],
)
def test_equal_calls_of_a_result_are_one(script: Any) -> None:
    async def use(one: JudgeSession) -> None:
        result = Calls.for_result(one)
        metrics = [result.to(one.first) for _ in range(3)]
        together = await asyncio.gather(*map(outcome, metrics))
        assert {*together} == {await outcome(metrics[0])}
        assert sum(metric.cost or 0.0 for metric in metrics) in {0.0, COST}
        assert (one.usage.calls, one.usage.shared_calls, one.usage.attempts) == (1, 3, 1)
        await outcome(one)
        assert one.usage.calls == 2, "but not for other results"

    asked(ScriptedJudge(script), use)


async def test_a_reply_that_has_arrived_is_cached_though_its_call_is_cancelled(
    tmp_path: Path,
) -> None:
    """It is paid for."""
    cache = str(tmp_path / "calls.sqlite")

    def reply_and_cancel(_: int) -> dict[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return {"value": 1}

    cancelled = session(ScriptedJudge(reply_and_cancel), cache=cache)
    await cancelled.open()
    call = asyncio.create_task(outcome(cancelled))
    async with asyncio.timeout(TEST_SECONDS):
        await asyncio.wait([call])
    await cancelled.aclose()
    assert call.cancelled()

    judge = ScriptedJudge()
    repeated = session(judge, cache=cache)
    await repeated.open()
    async with asyncio.timeout(TEST_SECONDS):
        assert await outcome(repeated) == 1
    await repeated.aclose()
    assert judge.requests == []


@pytest.mark.parametrize("latency", [0, 1])
@pytest.mark.parametrize("calls_within_budget", [0, 1, 2, 3, 7, 50])
def test_calls_in_flight_count_in_the_budget(calls_within_budget: int, latency: float) -> None:
    """Many calls at once cost no more than calls one after the other."""
    judge = ScriptedJudge(lambda _: asyncio.sleep(latency, {"value": 1}))
    budget = calls_within_budget * COST

    async def use(one: JudgeSession) -> list[Any]:
        texts = [f"{number:03} {'x' * 400}" for number in range(60)]
        outcomes = await asyncio.gather(*(outcome(one, text) for text in texts))
        assert one.usage.dollars == pytest.approx(budget)
        return outcomes

    outcomes = asked(judge, use, budget_usd=budget, max_concurrency=32)
    assert len(judge.requests) == calls_within_budget
    assert outcomes.count(1) == calls_within_budget
    assert outcomes.count("budget") == 60 - calls_within_budget


def test_a_call_that_costs_too_much_leaves_the_budget_to_others() -> None:
    judge = ScriptedJudge()

    async def use(one: JudgeSession) -> list[Any]:
        texts = ["x" * 400, "x" * 400_000, "x" * 400]
        return [await outcome(one, text) for text in texts]

    assert asked(judge, use, budget_usd=3 * COST) == [1, "budget", 1]
