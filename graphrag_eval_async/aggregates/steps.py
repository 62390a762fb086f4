"""Counts of steps and their outcomes."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.evaluation import EMPTY, FAILED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from graphrag_eval_async.records.evaluation import StepKinds

MOST_NAMES = 1000
"""Maximum step names counted by name, besides expected ones."""


class StepCounts(NamedTuple):
    """How often steps of one name were taken; the fields are keys of a snapshot, in its order."""

    total: int = 0
    once_per_sample: int = 0  # Results with such a step.
    empty_results: int = 0
    errors: int = 0

    def plus(self, other: StepCounts, times: int = 1) -> StepCounts:
        """Return these counts and `times` those of `other`."""
        return StepCounts(
            total=self.total + times * other.total,
            once_per_sample=self.once_per_sample + times * other.once_per_sample,
            empty_results=self.empty_results + times * other.empty_results,
            errors=self.errors + times * other.errors,
        )


NO_STEPS = StepCounts()

STEP_COUNTS = StepCounts._fields


class StepTable:
    """Counts of steps by name: all `expected` names, and up to `MOST_NAMES` others.

    Attributes:
        by_name: the counts of names that are counted by name, and maybe of some more.
        other: the counts of all other names together, and of names that are too long.
    """

    def __init__(self, expected: Collection[str]) -> None:
        """Start without steps; `expected` may grow later."""
        self._expected = expected
        self.by_name: dict[str, StepCounts] = {}
        self.other = NO_STEPS

    def add(self, steps: StepKinds, results: int) -> None:
        """Add the steps of this number of results, each of which has these steps."""
        for name, counts in _counts_by_name(steps):
            if name is None:
                self.other = self.other.plus(counts, results)
            else:
                self.by_name[name] = self.by_name.get(name, NO_STEPS).plus(counts, results)
        self._trim_many()

    def merge(self, table: StepTable) -> None:
        """Add the counts of `table`."""
        for name, counts in table.by_name.items():
            self.by_name[name] = self.by_name.get(name, NO_STEPS).plus(counts)
        self.other = self.other.plus(table.other)
        self._trim_many()

    def trimmed(self) -> StepTable:
        """Return a table of all expected names, and of at most `MOST_NAMES` others.

        These are the names with the smallest hashes. So the outcome does not depend on the order of
        results or on how often this is called: a name that is dropped ranks behind `MOST_NAMES`
        others, which stay or make way for smaller ones, so it can never return.
        """
        unexpected = []
        if len(self.by_name) > MOST_NAMES:
            unexpected = [name for name in self.by_name if name not in self._expected]
        if len(unexpected) <= MOST_NAMES:
            return self

        unexpected.sort(key=_hash_of)
        trimmed = StepTable(self._expected)
        trimmed.by_name = self.by_name.copy()
        trimmed.other = self.other
        for name in unexpected[MOST_NAMES:]:
            trimmed.other = trimmed.other.plus(trimmed.by_name.pop(name))
        return trimmed

    def _trim_many(self) -> None:
        """Drop rare names if there are many, to bound memory."""
        # Rarely, since trimming sorts the names.
        if len(self.by_name) > len(self._expected) + 2 * MOST_NAMES:
            trimmed = self.trimmed()
            self.by_name = trimmed.by_name
            self.other = trimmed.other


@remember(entries=4096)
def _counts_by_name(steps: StepKinds) -> tuple[tuple[str | None, StepCounts], ...]:
    """Return the step counts of one result by name; None stands for names that are too long."""
    by_name: dict[str | None, StepCounts] = {}
    for name, kind, times in steps:
        counts = by_name.get(name, StepCounts(once_per_sample=1))
        by_name[name] = counts._replace(
            total=counts.total + times,
            empty_results=counts.empty_results + (times if kind == EMPTY else 0),
            errors=counts.errors + (times if kind == FAILED else 0),
        )
    return tuple(by_name.items())


def _hash_of(name: str) -> bytes:
    """Return a hash to rank names: keeping the first names would depend on the order of results."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def checked_names(names: Iterable[str], argument: str) -> Iterator[str]:
    """Yield the names of templates or steps that are the value of `argument`.

    Raises:
        UsageError: one of them is not a string.
    """
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise UsageError(f"{argument}[{index}]: must be a string, not {type(name).__name__}")
        yield name
