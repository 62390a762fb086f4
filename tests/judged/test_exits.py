"""The ugly ways to leave a judged stream with many calls in flight: each leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from graphrag_eval_async import EvaluationStream, evaluate_stream
from tests.judged.support import config, response, sensible, serving, steps_only, templates
from tests.support.deadlines import TEST_SECONDS
from tests.support.judge_server import NEVER, JudgeServer
from tests.support.loop import settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from tests.support.judge_server import Reply, Request

CALLS, WAITING = 100, 40
"""Calls in flight, and those that wait for their turn."""


def silent(request: Request) -> Reply:
    """Answers the first record only."""
    return sensible(request) if b"riddle 0\\n" in request.raw else NEVER


def stream_of(server: JudgeServer) -> EvaluationStream:
    """One call for each record; the first result is there at once, and the second when it is
    judged.
    """

    async def responses() -> AsyncGenerator[dict[str, Any]]:
        yield steps_only(0)
        yield response(0)
        await server.until(lambda: server.counts.replies > 0)
        for i in range(1, 1 + CALLS + WAITING):
            yield response(i)

    settings = config(server, answer_correctness={}, limits={"max_concurrency": CALLS})
    reference = templates(1 + CALLS + WAITING)
    return evaluate_stream(reference, responses(), config=settings, max_in_flight=1000)


async def break_within_the_context(server: JudgeServer) -> None:
    async with stream_of(server) as stream:
        async for result in stream:
            if "judge" in result:
                break
        await server.until(lambda: server.counts.in_flight == CALLS)


async def dropped_in_full_flight(server: JudgeServer) -> None:
    stream = stream_of(server)
    assert "judge" not in await anext(stream)
    assert (await anext(stream))["answer_recall"] == 0.5
    await server.until(lambda: server.counts.in_flight == CALLS)
    del stream  # Its tasks end by themselves.
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def cancelled(server: JudgeServer) -> None:
    async def consume() -> None:
        async with stream_of(server) as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(consume())
    await server.until(lambda: server.counts.in_flight == CALLS)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_leaving(new_loop: Any) -> None:
    """Whatever the loop complains of is an error."""
    complaints: list[Any] = []

    async def guarded() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        loop.slow_callback_duration = inf  # Else a debugging loop complains of a slow machine.
        for leave in (break_within_the_context, dropped_in_full_flight, cancelled):
            async with asyncio.timeout(TEST_SECONDS), serving(silent) as server:
                await leave(server)
            gc.collect()
            await settle()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(guarded())
    assert complaints == []


async def _stop(stream: EvaluationStream, consumer: asyncio.Task[None]) -> None:
    stream.stop()
    await consumer


async def _cancel_the_consumer(stream: EvaluationStream, consumer: asyncio.Task[None]) -> None:
    consumer.cancel()
    await asyncio.wait([consumer])
    async for _ in stream:
        pass


async def _leave(stream: EvaluationStream, _: asyncio.Task[None]) -> None:
    await stream.aclose()


@pytest.mark.parametrize(
    ("leave", "cached"),
    [(_stop, 3), (_cancel_the_consumer, 3), (_leave, 0)],
    ids=["stop", "a cancelled consumer", "aclose"],
)
async def test_replies_to_requests_in_flight(
    leave: Callable[[EvaluationStream, asyncio.Task[None]], Awaitable[None]],
    cached: int,
    tmp_path: Path,
) -> None:
    """They are counted and cached unless the stream is closed, which aborts the requests."""

    async def consume(stream: EvaluationStream) -> None:
        async for _ in stream:
            pass

    def settings(server: JudgeServer) -> dict[str, Any]:
        return config(server, cache=str(tmp_path / "calls.sqlite"), answer_correctness={})

    responses = [response(i) for i in range(3)]
    async with asyncio.timeout(TEST_SECONDS):
        async with JudgeServer(sensible, latency=1.0) as server:
            async with evaluate_stream(templates(3), responses, config=settings(server)) as stream:
                consumer = asyncio.create_task(consume(stream))
                await server.until(lambda: server.counts.in_flight == 3)
                await leave(stream, consumer)
            await asyncio.wait([consumer])
            assert stream.usage.input_tokens == 100 * cached

            async with evaluate_stream(templates(3), responses, config=settings(server)) as stream:
                await consume(stream)
            assert stream.usage.cache_hits == cached
