"""Finished files, plain and compressed, pipes and standard input."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import socket
import threading
import tracemalloc
from contextlib import chdir
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvloop
from anyio.lowlevel import checkpoint

from graphrag_eval_async import read_jsonl
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.records import Line
from graphrag_eval_async.sources.files import PIECE_BYTES
from tests.sources.followed import open_files
from tests.support.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

LINES = [b'{"a":1}', b"", "é\u2028".encode(), b"x" * 100]
TEXT = b"\n".join(LINES) + b"\n"


async def read(path: Any) -> list[bytes]:
    found, problem = await read_until_error(path)
    assert problem == ""
    return found


async def read_lines(path: Any) -> list[bytes]:
    return [line.data async for line in read_jsonl(path)]


async def short_lines(path: Path, limit: int) -> list[Any]:
    """Lines of which those of more bytes than `limit` are too long."""
    return [
        line async for batch in read_jsonl(path).batches(max_line_bytes=limit) for line in batch
    ]


async def read_until_error(path: Any) -> tuple[list[bytes], str]:
    lines: list[bytes] = []
    before = open_files()
    problem = ""
    try:
        async for line in read_jsonl(path):
            lines.append(line.data)  # noqa: PERF401
    except SourceError as error:
        problem = str(error)
    assert open_files() == before
    return lines, problem


async def test_lines_know_their_positions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(TEXT + b"last")
    lines = await short_lines(path, 99)
    assert [(line.number, line.offset) for line in lines] == [(1, 0), (3, 9), (4, 15), (5, 116)]
    for line in lines:
        position = line.position
        content = path.read_bytes()[position.offset :][: position.length]
        assert (position.path, position.sha256) == (str(path), hashlib.sha256(content).hexdigest())
        assert content == line.data if isinstance(line, Line) else content.startswith(line.head)


async def test_gzip(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    for content in (b"", b"\n", TEXT, TEXT[:-1], os.urandom(300_000)):
        plain.write_bytes(content)
        packed.write_bytes(gzip.compress(content))
        expected = [line._replace(file=None) for line in await short_lines(plain, 1000)]
        lines = [line._replace(file=None) for line in await short_lines(packed, 1000)]
        assert lines == expected


async def test_lines_before_the_damage_of_a_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    lines = [b"%d" % number for number in range(100_000)]
    packed = gzip.compress(b"\n".join(lines))
    path.write_bytes(packed[: len(packed) // 2])
    found, problem = await read_until_error(path)
    assert problem.startswith(f"{path}: cannot be decompressed: Compressed file ended before")
    assert 30_000 < len(found) < 80_000
    assert found == lines[: len(found)]
    small = gzip.compress(b"1\n2\n")
    broken = bytearray(small)
    broken[-8] ^= 1  # The checksum.
    for text, expected in [
        (small + b"garbage", [b"1", b"2"]),
        (bytes(broken), [b"1", b"2"]),
        (b"plain", []),
    ]:
        path.write_bytes(text)
        found, problem = await read_until_error(path)
        assert (found, "cannot be decompressed: " in problem) == (expected, True)


async def test_highly_compressed_files_are_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * (100 << 20), 1))
    tracemalloc.start()
    try:
        lines = await short_lines(path, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines[0].length == 100 << 20
    assert peak < 10 << 20


async def test_several_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt", ".d.jsonl", "[e].jsonl"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "f.jsonl.gz").write_bytes(gzip.compress(b"f.jsonl.gz\n"))
    (tmp_path / "g.d").mkdir()
    assert await read(tmp_path) == [b"[e].jsonl", b"a.jsonl", b"b.jsonl", b"f.jsonl.gz"]
    assert await read(f"{tmp_path}/[ab]*") == [b"a.jsonl", b"b.jsonl"]
    assert await read(f"{tmp_path}/**/c.txt") == [b"c.txt"]
    assert await read(tmp_path / "[e].jsonl") == [b"[e].jsonl"]
    several = [tmp_path / "c.txt", tmp_path / "b.jsonl", f"{tmp_path}/*.jsonl"]
    assert await read(several) == [b"c.txt", b"b.jsonl", b"[e].jsonl", b"a.jsonl"]


async def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, problem in [
        (tmp_path / "absent", "cannot be read: No such file or directory"),
        (empty, "cannot be read: there is no *.jsonl, *.jsonl.gz or *.parquet in it"),
        (f"{empty}/*", "there is no such file, and no file matches it as a pattern"),
        ("a\0b", "cannot be read: embedded null byte"),
    ]:
        assert await read_until_error(path) == ([], f"{path}: {problem}")
    assert (await read_until_error([tmp_path / "a", tmp_path / "absent"]))[0] == [b"1"]
    with pytest.raises(UsageError, match="path: expected a path"):
        read_jsonl([])


async def test_size_and_consumed_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * (3 * PIECE_BYTES - 1) + b"\n")
    packed = gzip.compress(TEXT)
    (tmp_path / "c.jsonl.gz").write_bytes(packed)
    files = read_jsonl(tmp_path)
    assert (files.size, files.consumed) == (3 * PIECE_BYTES + len(packed), 0)
    consumed = [files.consumed async for _ in files]
    assert consumed == [3 * PIECE_BYTES] + [files.size] * 3


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz"])
async def test_cancelled_readers_leave_nothing_open(name: str, tmp_path: Path) -> None:
    """Files are not closed while threads read them, so that no other file is read instead."""
    lines = [b"%d" % number * 50 for number in range(10_000)]
    text = b"\n".join(lines)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    async def read_again_and_again() -> None:
        while True:
            assert await read_lines(path) == lines

    async def read_until_cancelled(turns: int) -> None:
        reading = asyncio.create_task(read_again_and_again())
        for _ in range(turns):
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    before = open_files()
    async with asyncio.timeout(WAIT_SECONDS):
        async with asyncio.TaskGroup() as group:
            whole = [group.create_task(read_lines(path)) for _ in range(2)]
            for turns in range(30):
                group.create_task(read_until_cancelled(turns))
        assert [task.result() for task in whole] == [lines, lines]
    assert open_files() == before


def bind_socket(path: Path) -> None:
    """Make a socket file that nobody listens on."""
    with socket.socket(socket.AF_UNIX) as unbound, chdir(path.parent):
        # The whole path may be too long for the address of a socket.
        unbound.bind(path.name)


@pytest.mark.parametrize("make", [os.mkfifo, bind_socket], ids=["pipe", "socket"])
@pytest.mark.parametrize("pattern", ["", "*.jsonl", "**/*"], ids=["directory", "glob", "deep"])
async def test_special_files_in_a_directory_are_skipped(
    make: Any, pattern: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(TEXT)
    async with asyncio.timeout(WAIT_SECONDS):
        assert b"".join(await read(f"{tmp_path}/{pattern}")) == TEXT.replace(b"\n", b"")
    [warning] = caplog.messages
    assert warning.startswith(f"{tmp_path}/a.jsonl: skipped: a pipe, socket or device")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_named_pipe(new_loop: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def main() -> None:
        before = open_files()
        lines = aiter(read_jsonl(pipe))
        first = asyncio.ensure_future(anext(lines))
        for _ in range(5):
            await checkpoint()
        assert not first.done()
        writer = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)
        os.write(writer, b"a\nb")
        line = await first
        assert (line.data, line.offset, line.position) == (b"a", 0, None)
        with anyio.move_on_after(0.01) as scope:
            await anext(lines)
        assert scope.cancelled_caught, "a cancelled reader blocks nothing"
        os.close(writer)
        await lines.aclose()
        assert open_files() == before

    with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
        runner.run(checkpoint())
        runner.run(main())


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
