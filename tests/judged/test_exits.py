"""The ugly ways to leave a judged stream with hundreds of calls in flight: each leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from graphrag_eval_async import EvaluationStream, evaluate_stream, load_reference
from tests.judged.support import config, response, sensible, serving, steps_only, templates
from tests.support.deadlines import TEST_SECONDS
from tests.support.judge_server import NEVER, JudgeServer
from tests.support.loop import settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.support.judge_server import Reply, Request

FEW, MANY = 20, 256
"""Calls in flight."""

WAITING = 40
"""Calls that wait for their turn."""

REFERENCE = load_reference(templates(1 + MANY + WAITING))


def silent(request: Request) -> Reply:
    """Answers the first record only."""
    return sensible(request) if b"riddle 0\\n" in request.raw else NEVER


def stream_of(server: JudgeServer, calls: int) -> EvaluationStream:
    """One call for each record; the first result is there at once, and the second when it is judged."""

    async def responses() -> AsyncGenerator[dict[str, Any]]:
        yield steps_only(0)
        yield response(0)
        await server.until(lambda: server.counts.replies > 0)
        for i in range(1, 1 + calls + WAITING):
            yield response(i)

    settings = config(server, answer_correctness={}, limits={"max_concurrency": calls})
    return evaluate_stream(REFERENCE, responses(), config=settings, max_in_flight=1000)


async def break_within_the_context(calls: int) -> None:
    async with serving(silent) as server, stream_of(server, calls) as stream:
        async for result in stream:
            if "judge" in result:
                break
        await server.until(lambda: server.counts.in_flight == calls)


async def leaving_while_the_judge_opens(calls: int) -> None:
    for turns in range(10):
        async with serving(silent) as server, stream_of(server, calls) as stream:
            assert "judge" not in await anext(stream)
            for _ in range(turns):
                await asyncio.sleep(0)


async def dropped_in_full_flight(calls: int) -> None:
    async with serving(silent) as server:
        stream = stream_of(server, calls)
        assert "judge" not in await anext(stream)
        assert (await anext(stream))["answer_recall"] == 0.5
        await server.until(lambda: server.counts.in_flight == calls)
        del stream  # Its tasks end by themselves.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


async def cancelled(calls: int) -> None:
    async with serving(silent) as server:

        async def consume() -> None:
            async with stream_of(server, calls) as stream:
                async for _ in stream:
                    pass

        for times in (1, 2):
            task = asyncio.create_task(consume())
            await server.until(lambda: server.counts.in_flight == calls)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            assert task.cancelled()
            await server.until(lambda: server.counts.connections == 0)


@pytest.mark.parametrize(
    ("scenario", "calls", "new_loop"),
    [
        (break_within_the_context, MANY, asyncio.new_event_loop),
        (dropped_in_full_flight, MANY, uvloop.new_event_loop),
        (leaving_while_the_judge_opens, FEW, asyncio.new_event_loop),
        (cancelled, FEW, uvloop.new_event_loop),
    ],
)
def test_leaving(scenario: Any, calls: int, new_loop: Any) -> None:
    """Whatever the loop complains of is an error."""
    complaints: list[Any] = []

    async def guarded() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        loop.slow_callback_duration = inf  # Else a debugging loop complains of a slow machine.
        async with asyncio.timeout(TEST_SECONDS):
            await scenario(calls)
        gc.collect()
        await settle()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(guarded())
    assert complaints == []
