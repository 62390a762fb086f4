"""The bounded map with a commit: no result comes out before it, and none is lost to the way it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.stream import bounded_map
from graphrag_eval_async.stream.bounded_map import BoundedMap
from tests.cases import each
from tests.conftest import leaving_nothing, settle
from tests.deadlines import in_time
from tests.stream.test_bounded_map import Gates, Source, collect, mapped, ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Commit:
    """Remembers what was committed; it may be held up, and fail."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.batches: list[list[Any]] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.begun = 0
        self._fail_at = fail_at

    @property
    def results(self) -> list[Any]:
        return [result for batch in self.batches for result in batch]

    async def __call__(self, results: Sequence[Any]) -> Sequence[Any]:
        self.begun += 1
        assert results
        await self.go_on.wait()
        if self._fail_at is not None and len(self.batches) >= self._fail_at:
            raise OSError("full")
        self.batches.append(list(results))
        return results


class Counted:
    """Counts how often it was awaited."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        await asyncio.sleep(0)
        self.count += 1


async def drain(results: BoundedMap[Any], commit: Commit) -> tuple[list[Any], BaseException | None]:
    """What comes out, each after its commit, and the error at the end."""
    taken = []
    try:
        async for result in results:
            assert result in commit.results
            taken.append(result)
    except Exception as error:  # noqa: BLE001
        assert await anext(results, None) is None
        return taken, error
    return taken, None


@given(
    st.lists(st.integers(0, 5), max_size=15),
    st.integers(1, 6),
    st.booleans(),
    st.none() | st.integers(0, 4),
)
@settings(deadline=None)
def test_results_are_committed_before_delivery(
    pauses: list[int], limit: int, ordered: bool, fail_at: int | None
) -> None:
    """Items are (number, turns of the loop that it takes); without any, the result is there at once."""

    def work(item: tuple[int, int]) -> Any:
        number, turns = item

        async def later(_hand_out: object) -> int | None:
            for _ in range(turns):
                await asyncio.sleep(0)
            return number if turns < 5 else None

        return partial(later) if turns else number

    async def main() -> None:
        async with leaving_nothing():
            commit, finish = Commit(fail_at=fail_at), Counted()
            source = Source(enumerate(pauses))
            results = mapped(source, work, limit=limit, ordered=ordered, commit=commit, finish=finish)
            taken, error = await drain(results, commit)
            due = [number for number, turns in enumerate(pauses) if turns < 5]
            if error is None:
                assert sorted(taken) == sorted(commit.results) == due
                assert fail_at is None or len(commit.batches) <= fail_at
            else:
                assert str(error) == "full"
                assert len(commit.batches) == fail_at
                assert not ordered or taken == due[: len(taken)]
                assert ordered or sorted(taken) == sorted(commit.results)
            assert not ordered or taken == sorted(taken)
            assert source.closed or error  # Which may come while it is about to close.
            assert finish.count == 1
            assert results.in_flight == 0 or error

    asyncio.run(in_time(main)())


async def test_results_that_are_ready_together_are_committed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_map, "SLICE_SECONDS", inf)  # A busy machine may make it pause.
    commit = Commit()
    assert await collect(mapped(Source(range(20)), ready, limit=100, commit=commit)) == list(range(20))
    assert commit.batches == [list(range(20))]


async def test_a_result_that_is_handed_out_early_needs_no_commit() -> None:
    async def work(hand_out: Callable[[str], None]) -> str:
        hand_out("early")
        await asyncio.sleep(0)
        return "whole"

    commit = Commit()
    results = mapped(Source([0]), lambda _: partial(work), commit=commit)
    assert await collect(results) == ["early", "whole"]
    assert commit.results == ["whole"]


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_slow_commit_stops_the_reading(ordered: bool) -> None:
    commit, source = Commit(), Source(iter(int, 1))
    commit.go_on.clear()
    async with leaving_nothing():
        results = mapped(source, ready, limit=3, ordered=ordered, commit=commit)
        waiting = asyncio.create_task(anext(results))
        await settle()
        assert source.asked <= 3 + 1
        commit.go_on.set()
        await waiting
        await results.aclose()


# Errors


@pytest.mark.parametrize("error", [TimeoutError, KeyError])
async def test_the_error_of_a_source_follows_committed_results(error: type[Exception]) -> None:
    commit = Commit()
    results = mapped(Source([1, 2], end=error()), ready, commit=commit)
    taken, raised = await drain(results, commit)
    assert (taken, type(raised)) == ([1, 2], error)


@each("error", [SystemExit, KeyboardInterrupt])
@each("where", ["source", "function", "later", "commit"])
def test_the_end_of_the_program_passes_through(error: type[BaseException], where: str) -> None:
    def fail(place: str) -> None:
        if place == where:
            raise error("now")

    async def source() -> Any:
        fail("source")
        yield [1]

    def work(item: int) -> Any:
        async def later(_hand_out: object) -> int:
            fail("later")
            return item

        fail("function")
        return partial(later)

    async def commit(results: Sequence[int]) -> Sequence[int]:
        fail("commit")
        return results

    async def main() -> None:
        await collect(BoundedMap(source(), work, limit=2, commit=commit))

    with pytest.raises(error, match="now"):
        asyncio.run(in_time(main)())


# Leaving


@pytest.mark.parametrize("ordered", [False, True])
async def test_complete_results_are_committed_when_consumers_leave(
    ordered: bool,
) -> None:
    commit, gates, finish = Commit(), Gates(), Counted()
    async with leaving_nothing():
        results = mapped(Source(range(4)), gates, ordered=ordered, commit=commit, finish=finish)
        gates.gate(0).set()
        await anext(results)
        commit.go_on.clear()
        gates.gate(1).set()
        await settle()
        gates.gate(3).set()
        await settle()
        closing = asyncio.gather(results.aclose(), results.aclose())
        await settle()
        assert not closing.done()
        commit.go_on.set()
        await closing
        assert commit.results == [0, 1, 3]
        assert finish.count == 1
        assert await anext(results, None) is None


async def test_complete_results_are_committed_when_the_map_is_dropped() -> None:
    commit, gates, finish = Commit(), Gates(), Counted()
    async with leaving_nothing():
        results = mapped(Source(range(4)), gates, commit=commit, finish=finish)
        gates.gate(0).set()
        await anext(results)
        commit.go_on.clear()
        gates.gate(1).set()
        await settle()
        gates.gate(2).set()
        await settle()
        results.drop()
        commit.go_on.set()
        await settle()
        assert commit.results == [0, 1, 2]
        assert finish.count == 1


async def test_a_cancelled_consumer_loses_nothing() -> None:
    commit, gates = Commit(), Gates()
    results = mapped(Source(range(2)), gates, commit=commit)
    waiting = asyncio.create_task(anext(results))
    commit.go_on.clear()
    gates.gate(0).set()
    await settle()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    commit.go_on.set()
    gates.gate(1).set()
    assert await collect(results) == commit.results == [0, 1]


async def test_closing_does_not_wait_for_ever_for_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_map, "CLOSING_SECONDS", 0.01)
    commit = Commit()
    commit.go_on.clear()
    async with leaving_nothing():
        results = mapped(Source([1]), ready, commit=commit)
        waiting = asyncio.create_task(anext(results, None))
        await settle()
        await results.aclose()
        assert await waiting is None
        commit.go_on.set()
        await settle()
        assert commit.results == [1]


async def test_an_error_at_the_very_end_comes_after_the_results() -> None:
    async def finish() -> None:
        raise OSError("at the end")

    commit = Commit()
    taken, error = await drain(mapped(Source([1, 2]), ready, commit=commit, finish=finish), commit)
    assert (taken, str(error)) == ([1, 2], "at the end")
