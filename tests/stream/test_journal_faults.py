"""Journals that cannot be opened, written or flushed to disk, and the ways to leave a stream with one."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import Journal, JournalError
from graphrag_eval_async.errors import JournalLocked
from graphrag_eval_async.sinks import append_file
from graphrag_eval_async.sinks.journal import seal
from tests.conftest import leaving_nothing, settle
from tests.deadlines import WAIT_SECONDS, join, killing, running, until, wait
from tests.journals import (
    CONFIG,
    Gates,
    Judge,
    bits,
    collect,
    lines_of,
    names,
    names_of,
    response,
    responses,
    stream_of,
)
from tests.sinks.faults import Faults
from tests.sources.followed import open_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from graphrag_eval_async import EvaluationStream

LINES = responses(30)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    layer = Faults()
    monkeypatch.setattr(append_file, "os", layer)
    return layer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


class Source:
    """Lines, and then silence."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.asked = 0
        self.closed = False
        self.go_on = asyncio.Event()

    async def __call__(self) -> AsyncGenerator[bytes]:
        try:
            for line in self.lines:
                self.asked += 1
                yield line
            await self.go_on.wait()
        finally:
            await asyncio.sleep(0)
            self.closed = True


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


# Opening


@pytest.mark.parametrize("dedupe", ["position", "content"])
async def test_a_second_stream_on_a_journal_is_refused_at_once(path: Path, dedupe: Any) -> None:
    async with leaving_no_trace():
        source, other = Source(LINES), Source(LINES)
        async with stream_of(source(), path) as first:
            await anext(first)
            there = path.read_bytes()
            async with stream_of(other(), path, dedupe=dedupe) as second:
                results, error = await outcome(second)
            assert (results, type(error), other.asked) == ([], JournalLocked, 0)
            assert str(error).startswith(
                f"{path}: another process, or another stream of this one, writes to it"
            )
            assert path.read_bytes()[: len(there)] == there
            source.go_on.set()
            await collect(first)
        async with stream_of(LINES, path) as third:
            assert await collect(third) == []


