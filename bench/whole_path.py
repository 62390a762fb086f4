"""The whole path, from a JSONL file to results and a snapshot, against decoding the same JSON.

python -m bench.whole_path
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import orjson

from bench.golden import REFERENCE, responses
from bench.report import Row, show
from graphrag_eval_async import evaluate_stream, load_reference

RESPONSES = 20_000
ROUNDS = 7


def floor(path: Path) -> None:
    """Decode each line, and each step's output that is JSON."""
    for line in path.read_bytes().splitlines():
        for step in orjson.loads(line)["actual_steps"]:
            if step["status"] == "success" and step["output"].startswith(("{", "[")):
                orjson.loads(step["output"])


def seconds(path: Path) -> float:
    """How long evaluating the file takes."""
    reference = load_reference(REFERENCE)

    async def run() -> float:
        started = perf_counter()
        async with evaluate_stream(reference, path) as results:
            async for _ in results:
                pass
        results.aggregates.snapshot()
        return perf_counter() - started

    return asyncio.run(run())


def rows() -> list[Row]:
    """The ratio of each of a few rounds; the median stands for them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "responses.jsonl"
        path.write_bytes(b"".join(responses(RESPONSES)))
        ratios, times = [], []
        for _ in range(ROUNDS):
            started = perf_counter()
            floor(path)
            bare = perf_counter() - started
            times.append(seconds(path))
            ratios.append(times[-1] / bare)
    each = statistics.median(times) / RESPONSES * 1e6
    what = f"whole path, {RESPONSES:,} responses, against decoding them ({each:.0f} us a response)"
    return [Row(what, f"{statistics.median(ratios):.2f}x", "aim 4x, at most 5x")]


if __name__ == "__main__":
    show(rows())
