"""The bounded map: what comes out of it, how much is under way, and that no end loses a committed result."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.stream.bounded_map import BoundedMap
from tests.support import virtual_time
from tests.support.cases import each
from tests.support.deadlines import in_time
from tests.support.loop import leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence


class Source:
    """Batches of items, counting how many of them were asked for."""

    def __init__(self, items: Iterable[Any], *, end: Exception | None = None) -> None:
        self.items = items
        self.end = end
        self.asked = 0
        self.closed = False

    async def __call__(self) -> AsyncGenerator[Sequence[Any]]:
        try:
            for item in self.items:
                self.asked += 1
                yield [item]
            if self.end:
                raise self.end
        finally:
            await asyncio.sleep(0)
            self.closed = True


class Gates:
    """Work that waits until it is let through, and how much of it runs."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self._gates: dict[Any, asyncio.Event] = {}

    def gate(self, item: Any) -> asyncio.Event:
        return self._gates.setdefault(item, asyncio.Event())

    def __call__(self, item: Any) -> partial[Any]:
        async def work(_hand_out: object) -> Any:
            self.started.append(item)
            await self.gate(item).wait()
            if isinstance(item, Exception):
                raise item
            return item

        return partial(work)


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


def ready(item: Any) -> Any:
    return item


def mapped(source: Source, function: Callable[[Any], Any], **options: Any) -> BoundedMap[Any]:
    return BoundedMap(source(), function, **({"limit": 10} | options))


async def collect(results: BoundedMap[Any]) -> list[Any]:
    return [result async for result in results]


# What comes out


@given(
    st.lists(st.sampled_from(["now", "none", "later", "later none"]), max_size=40),
    st.integers(1, 6),
    st.booleans(),
    st.booleans(),
    st.integers(),
)
async def test_any_mixture(kinds: list[str], limit: int, ordered: bool, commits: bool, seed: int) -> None:
    """Each result comes out once, unless `commit` keeps it back; it sees each once, before it comes out."""
    chance = random.Random(seed)
    committed: list[int] = []
    running = 0

    async def commit(results: Sequence[int]) -> Sequence[int | None]:
        assert results
        await asyncio.sleep(0)
        committed.extend(results)
        return [None if result % 7 == 3 else result for result in results]

    def function(item: tuple[int, str]) -> Any:
        nonlocal running
        place, kind = item
        if kind in {"now", "none"}:
            return place if kind == "now" else None

        async def work(_hand_out: object) -> int | None:
            nonlocal running
            running += 1
            assert running <= limit
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            running -= 1
            return None if kind == "later none" else place

        return partial(work)

    source = Source(list(enumerate(kinds)))
    results = mapped(source, function, limit=limit, ordered=ordered, commit=commit if commits else None)
    taken: list[int] = []
    without = sum("none" in kind for kind in kinds)
    async for result in results:
        taken.append(result)
        back = sum(place % 7 == 3 for place in committed)
        assert source.asked - without - back <= len(taken) - 1 + limit
        assert not commits or result in committed
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    expected = [place for place, kind in enumerate(kinds) if "none" not in kind]
    assert not commits or sorted(committed) == expected
    expected = [place for place in expected if not commits or place % 7 != 3]
    assert taken == expected if ordered else Counter(taken) == Counter(expected)


# How much is under way


async def test_so_many_are_admitted_and_no_more() -> None:
    gates, limit = Gates(), 4
    source = Source(range(100))
    async with leaving_nothing(), aclosing(mapped(source, gates, limit=limit)) as results:
        waiting = asyncio.ensure_future(anext(results))
        await settle()
        assert source.asked == len(gates.started) == limit
        gates.gate(0).set()
        await waiting
        await settle()
        assert source.asked == len(gates.started) == limit + 1
        waiting = asyncio.ensure_future(anext(results))
        await settle()
        waiting.cancel()


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_result_may_be_handed_out_before_the_last_one(ordered: bool) -> None:
    gates = Gates()

    def function(item: str) -> partial[Any]:
        async def work(hand_out: Callable[[str], None]) -> str:
            hand_out(f"{item} begun")
            await gates.gate(item).wait()
            return f"{item} done"

        return partial(work)

    source = Source("abc")
    async with aclosing(mapped(source, function, limit=2, ordered=ordered)) as results:
        assert [await anext(results), await anext(results)] == ["a begun", "b begun"]
        await settle()
        assert source.asked == 2, "what was handed out early made room"
        gates.gate("a").set()
        assert [await anext(results), await anext(results)] == ["a done", "c begun"]
        gates.gate("c").set()
        await settle()
        gates.gate("b").set()
        last = [await anext(results), await anext(results)]
        assert last == (["b done", "c done"] if ordered else ["c done", "b done"])


async def test_work_that_never_waits_lets_others_run() -> None:
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def endless() -> Iterable[int]:
        while turns < 20:
            yield 0
        yield 1

    turn()
    assert await collect(mapped(Source(endless()), lambda item: item or None)) == [1]


# Errors


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
async def test_work_that_raises_ends_the_reading_but_not_the_other_work(ordered: bool) -> None:
    gates = Gates()
    stuck = asyncio.Event()

    async def source() -> AsyncGenerator[Sequence[Any]]:
        yield ["a", ValueError("x"), "b"]
        await stuck.wait()

    async with leaving_nothing():
        results: BoundedMap[Any] = BoundedMap(source(), gates, limit=10, ordered=ordered)
        first = asyncio.ensure_future(anext(results))
        await settle()
        gates.gate(gates.started[1]).set()
        await settle()
        for item in "ab":
            gates.gate(item).set()
        assert sorted([await first, await anext(results)]) == ["a", "b"]
        with pytest.raises(ValueError, match="x"):
            await anext(results)


@pytest.mark.parametrize("of_source", [False, True])
async def test_a_cancellation_that_nobody_asked_for_is_an_error(of_source: bool) -> None:
    gates = Gates()

    async def cancelled(_hand_out: object = None) -> str:
        raise asyncio.CancelledError

    def function(item: str) -> partial[Any]:
        return partial(cancelled) if item == "x" else gates(item)

    async def source() -> AsyncGenerator[Sequence[str]]:
        yield ["a"]
        await cancelled()

    async with leaving_nothing():
        items = source() if of_source else Source("axb")()
        results: BoundedMap[str] = BoundedMap(items, function, limit=2)
        first = asyncio.ensure_future(anext(results))
        await settle()
        assert not first.done()
        gates.gate("a").set()
        assert await first == "a"
        with pytest.raises(asyncio.CancelledError):
            await anext(results)
        assert await collect(results) == []


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


# Ends


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


@pytest.mark.parametrize("commits", [False, True])
async def test_a_cancellation_at_the_moment_of_the_result_loses_nothing(commits: bool) -> None:
    gates, commit = Gates(), Commit() if commits else None
    async with aclosing(mapped(Source("abcdef"), gates, commit=commit)) as results:
        taken = []
        for item in "abcdef":
            waiting = asyncio.ensure_future(anext(results))
            await settle()
            gates.gate(item).set()
            for _ in range("abcdef".index(item)):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            taken.append(await anext(results) if waiting.cancelled() else waiting.result())
        assert taken == list("abcdef")


def test_closing_does_not_wait_for_ever_for_a_commit() -> None:
    async def main() -> None:
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

    virtual_time.run(main())
