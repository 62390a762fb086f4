"""Several workers against the plain file path, and merging what many workers found.

python -m bench.scale
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench.aggregates import results
from bench.report import Row, show
from bench.shapes import few_questions
from graphrag_eval_async import RunningAggregates, evaluate_file
from graphrag_eval_async.scale import evaluate_dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.shapes import Shape

NUMBER = 20_000
SHARDS, TEMPLATES, PER_SHARD = 1_000, 100, 200

Measured = tuple[float, float | None]
"""Seconds for all responses, and to the first result, if that is known."""


def plain(shape: Shape, folder: Path) -> Measured:
    """One process, from file to file."""
    started = perf_counter()
    asyncio.run(evaluate_file(shape.reference, shape.responses, results=folder / "plain.jsonl"))
    return perf_counter() - started, None


def by_ray(shape: Shape, folder: Path, workers: int) -> Measured:
    """Workers of a Ray that runs already."""
    started = perf_counter()
    results = folder / f"ray-{workers}.jsonl"
    evaluate_dataset(shape.reference, shape.responses, concurrency=workers, results=results)
    return perf_counter() - started, None


def compared(name: str, shape: Shape, floor: float, run: Callable[[], Measured]) -> Row:
    """A row for any engine: pace, overhead per response, and the time to the first result."""
    taken, first = run()
    overhead = (taken - floor) / shape.number * 1e6
    begun = "" if first is None else f", first results after {first:.1f} s"
    pace = f"{shape.number / taken:,.0f}/s, {floor / taken:.2f}x, {overhead:+.0f} us each{begun}"
    return Row(f"{name}, against the plain file path ({shape.number / floor:,.0f}/s)", pace, "")


def ray_rows(shape: Shape, folder: Path, floor: float) -> list[Row]:
    if find_spec("ray") is None:
        return [Row("Ray", "not installed", "")]
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    started = perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    found = [Row("Ray starts on this machine", f"{perf_counter() - started:.1f} s", "")]
    for workers in (1, 2):
        run = lambda workers=workers: by_ray(shape, folder, workers)  # noqa: E731
        found.append(compared(f"Ray, workers: {workers}", shape, floor, run))
    ray.shutdown()
    return found


def many_workers() -> list[Row]:
    """Merge the aggregates of many workers, which all have seen all templates."""
    parts = []
    for seed in range(SHARDS):
        part = RunningAggregates()
        for result in results(PER_SHARD, TEMPLATES, seed):
            part.add(result)
        parts.append(part.to_bytes())
    started = perf_counter()
    merged = RunningAggregates()
    for data in parts:
        merged.merge(RunningAggregates.from_bytes(data))
    taken = perf_counter() - started
    what = f"aggregates of {SHARDS:,} workers, {PER_SHARD:,} results each, templates: {TEMPLATES}"
    sizes = (
        f"{sum(map(len, parts)) / SHARDS / 1000:,.0f} kB each, "
        f"{len(merged.to_bytes()) / 1e6:,.0f} MB merged"
    )
    return [Row(f"merging {what}", f"{taken:.1f} s", ""), Row(f"size of {what}", sizes, "")]


def rows() -> list[Row]:
    """All figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = few_questions(folder, NUMBER)
        floor, _ = plain(shape, folder)
        found = ray_rows(shape, folder, floor)
    return [*found, *many_workers()]


if __name__ == "__main__":
    show(rows())
