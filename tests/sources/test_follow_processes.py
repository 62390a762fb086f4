"""A process that writes and one that follows."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async import follow_jsonl
from tests.deadlines import until
from tests.sources.followed import open_files

ROOT = Path(__file__).parents[2]

COUNTS = [3000, pytest.param(100_000, marks=pytest.mark.soak)]


class Received:
    """The lines of a follower, by the file that the writer says they were written to."""

    def __init__(self) -> None:
        self.lines: dict[int, list[Any]] = defaultdict(list)
        self.count = 0
        self.stop = asyncio.Event()

    async def read(self, path: Path) -> None:
        async for line in follow_jsonl(path, poll_interval=0.005, stop=self.stop):
            assert line.whole
            content = json.loads(line.data)
            lines = self.lines[content["file"]]
            assert not lines or lines[-1].file == line.file
            assert not lines or lines[-1].offset < line.offset
            lines.append(line)
            self.count += 1


async def follow_writer(
    folder: Path, path: Path, lines: int, seed: int, *, truncate: bool
) -> tuple[Any, Any]:
    names = ["log.jsonl"] if path.suffix else ["a.jsonl", "b.jsonl", "c.jsonl"]
    arguments = [str(folder), str(seed), str(lines), str(int(truncate)), *names]
    before = open_files()
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.sources.log_writer", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=1 << 26,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    received = Received()
    reading = asyncio.create_task(received.read(path))
    try:
        while True:
            is_last, written = json.loads(await writer.stdout.readline())
            if is_last:
                break
            await until_read(received, reading, written)
            writer.stdin.write(b"\n")
        received.stop.set()
        await reading
    finally:
        reading.cancel()
        writer.stdin.close()
        await writer.wait()
    assert open_files() <= before + 1  # The loop may have kept one to watch its children.
    return received, written


async def until_read(received: Received, reading: asyncio.Task[None], written: Any) -> None:
    for file, (count, truncated) in enumerate(written):
        if not truncated:
            lines = received.lines[file]
            await until(lambda: len(lines) >= count or reading.done(), f"{count} lines of file {file}")  # noqa: B023
            assert not reading.done(), reading.result()


@pytest.mark.parametrize("lines", COUNTS)
@pytest.mark.parametrize("name", ["log.jsonl", ""])
async def test_every_line_once_and_in_order(tmp_path: Path, lines: int, name: str) -> None:
    received, written = await follow_writer(tmp_path, tmp_path / name, lines, 1, truncate=False)
    assert sum(count for count, _ in written) == received.count >= lines
    for file, (count, _) in enumerate(written):
        assert [json.loads(line.data)["line"] for line in received.lines[file]] == [*range(count)]


@pytest.mark.parametrize("lines", COUNTS)
@pytest.mark.parametrize("name", ["log.jsonl", ""])
async def test_only_data_that_was_never_visible_is_lost(
    tmp_path: Path, lines: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    received, written = await follow_writer(tmp_path, tmp_path / name, lines, 2, truncate=True)
    logged = [int(number) for number in re.findall(r"rewritten after (\d+) bytes were read", caplog.text)]
    assert sum(truncated for _, truncated in written) > 0
    for file, (count, truncated) in enumerate(written):
        found = received.lines[file]
        assert [json.loads(line.data)["line"] for line in found] == [*range(len(found))]
        assert truncated or len(found) == count
        assert len(found) <= count
        if 0 < len(found) < count:
            *_, last = accumulate(len(line.data) + 1 for line in found)
            assert any(number >= last for number in logged)
    assert len({line.data for lines_ in received.lines.values() for line in lines_}) == received.count
