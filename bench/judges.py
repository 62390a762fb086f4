"""Every figure for streams with a judge, whose server is in a process of its own.

    python -m bench.judges

Takes five to fifteen minutes on two cores, by their speed.
"""

from __future__ import annotations

from bench import judge_lag, judge_latency, judge_memory, judge_starvation, judge_throughput
from bench.report import show


def main() -> None:
    # ragas is imported late
    modules = (
        judge_starvation,
        judge_throughput,
        judge_latency,
        judge_lag,
        judge_memory,
    )
    show([row for module in modules for row in module.rows()])


if __name__ == "__main__":
    main()
