from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.session import MetricCalls, ResultCalls
from tests.judge.support import COST, VERDICT, ScriptedJudge, message, session
from tests.support.cases import each
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from graphrag_eval_async.judge.session import JudgeSession


def asked(judge: ScriptedJudge, use: Callable[[JudgeSession], Awaitable[Any]], **limits: Any) -> Any:
    """What `use` returns of a session, in no time."""

    async def main() -> Any:
        one = session(judge, **limits)
        await one.open()
        try:
            return await use(one)
        finally:
            await one.aclose()

    return run(main())


async def outcome(calls: MetricCalls, text: str = "?", *, repeat: int = 0) -> Any:
    """The reply to a call, or the error's kind."""
    try:
        return (await calls.ask(partial(message, text), VERDICT, repeat=repeat)).value
    except JudgeError as error:
        return error.kind


def refused(kind: Any = "rate_limited", **more: Any) -> JudgeError:
    return JudgeError(kind, "no", **more)


def test_a_reply_that_does_not_fit_is_answered_once() -> None:
    judge = ScriptedJudge(lambda n: {"value": "one"} if n == 0 else {"value": 1})

    async def use(one: JudgeSession) -> None:
        calls = MetricCalls(ResultCalls(one))
        assert calls.cost == 0
        assert await outcome(calls) == 1
        assert calls.cost == 2 * COST
        assert one.usage.tokens == 220
        assert (one.usage.calls, one.usage.attempts, dict(one.usage.retries)) == (1, 2, {"invalid_reply": 1})

    asked(judge, use)
    _, again = judge.requests
    assert again[:1] == message()
    assert json.loads(again[1]["content"]) == {"value": "one"}
    assert again[1]["role"] == "assistant"
    assert again[2]["role"] == "user"
    assert "Expected `int`, got `str` - at `$.value`" in again[2]["content"]


@each(
    ("error", "requests", "kind"),
    [
        (refused("unavailable", final=True), 1, "unavailable"),
        (JudgeUnavailable("wrong key"), 1, "unavailable"),
        (ConnectionResetError("reset"), 5, "unavailable"),
        (KeyError("bug"), 1, "unavailable"),
    ],
)
def test_how_often_a_failing_request_is_sent(error: Exception, requests: int, kind: str) -> None:
    judge = ScriptedJudge(lambda _: error)

    async def use(one: JudgeSession) -> None:
        assert await outcome(MetricCalls(ResultCalls(one))) == kind
        assert (one.usage.attempts, one.usage.calls) == (requests, 1)
        assert sum(one.usage.retries.values()) == requests - 1
        assert one.usage.in_flight == one.usage.waiting == 0

    asked(judge, use)
    assert len(judge.requests) == requests
    pauses = [later - earlier for earlier, later in zip(judge.times, judge.times[1:], strict=False)]
    assert all(pause <= 0.5 * 2**i for i, pause in enumerate(pauses))


def test_a_budget_counts_requests_that_timed_out() -> None:
    judge = ScriptedJudge(lambda n: asyncio.Event().wait() if n == 0 else {"value": 1})

    async def use(one: JudgeSession) -> Any:
        found = await outcome(MetricCalls(ResultCalls(one)), "x" * 4000)
        assert one.usage.dollars == 0
        assert one.usage.timed_out_dollars > 0.001
        return found

    assert asked(judge, use, budget_usd=0.001) == "budget"
    assert len(judge.requests) == 1


@each("end", ["fatal", "budget"])
def test_one_that_waits_for_another_try_hears_that_there_is_none(end: str) -> None:
    def script(number: int) -> Any:
        if number == 0:
            return refused("unavailable", retry_after=50.0)
        return JudgeUnavailable("no") if end == "fatal" else {"value": 1}

    async def use(one: JudgeSession) -> None:
        first = asyncio.ensure_future(outcome(MetricCalls(ResultCalls(one)), "a"))
        await asyncio.sleep(1)
        await outcome(MetricCalls(ResultCalls(one)), "b")
        assert await first == {"fatal": "unavailable", "budget": "budget"}[end]
        assert now() < 2

    asked(ScriptedJudge(script), use, budget_usd=COST)


def test_a_judge_that_cancels_itself_cancels_nobody_else() -> None:
    judge = ScriptedJudge(lambda n: {"value": n} if n else asyncio.CancelledError())

    async def use(one: JudgeSession) -> None:
        replies = await asyncio.gather(*(outcome(MetricCalls(ResultCalls(one)), text) for text in "ab"))
        assert replies == ["unavailable", 1]

    asked(judge, use)


@each("turns", range(6))
def test_a_cancellation_is_never_lost(turns: int) -> None:
    judge = ScriptedJudge(lambda n: JudgeUnavailable("no") if n else refused("unavailable", retry_after=50.0))

    async def use(one: JudgeSession) -> None:
        task = asyncio.ensure_future(MetricCalls(ResultCalls(one)).ask(message, VERDICT))
        await asyncio.sleep(1)
        await outcome(MetricCalls(ResultCalls(one)), "b")
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert isinstance(task.exception(), JudgeUnavailable)

    asked(judge, use)


@each("script", [lambda n: asyncio.sleep(1, {"value": n}), lambda _: refused("refused")])
def test_equal_calls_of_a_result_are_one(script: Any) -> None:
    judge = ScriptedJudge(script)

    async def use(one: JudgeSession) -> None:
        result = ResultCalls(one)
        metrics = [MetricCalls(result) for _ in range(3)]
        together = await asyncio.gather(*map(outcome, metrics))
        assert len({*together}) == 1
        assert await outcome(metrics[0]) == together[0]
        assert sum(metric.cost or 0.0 for metric in metrics) in {0.0, COST}
        assert (one.usage.calls, one.usage.shared_calls, one.usage.attempts) == (1, 3, 1)
        await outcome(MetricCalls(ResultCalls(one)))
        assert one.usage.calls == 2, "but not for other results"

    asked(judge, use)


@each("value", [b"", b"{", b"NaN", b"[" * 100_000, b"null"])
def test_a_damaged_value_in_the_cache_is_asked_for_again(tmp_path: Path, value: bytes) -> None:
    path = tmp_path / "calls.sqlite"

    def ask() -> Any:
        async def use(one: JudgeSession) -> Any:
            assert await outcome(MetricCalls(ResultCalls(one))) == 1
            return one.usage.calls, one.usage.cache_hits

        return asked(ScriptedJudge(), use, cache=str(path))

    ask()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE calls SET value = ?", [value])
    assert [ask(), ask()] == [(1, 0), (0, 1)]
