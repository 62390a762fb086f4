"""Running aggregates alone: how adding, looking and keeping grow with the number of results.

python -m bench.aggregates
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.report import Row, show
from graphrag_eval_async import Last, RunningAggregates
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.inference.until import Deciding, Until

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY = 1_000, 1_000_000
TEMPLATES = 100
WINDOW = 10_000
METRICS = ("steps_score", "input_tokens", "output_tokens", "total_tokens", "elapsed_sec")
ROUNDS = 20
NOT_PLAIN = {"reference_steps", "failure", "answer_eval_error"}


def results(number: int, templates: int, seed: int = 0) -> list[dict[str, Any]]:
    """Results with five metrics each, all values distinct."""
    draw = random.Random(seed).random
    return [
        {
            "template_id": f"template {i % templates}",
            "question_id": f"question {i}",
            "status": "success",
            **{metric: 1000 * draw() for metric in METRICS},
        }
        for i in range(number)
    ]


def add_seconds(aggregates: RunningAggregates, some: list[dict[str, Any]]) -> float:
    started = perf_counter()
    for result in some:
        aggregates.add(result)
    return perf_counter() - started


def snapshot_seconds(aggregates: RunningAggregates, templates: int) -> float:
    """The least time of a few for a snapshot after one more result."""
    aggregates.snapshot()
    times = []
    for result in results(ROUNDS, templates, seed=-1):
        aggregates.add(result)
        started = perf_counter()
        aggregates.snapshot()
        times.append(perf_counter() - started)
    return min(times)


def growth(templates: int) -> list[Row]:
    """What a result costs of many against of few, all along and at the end; and a snapshot likewise."""
    many, times, bases = RunningAggregates(), [], []
    for seed in range(MANY // FEW):
        some = results(FEW, templates, seed)
        times.append(add_seconds(many, some))
        few = RunningAggregates()
        bases.append(add_seconds(few, some))
    along, last = (median(times[part]) / median(bases[part]) for part in (slice(None), slice(-ROUNDS, None)))
    small, large = snapshot_seconds(few, templates), snapshot_seconds(many, templates)
    of = f"{MANY:,} results against {FEW:,}, templates: {templates}"
    added = f"{along:.2f}x, at the end {last:.2f}x ({median(times) / FEW * 1e6:.1f} us)"
    return [
        Row(f"add, {of}", added, "at most 3x"),
        Row(f"snapshot after one more, {of}", f"{large / small:.2f}x ({large * 1e6:.0f} us)", "at most 1.5x"),
    ]


def tagged() -> Row:
    """What a result costs whose question has two tags, against one without tags."""
    plain, tags, times, bases = RunningAggregates(), RunningAggregates(), [], []
    for seed in range(ROUNDS):
        some = results(FEW, TEMPLATES, seed)
        for result in some:
            result["question_id"] += f" of {seed}"
        bases.append(add_seconds(plain, some))
        for i, result in enumerate(some):
            result["tags"] = {"hops": str(i % 3), "kind": "abcd"[i % 4]}
        times.append(add_seconds(tags, some))
    each = (median(times) - median(bases)) / FEW / 2 * 1e6
    what = f"add, two tags against none, templates: {TEMPLATES}"
    return Row(what, f"{median(times) / median(bases):.2f}x ({each:.1f} us a tag)", "at most 4x")


def windowed() -> Row:
    """What a result costs over a window that is full, where another leaves, against one without a window."""
    plain, over, times, bases = RunningAggregates(), RunningAggregates(window=Last(WINDOW)), [], []
    for seed in range(WINDOW // FEW + ROUNDS):
        some = results(FEW, TEMPLATES, seed)
        bases.append(add_seconds(plain, some))
        times.append(add_seconds(over, some))
    ratio = median(times[-ROUNDS:]) / median(bases[-ROUNDS:])
    what = f"add, window of {WINDOW:,} results against none, templates: {TEMPLATES}"
    return Row(what, f"{ratio:.2f}x ({median(times[-ROUNDS:]) / FEW * 1e6:.1f} us)", "at most 4x")


def judged(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Results whose steps and answers are scored; every tenth answer is not, since its judge failed."""
    draw = random.Random(seed).random
    some = results(number, TEMPLATES, seed)
    for i, result in enumerate(some):
        scores = {name: draw() for name in ("answer_recall", "answer_precision", "answer_f1")}
        result["question_id"] += f" of {seed}"
        result |= {"steps_score": draw(), "reference_steps": [[]], "failure": "wrong_query_result"}
        result |= scores if i % 10 else {"answer_eval_error": "timeout: 60 s"}
    return some


def seconds(work: Callable[[dict[str, Any]], object], some: list[dict[str, Any]]) -> float:
    started = perf_counter()
    for result in some:
        work(result)
    return perf_counter() - started


def beyond_means() -> list[Row]:
    """What a result costs whose failures count, too, and what is found out besides, against a plain one."""
    plain, whole, comparison = RunningAggregates(), RunningAggregates(), RunningComparison()
    deciding = Deciding(Until("steps_score >= 0.5"))
    bases, whole_times, deciding_times, comparison_times = [], [], [], []
    for seed in range(ROUNDS):
        some = judged(FEW, seed)
        bare = [{key: result[key] for key in result if key not in NOT_PLAIN} for result in some]
        for result in some:
            comparison.add_baseline(result)
        bases.append(seconds(plain.add, bare))
        whole_times.append(seconds(whole.add, some))
        deciding_times.append(seconds(lambda result: deciding.add(deciding.read(result)), some))
        comparison_times.append(seconds(comparison.add, some))
    both = [sum(times) for times in zip(whole_times, deciding_times, strict=True)]
    everything = [sum(times) for times in zip(both, comparison_times, strict=True)]
    return [
        Row(
            f"{name} against a plain one, templates: {TEMPLATES}",
            f"{median(times) / median(bases):.2f}x ({median(times) / FEW * 1e6:.1f} us)",
            "at most 3x",
        )
        for name, times in [
            ("add that counts failures and reasons", whole_times),
            ("the same, and a question to decide,", both),
            ("the same, and a comparison, of results that are paired,", everything),
        ]
    ]


def interval() -> Row:
    """What the interval of a metric takes that has values which it did not have before."""
    draw, times = random.Random(0).random, []
    for _ in range(ROUNDS):
        histogram = Histogram()
        histogram.add(draw() for _ in range(FEW))
        started = perf_counter()
        confidence_sequence(histogram.weights() or ())
        times.append(perf_counter() - started)
    return Row(f"an interval of {FEW:,} values that is new", f"{median(times) * 1e6:.0f} us", "at most 1 ms")


def peak_megabytes() -> float:
    """The most memory this process has had, in MB (10**6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, it does not count what the parent had at the fork
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def measure_memory() -> None:
    aggregates = RunningAggregates()
    start = peak_megabytes()
    for seed in range(MANY // FEW):
        add_seconds(aggregates, results(FEW, TEMPLATES, seed))
    aggregates.snapshot()
    print(peak_megabytes() - start)


def memory() -> Row:
    command = [sys.executable, "-m", "bench.aggregates", "memory"]
    megabytes = float(subprocess.run(command, capture_output=True, check=True).stdout)
    what = f"peak memory of aggregates of {MANY:,} results, above the start"
    return Row(what, f"{megabytes:.0f} MB", "at most 120 MB")


def rows() -> list[Row]:
    return [*growth(1), *growth(TEMPLATES), tagged(), windowed(), *beyond_means(), interval(), memory()]


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        measure_memory()
    else:
        show(rows())
