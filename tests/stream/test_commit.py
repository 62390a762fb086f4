"""The bounded map with a commit: no result comes out before it, and none is lost to the way it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.stream import bounded_map
from graphrag_eval_async.stream.bounded_map import BoundedMap
from tests.stream.test_bounded_map import Gates, Source, collect, mapped, ready
from tests.support.cases import each
from tests.support.deadlines import in_time
from tests.support.loop import leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import Sequence


class Commit:
    """Remembers what was committed; it may be held up, and fail."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.results: list[Any] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._fail_at = fail_at

    async def __call__(self, results: Sequence[Any]) -> Sequence[Any]:
        await self.go_on.wait()
        if self._fail_at is not None and len(self.results) >= self._fail_at:
            raise OSError("full")
        self.results += results
        return results


@given(st.integers(1, 6), st.booleans(), st.integers(0, 15), st.none() | st.just(KeyError))
async def test_errors_follow_committed_results(
    limit: int, ordered: bool, fail_at: int, end: type[Exception] | None
) -> None:
    """Of a commit, or of the source."""
    commit, taken = Commit(fail_at=fail_at), []
    source = Source(range(10), end=None if end is None else end())
    results = mapped(source, ready, limit=limit, ordered=ordered, commit=commit)
    error = None
    try:
        async for result in results:
            assert result in commit.results
            taken.append(result)
    except (OSError, KeyError) as raised:
        error = type(raised)
    assert taken == commit.results == [*range(len(taken))]
    assert error in (end, OSError)
    assert error is OSError or len(taken) == 10
    assert await anext(results, None) is None


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


@pytest.mark.parametrize("way", ["closed", "dropped"])
@pytest.mark.parametrize("ordered", [False, True])
async def test_complete_results_are_committed_when_consumers_leave(way: str, ordered: bool) -> None:
    commit, gates, ended = Commit(), Gates(), []

    async def finish() -> None:
        await asyncio.sleep(0)
        ended.append(way)

    async with leaving_nothing():
        results = mapped(Source(range(4)), gates, ordered=ordered, commit=commit, finish=finish)
        gates.gate(0).set()
        await anext(results)
        commit.go_on.clear()
        for item in (1, 3):
            gates.gate(item).set()
            await settle()
        if way == "closed":
            closing = asyncio.gather(results.aclose(), results.aclose())
            await settle()
            assert not closing.done()
        else:
            results.drop()
        commit.go_on.set()
        await results.aclose()
        assert commit.results == [0, 1, 3]
        assert ended == [way]


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
