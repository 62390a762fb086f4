"""The ugly ways to leave a judged stream with hundreds of calls in flight: each leaves nothing behind.

Run as a script, it does so without pytest.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import uvloop

from graphrag_eval_async import EvaluationStream, Evaluator, evaluate_stream, load_reference
from graphrag_eval_async.judge import endpoint, session
from tests.conftest import leaving_nothing, settle
from tests.deadlines import TEST_SECONDS, WAIT_SECONDS, assert_says_nothing, join, wait
from tests.judge_server import JudgeServer, Never
from tests.judged.support import config, open_files, response, sensible, steps_only, templates

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from tests.judge_server import Fault, Reply, Request, Script

FEW, MANY = 20, 256
"""Calls in flight."""

WAITING = 40
"""Calls that wait for their turn."""

REFERENCE = load_reference(templates(1 + MANY + WAITING))
SCENARIOS: dict[str, Callable[[int], Awaitable[None]]] = {}
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def scenario(function: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
    SCENARIOS[function.__name__] = function
    return function


def silent(request: Request) -> Reply | Fault:
    """Answers the first record only."""
    return sensible(request) if b"riddle 0\\n" in request.raw else Never()


@asynccontextmanager
async def holding() -> AsyncGenerator[JudgeServer]:
    """A server that does not answer; afterwards all sockets are closed, on both sides, and all tasks done."""
    async with leaving_nothing():
        files = open_files()
        async with JudgeServer(silent) as server:
            yield server
            await server.until(lambda: server.counts.connections == 0)
        gc.collect()
        assert open_files() == files


async def finished() -> None:
    """Wait for all other tasks: those of a stream that nobody closes end by themselves."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def stream_of(server: JudgeServer, calls: int, **more: Any) -> EvaluationStream:
    """One call for each record; the first result is there at once, and the second when it is judged."""

    async def responses() -> AsyncGenerator[dict[str, Any]]:
        yield steps_only(0)
        yield response(0)
        await server.until(lambda: server.counts.replies > 0)
        for i in range(1, 1 + calls + WAITING):
            yield response(i)

    settings = config(server, answer_correctness={}, limits={"max_concurrency": calls}, **more)
    return evaluate_stream(REFERENCE, responses(), config=settings, max_in_flight=1000)


async def full(server: JudgeServer, calls: int, **more: Any) -> EvaluationStream:
    """A stream of which two results are taken, and whose slots are all in use."""
    stream = stream_of(server, calls, **more)
    assert "judge" not in await anext(stream)
    assert (await anext(stream))["answer_recall"] == 0.5
    await server.until(lambda: server.counts.in_flight == calls)
    return stream


