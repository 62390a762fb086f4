"""Journals that cannot be opened, written or flushed to disk, and the ways to leave a stream
with one.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import asynccontextmanager, suppress
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import JournalError
from graphrag_eval_async.errors import JournalLocked
from graphrag_eval_async.sinks.checksums import seal
from tests.sinks.disks import disk, full_at
from tests.sources.followed import open_files
from tests.support.deadlines import in_time, join, until, wait
from tests.support.journals import (
    CONFIG,
    Judge,
    bits,
    complete,
    lines_of,
    names,
    names_of,
    responses,
    stream_of,
)
from tests.support.loop import Source, leaving_nothing, settle
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from graphrag_eval_async import EvaluationStream

LINES = responses(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@asynccontextmanager
async def leaving_no_trace() -> AsyncGenerator[None]:
    """Within it, no task, thread or open file may come to be that is still there afterwards."""
    files, threads = open_files(), set(threading.enumerate())
    async with leaving_nothing():
        yield
        gc.collect()
        await settle()
    for thread in set(threading.enumerate()) - threads:
        if "journal" in thread.name:
            await asyncio.to_thread(join, thread)
    assert open_files() == files


async def outcome(stream: EvaluationStream) -> tuple[list[dict[str, Any]], BaseException | None]:
    """What comes, and the one error at the end."""
    taken = []
    try:
        async for result in stream:
            taken.append(result)  # noqa: PERF401
    except Exception as error:  # noqa: BLE001
        assert await anext(stream, None) is None
        return taken, error
    return taken, None


async def once_more(path: Path) -> tuple[list[dict[str, Any]], BaseException | None]:
    async with stream_of(LINES, path) as stream:
        return await outcome(stream)


def sealed(results: list[dict[str, Any]]) -> set[bytes]:
    return {seal(orjson.dumps(result) + b"\n") for result in results}


# Opening


async def test_a_second_stream_on_a_journal_is_refused_at_once(path: Path) -> None:
    async with leaving_no_trace():
        source, other = Source(LINES), Source(LINES)
        async with stream_of(source(), path) as first:
            await anext(first)
            there = path.read_bytes()
            results, error = await outcome(stream_of(other(), path))
            assert (results, type(error), other.asked) == ([], JournalLocked, 0)
            assert path.read_bytes()[: len(there)] == there
            source.go_on.set()
            await collect(first)
        assert await once_more(path) == ([], None)


async def test_unopenable_files(tmp_path: Path) -> None:
    ways: list[Callable[[Path], None]] = [Path.mkdir, lambda path: path.symlink_to("/dev/null")]
    for number, (suffix, make) in enumerate(
        [*product(["", ".rejects"], ways), (".run", Path.mkdir)]
    ):
        path = tmp_path / f"{number}.jsonl"
        make(Path(f"{path}{suffix}"))
        async with leaving_no_trace():
            source = Source(LINES)
            results, error = await outcome(stream_of(source(), path))
            assert (results, type(error), source.asked) == ([], JournalError, 0)
            assert f"{path}" in str(error)
            Path(f"{path}{suffix}").rename(f"{path}.away")
            assert len(await collect(stream_of(LINES, path))) > 20


# Writing


@pytest.mark.parametrize("ordered", [False, True])
async def test_full_disk(path: Path, ordered: bool) -> None:
    """Several times, and each time there is a little more room."""
    quiet = path.with_name("quiet.jsonl")
    async with stream_of(LINES, quiet) as undisturbed:
        await collect(undisturbed)
    Path(f"{path}.run").write_bytes(quiet.with_name("quiet.jsonl.run").read_bytes())
    path.touch()
    there: list[bytes] = []
    async with leaving_no_trace():
        for room in (1, 300, 2000, 5000):
            source = Source(LINES)
            with full_at(room):
                results, error = await outcome(
                    stream_of(source(), path, ordered=ordered, max_in_flight=4)
                )
            assert isinstance(error, JournalError)
            assert str(error).endswith("cannot be written: File too large")
            assert source.cleaned
            assert lines_of(path)[: len(there)] == there
            assert sealed(results) <= set(lines_of(path)) <= set(lines_of(quiet))
            there, rejected = lines_of(path), lines_of(f"{path}.rejects")
            assert rejected == lines_of(f"{quiet}.rejects")[: len(rejected)]
        async with stream_of(LINES, path) as again:
            assert len(await collect(again)) == len(lines_of(quiet)) - len(there)
    assert sorted(lines_of(path)) == sorted(lines_of(quiet))
    assert bits(again.aggregates) == bits(undisturbed.aggregates)


async def test_a_disk_that_forgets(path: Path) -> None:
    """The next result ends the stream, however long its source goes on."""

    async def endless() -> AsyncGenerator[bytes]:
        for line in cycle(LINES):
            yield line
            await asyncio.sleep(0)

    async with leaving_no_trace():
        with disk() as broken:
            broken.fails = True
            stream = stream_of(endless(), path)
            results, error = await outcome(stream)
        assert isinstance(error, JournalError)
        assert str(error).endswith("cannot be flushed to disk: Input/output error")
        assert sealed(results) <= set(lines_of(path))
        await once_more(path)
        assert names_of(path) >= names(LINES)


@pytest.mark.parametrize("ordered", [False, True])
async def test_no_result_comes_before_it_is_in_the_journal(path: Path, ordered: bool) -> None:
    draws = iter(range(100))

    async def wait(_: str) -> None:
        for _turn in range(next(draws) * 7 % 5):
            await asyncio.sleep(0)

    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(wait), "ordered": ordered}
    with disk() as watched:
        async with stream_of(LINES, path, **options) as stream:
            taken = 0
            async for result in stream:
                taken += 1
                (line,) = sealed([result])
                assert line in path.read_bytes()
        assert taken == 26
        assert watched.has(path) == path.stat().st_size


async def test_an_interval_after_which_all_is_on_the_disk(path: Path) -> None:
    source = Source(LINES[:2])
    with disk() as watched:
        async with stream_of(source(), path) as stream:
            await anext(stream)
            await anext(stream)
            await until(lambda: watched.has(path) == path.stat().st_size)
            source.go_on.set()
            assert await anext(stream, None) is None


# Leaving


async def test_closing_waits_for_the_disk(path: Path) -> None:
    with disk() as slow:
        slow.go_on.clear()
        async with leaving_no_trace():
            stream = stream_of(Source(LINES)(), path)
            await anext(stream)
            closing = asyncio.create_task(stream.aclose())
            await asyncio.to_thread(wait, slow.held)
            closing.cancel()
            await settle()
            assert not closing.done()
            assert isinstance((await once_more(path))[1], JournalLocked)
            slow.go_on.set()
            with suppress(asyncio.CancelledError):
                await closing
            assert (await once_more(path))[1] is None


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
def test_the_end_of_a_loop_leaves_whole_lines(path: Path, turns: int) -> None:
    """Its tasks are all cancelled at once, also those in which a thread writes."""
    quiet = path.with_name("quiet.jsonl")
    _, undisturbed = complete(LINES, quiet)
    streams = []

    async def one_at_a_time() -> AsyncGenerator[bytes]:
        for line in LINES:
            yield line
            await asyncio.sleep(0)

    async def main() -> None:
        stream = stream_of(one_at_a_time(), path)
        streams.append(stream)
        await anext(stream, None)
        for _ in range(turns):
            await asyncio.sleep(0)

    for _ in range(3):
        asyncio.run(in_time(main)())
        assert set(lines_of(path)) <= set(lines_of(quiet))
        streams.clear()
    _, stream = complete(LINES, path)
    assert stream.journal is not None
    assert stream.journal.damaged == 0
    assert sorted(lines_of(path)) == sorted(lines_of(quiet))
    assert sorted(lines_of(f"{path}.rejects")) == sorted(lines_of(f"{quiet}.rejects"))
    assert bits(stream.aggregates) == bits(undisturbed.aggregates)