HOLD = """
import asyncio, sys
from tests.journals import stream_of

async def main():
    async with stream_of(Waiting(), sys.argv[1]) as stream:
        await anext(stream)

class Waiting:
    def __aiter__(self):
        return self

    async def __anext__(self):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_second_process_is_refused_while_the_first_lives(path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(path)]
    with running(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        with killing(process, "the lock"):
            assert process.stdout.readline() == "ready\n"
        async with stream_of(LINES, path) as stream:
            assert isinstance((await outcome(stream))[1], JournalLocked)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        async with stream_of(LINES, path) as stream:
            results, error = await outcome(stream)
        assert (len(results), error) == (len(lines_of(path)), None)


def make_directory(path: Path) -> None:
    path.mkdir()


def make_link_to_null(path: Path) -> None:
    path.symlink_to("/dev/null")


def make_link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "missing" / "file")


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        *product(["", ".rejects"], [make_directory, make_link_to_null, make_link_to_nowhere]),
        (".run", make_directory),
    ],
)
async def test_unopenable_files(path: Path, suffix: str, make: Callable[[Path], None]) -> None:
    make(Path(f"{path}{suffix}"))
    async with leaving_no_trace():
        source = Source(LINES)
        results, error = await outcome(stream_of(source(), path))
        assert (results, type(error), source.asked) == ([], JournalError, 0)
        assert f"{path}" in str(error)
        Path(f"{path}{suffix}").rename(f"{path}.away")
        assert len(await collect(stream_of(LINES, path))) > 20


# Writing


SIZES = [0, 1, 300, 1000, 2000, 5000, 9000]


@pytest.mark.parametrize(
    "room", [*SIZES, *(pytest.param(n, marks=pytest.mark.soak) for n in range(0, 9000, 50))]
)
@pytest.mark.parametrize("ordered", [False, True])
async def test_full_disk(path: Path, faults: Faults, room: int, ordered: bool) -> None:
    quiet = path.with_name("quiet.jsonl")
    async with stream_of(LINES, quiet) as undisturbed:
        await collect(undisturbed)
    async with leaving_no_trace():
        faults.room, faults.most = room, 1000
        source = Source(LINES)
        stream = stream_of(source(), path, ordered=ordered, max_in_flight=4)
        results, error = await outcome(stream)
        assert isinstance(error, JournalError)
        assert str(error).endswith("cannot be written: No space left on device")
        assert source.closed
        there = lines_of(path)
        assert {seal(orjson.dumps(result) + b"\n") for result in results} <= set(there)
        assert set(there) <= set(lines_of(quiet))
        assert lines_of(f"{path}.rejects") == lines_of(f"{quiet}.rejects")[: len(lines_of(f"{path}.rejects"))]
        faults.room = None
        async with stream_of(LINES, path) as again:
            assert len(await collect(again)) == len(lines_of(quiet)) - len(there)
        assert sorted(lines_of(path)) == sorted(lines_of(quiet))
        assert bits(again.aggregates) == bits(undisturbed.aggregates)


async def test_a_reject_that_cannot_be_written(path: Path, faults: Faults) -> None:
    faults.room = 0
    async with leaving_no_trace():
        results, error = await outcome(stream_of([b"{"], path))
        assert (results, str(error)) == ([], f"{path}.rejects: cannot be written: No space left on device")
    assert lines_of(f"{path}.rejects") == []


@pytest.mark.parametrize("fsync", ["interval", "always"])
async def test_a_disk_that_forgets(path: Path, faults: Faults, fsync: Any) -> None:
    async with leaving_no_trace():
        faults.errors["fdatasync"] = errno.EIO
        stream = stream_of(LINES, Journal(path, fsync=fsync, fsync_interval=0.001))
        results, error = await outcome(stream)
        assert isinstance(error, JournalError)
        assert str(error).endswith("cannot be flushed to disk: Input/output error")
        assert fsync == "interval" or not results
        assert {seal(orjson.dumps(result) + b"\n") for result in results} <= set(lines_of(path))
        faults.errors.clear()
        async with stream_of(LINES, path) as again:
            await collect(again)
        assert names_of(path) == names(LINES)


# What is on the disk, and when


class Synced(Faults):
    """Knows how much of each file was on the disk when a sync of it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        size = os.fstat(args[0]).st_size if name == "fdatasync" else 0
        found = super()._call(name, function, *args)
        if name == "fdatasync":
            inode = os.fstat(args[0]).st_ino
            self.sizes[inode] = max(size, self.sizes.get(inode, 0))
        return found


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("fsync", ["never", "interval", "always"])
async def test_no_result_comes_before_it_is_in_the_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Any, ordered: bool
) -> None:
    disk = Synced()
    monkeypatch.setattr(append_file, "os", disk)
    draws = iter(range(100))

    async def wait(_: str) -> None:
        for _turn in range(next(draws) * 7 % 5):
            await asyncio.sleep(0)

    options: dict[str, Any] = {"config": CONFIG, "judge": Judge(wait), "ordered": ordered}
    async with stream_of(LINES, Journal(path, fsync=fsync, fsync_interval=1e6), **options) as stream:
        taken = 0
        async for result in stream:
            taken += 1
            line = seal(orjson.dumps(result) + b"\n")
            data = path.read_bytes()
            assert line in data
            if fsync == "always":
                assert disk.sizes[path.stat().st_ino] >= data.index(line) + len(line)
            else:
                assert disk.counts["fdatasync"] == 0
    assert taken == 26
    size = 0 if fsync == "never" else path.stat().st_size
    assert disk.sizes.get(path.stat().st_ino, 0) == size
    assert fsync != "interval" or disk.counts["fdatasync"] == 2  # One for each of the files, at the end.


async def test_an_interval_after_which_all_is_on_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Synced()
    monkeypatch.setattr(append_file, "os", disk)
    source = Source(LINES[:2])
    async with stream_of(source(), Journal(path, fsync_interval=0.001)) as stream:
        await anext(stream)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream, None))
        await until(lambda: disk.sizes.get(path.stat().st_ino, 0) == path.stat().st_size)
        source.go_on.set()
        assert await waiting is None


# Leaving


async def leave_by_break(stream: EvaluationStream) -> None:
    async with stream:
        async for _ in stream:
            break


async def leave_by_aclose(stream: EvaluationStream) -> None:
    await anext(stream)
    await asyncio.gather(stream.aclose(), stream.aclose())


async def leave_by_error(stream: EvaluationStream) -> None:
    with suppress(KeyError):
        async with stream:
            await anext(stream)
            raise KeyError