async def expect_cancelled(task: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


@scenario
async def break_within_the_context(calls: int) -> None:
    async with holding() as server, stream_of(server, calls) as stream:
        async for result in stream:
            if "judge" in result:
                break
        await server.until(lambda: server.counts.in_flight == calls)


@scenario
async def break_and_drop(calls: int) -> None:
    async with holding() as server:
        async for result in stream_of(server, calls):
            if "judge" in result:
                break
        await finished()


@scenario
async def dropped_in_full_flight(calls: int) -> None:
    async with holding() as server:
        stream = await full(server, calls)
        del stream
        await finished()


@scenario
async def collected_as_garbage(calls: int) -> None:
    async with holding() as server:
        stream = await full(server, calls)
        stream.itself = stream  # type: ignore[attr-defined]
        del stream
        gc.collect()
        await finished()


@scenario
async def closed_from_another_task(calls: int) -> None:
    async with holding() as server:
        stream = await full(server, calls)
        consumer = asyncio.ensure_future(anext(stream, None))
        await settle()
        assert not consumer.done()
        await stream.aclose()
        assert await consumer is None


@scenario
async def closed_by_several_at_once(calls: int) -> None:
    async with holding() as server:
        stream = await full(server, calls)
        await asyncio.gather(*(stream.aclose() for _ in range(3)))


@scenario
async def cancelled(calls: int) -> None:
    async with holding() as server:

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
            await expect_cancelled(task)
            await server.until(lambda: server.counts.connections == 0)


@scenario
async def cancelled_without_a_context(calls: int) -> None:
    async with holding() as server:

        async def consume() -> None:
            async for _ in stream_of(server, calls):
                pass

        task = asyncio.create_task(consume())
        await server.until(lambda: server.counts.in_flight == calls)
        task.cancel()
        await expect_cancelled(task)
        del task
        await finished()


@scenario
async def a_timeout_around_anext(calls: int) -> None:
    async with holding() as server:
        stream = await full(server, calls)
        for _ in range(3):
            with suppress(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.001)
                raise AssertionError
        assert server.counts.in_flight == calls, "a call that nobody waits for goes on"
        await stream.aclose()
        assert await anext(stream, None) is None


@scenario
async def an_exception_in_the_consumer(calls: int) -> None:
    for within_context in (True, False):
        async with holding() as server:
            with suppress(KeyError):
                if within_context:
                    async with stream_of(server, calls) as stream:
                        async for _ in stream:
                            raise KeyError
                else:
                    async for _ in stream_of(server, calls):
                        raise KeyError
            await finished()


@scenario
async def a_source_that_raises(calls: int) -> None:
    def source() -> Iterator[dict[str, Any]]:
        yield from map(response, range(calls + 1))
        raise ConnectionError("lost")

    async with holding() as server:
        settings = config(server, answer_correctness={}, limits={"max_concurrency": calls + 1})
        async with evaluate_stream(REFERENCE, source(), config=settings) as stream:
            assert (await anext(stream))["answer_recall"] == 0.5
            await server.until(lambda: server.counts.in_flight == calls)


@scenario
async def with_the_cache_open(calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for close in (True, False):
            async with holding() as server:
                stream = await full(server, calls, cache=f"{folder}/calls{close}.sqlite")
                if close:
                    await stream.aclose()
                del stream
                await finished()
        assert sorted(path.name for path in Path(folder).iterdir()) == [
            "callsFalse.sqlite",
            "callsTrue.sqlite",
        ]


@scenario
async def two_at_once(calls: int) -> None:
    async with holding() as server:
        left, right = await full(server, calls), stream_of(server, calls)
        await anext(right)
        await server.until(lambda: server.counts.in_flight == 2 * calls)
        await left.aclose()
        await server.until(lambda: server.counts.in_flight == calls)
        assert right.usage.in_flight == calls
        await right.aclose()


@scenario
async def while_the_judge_is_being_opened(calls: int) -> None:
    opening, go_on = threading.Event(), threading.Event()
    open_it = endpoint.Client

    def slowly(*arguments: Any) -> Any:
        opening.set()
        wait(go_on)
        return open_it(*arguments)

    async def leave(stream: EvaluationStream, how: str) -> None:
        """Only then the judge may open."""
        if how == "close":
            closing = asyncio.ensure_future(stream.aclose())
            await settle()
            go_on.set()
            await closing
        elif how == "cancel":
            task = asyncio.ensure_future(anext(stream))
            await settle()
            task.cancel()
            await settle()
            closing = asyncio.ensure_future(stream.aclose())
            await settle()
            go_on.set()
            await expect_cancelled(task)
            await closing

    for how in ("close", "cancel", "drop"):
        opening.clear()
        go_on.clear()
        async with holding() as server:
            with patch.object(session, "Client", slowly):
                stream = stream_of(server, calls)
                await anext(stream)
                await asyncio.to_thread(wait, opening)
                await leave(stream, how)
                del stream
                await settle()
                go_on.set()
                await finished()
            assert server.counts.requests == 0


@scenario
async def a_single_evaluation(calls: int) -> None:
    async with holding() as server:
        settings = config(server, answer_correctness={}, limits={"max_concurrency": calls})
        async with Evaluator(REFERENCE, config=settings) as evaluator:
            tasks = [asyncio.ensure_future(evaluator.evaluate(response(1 + i))) for i in range(calls)]
            await server.until(lambda: server.counts.in_flight == calls)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*map(expect_cancelled, tasks))
            assert (await evaluator.evaluate(response(0)))["answer_recall"] == 0.5
        await evaluator.aclose()


async def guarded(name: str, calls: int) -> None:
    """A scenario by its name; whatever the loop complains of is an error."""
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    loop.slow_callback_duration = inf  # Else a debugging loop complains of a slow machine.
    async with asyncio.timeout(TEST_SECONDS):
        await SCENARIOS[name](calls)
    gc.collect()
    await settle()
    assert complaints == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_leaving(name: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(guarded(name, FEW))


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("name", ["break_within_the_context", "dropped_in_full_flight", "cancelled"])
def test_leaving_hundreds_of_calls(name: str, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(guarded(name, MANY))


# Ends of the event loop


@contextmanager
def serving_in_a_thread(script: Script) -> Iterator[tuple[JudgeServer, Callable[[int], Future[None]]]]:
    """A server with a loop of its own, and what waits until it sees so many requests in flight.

    Afterwards no connection is left, nor a file.
    """
    files = open_files()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = JudgeServer(script)

    def start(step: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(step, loop)

    try:
        start(server.__aenter__()).result(WAIT_SECONDS)
        yield server, lambda count: start(server.until(lambda: server.counts.in_flight == count))
        start(server.until(lambda: server.counts.connections == 0)).result(WAIT_SECONDS)
        start(server.__aexit__(None, None, None)).result(WAIT_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        join(thread)
        loop.close()
    gc.collect()
    assert open_files() == files


# A task of anyio that is cancelled before its first step leaves its coroutine as it is.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_open", [True, False])
def test_the_loop_ends_before_the_stream(
    is_open: bool, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """With calls in flight, or while the judge is being opened."""
    kept: list[EvaluationStream] = []

    async def main() -> None:
        settings = config(server, answer_correctness={}, limits={"max_concurrency": FEW})
        responses = [steps_only(0), *map(response, range(FEW + WAITING))]
        kept.append(evaluate_stream(REFERENCE, responses, config=settings))
        await anext(kept[0])
        await (asyncio.wrap_future(seen(FEW)) if is_open else settle())

    with serving_in_a_thread(lambda _: Never()) as (server, seen):
        with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
            runner.run(main())
        kept.clear()
        gc.collect()


def test_one_evaluator_in_two_loops() -> None:
    async def main() -> None:
        async with evaluator:
            results = await asyncio.gather(*(evaluator.evaluate(response(i)) for i in range(30)))
            assert all(result["answer_recall"] == 0.5 for result in results)

    with serving_in_a_thread(sensible) as (server, _):
        evaluator = Evaluator(REFERENCE, config=config(server, answer_correctness={}))
        for _ in range(2):
            asyncio.run(main(), debug=True)
        assert server.counts.requests == 60


def test_nothing_is_said_on_the_way() -> None:
    assert_says_nothing("tests.judged.test_exits")


if __name__ == "__main__":
    for _name in SCENARIOS:
        gc.freeze()  # What was imported is not to be looked through each time.
        asyncio.run(guarded(_name, FEW // 4))
