"""Memory of a stream whose answers are judged: it should not grow with the number of records.

python -m bench.judge_memory
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.aggregates import peak_megabytes
from bench.judge_cases import config, lines, reference
from bench.judge_process import serving
from bench.report import Row, show
from graphrag_eval_async import evaluate_stream

FEW, MANY = 10_000, 50_000
CONCURRENCY = 64


def megabytes() -> float:
    """The memory that this process has, in MB (10**6 bytes); where that is not told, the most it
    has had.
    """
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 1e6
    return peak_megabytes()


async def _run(base_url: str) -> None:
    settings = config(base_url, max_concurrency=CONCURRENCY)
    started, judged = perf_counter(), 0
    async with evaluate_stream(reference(), lines(MANY), config=settings) as results:
        async for result in results:
            judged += "answer_f1" in result
            if judged in {FEW, MANY}:
                print(megabytes())
    print((perf_counter() - started) / 60)


def rows() -> list[Row]:
    """Measured in a process of its own."""
    with serving() as base_url:
        command = [sys.executable, "-m", "bench.judge_memory", base_url]
        output = subprocess.run(command, capture_output=True, check=True).stdout
    few, many, minutes = map(float, output.split())
    what = (
        f"memory after {MANY:,} judged records against {FEW:,} ({few:.0f} MB); {minutes:.1f} "
        "minutes"
    )
    return [Row(what, f"{many - few:+.1f} MB", "about 0")]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_run(sys.argv[1]))
    else:
        show(rows())
