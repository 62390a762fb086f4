"""A process that writes and one that follows."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections import defaultdict
from pathlib import Path

import pytest

from graphrag_eval_async import follow_jsonl
from tests.deadlines import until

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("names", [["log.jsonl"], ["a.jsonl", "b.jsonl", "c.jsonl"]])
async def test_every_line_once_and_in_order(tmp_path: Path, names: list[str], count: int) -> None:
    command = [sys.executable, "-m", "tests.sources.log_writer", str(tmp_path), "1", str(count), *names]
    writer = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT, limit=1 << 26)
    assert writer.stdin is not None
    assert writer.stdout is not None
    found: dict[int, list[int]] = defaultdict(list)
    keys: dict[int, set[str]] = defaultdict(set)
    stop = asyncio.Event()

    async def read() -> None:
        path = tmp_path / "log.jsonl" if len(names) == 1 else tmp_path
        async for line in follow_jsonl(path, poll_interval=0.005, stop=stop):
            content = json.loads(line.data)
            found[content["file"]].append(content["line"])
            keys[content["file"]].add(line.file.key)

    def total() -> int:
        return sum(map(len, found.values()))

    reading = asyncio.create_task(read())
    try:
        while written := await writer.stdout.readline():
            counts = json.loads(written)
            await until(lambda: total() >= sum(counts) or reading.done(), f"{sum(counts)} lines")  # noqa: B023
            writer.stdin.write(b"\n")
        stop.set()
        await reading
    finally:
        reading.cancel()
        writer.stdin.close()
        await writer.wait()
    assert sum(counts) >= count
    assert [found[number] for number in range(len(counts))] == [[*range(each)] for each in counts]
    assert all(len(each) == 1 for each in keys.values())
