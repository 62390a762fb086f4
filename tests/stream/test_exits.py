"""The ugly ways to leave a stream: each leaves no task, no warning and no open file behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from graphrag_eval_async import Question, evaluate_agent, evaluate_stream
from tests.support.data import REFERENCE, answer, heavy
from tests.support.deadlines import WAIT_SECONDS, in_time, until, wait
from tests.support.loop import Source, leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


ANSWERS = [answer(i) for i in range(3)]
LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


def endless() -> Source:
    return Source(itertools.cycle(ANSWERS))


async def expect_cancelled(task: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def break_and_drop() -> None:
    source = endless()
    async for _ in evaluate_stream(REFERENCE, source()):
        break
    await settle()
    assert source.cleaned == 1


async def cancelled_twice() -> None:
    for pauses in range(6):
        source = Source(ANSWERS[:1])

        async def consume(source: Source = source) -> None:
            async with evaluate_stream(REFERENCE, source()) as stream:
                async for _ in stream:
                    pass

        task = asyncio.create_task(consume())
        await settle()
        task.cancel()
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        await expect_cancelled(task)
        assert source.cleaned == 1


async def closed_from_another_task() -> None:
    source = Source(ANSWERS[:2])
    stream = evaluate_stream(REFERENCE, source())

    async def consume() -> int:
        return len([result async for result in stream])

    consumers = [asyncio.create_task(consume()) for _ in range(2)]
    await until(lambda: source.asked == 2 and stream.in_flight == 0)
    await asyncio.gather(stream.aclose(), stream.aclose())
    assert sum(await asyncio.gather(*consumers)) == 2
    assert source.cleaned == 1
    assert [result async for result in stream] == []


async def cancelled_with_work_in_threads() -> None:
    """What threads compare ends first: it may read what the caller closes next."""
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def compare(_reference: dict[str, Any], _actual: dict[str, Any]) -> float:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            wait(release)
            ended.set()
        return 1.0

    async def consume() -> None:
        async with evaluate_stream(
            REFERENCE, [heavy()], comparators={"calculator": compare}
        ) as stream:
            await anext(stream)

    task = asyncio.create_task(consume())
    await until(begun.is_set)
    task.cancel()
    await settle()
    assert not task.done()
    release.set()
    await expect_cancelled(task)
    assert ended.is_set()


SCENARIOS = [
    break_and_drop,
    cancelled_twice,
    closed_from_another_task,
    cancelled_with_work_in_threads,
]


async def thinking(question: Question) -> Any:
    """An agent that answers one question, and thinks for ever about all others."""
    if question.id != "q0":
        await asyncio.Event().wait()
    return answer()["actual_steps"]


async def guarded(leave: Callable[[], Awaitable[None]]) -> None:
    # Else a debugging loop tells of a slow machine.
    asyncio.get_running_loop().slow_callback_duration = 10
    async with leaving_nothing(), asyncio.timeout(WAIT_SECONDS):
        await leave()
        gc.collect()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_leaving(
    new_loop: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    for leave in SCENARIOS:
        with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
            runner.run(guarded(leave))
    # Of tasks that are destroyed, and of exceptions that nobody retrieved.
    assert caplog.text == ""


@pytest.mark.parametrize("new_loop", LOOPS)
def test_leaving_the_loop_itself(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    kept = []

    async def main() -> None:
        stream = evaluate_stream(REFERENCE, endless()())
        await anext(stream)
        kept.append(stream)
        await anext(evaluate_stream(REFERENCE, endless()()))
        agent = evaluate_agent(REFERENCE, thinking)
        await anext(agent)
        kept.append(agent)

    with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
        runner.run(in_time(main)())
    kept.clear()
