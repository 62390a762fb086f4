"""Records without an answer in a stream whose judge never replies, against the same stream without
a judge.

python -m bench.judge_starvation
"""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson

from bench.judge_cases import config, lines, reference, response, retrieval
from bench.judge_process import serving
from bench.report import Row, show
from graphrag_eval_async import evaluate_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SLOTS = 32
JUDGED = 2 * SLOTS
"""As many have a slot as wait for one, and more records are admitted."""

RECORDS = 40_000
ROUNDS = 9


def steps_only(number: int) -> bytes:
    record = response(
        number, actual_steps=[{**retrieval("response", number), "id": f"call {number}"}]
    )
    del record["actual_answer"]
    return orjson.dumps(record) + b"\n"


async def seconds(records: bytes, settings: dict[str, Any] | None) -> float:
    """From when all slots are taken until all records without an answer are out."""
    started = 0.0

    async def source() -> AsyncIterator[bytes]:
        nonlocal started
        for line in lines(JUDGED):
            yield line
        while settings is not None and results.usage.waiting < JUDGED - SLOTS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        started = perf_counter()
        yield records

    async with evaluate_stream(reference(), source(), config=settings) as results:
        left = RECORDS
        async for result in results:
            left -= "actual_steps" in result
            if not left:
                return perf_counter() - started
    raise AssertionError(f"{left} records are missing")


def rows() -> list[Row]:
    """The ratio of each of a few rounds; the median stands for them."""
    records = b"".join(map(steps_only, range(RECORDS)))
    with serving("--never") as base_url:
        settings = config(base_url, max_concurrency=SLOTS)
        ratios, times = [], []
        for _ in range(ROUNDS):
            alone = asyncio.run(seconds(records, None))
            times.append(asyncio.run(seconds(records, settings)))
            ratios.append(alone / times[-1])
    rate = RECORDS / median(times)
    what = (
        f"records without answer a second ({rate:,.0f}), all {SLOTS} judge slots held, against no "
        "judge"
    )
    return [Row(what, f"{median(ratios):.2f}x", "they keep coming")]


if __name__ == "__main__":
    show(rows())
