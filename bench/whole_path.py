"""The whole path, from responses to results and a snapshot, against decoding the same JSON.

    python -m bench.whole_path [--peer PYTHON] [SHAPE ...]

The floor decodes each line, and each step's output that is JSON, with `orjson.loads`. Floor and
evaluation take turns in one process, the garbage collector on, for seven rounds. Shown are the
median of the rounds' ratios, and the best time of each: on a busy machine, the ratio of the best
times would flatter whichever was lucky. PYTHON is an interpreter that has the package
`graphrag-eval`: it evaluates the same files, loading of the reference set counted on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from bench import shapes
from bench.report import Row, show
from graphrag_eval_async import RunningAggregates, evaluate_file, evaluate_stream, load_reference
from graphrag_eval_async.records.evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

ROUNDS = 7
JOBS_ROUNDS = 3
FEW, MANY, RECORDS, LARGE = 10_000, 10_000, 100_000, 200_000
METRICS = ("steps_score", "input_tokens", "output_tokens", "total_tokens", "elapsed_sec")


def decode(lines: Iterable[bytes]) -> None:
    """The floor: each line, and each step's output that is JSON."""
    for line in lines:
        try:
            response = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if not isinstance(response, dict):
            continue
        for step in response.get("actual_steps", ()):
            if step.get("output"):
                orjson.loads(step["output"])


def seconds(function: Callable[[], object]) -> float:
    """How much CPU time a call takes, in all threads."""
    gc.collect()
    started = process_time()
    function()
    return process_time() - started


def ratio(
    what: str, number: int, function: Callable[[], object], floor: Callable[[], object]
) -> tuple[str, str]:
    """The median ratio of a few rounds and the best times, as a cell of the table."""
    pairs = [(seconds(floor), seconds(function)) for _ in range(ROUNDS)]
    typical = median(taken / least for least, taken in pairs)
    best_floor, best = (min(side) / number * 1e6 for side in zip(*pairs, strict=True))
    return what, f"{typical:.2f}x ({best:.1f} us; floor {best_floor:.1f} us)"


async def drain(reference: Any, responses: Any) -> None:
    """Evaluate all, and look at the aggregates."""
    async with evaluate_stream(reference, responses) as results:
        _ = results.rejects  # So that none is logged.
        async for _ in results:
            pass
    results.aggregates.snapshot()


def from_file(what: str, shape: shapes.Shape, target: str) -> Row:
    reference, lines = load_reference(shape.reference), shape.responses.read_bytes().split(b"\n")
    measured = ratio(
        what,
        shape.number,
        lambda: asyncio.run(drain(reference, shape.responses)),
        lambda: decode(lines),
    )
    return Row(*measured, target)


def few(folder: Path) -> list[Row]:
    shape = shapes.few_questions(folder, FEW)
    return [from_file(f"40 questions, {FEW:,} responses, from a file", shape, "3.2x, aim 2.5x")]


def many(folder: Path) -> list[Row]:
    shape = shapes.many_questions(folder, MANY)
    rows = [from_file(f"{MANY:,} questions, one response each", shape, "3.7x, aim 3x")]
    measured = ratio(
        f"loading {MANY:,} questions, against decoding them",
        MANY,
        lambda: load_reference(shape.reference),
        lambda: orjson.loads(shape.reference.read_bytes()),
    )
    return [*rows, Row(*measured, "1.5x, aim 1.2x")]


def trouble(folder: Path) -> list[Row]:
    shape = shapes.with_trouble(folder, FEW)
    return [from_file("a tenth of the lines hostile, a tenth agent errors", shape, "5x, aim 4x")]


def pushed(folder: Path) -> list[Row]:
    shape = shapes.many_questions(folder, MANY)
    reference, lines = load_reference(shape.reference), shape.responses.read_bytes().splitlines()
    dicts = [orjson.loads(line) for line in lines]

    async def push() -> AsyncIterator[dict[str, Any]]:
        for response in dicts:
            yield response

    what = "the same as dicts from an asynchronous generator"
    measured = ratio(
        what, MANY, lambda: asyncio.run(drain(reference, push())), lambda: decode(lines)
    )
    return [Row(*measured, "4.1x, aim 3.5x")]


def added(_: Path) -> list[Row]:
    lines = list(shapes.responses(RECORDS))
    draw = random.Random(0).random
    records = [
        Evaluation(
            f"template {index % 40}",
            f"question {index}",
            False,
            1,
            metrics=METRICS,
            numbers=tuple(draw() for _ in METRICS),
            steps=(("autocomplete_search", 0, 1), ("sparql_query", 0, 1)),
        )
        for index in range(RECORDS)
    ]

    def add() -> None:
        aggregates = RunningAggregates()
        for record in records:
            aggregates.add(record)
        aggregates.snapshot()

    what = "add of a typed record, five metrics and two steps, against decoding a line"
    measured = ratio(what, RECORDS, add, lambda: [orjson.loads(line) for line in lines])
    return [Row(*measured, "0.46x, aim 0.31x")]


