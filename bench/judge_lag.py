"""How long the event loop stands still while many records with many documents begin to be judged at
once.

python -m bench.judge_lag
"""

from __future__ import annotations

import asyncio
import gc
from statistics import median
from time import perf_counter
from typing import Any

from bench.judge_cases import ALL_METRICS, config, reference, response, retrieval
from bench.judge_process import serving
from bench.report import Row, show
from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.metrics.ragas_bridge import load_ragas

RECORDS = 256
ROUNDS = 3
PAUSE = 0.001


class Gaps:
    """The longest time between two turns of the loop, in seconds: with and without garbage
    collection.
    """

    def __init__(self) -> None:
        self.longest = self.longest_of_ours = 0.0
        self._began = self._collecting = self._collected = 0.0

    def collects(self, phase: str, _: Any) -> None:
        if phase == "start":
            self._collecting = perf_counter()
        else:
            self._collected += perf_counter() - self._collecting

    async def measure(self) -> None:
        while True:
            began, self._collected = perf_counter(), 0.0
            await asyncio.sleep(PAUSE)
            gap = perf_counter() - began - PAUSE
            self.longest = max(self.longest, gap)
            self.longest_of_ours = max(self.longest_of_ours, gap - self._collected)


async def gaps(base_url: str) -> Gaps:
    found = Gaps()
    responses = [response(i, actual_steps=[retrieval("response", i)]) for i in range(RECORDS)]
    gc.callbacks.append(found.collects)
    task = asyncio.create_task(found.measure())
    async with evaluate_stream(
        reference(), responses, config=config(base_url, ALL_METRICS)
    ) as stream:
        async for result in stream:
            assert "answer_f1" in result, result  # noqa: S101
    task.cancel()
    gc.callbacks.remove(found.collects)
    return found


def rows() -> list[Row]:
    """The median of a few rounds."""
    load_ragas()
    with serving("--latency", "0.05") as base_url:
        rounds = [asyncio.run(gaps(base_url)) for _ in range(ROUNDS)]
    own, whole = (
        median(values)
        for values in zip(*((g.longest_of_ours, g.longest) for g in rounds), strict=True)
    )
    what = f"longest stall of the event loop, {RECORDS} records, all metrics, 5 documents each"
    return [
        Row(what, f"{own * 1000:.0f} ms", ""),
        Row("... garbage collections included", f"{whole * 1000:.0f} ms", ""),
    ]


if __name__ == "__main__":
    show(rows())
