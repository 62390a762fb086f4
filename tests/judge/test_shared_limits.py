"""Two sessions and a redis-server: as elsewhere with real time, no upper bounds on how long it takes."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.session import MetricCalls, ResultCalls
from tests.judge.support import COST, VERDICT, ScriptedJudge, message, session
from tests.support.redis_server import RedisServer, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from graphrag_eval_async.judge.session import JudgeSession


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


async def call(one: JudgeSession, text: str) -> str:
    """`ok`, or the error's kind."""
    await one.open()
    try:
        await MetricCalls(ResultCalls(one)).ask(partial(message, text), VERDICT)
    except JudgeError as error:
        return f"{error.kind}: {error.message}"
    return "ok"


async def shared(judge: ScriptedJudge, calls: int, workers: int = 2, **limits: Any) -> list[str]:
    """The outcomes of so many calls by each of some sessions that share limits."""
    sessions = [session(judge, **limits) for _ in range(workers)]
    try:
        asking = (call(one, f"{one_of} {i}") for one_of, one in enumerate(sessions) for i in range(calls))
        return await asyncio.gather(*asking)
    finally:
        for one in sessions:
            await one.aclose()


async def told(redis: RedisServer, key: str, field: str, minimum: float) -> None:
    """Wait until the server knows that much of the limits named "mine"."""
    async with Redis(port=redis.port) as client:
        name = f"{{graphrag-eval-async:mine}}:{key}"
        while float(await client.hget(name, field) or 0) < minimum:  # noqa: ASYNC110  (a server knows)
            await asyncio.sleep(0.01)


async def test_all_workers_together_keep_to_a_rate(redis: RedisServer) -> None:
    """Twenty requests a second, and a bucket of one second."""
    judge = ScriptedJudge()
    began = asyncio.get_running_loop().time()
    assert await shared(judge, 22, shared=redis.url, requests_per_minute=1200) == ["ok"] * 44
    for sent, at in enumerate(sorted(judge.times), 1):
        assert at - began >= (sent - 22) / 20 - 0.1


async def test_a_pause_holds_up_all_workers(redis: RedisServer) -> None:
    def script(number: int) -> Any:
        return JudgeError("rate_limited", "slow down", retry_after=0.7) if number == 1 else {"value": 1}

    judge = ScriptedJudge(script)
    first, second = (session(judge, shared=f"{redis.url}/mine") for _ in range(2))
    assert await call(second, "opens it") == "ok"
    began = time.time()
    asking = asyncio.create_task(call(first, "is told to wait"))
    await told(redis, "rate:generation", "paused", began + 0.5)
    assert await call(second, "waits, too") == "ok"
    assert await asking == "ok"
    assert min(judge.times[2:]) - judge.times[1] >= 0.6
    await first.aclose()
    await second.aclose()


async def test_all_workers_together_keep_to_the_budget(redis: RedisServer) -> None:
    judge = ScriptedJudge(lambda _: asyncio.sleep(0.01, {"value": 1}))
    limits: dict[str, Any] = {"budget_usd": 20 * COST, "max_concurrency": 2, "shared": redis.url}
    outcomes = await shared(judge, 30, **limits)
    assert 20 <= len(judge.requests) < 20 + 2 * 2
    assert outcomes.count("ok") == len(judge.requests)
    assert {outcome.partition(":")[0] for outcome in outcomes} == {"ok", "budget"}
    # It holds for those who come later, and another run begins anew.
    late = await shared(judge, 1, 1, **limits)
    assert late[0].startswith("budget: the budget of 0.004 US dollars is spent by all workers of")
    assert await shared(judge, 1, 1, **limits | {"shared": f"{redis.url}?run=next"}) == ["ok"]


@pytest.mark.parametrize("keep", [True, False])
async def test_a_server_that_restarts(tmp_path: Path, keep: bool) -> None:
    """Requests wait for it; a worker tells again what it spent, even to a server that forgot."""
    judge = ScriptedJudge()
    with redis_server(tmp_path, keep=keep) as server:
        limits: dict[str, Any] = {"budget_usd": 10 * COST, "max_concurrency": 1}
        limits["shared"] = f"{server.url}/mine"
        one = session(judge, **limits)
        assert [await call(one, f"{i}") for i in range(6)] == ["ok"] * 6
        server.kill()
        asking = asyncio.create_task(call(one, "waits"))
        await asyncio.sleep(0.1)  # Nothing tells that it still waits.
        assert len(judge.requests) == 6
        await asyncio.to_thread(server.start, keep=keep)
        assert await asking == "ok"
        await told(server, "spent:default", "total", 7 * COST * 1e9)
        late = await shared(judge, 10, 1, **limits)
        assert late.count("ok") == 3
        await one.aclose()


async def test_a_server_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    judge = ScriptedJudge()
    with redis_server(tmp_path) as server:
        url = server.url.replace("//", "//:hidden-word@")
    outcomes = await shared(judge, 3, 1, shared=url, max_outage_sec=0.3)
    assert judge.requests == [], "and never without limits"
    for outcome in outcomes:
        assert outcome.startswith(f"unavailable: shared limits at {server.url}/0: ")
        assert "check llm.limits.shared" in outcome
        assert "hidden-word" not in outcome
