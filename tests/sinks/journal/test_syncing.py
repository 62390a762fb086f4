from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JournalError
from graphrag_eval_async.sinks.journal.store import Syncing
from tests.conftest import leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER = 1e6


class File:
    """Remembers what was written and what of it is on the disk; a sync may be held up, and fail."""

    def __init__(self) -> None:
        self.written = self.synced = self.count = 0
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()
        self.errors: list[str] = []

    def sync(self) -> None:
        written = self.written
        self.begun.release()
        assert self.go_on.wait(30)
        self.count += 1
        if self.errors:
            raise JournalError(self.errors.pop(0))
        self.synced = written


async def sync_now(syncing: Syncing) -> None:
    syncing.soon()
    await syncing.finish()


class Case:
    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.file = File()
        self.failures: list[str] = []
        self.threads = threads

    def syncing(self, interval: float = NEVER) -> Syncing:
        def fail(error: JournalError) -> None:
            self.failures.append(str(error))

        return Syncing([self.file], interval, fail, self.threads)  # type: ignore[list-item]

    async def begun(self) -> None:
        await asyncio.to_thread(self.file.begun.acquire)


@pytest.fixture
def case() -> Iterator[Case]:
    with ThreadPoolExecutor(2) as threads:
        case = Case(threads)
        yield case
        case.file.go_on.set()


async def test_now_is_when_all_is_there(case: Case) -> None:
    syncing, file = case.syncing(), case.file
    for written in (1, 2):
        file.written = written
        await sync_now(syncing)
        assert (file.synced, file.count) == (written, written)


async def test_now_waits_for_what_was_written_during_an_earlier_one(case: Case) -> None:
    syncing, file = case.syncing(), case.file
    file.go_on.clear()
    file.written = 1
    first = asyncio.create_task(sync_now(syncing))
    await case.begun()
    file.written = 2
    second = asyncio.create_task(sync_now(syncing))
    await settle()
    file.go_on.set()
    await second
    assert (file.synced, file.count) == (2, 2)
    await first


async def test_soon_is_once_an_interval(case: Case) -> None:
    syncing, file = case.syncing(0.001), case.file
    file.written = 1
    for _ in range(10):
        syncing.soon()
    await case.begun()
    await syncing.finish()
    assert (file.synced, file.count) == (1, 1)
    file.written = 2
    file.go_on.clear()
    syncing.soon()
    await case.begun()
    file.written = 3
    syncing.soon()
    file.go_on.set()
    await case.begun()
    await syncing.finish()
    assert (file.synced, file.count) == (3, 3)


async def test_the_end_does_not_wait_for_the_interval(case: Case) -> None:
    async with leaving_nothing():
        syncing, file = case.syncing(), case.file
        await syncing.finish()
        assert file.count == 0
        file.written = 1
        syncing.soon()
        await syncing.finish()
        await syncing.finish()
        assert (file.synced, file.count) == (1, 1)


async def test_a_failure_is_told_once_and_remembered(case: Case) -> None:
    syncing, file = case.syncing(0.001), case.file
    file.errors = ["no"]
    syncing.soon()
    with pytest.raises(JournalError, match="no"):
        await syncing.finish()
    with pytest.raises(JournalError, match="no"):
        syncing.check()
    with pytest.raises(JournalError, match="no"):
        await sync_now(syncing)
    assert case.failures == ["no"]
    assert file.count == 1


async def test_a_failure_of_an_earlier_one_is_one_of_now(case: Case) -> None:
    syncing, file = case.syncing(), case.file
    file.go_on.clear()
    file.errors = ["no"]
    first = asyncio.create_task(sync_now(syncing))
    await case.begun()
    second = asyncio.create_task(sync_now(syncing))
    await settle()
    file.go_on.set()
    for each in (first, second):
        with pytest.raises(JournalError, match="no"):
            await each
    assert case.failures == ["no"]
    assert file.count == 1


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_comes_through_when_all_is_there(case: Case, times: int) -> None:
    async with leaving_nothing():
        syncing, file = case.syncing(), case.file
        file.go_on.clear()
        file.written = 1
        running: asyncio.Task[Any] = asyncio.create_task(sync_now(syncing))
        await case.begun()
        file.written = 2
        syncing.soon()
        for _ in range(times):
            running.cancel()
            await settle()
        assert not running.done()
        file.go_on.set()
        with suppress(asyncio.CancelledError):
            await running
        assert running.cancelled()
        assert (file.synced, file.count) == (2, 2)
