from __future__ import annotations

import asyncio
import io
import os
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvloop
from anyio.lowlevel import checkpoint

from graphrag_eval_async.sources.files import open_binary, read_pieces
from tests.deadlines import WAIT_SECONDS, wait
from tests.sources.followed import open_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from pathlib import Path

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def run(new_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, Any]) -> Any:
    """The result; no file may be left open."""
    with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
        runner.run(checkpoint())
        before = open_files()
        try:
            return runner.run(main)
        finally:
            assert open_files() == before


async def read_file(path: str | os.PathLike[str]) -> AsyncGenerator[bytes]:
    file = open_binary(os.fspath(path))
    pieces = read_pieces(file, os.fspath(path))
    try:
        async for piece in pieces:
            yield piece
    finally:
        await pieces.aclose()
        file.close()


async def read(path: str | os.PathLike[str]) -> list[bytes]:
    return [chunk async for chunk in read_file(path)]


@LOOPS
def test_a_named_pipe(new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def main() -> None:
        chunks = read_file(pipe)
        first = asyncio.ensure_future(anext(chunks))
        for _ in range(5):
            await checkpoint()
        assert not first.done()
        writer = os.open(pipe, os.O_WRONLY)
        os.write(writer, b"a\nb")
        assert await first == b"a\nb"
        os.write(writer, b"c")
        assert await anext(chunks) == b"c"
        os.close(writer)
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)

    run(new_loop, main())


@LOOPS
def test_a_cancelled_reader_of_a_pipe_blocks_nothing(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        source, target = os.pipe()
        try:
            with open(source, "rb") as file:
                pieces = read_pieces(file, "pipe")
                with anyio.move_on_after(0.01) as scope:
                    await anext(pieces)
                assert scope.cancelled_caught
                await pieces.aclose()
        finally:
            os.close(target)

    run(new_loop, main())


@LOOPS
@pytest.mark.parametrize("times", [1, 3])
def test_a_file_is_not_closed_while_a_thread_reads_it(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
    times: int,
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Slow(io.BufferedReader):
        def read(self, size: int | None = -1) -> bytes:
            reading.set()
            wait(go_on)
            data = super().read(size)
            chunks.append(data)
            return data

    async def read_slowly() -> None:
        with Slow(io.FileIO(tmp_path / "data")) as file:
            pieces = read_pieces(file, "data")
            try:
                await anext(pieces)
            finally:
                await pieces.aclose()

    async def main() -> None:
        task = asyncio.ensure_future(read_slowly())
        await asyncio.to_thread(wait, reading)
        for _ in range(times):
            task.cancel()
            for _ in range(5):
                await checkpoint()
        assert not task.done()
        go_on.set()
        await asyncio.wait([task], timeout=WAIT_SECONDS)
        assert task.cancelled()

    chunks: list[bytes] = []
    (tmp_path / "data").write_bytes(b"x")
    run(new_loop, main())
    assert chunks == [b"x", b""]


async def test_files_are_read_while_all_threads_of_the_loop_wait(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x")
    loop, go_on = asyncio.get_running_loop(), threading.Event()
    waiting = [loop.run_in_executor(None, go_on.wait, WAIT_SECONDS) for _ in range(64)]
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            assert await read(tmp_path / "data") == [b"x"]
    finally:
        go_on.set()
    await asyncio.gather(*waiting)
