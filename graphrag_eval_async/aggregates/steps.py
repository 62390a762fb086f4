"""Counts of steps and their outcomes."""

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
"""Maximum step names counted by name, besides expected ones."""

STEP_COUNTS = ("total", "once_per_sample", "empty_results", "errors")

NONE = (0,) * len(STEP_COUNTS)

StepCounts: TypeAlias = "dict[str | None, list[int]]"
"""Counts in the order of `STEP_COUNTS`, by step name; None stands for all names not counted by
name.
"""


@remember(entries=4096)
def counts_of(steps: StepKinds) -> tuple[tuple[str | None, tuple[int, ...]], ...]:
    """Return the step counts of one result by name, in the order of `STEP_COUNTS`."""
    counts: StepCounts = {}
    for name, kind, times in steps:
        mine = counts.setdefault(name, [0, 1, 0, 0])
        mine[0] += times
        if kind != RETURNED:
            mine[2 if kind == EMPTY else 3] += times
    return tuple((name, tuple(mine)) for name, mine in counts.items())


def add_steps(
    steps: StepCounts, more: Iterable[tuple[str | None, Sequence[int]]], times: int = 1
) -> None:
    """Add `more` to the counts `times` times."""
    for name, counts in more:
        steps[name] = [a + times * b for a, b in zip(steps.get(name, NONE), counts, strict=True)]


def trimmed(steps: StepCounts, expected: Collection[str]) -> StepCounts:
    """Return counts with at most `MOST_NAMES` names not `expected`: those with the smallest hashes.

    The outcome does not depend on the order of results or on how often this is called. A dropped
    name ranks behind `MOST_NAMES` others, which stay or make way for smaller ones, so it can never
    return.
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
    """Return a hash to rank names: keeping the first names would depend on the order of results."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def checked_names(names: Iterable[str], argument: str) -> Iterator[str]:
    """Yield the names; raise `UsageError` for one that is not a string."""
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise UsageError(f"{argument}[{place}]: must be a string, not {type(name).__name__}")
        yield name
