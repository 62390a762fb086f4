"""How much memory the aggregates of a million results take.

python -m bench.aggregates
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.report import Row, show
from graphrag_eval_async import RunningAggregates

RESULTS, BATCH = 1_000_000, 1_000
TEMPLATES = 100
METRICS = ("steps_score", "input_tokens", "output_tokens", "total_tokens", "elapsed_sec")


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


def peak_megabytes() -> float:
    """The most memory this process has had, in MB (10**6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, it does not count what the parent had at the fork
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )


def measure() -> None:
    aggregates = RunningAggregates()
    start = peak_megabytes()
    for seed in range(RESULTS // BATCH):
        for result in results(BATCH, TEMPLATES, seed):
            aggregates.add(result)
    aggregates.snapshot()
    print(peak_megabytes() - start)


def rows() -> list[Row]:
    """Measured in a process of its own."""
    command = [sys.executable, "-m", "bench.aggregates", "measure"]
    megabytes = float(subprocess.run(command, capture_output=True, check=True).stdout)
    what = f"peak memory of aggregates of {RESULTS:,} results, above the start"
    return [Row(what, f"{megabytes:.0f} MB", "at most 120 MB")]


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        show(rows())
