"""Reading ahead: what comes out, how much is under way, and that no end loses a committed
result.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from functools import partial
from operator import length_hint
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.stream.read_ahead import Deferred, ReadAhead
from tests.support import virtual_time
from tests.support.journals import Gates
from tests.support.loop import leaving_nothing, settle
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence


async def batches(items: Iterable[Any]) -> AsyncGenerator[Sequence[Any]]:
    for item in items:
        yield [item]


def behind(gates: Gates) -> Callable[[Any], partial[Any]]:
    """Work that waits until it is let through."""

    async def work(item: Any, _hand_out: object) -> Any:
        await gates(item)
        return item

    return lambda item: partial(work, item)


# What comes out


@given(
    st.lists(st.sampled_from(["now", "none", "later", "later none"]), max_size=40),
    st.integers(1, 6),
    st.booleans(),
    st.booleans(),
    st.integers(),
)
async def test_any_mixture(
    kinds: list[str], limit: int, ordered: bool, commits: bool, seed: int
) -> None:
    """Each result comes out once, unless `commit` keeps it back; it sees each once, before it
    comes out.
    """
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

    asked = iter([*enumerate(kinds)])
    own = commit if commits else None
    results: ReadAhead[int] = ReadAhead(
        batches(asked), function, limit=limit, ordered=ordered, commit=own
    )
    taken: list[int] = []
    without = sum("none" in kind for kind in kinds)
    async for result in results:
        taken.append(result)
        back = sum(place % 7 == 3 for place in committed)
        assert len(kinds) - length_hint(asked) - without - back <= len(taken) - 1 + limit
        assert not commits or result in committed
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    expected = [place for place, kind in enumerate(kinds) if "none" not in kind]
    assert not commits or sorted(committed) == expected
    expected = [place for place in expected if not commits or place % 7 != 3]
    assert taken == expected if ordered else Counter(taken) == Counter(expected)


# How much is under way


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
    assert await collect(ReadAhead(batches(endless()), lambda item: item or None, limit=10)) == [1]


async def test_results_that_wait_for_a_commit_let_others_run() -> None:
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def slowly(item: int) -> int:
        sleep(0.002)
        return item

    async def commit(results: Sequence[int]) -> Sequence[int]:
        return results

    async def source() -> AsyncGenerator[Sequence[int]]:
        yield range(50)

    turn()
    results: ReadAhead[int] = ReadAhead(source(), slowly, limit=99, commit=commit)
    assert await collect(results) == [*range(50)]
    assert turns > 10


# Errors


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize(("ordered", "of_source"), [(False, False), (True, False), (False, True)])
async def test_an_error_ends_the_reading_but_not_the_other_work(
    ordered: bool, of_source: bool, error: type[BaseException]
) -> None:
    """A cancellation that nobody asked for is an error, too."""
    gates = Gates()

    async def fail(_hand_out: object = None) -> str:
        raise error

    async def source() -> AsyncGenerator[Sequence[str]]:
        yield ["a", "b"] if of_source else ["a", "x", "b"]
        await (fail() if of_source else asyncio.Event().wait())

    def function(item: str) -> partial[Any]:
        return partial(fail) if item == "x" else behind(gates)(item)

    async with leaving_nothing():
        results: ReadAhead[str] = ReadAhead(source(), function, limit=10, ordered=ordered)
        first = asyncio.ensure_future(anext(results))
        await settle()
        assert not first.done()
        gates.open("a", "b")
        assert sorted([await first, await anext(results)]) == ["a", "b"]
        with pytest.raises(error):
            await anext(results)
        assert await collect(results) == []


@pytest.mark.parametrize("items", [[0], [1, 0, 1], [1, 1, 0]])
async def test_an_error_of_the_function_comes_after_the_results_before_it(
    items: list[int],
) -> None:
    results: ReadAhead[float] = ReadAhead(batches(items), lambda item: 1 / item, limit=9)
    async with leaving_nothing(), asyncio.timeout(10):
        for _ in range(items.index(0)):
            assert await anext(results) == 1
            await settle()
        with pytest.raises(ZeroDivisionError):
            await anext(results)
        assert results.in_flight == 0
        assert not results.is_exhausted
        assert await collect(results) == []


async def test_a_commit_that_fails_ends_what_was_read_ahead() -> None:
    async def commit(_results: Sequence[int]) -> Sequence[int]:
        raise OSError("disk full")

    def slowly(item: int) -> int:
        sleep(0.01)
        return item

    async def source() -> AsyncGenerator[Sequence[int]]:
        yield range(50)

    results: ReadAhead[int] = ReadAhead(source(), slowly, limit=99, commit=commit)
    async with leaving_nothing(), asyncio.timeout(10):
        with pytest.raises(OSError, match="disk full"):
            await anext(results)
        assert not results.is_exhausted
        assert await collect(results) == []


async def test_a_held_item_comes_out_when_the_reading_ends() -> None:
    """And the items after it, which were read and not mapped yet."""
    gates = Gates()

    async def wait(item: str) -> str:
        await gates(item)
        return item

    async def source() -> AsyncGenerator[Sequence[str]]:
        yield ["a", "b"]
        await asyncio.Event().wait()

    results: ReadAhead[str] = ReadAhead(
        source(), lambda item: Deferred(partial(wait, item)), limit=9
    )
    async with leaving_nothing(), asyncio.timeout(10):
        first = asyncio.ensure_future(anext(results))
        await settle()
        results.stop()
        gates.open("a", "b")
        assert [await first, *await collect(results)] == ["a", "b"]
        assert results.in_flight == 0


@pytest.mark.parametrize("end", ["close", "fail"])
async def test_a_held_item_ends_with_the_rest(end: str) -> None:
    async def commit(_results: Sequence[int]) -> Sequence[int]:
        await settle()
        raise OSError("disk full")

    async def wait() -> None:
        await asyncio.Event().wait()

    results: ReadAhead[int] = ReadAhead(
        batches([1, 2, 3]),
        lambda item: 1 if item == 1 else Deferred(wait),
        limit=9,
        commit=commit if end == "fail" else None,
    )
    async with leaving_nothing(), asyncio.timeout(10):
        if end == "fail":
            with pytest.raises(OSError, match="disk full"):
                await anext(results)
        else:
            assert await anext(results) == 1
            await results.aclose()
        assert await collect(results) == []
        assert results.in_flight == 0


# Work begins whether or not anybody asks


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("read_later", [False, True])
async def test_work_begins_while_the_consumer_is_away(is_held: bool, read_later: bool) -> None:
    begun = asyncio.Event()
    go_on = asyncio.Event()

    async def work(*_: object) -> str:
        begun.set()
        return "slow"

    def function(item: str) -> Any:
        if item == "quick":
            return item
        return Deferred(work) if is_held else partial(work)

    async def source() -> AsyncGenerator[Sequence[str]]:
        yield ["quick"] if read_later else ["quick", "quick", "slow"]
        await go_on.wait()
        yield ["quick", "slow"] if read_later else []

    results: ReadAhead[str] = ReadAhead(source(), function, limit=9)
    async with leaving_nothing(), asyncio.timeout(10):
        assert await anext(results) == "quick"
        if read_later:
            go_on.set()
        await begun.wait()
        go_on.set()
        assert await collect(results) == ["quick", "slow"]


async def test_a_call_that_is_cancelled_leaves_no_work_unbegun() -> None:
    """It was to map what was just read."""
    begun = asyncio.Event()
    go_on = asyncio.Event()

    async def work(_hand_out: object) -> str | None:
        begun.set()
        return "slow"

    async def source() -> AsyncGenerator[Sequence[str]]:
        await go_on.wait()
        yield ["slow"]
        waiting.cancel()
        await asyncio.Event().wait()

    results: ReadAhead[str] = ReadAhead(source(), lambda _: partial(work), limit=9)
    async with leaving_nothing(), asyncio.timeout(10), aclosing(results):
        waiting = asyncio.ensure_future(anext(results))
        await settle()
        go_on.set()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await begun.wait()


# Ends


@pytest.mark.parametrize("commits", [False, True])
async def test_a_cancellation_at_the_moment_of_the_result_loses_nothing(commits: bool) -> None:
    async def commit(committed: Sequence[Any]) -> Sequence[Any]:
        return committed

    gates = Gates()
    own = commit if commits else None
    results: ReadAhead[str] = ReadAhead(batches("abcdef"), behind(gates), limit=10, commit=own)
    async with aclosing(results):
        taken = []
        for item in "abcdef":
            waiting = asyncio.ensure_future(anext(results))
            await settle()
            gates.open(item)
            for _ in range("abcdef".index(item)):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            taken.append(await anext(results) if waiting.cancelled() else waiting.result())
        assert taken == list("abcdef")


def test_closing_does_not_wait_for_ever_for_a_commit() -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        committed: list[int] = []

        async def commit(results: Sequence[Any]) -> Sequence[Any]:
            await go_on.wait()
            committed.extend(results)
            return results

        async with leaving_nothing():
            results: ReadAhead[int] = ReadAhead(
                batches([1]), lambda item: item, limit=10, commit=commit
            )
            waiting = asyncio.create_task(anext(results, None))
            await settle()
            await results.aclose()
            assert await waiting is None
            go_on.set()
            await settle()
            assert committed == [1]

    virtual_time.run(main())
