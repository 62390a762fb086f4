from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from graphrag_eval_async.judge.scheduling import Throttle
from tests.conftest import LoopClock, leaving_nothing, settle
from tests.deadlines import WAIT_SECONDS


@pytest.mark.parametrize("a_turn", [1, 3])
async def test_a_few_in_each_turn_of_the_loop(a_turn: int) -> None:
    turns, clock = Throttle(a_turn), LoopClock()
    worked: Counter[int] = Counter()

    async def work() -> None:
        await turns.turn(0)
        worked[clock.turn] += 1

    await asyncio.gather(*(work() for _ in range(50)))
    clock.stop()
    assert worked.total() == 50
    assert max(worked.values()) == a_turn


async def test_so_many_at_a_time_and_the_earliest_first() -> None:
    turns, leave = Throttle(10, 2), asyncio.Event()
    inside: list[int] = []

    async def work(order: int) -> None:
        await turns.turn(order)
        inside.append(order)
        await leave.wait()
        turns.release()

    async with leaving_nothing():
        tasks = [asyncio.create_task(work(order)) for order in (5, 3, 4, 1, 2)]
        await settle()
        assert inside == [5, 3]  # Nobody else was there yet.
        leave.set()
        await asyncio.gather(*tasks)
        assert inside == [5, 3, 1, 2, 4]


@pytest.mark.parametrize("turns_of_the_loop", range(6))
async def test_one_that_is_cancelled_takes_no_place(turns_of_the_loop: int) -> None:
    """While it waits, when it has just been admitted, or within."""
    turns = Throttle(1, 1)

    async def work() -> None:
        await turns.turn(0)
        try:
            await asyncio.sleep(3600)
        finally:
            turns.release()

    task = asyncio.create_task(work())
    for _ in range(turns_of_the_loop):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(WAIT_SECONDS):
        await turns.turn(0)
