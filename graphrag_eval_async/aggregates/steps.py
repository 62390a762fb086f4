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
    """How often agents took steps of one name. The fields are keys of a snapshot.

    Attributes:
        total: the number of such steps.
        once_per_sample: the number of results with at least one such step.
        empty_results: the number of such steps that returned nothing.
        errors: the number of such steps that failed.
    """

    total: int = 0
    once_per_sample: int = 0
    empty_results: int = 0
    errors: int = 0

    def plus(self, other: StepCounts, times: int = 1) -> StepCounts:
        """Return the sum of these counts and of other counts, which are multiplied by `times`."""
        return StepCounts(
            total=self.total + times * other.total,
            once_per_sample=self.once_per_sample + times * other.once_per_sample,
            empty_results=self.empty_results + times * other.empty_results,
            errors=self.errors + times * other.errors,
        )


NO_STEPS = StepCounts()

STEP_COUNTS = StepCounts._fields


class StepTable:
    """Counts of steps by name: of all expected names, and of up to `MOST_NAMES` others.

    Attributes:
        by_name: the counts of each name. There may be more names than that until `trimmed` is
            called.
        other: the counts of all other names together, and of names that are too long.
    """

    def __init__(self, expected: Collection[str]) -> None:
        """Start without steps.

        Args:
            expected: names that are always counted by name. The owner may add more names later.
        """
        self._expected = expected
        self.by_name: dict[str, StepCounts] = {}
        self.other = NO_STEPS

    def add(self, steps: StepKinds, results: int) -> None:
        """Add the steps of several results.

        Args:
            steps: the steps of one result, the same for each of the results.
            results: the number of results.
        """
        for name, counts in _counts_by_name(steps):
            if name is None:
                # Names that are too long are None, and are counted together.
                self.other = self.other.plus(counts, times=results)
            else:
                counts_before = self.by_name.get(name, NO_STEPS)
                self.by_name[name] = counts_before.plus(counts, times=results)
        self._trim_if_large()

    def merge(self, table: StepTable) -> None:
        """Add the counts of another table."""
        for name, counts in table.by_name.items():
            self.by_name[name] = self.by_name.get(name, NO_STEPS).plus(counts)
        self.other = self.other.plus(table.other)
        self._trim_if_large()

    def trimmed(self) -> StepTable:
        """Return a table of all expected names, and of at most `MOST_NAMES` others.

        It keeps the names with the smallest hashes, and counts the rest as `other`. So the counts
        do not depend on the order of results or on how often tables are trimmed: a dropped name
        ranks behind `MOST_NAMES` names, which only names with smaller hashes can replace.
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

    def _trim_if_large(self) -> None:
        """Trim this table if it has far more names than it keeps, to bound memory."""
        # With twice the number of names, so that it is rarely needed: trimming sorts the names.
        if len(self.by_name) > len(self._expected) + 2 * MOST_NAMES:
            trimmed = self.trimmed()
            self.by_name = trimmed.by_name
            self.other = trimmed.other


@remember(entries=4096)
def _counts_by_name(steps: StepKinds) -> tuple[tuple[str | None, StepCounts], ...]:
    """Return the counts of the steps of one result, by name.

    All names that are too long are None in `steps`, and are counted together.
    """
    by_name: dict[str | None, StepCounts] = {}
    for name, kind, times in steps:
        counts = by_name.get(name, StepCounts(once_per_sample=1))
        added = StepCounts(total=times)
        if kind == EMPTY:
            added = StepCounts(total=times, empty_results=times)
        elif kind == FAILED:
            added = StepCounts(total=times, errors=times)
        by_name[name] = counts.plus(added)
    return tuple(by_name.items())


def _hash_of(name: str) -> bytes:
    """Return a hash by which names are ranked, which does not depend on the order of results."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def checked_names(names: Iterable[str], argument: str) -> Iterator[str]:
    """Yield the names that a caller passed, each of which must be a string.

    Args:
        names: names of templates or steps.
        argument: the name of the argument, for the message of an error.

    Raises:
        UsageError: one of the names is not a string.
    """
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise UsageError(f"{argument}[{index}]: must be a string, not {type(name).__name__}")
        yield name
