"""An evaluation of a log in a process that is there to be killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import Journal, follow_jsonl
from tests.support.journals import CONFIG, Judge, bits, stream_of

if TYPE_CHECKING:
    from pathlib import Path

MAX_IN_FLIGHT = 8


def tear(writes: int) -> None:
    """Kill the process in the middle of a write to the journal, after so many of them."""
    write, left = os.write, iter(range(writes))

    def torn(descriptor: int, data: bytes | memoryview) -> int:
        if b'"crc32":' in bytes(data) and next(left, None) is None:
            write(descriptor, data[: random.randint(1, len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, data)

    vars(os)["write"] = torn


class Done:
    """An event that is set once there is a file."""

    def __init__(self, path: Path) -> None:
        self.is_set = path.exists


async def evaluate(folder: Path) -> bytes:
    """Evaluate a log to its end; each call of the judge becomes a line of a file."""
    calls = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def judge(name: str) -> None:
        os.write(calls, name.encode() + b"\n")
        await asyncio.sleep(random.random() * 0.005)

    config = CONFIG | {"llm": CONFIG["llm"] | {"cache": str(folder / "cache")}}
    source = follow_jsonl(folder / "log.jsonl", stop=Done(folder / "done"), poll_interval=0.002)
    journal = Journal(folder / "results.jsonl")
    options: dict[str, Any] = {
        "config": config,
        "judge": Judge(judge),
        "max_in_flight": MAX_IN_FLIGHT,
    }
    async with stream_of(source, journal, **options) as stream:
        async for _ in stream:
            pass
    return bits(stream.aggregates)


def run(folder: Path, seed: float, torn: int | None) -> None:
    random.seed(seed)
    if torn is not None:
        tear(torn)
    found = asyncio.run(evaluate(folder))
    (folder / "aggregates").write_bytes(found)
