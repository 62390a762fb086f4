"""A thread that writes logs as badly as writers do, and a follower."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from random import Random
from time import sleep
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async import follow_jsonl
from tests.support.deadlines import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Log:
    """A log that is written in pieces, rotated, deleted and recreated."""

    def __init__(self, path: Path, random: Random, counts: list[int]) -> None:
        """`counts` are the numbers of lines written to each file."""
        self.path, self.random, self.counts = path, random, counts
        self.create()

    def create(self) -> None:
        self.handle, self.file, self.rest = self.path.open("ab", buffering=0), len(self.counts), b""
        self.counts.append(0)

    def line(self) -> bytes:
        padding = self.random.choice(["", "é\u2028", "\U0001f600" * 40])
        line = {"file": self.file, "line": self.counts[self.file], "padding": padding}
        self.counts[self.file] += 1
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"

    def write(self, size: int) -> None:
        while len(self.rest) < size:
            self.rest += self.line()
        self.handle.write(self.rest[:size])
        self.rest = self.rest[size:]

    def rotate(self) -> None:
        """The rest of a line, and one more, come late."""
        self.path.rename(self.path.with_name(f"{self.path.name}.{len(self.counts)}"))
        handle, late = self.handle, self.rest + self.line()
        self.create()
        self.write(100)
        handle.write(late)
        handle.close()

    def delete(self) -> None:
        self.path.unlink()
        self.handle.close()
        self.create()


def write(logs: list[Log], random: Random, count: int, wait: Callable[[], object]) -> None:
    """Write so many lines. `wait` returns once all were read: only then may a file be deleted."""
    while sum(logs[0].counts) < count:
        log, choice = random.choice(logs), random.random()
        if choice < 0.03:
            log.rotate()
        elif choice < 0.1:
            sleep(random.random() * 0.01)
        else:
            log.write(random.choice([1, 10, 50, 300, 2000]))
        if choice < 0.005 or sum(log.counts) >= count:
            for each in logs:
                each.write(len(each.rest))
            wait()
            log.delete()


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("names", [["log.jsonl"], ["a.jsonl", "b.jsonl", "c.jsonl"]])
async def test_every_line_once_and_in_order(tmp_path: Path, names: list[str], count: int) -> None:
    found: dict[int, list[int]] = defaultdict(list)
    random, stop, counts = Random(1), asyncio.Event(), list[int]()
    logs = [Log(tmp_path / name, random, counts) for name in names]
    loop = asyncio.get_running_loop()
    path = tmp_path / "log.jsonl" if len(names) == 1 else tmp_path
    follower = follow_jsonl(path, poll_interval=0.005, stop=stop)
    await follower.begin({})  # It skips what was rotated before.

    async def read() -> None:
        async for line in follower:
            content = json.loads(line.data)
            found[content["file"]].append(content["line"])

    def is_read() -> bool:
        return reading.done() or sum(map(len, found.values())) >= sum(counts)

    def wait() -> None:
        asyncio.run_coroutine_threadsafe(until(is_read, "all lines"), loop).result()

    reading = asyncio.create_task(read())
    try:
        await asyncio.to_thread(write, logs, random, count, wait)
        stop.set()
        await reading
    finally:
        reading.cancel()
    assert [found[number] for number in range(len(counts))] == [[*range(each)] for each in counts]
    for log in logs:
        log.handle.close()
