"""How often intervals of comparisons cover, verdicts find a change, and repeats look like one.

python -m bench.comparisons [RUNS]

Figures of docs/statistics.md and of docstrings are from it. 4,000 runs take about five minutes on
one core.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_eval_async import compare, plan_questions
from graphrag_eval_async.inference.one_look import change_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Random = np.random.Generator
    Draw = Callable[[Random, int], np.ndarray]


def results(values: dict[str, Any], sample: int = 1) -> list[dict[str, Any]]:
    """Results of one question each, with the values of each metric."""
    columns = {name: np.asarray(own, float).tolist() for name, own in values.items()}
    return [
        {
            "template_id": "t",
            "question_id": f"q{i}",
            "sample": sample,
            **dict(zip(columns, row, strict=True)),
        }
        for i, row in enumerate(zip(*columns.values(), strict=True))
    ]


def covers(interval: Any, true: float) -> bool:
    return interval is not None and bool(interval[0] <= true <= interval[1])


def ways(lose: float, win: float) -> tuple[Draw, float]:
    def draw(random: Random, n: int) -> np.ndarray:
        return random.choice([-1.0, 0.0, 1.0], n, p=[lose, 1 - lose - win, win])

    return draw, win - lose


CHANGES: dict[str, tuple[Draw, float]] = {
    "one in ten from 1 to 0": ways(0.1, 0.0),
    "one in five from 1 to 0": ways(0.2, 0.0),
    "one in five each way": ways(0.2, 0.2),
    "exponential": (lambda random, n: random.exponential(0.01, n) - 0.01, 0.0),
    "normal": (lambda random, n: random.normal(0, 0.1, n), 0.0),
    "nine in ten 0, others from -1 to 0": (
        lambda random, n: -random.random(n) * (random.random(n) < 0.1),
        -0.05,
    ),
    "nine in ten 0, others normal, 0.1 ± 0.2": (
        lambda random, n: random.normal(0.1, 0.2, n) * (random.random(n) < 0.1),
        0.01,
    ),
}


def print_coverage(runs: int) -> None:
    print(f"{'share of intervals that cover, 95%':42}{'n=20':>8}{'30':>8}{'50':>8}{'100':>8}")
    for name, (draw, true) in CHANGES.items():
        row = []
        for n in (20, 30, 50, 100):
            random = np.random.default_rng(n)
            ends = (
                change_interval(draw(random, n).tolist(), 0.95, bounded=True) for _ in range(runs)
            )
            row.append(sum(covers(each, true) for each in ends) / runs)
        print(f"{name:42}{''.join(f'{share:8.3f}' for share in row)}")


def print_together(runs: int) -> None:
    """Three primary metrics, of which one falls and one rises."""
    true, missed = {"error_rate": 0.0, "steps_score": -0.1, "answer_f1": 0.05}, 0
    random, n = np.random.default_rng(1), 40
    for _ in range(runs):
        steps, drop = random.random(n) < 0.8, random.random(n) < 0.125
        answers, gain = random.beta(4, 2, n) / 2, random.exponential(0.05, n)
        one = results({"steps_score": steps, "answer_f1": answers})
        other = results({"steps_score": steps & ~drop, "answer_f1": answers + gain})
        rows = compare(one, other)["overall"]
        ends = {
            name: (rows[name]["interval"]["low"], rows[name]["interval"]["high"]) for name in true
        }
        missed += not all(covers(ends[name], change) for name, change in true.items())
    print(f"runs in which an interval of three metrics misses: {missed / runs:.3f}")


def print_power(runs: int) -> None:
    """As many questions as `plan` says for a power of 0.8, with tokens and seconds that change,
    too.
    """
    random = np.random.default_rng(2)

    def pair(n: int, fall: float) -> Iterable[list[dict[str, Any]]]:
        base = random.random(n)
        for by in (0.0, fall):
            right = random.random(n) < 0.2 + 0.6 * base - by
            yield results({"steps_score": right, "elapsed_sec": base + by, "total_tokens": base})

    for fall in (0.15, 0.1, 0.05):
        planned = plan_questions(fall, *pair(20_000, fall))["paired"]
        found = 0
        for _ in range(max(1, runs // 4)):
            row = compare(*pair(planned, fall))["overall"]["steps_score"]
            found += row["verdict"] == "worse"
        share = found / max(1, runs // 4)
        print(
            f"a fall of {fall} among {planned} questions as planned for 80%: found in {share:.3f}"
        )


def print_repeats(runs: int) -> None:
    random, n = np.random.default_rng(3), 60
    for samples in ((1, 3), (3, 1)):
        for loss in (0.0, 0.1):
            found = np.zeros(2)
            for _ in range(max(1, runs // 4)):
                share = random.beta(2, 1, n)
                one, other = (
                    [
                        each
                        for number in range(count)
                        for each in results({"steps_score": random.random(n) < p}, number + 1)
                    ]
                    for count, p in zip(samples, (share, share * (1 - loss)), strict=True)
                )
                compared = compare(one, other)
                found += len(compared["regressions"]), len(compared["improvements"])
            lost, won = found / max(1, runs // 4)
            print(
                f"{samples[0]} and {samples[1]} samples, {loss:.0%} lost: "
                f"{lost:.1f} regressions, {won:.1f} improvements of {n} questions"
            )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    for show in (print_coverage, print_together, print_power, print_repeats):
        show(count)
