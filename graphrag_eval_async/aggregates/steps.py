"""How often steps were taken, and what came of them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.evaluation import EMPTY, RETURNED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from graphrag_eval_async.records.evaluation import StepKinds

MOST_NAMES = 1000
"""How many names of steps are counted by name, besides those that are expected."""

STEP_COUNTS = ("total", "once_per_sample", "empty_results", "errors")

StepCounts: TypeAlias = "dict[str | None, list[int]]"
"""By step name, a count for each of `STEP_COUNTS`; None stands for all names that are not counted by name."""


@remember(entries=4096)
def counts_of(steps: StepKinds) -> tuple[tuple[str | None, tuple[int, ...]], ...]:
    """By name, the counts of the steps of one result, in the order of `STEP_COUNTS`."""
    counts: StepCounts = {}
    for name, kind, times in steps:
        mine = counts.setdefault(name, [0, 1, 0, 0])
        mine[0] += times
        if kind != RETURNED:
            mine[2 if kind == EMPTY else 3] += times
    return tuple((name, tuple(mine)) for name, mine in counts.items())


def add_steps(steps: StepCounts, more: Iterable[tuple[str | None, Sequence[int]]], times: int = 1) -> None:
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


def trimmed(steps: StepCounts, expected: Collection[str]) -> StepCounts:
    """The same with at most `MOST_NAMES` names that are not `expected`: those with the smallest hashes.

    So it is the same whatever the order and however often it is done in between: a name that goes stands
    behind `MOST_NAMES` others, which stay or are replaced by smaller ones, and can never be back among them.
    """
    if len(steps) <= MOST_NAMES:
        return steps
    others = [name for name in steps if name is not None and name not in expected]
    if len(others) <= MOST_NAMES:
        return steps
    others.sort(key=_rank)
    kept = steps.copy()
    add_steps(kept, [(None, kept.pop(name)) for name in others[MOST_NAMES:]])
    return kept


def _rank(name: str) -> bytes:
    """A hash that nobody chooses: with the first names, whoever came first would decide."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def checked_names(names: Iterable[str], argument: str) -> Iterator[str]:
    """The names; raises `UsageError` at one that is not a string."""
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise UsageError(f"{argument}[{place}]: must be a string, not {type(name).__name__}")
        yield name
