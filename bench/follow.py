"""How soon a line that another process appends is there, and what following files costs while
nothing comes.

python -m bench.follow
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING

from bench.report import Row, show
from bench.shapes import responses, templates
from graphrag_eval_async import evaluate_stream, follow_jsonl, load_reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LINES = 1500
PAUSE = 0.02
"""Between two lines, on average, in seconds."""

INTERVAL = 0.05
"""Of polling, by default."""

FILES = 100
IDLE_SECONDS = 20.0


def write(path: Path) -> None:
    """Append responses at random times; each says when, by the clock that all processes share."""
    random = Random(0)
    originals = [json.loads(line) for line in responses(LINES)]
    with path.open("ab", buffering=0) as file:
        for response in originals:
            sleep(random.uniform(0, 2 * PAUSE))
            file.write(json.dumps({**response, "elapsed_sec": monotonic()}).encode() + b"\n")


async def _delays(path: Path, *, evaluated: bool) -> AsyncIterator[float]:
    stop = asyncio.Event()
    follower = follow_jsonl(path, stop=stop)
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.follow", "write", str(path)
    )
    count = 0
    async for item in (
        evaluate_stream(load_reference(templates()), follower) if evaluated else follower
    ):
        yield (
            monotonic() - (item if isinstance(item, dict) else json.loads(item.data))["elapsed_sec"]
        )
        count += 1
        if count == LINES:
            stop.set()
    await writer.wait()


async def _latency(folder: str, what: str, *, evaluated: bool) -> Row:
    path = Path(folder) / f"{what}.jsonl"
    delays = sorted([delay / INTERVAL async for delay in _delays(path, evaluated=evaluated)])
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    target = "p99 at most 1.5" if evaluated else ""
    return Row(f"append to {what}, in polling intervals", f"p50 {p50:.2f}, p99 {p99:.2f}", target)


async def _idle(paths: list[Path]) -> float:
    follower = follow_jsonl(paths)
    reading = asyncio.create_task(anext(aiter(follower), None))
    await asyncio.sleep(3)  # What has just changed is looked at more closely.
    began, cpu = monotonic(), process_time()
    await asyncio.sleep(IDLE_SECONDS)
    share = (process_time() - cpu) / (monotonic() - began)
    await follower.aclose()
    await reading
    return share


def _idle_share(arguments: list[str]) -> float:
    """In a process of its own."""
    command = [sys.executable, "-m", "bench.follow", "idle", *arguments]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def rows() -> list[Row]:
    """Latencies and costs."""
    with tempfile.TemporaryDirectory() as folder:
        found = [
            asyncio.run(_latency(folder, "line", evaluated=False)),
            asyncio.run(_latency(folder, "result", evaluated=True)),
        ]
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / f"{number}.jsonl") for number in range(FILES)]
        for name in names:
            Path(name).write_bytes(b"")
        for what, paths in (("a directory", [folder]), ("paths", names)):
            share = _idle_share(paths)
            found.append(
                Row(f"following {FILES} idle files, {what}", f"{share:.2%} of a core", "under 2%")
            )
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["idle"]:
        print(asyncio.run(_idle([Path(path) for path in sys.argv[2:]])))
    else:
        show(rows())
