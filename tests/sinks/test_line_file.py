from __future__ import annotations

import asyncio
import errno
import os
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.sinks import LineFile, write_report
from tests.conftest import settle
from tests.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 1000


@contextmanager
def full_at_limit(limit: int = LIMIT) -> Iterator[None]:
    """No file may grow beyond `limit` bytes; not even a log of this test run, so keep it short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_pipe_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with LineFile(path) as lines:
        lines.write(b"one\n")
        assert os.read(reader, 100) == b"one\n"
        os.close(reader)
        with pytest.raises(BrokenPipeError, match="pipe"):
            lines.write(b"two\n")


class Pipe:
    """A named pipe, whose reader takes what it is told to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        """All that is in it."""
        content = b""
        with suppress(BlockingIOError):
            while piece := os.read(self._reader, 1 << 20):
                content += piece
        return content

    def close(self) -> None:
        os.close(self._reader)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "pipe")
    yield pipe
    pipe.close()


async def read_until_done(pipe: Pipe, task: asyncio.Task[None]) -> bytes:
    content = b""
    while not task.done():
        content += pipe.read()
        await asyncio.sleep(0)
    return content + pipe.read()


LINE = bytes(range(11, 256)) * 4000 + b"\n"
"""More than a pipe holds."""


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("blocking", [False, True])
async def test_a_slow_reader_gets_whole_lines(
    pipe: Pipe, blocking: bool, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphrag_eval_async.sinks.line_file.PATIENCE_SECONDS", WAIT_SECONDS)
    with LineFile(pipe.path) as lines:
        os.set_blocking(lines._descriptor, blocking)
        await lines.send(b"one\n")
        task = asyncio.create_task(lines.send(LINE))
        await settle()
        assert not task.done()
        if cancelled:
            task.cancel()
            await settle()
        assert await read_until_done(pipe, task) == b"one\n" + LINE
        assert task.cancelled() == cancelled
        await lines.send(b"two\n")
        assert pipe.read() == b"two\n"


async def test_a_cancelled_line_that_nobody_reads(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_eval_async.sinks.line_file.PATIENCE_SECONDS", 0.001)
    with LineFile(pipe.path) as lines:
        task = asyncio.create_task(lines.send(LINE))
        await settle()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    assert LINE.startswith(pipe.read())


async def test_a_reader_who_goes_away(pipe: Pipe) -> None:
    with LineFile(pipe.path) as lines:
        task = asyncio.create_task(lines.send(LINE))
        await settle()
        pipe.close()
        with pytest.raises(BrokenPipeError, match="pipe"):
            await task
        pipe._reader = os.open(os.devnull, os.O_RDONLY)


def test_what_write_waits_with(pipe: Pipe) -> None:
    waited = []

    def wait(descriptor: int) -> None:
        waited.append(descriptor)
        if len(waited) > 2:
            raise InterruptedError
        content.extend(pipe.read())

    content = bytearray()
    with LineFile(pipe.path, wait=wait) as lines:
        with pytest.raises(InterruptedError):
            lines.write(LINE)
        assert waited == [lines._descriptor] * 3
        assert LINE.startswith(bytes(content) + pipe.read())


async def test_a_large_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        await lines.send(LINE)
        await lines.send(b"one\n")
        with pytest.raises(OSError, match="lines") as error, full_at_limit(len(LINE) + 500):
            await lines.send(LINE)
        assert error.value.errno == errno.EFBIG
        assert path.read_bytes() == LINE + b"one\n"
        lines.write(b"two\n")
        await lines.send(LINE)
    assert path.read_bytes() == LINE + b"one\ntwo\n" + LINE


async def test_a_cancelled_line_is_written_whole(tmp_path: Path) -> None:
    with LineFile(tmp_path / "lines") as lines:
        task = asyncio.create_task(lines.send(LINE))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    assert (tmp_path / "lines").read_bytes() == LINE


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        lines.write(b"a" * 600 + b"\n")
        for _ in range(2):
            with pytest.raises(OSError, match="lines") as error, full_at_limit():
                lines.write(b"b" * 600 + b"\n")
            assert error.value.errno == errno.EFBIG
            assert path.read_bytes() == b"a" * 600 + b"\n"
        lines.write(b"c\n")
    assert path.read_bytes() == b"a" * 600 + b"\nc\n"


def test_a_full_device_is_named() -> None:
    with LineFile("/dev/full") as lines, pytest.raises(OSError, match="/dev/full") as error:
        lines.write(b"one\n")
    assert error.value.errno == errno.ENOSPC


async def test_a_report_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".html")
    link = tmp_path / "link"
    link.symlink_to(path.name)
    await write_report(path, "older \u00e9, and longer")
    await write_report(link, "newer \u00e9")
    assert path.read_text(encoding="utf-8") == "newer \u00e9"
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted([path, link])


async def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("older")
    with pytest.raises(OSError, match="report") as error, full_at_limit():
        await write_report(path, "x" * (LIMIT + 1))
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(path))
    with pytest.raises(FileNotFoundError, match="absent"):
        await write_report(tmp_path / "absent" / "report", "text")
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]
