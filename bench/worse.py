"""How soon a dashboard says that a run is getting worse, and how often of one that does not change.

python -m bench.worse
"""

from __future__ import annotations

import random
from statistics import median
from typing import TYPE_CHECKING

from bench.report import Row, show
from graphrag_eval_async import Last
from graphrag_eval_async.monitor.history import History, getting_worse
from graphrag_eval_async.records.evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS, RESULTS, FALL, TEMPLATES = 100, 10_000, 2_000, 10
LEVEL = 0.95


def first_yes(
    seed: int, chance: Callable[[int], float], results: int, looks: int, start: int = 0
) -> int | None:
    """After how many results in random order it first says yes, by looks after so many each from a start."""
    draw, history = random.Random(seed), History(Last(200))
    for i in range(results):
        score = float(draw.random() < chance(i))
        template = f"template {draw.randrange(TEMPLATES)}"
        history.add(Evaluation(template, None, False, None, ("steps_score",), (score,)))
        is_due = i >= start and not (i + 1) % looks
        if is_due and getting_worse(history.courses(), ["steps_score"], LEVEL).startswith("yes"):
            return i + 1
    return None


def rows() -> list[Row]:
    said = [first_yes(seed, lambda _: 0.9, RESULTS, 50) is not None for seed in range(RUNS)]
    falls = [
        first_yes(seed, lambda i: 0.9 if i < FALL else 0.7, FALL + 1000, 10, FALL) for seed in range(RUNS)
    ]
    after = sorted(RESULTS if found is None else found - FALL for found in falls)
    unchanged = f"unchanged runs of {RESULTS:,} results, {TEMPLATES} templates: yes at any look after 50 more"
    fall = f"a fall from 0.9 to 0.7 after {FALL:,} results: said within 300"
    within = sum(results <= 300 for results in after)
    soon = (
        f"{within} of {RUNS} (median {median(after):.0f}, 95th {after[95 * RUNS // 100]}, most {after[-1]})"
    )
    return [Row(unchanged, f"{sum(said)} of {RUNS}", "at most 5%"), Row(fall, soon, "nearly all")]


if __name__ == "__main__":
    show(rows())