async def leave_by_cancellation(stream: EvaluationStream) -> None:
    taken = asyncio.Event()

    async def consume() -> None:
        async with stream:
            async for _ in stream:
                taken.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await until(lambda: stream.usage.calls >= 5 and taken.is_set())
    task.cancel()
    await settle()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def leave_by_stop(stream: EvaluationStream) -> None:
    await anext(stream)
    stream.stop()
    while await anext(stream, None) is not None:
        pass


@pytest.mark.parametrize(
    "leave", [leave_by_break, leave_by_aclose, leave_by_error, leave_by_cancellation, leave_by_stop]
)
@pytest.mark.parametrize("fsync", ["never", "interval", "always"])
async def test_leaving(path: Path, leave: Callable[[EvaluationStream], Awaitable[None]], fsync: Any) -> None:
    unique = [orjson.dumps(response(number)) for number in range(9)]
    gates = Gates()
    gates.open("answer-4", "answer-2")
    async with leaving_no_trace():
        source = Source(unique)
        options: dict[str, Any] = {"config": CONFIG, "max_in_flight": 5}
        stream = stream_of(source(), Journal(path, fsync=fsync), judge=Judge(gates), **options)
        if leave is leave_by_stop:
            gates.open(*(f"answer-{number}" for number in range(9)))
        async with asyncio.timeout(60):
            await leave(stream)
        assert source.closed
        there = lines_of(path)
        assert len(there) >= 1
        gates.open(*(f"answer-{number}" for number in range(9)))
        async with stream_of(unique, path, judge=Judge(gates), **options) as again:
            assert len(await collect(again)) == 9 - len(there)
        assert names_of(path) == names(unique)


async def test_dropping(path: Path) -> None:
    async with leaving_no_trace():
        source = Source(LINES)
        stream = stream_of(source(), path)
        await anext(stream)
        del stream
        gc.collect()
        await until(lambda: source.closed)
        error: BaseException | None = JournalLocked()
        while isinstance(error, JournalLocked):
            _, error = await try_again(path)
    assert names_of(path) == names(LINES)


async def try_again(path: Path) -> tuple[list[dict[str, Any]], BaseException | None]:
    async with stream_of(LINES, path) as stream:
        return await outcome(stream)


async def test_closing_waits_for_the_disk(path: Path, faults: Faults) -> None:
    go_on, waiting = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "fdatasync":
            waiting.set()
            wait(go_on)

    faults.before = hold
    async with leaving_no_trace():
        source = Source(LINES)
        stream = stream_of(source(), Journal(path, fsync_interval=1e6))
        await anext(stream)
        closing = asyncio.create_task(stream.aclose())
        await asyncio.to_thread(wait, waiting)
        closing.cancel()
        await settle()
        assert not closing.done()
        assert isinstance((await try_again(path))[1], JournalLocked)
        go_on.set()
        with suppress(asyncio.CancelledError):
            await closing
        assert faults.counts["fdatasync"] == 2
        assert (await try_again(path))[1] is None


@pytest.mark.parametrize("turns", range(12))
async def test_leaving_while_the_journal_is_read(path: Path, turns: int) -> None:
    await try_again(path)
    before = path.read_bytes()
    async with leaving_no_trace():
        source = Source(LINES)
        stream = stream_of(source(), path)
        waiting = asyncio.ensure_future(anext(stream, None))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        await stream.aclose()
        assert await waiting is None
        assert (await try_again(path))[0] == []
    assert path.read_bytes() == before


async def test_a_journal_that_cannot_be_read_to_its_end(path: Path, faults: Faults) -> None:
    """What was counted of it is not what it has, so there is no journal to tell of."""
    await try_again(path)
    before = path.read_bytes()
    faults.counts.clear()

    def fail(name: str) -> None:
        if name == "pread" and faults.counts["pread"] == 2:
            faults.errors["pread"] = errno.EIO

    faults.before = fail
    async with stream_of(LINES, path) as stream:
        with pytest.raises(JournalError, match="cannot be repaired: Input/output error"):
            await collect(stream)
        assert stream.journal is None
    faults.before = lambda _name: None
    faults.errors.clear()
    assert (await try_again(path))[0] == []
    assert path.read_bytes() == before
