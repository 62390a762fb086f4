"""How often steps were taken, and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.evaluation import EMPTY, RETURNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.records.evaluation import StepKinds

STEP_COUNTS = ("total", "once_per_sample", "empty_results", "errors")

StepCounts: TypeAlias = dict[str, list[int]]
"""By step name, a count for each of `STEP_COUNTS`."""


@remember(entries=4096)
def counts_of(steps: StepKinds) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """By name, the counts of the steps of one result, in the order of `STEP_COUNTS`."""
    counts: dict[str, list[int]] = {}
    for name, kind in steps:
        mine = counts.setdefault(name, [0, 1, 0, 0])
        mine[0] += 1
        if kind != RETURNED:
            mine[2 if kind == EMPTY else 3] += 1
    return tuple((name, tuple(mine)) for name, mine in counts.items())


def add_steps(steps: StepCounts, more: Iterable[tuple[str, Sequence[int]]], times: int = 1) -> None:
    """Add `more` so many times, which may be -1; a name of which nothing is left is dropped."""
    for name, counts in more:
        mine = steps.get(name)
        summed = (
            [times * b for b in counts]
            if mine is None
            else [a + times * b for a, b in zip(mine, counts, strict=True)]
        )
        if any(summed):
            steps[name] = summed
        else:
            steps.pop(name, None)
