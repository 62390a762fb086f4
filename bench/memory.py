"""Peak memory of a stream over a million responses, many samples to each question.

python -m bench.memory
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import cycle, islice
from typing import TYPE_CHECKING

from bench.aggregates import peak_megabytes
from bench.report import Row, show
from bench.shapes import responses, templates
from graphrag_eval_async import evaluate_stream, load_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

RESPONSES = 1_000_000


def _source(number: int) -> Iterator[bytes]:
    lines = [line.replace(b'"elapsed_sec": ', b'"elapsed_sec": %d') for line in responses(40)]
    for index, line in enumerate(islice(cycle(lines), number)):
        yield line.replace(b"%d", b"%d" % (index + 1)) if b"%d" in line else line


async def _run() -> None:
    reference = load_reference(templates())
    start = peak_megabytes()
    async with evaluate_stream(reference, _source(RESPONSES)) as results:
        async for _ in results:
            pass
    results.aggregates.snapshot()
    print(peak_megabytes() - start)


def rows() -> list[Row]:
    """Measured in a process of its own."""
    command = [sys.executable, "-m", "bench.memory", "run"]
    megabytes = float(subprocess.run(command, capture_output=True, check=True).stdout)
    what = f"peak memory of a stream over {RESPONSES:,} responses, above its start"
    return [Row(what, f"{megabytes:.0f} MB", "at most 150 MB")]


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        asyncio.run(_run())
    else:
        show(rows())