def jobs(folder: Path) -> list[Row]:
    """Two worker processes against one process, results written; wall-clock time, and CPU time."""
    shape = shapes.few_questions(folder, LARGE)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    rounds = [[evaluated(shape, number) for number in (1, 2)] for _ in range(JOBS_ROUNDS)]
    one, two = (tuple(map(median, zip(*side, strict=True))) for side in zip(*rounds, strict=True))
    faster = median(one.wall / two.wall for one, two in rounds)
    each = [f"{taken / LARGE * 1e6:.1f} us" for taken in (one[1], two[1], two[2])]
    measured = f"{faster:.2f}x faster ({one[0]:.1f} s, {two[0]:.1f} s)"
    used = f"{each[0]}; parent {each[1]}, workers {each[2]}"
    what = f"{LARGE:,} responses, two worker processes on {cores} cores"
    return [
        Row(what, measured, "1.7x, aim 1.9x"),
        Row("CPU time of a response, one process; two", used, ""),
    ]


class Taken(NamedTuple):
    """Seconds: by the clock, and of CPU time in this process and in its workers."""

    wall: float
    own: float
    workers: float


def evaluated(shape: shapes.Shape, number: int) -> Taken:
    """How long a run takes in so many processes."""
    gc.collect()
    wall, before = perf_counter(), os.times()
    results = shape.responses.with_suffix(".results")
    asyncio.run(evaluate_file(shape.reference, shape.responses, jobs=number, results=results))
    wall, after = perf_counter() - wall, os.times()
    results.unlink()
    return Taken(
        wall,
        after.user + after.system - before.user - before.system,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


PEER = """
import asyncio, json, sys
from time import perf_counter, process_time
from graphrag_eval import compute_aggregates, run_evaluation

reference, responses = sys.argv[1:]
started = perf_counter()
with open(reference) as file:
    templates = json.load(file)
identifiers = {question["id"] for template in templates for question in template["questions"]}
results, batch = [], {}


def evaluate():
    results.extend(asyncio.run(run_evaluation(templates, batch)))
    batch.clear()


with open(responses) as file:
    for line in file:
        response = json.loads(line)
        batch[response["question_id"]] = response
        if len(batch) == len(identifiers):
            evaluate()
compute_aggregates(results)
print(perf_counter() - started, len(results))
"""


def peer(folder: Path, python: str) -> list[Row]:
    """The published batch library, which takes one response to each question at a time."""
    rows = []
    for what, shape, target in (
        ("40 questions", shapes.few_questions(folder, FEW), "5 times as fast"),
        (f"{MANY:,} questions", shapes.many_questions(folder, MANY), "3.3 times as fast"),
    ):
        ratios = []
        for _ in range(ROUNDS):
            command = [python, "-c", PEER, str(shape.reference), str(shape.responses)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            ours = [
                sys.executable,
                "-m",
                "bench.whole_path",
                "--once",
                str(shape.reference),
                str(shape.responses),
            ]
            mine = subprocess.run(ours, capture_output=True, check=True, text=True)
            ratios.append(float(done.stdout.split()[0]) / float(mine.stdout))
        rows.append(
            Row(f"against graphrag-eval, {what}", f"{median(ratios):.2f} times as fast", target)
        )
    return rows


def once(reference: str, responses: str) -> None:
    """Print how long loading and evaluating take, once all modules are imported, as for the
    peer.
    """
    asyncio.run(drain(shapes.templates(), shapes.responses(shapes.QUESTIONS)))
    started = perf_counter()
    asyncio.run(drain(load_reference(reference), responses))
    print(perf_counter() - started)


SHAPES = {
    "add": added,
    "few": few,
    "jobs": jobs,
    "many": many,
    "pushed": pushed,
    "trouble": trouble,
}


def rows(names: Iterable[str] = SHAPES, python: str | None = None) -> list[Row]:
    """The shapes with these names, and the peer if there is one."""
    with tempfile.TemporaryDirectory() as name:
        found = [row for each in names for row in SHAPES[each](Path(name))]
        return found + (peer(Path(name), python) if python else [])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument(
        "--once", nargs=2, metavar=("REFERENCE", "RESPONSES"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.once:
        once(*arguments.once)
    else:
        show(rows(arguments.shapes or ([] if arguments.peer else SHAPES), arguments.peer))


if __name__ == "__main__":
    main()
