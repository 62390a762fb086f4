"""Processes that evaluate a log and are there to be killed: each a copy of one that has imported everything.

python -m tests.support.killed
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import orjson

from graphrag_eval_async import Journal, follow_jsonl
from tests.support.journals import CONFIG, Judge, bits, stream_of

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

    def __init__(self, path: str) -> None:
        self.is_set = Path(path).exists


async def run(folder: Path, *, cache: bool, fsync: Any) -> bytes:
    """Evaluate a log to its end; each call of the judge becomes a line of a file."""
    calls = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def judge(name: str) -> None:
        os.write(calls, name.encode() + b"\n")
        await asyncio.sleep(random.random() * 0.005)

    config = {**CONFIG, "llm": CONFIG["llm"] | ({"cache": str(folder / "cache")} if cache else {})}
    source = follow_jsonl(folder / "log.jsonl", stop=Done(str(folder / "done")), poll_interval=0.002)
    journal = Journal(folder / "results.jsonl", fsync=fsync, fsync_interval=0.01)
    options: dict[str, Any] = {"config": config, "judge": Judge(judge), "max_in_flight": MAX_IN_FLIGHT}
    async with stream_of(source, journal, **options) as stream:
        async for _ in stream:
            pass
    return bits(stream.aggregates)


def serve() -> None:
    """For each line of JSON, the options of a run, start one, and say its process id and then its end."""
    for line in sys.stdin:
        options = orjson.loads(line)
        process = os.fork()
        if not process:
            random.seed(options["seed"])
            if options["torn"] is not None:
                tear(options["torn"])
            folder = Path(options["folder"])
            found = asyncio.run(run(folder, cache=options["cache"], fsync=options["fsync"]))
            (folder / "aggregates").write_bytes(found)
            os._exit(0)
        say(process)
        say(os.waitpid(process, 0)[1])


def say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
