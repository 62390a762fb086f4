"""The rows of two tables in the columns paired so far: where they agree, and where they no longer can."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count, islice
from operator import ge
from typing import TYPE_CHECKING, TypeAlias, cast

from graphrag_eval_async.steps.sparql.budget import STEPS_PER_LOOSE_CELL, STEPS_PER_LOOSE_ROW, STEPS_PER_PAIR
from graphrag_eval_async.steps.sparql.rows import NearRows, rows_cover, rows_pair_off

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.classes import Classes
    from graphrag_eval_async.steps.sparql.columns import Column
    from graphrag_eval_async.steps.sparql.rows import Row

Signature: TypeAlias = "frozenset[Hashable]"

# How many rows are tried before all are: a wrong branch mostly shows here.
_PROBE = 64


@dataclass(frozen=True, slots=True)
class Task:
    """What every part of one comparison needs; `duplicates` tells a multiset of rows from a set."""

    classes: Classes
    budget: Budget
    duplicates: bool


class View:
    """A column by the classes of its cells; `left` counts the equal actual columns not paired yet."""

    __slots__ = ("column", "ids", "left", "loose", "signature")

    def __init__(self, column: Column, task: Task) -> None:
        classes = task.classes
        task.budget.spend(len(column.values))
        distinct = frozenset(classes.of(column.distinct))
        self.column = column
        self.ids = classes.of(column.values)
        self.signature: Signature = frozenset(Counter(self.ids).items()) if task.duplicates else distinct
        self.loose = not classes.loose.isdisjoint(distinct)
        self.left = 1

    def content(self) -> Hashable:
        """What makes two columns interchangeable."""
        return tuple(self.column.cells() if self.loose else self.ids)


class Projection:
    """The reference's rows in some columns, each known by a number for the classes of its cells there.

    Args:
        numbers: the rows' numbers without the columns that are added.
        added: those columns.
        views: all columns, the added ones included.
        counted: of each number, there must be as many actual rows as there are among these; at least as
            many when the rows are a set. None asks for one of each.
    """

    def __init__(
        self,
        numbers: Sequence[int],
        added: Sequence[View],
        views: Sequence[View],
        counted: Iterable[int] | None,
        task: Task,
    ) -> None:
        task.budget.spend(len(numbers))
        rows = list(zip(numbers, *(view.ids for view in added), strict=True))
        self._number_of = dict(zip(dict.fromkeys(rows), count()))
        self.numbers = list(map(self._number_of.__getitem__, rows))
        self._counts = Counter(
            set(self.numbers) if counted is None else map(self.numbers.__getitem__, counted)
        )
        self._task = task
        self._loose = [index for index, view in enumerate(views) if view.loose]
        self._loose_numbers = self._find_loose([views[index] for index in self._loose])
        self._loose_rows = Counter(self._rows(self.numbers, views))
        self._near_rows = NearRows(self._loose_rows, task.budget)

    def admit(self, numbers: Sequence[int], added: Sequence[View], views: Sequence[View]) -> list[int] | None:
        """The actual rows, numbered as the reference's are; None where the two cannot agree.

        The arguments are for the actual columns what those of the class are for the reference's.
        """
        ids = [numbers, *(view.ids for view in added)]
        self._task.budget.spend(STEPS_PER_PAIR + min(_PROBE, len(numbers)) + len(views) // 16)
        if not all(map(self._number_of.__contains__, islice(zip(*ids, strict=True), _PROBE))):
            return None
        self._task.budget.spend(len(numbers))
        found = list(map(self._number_of.get, zip(*ids, strict=True)))
        counts = Counter(found)
        if self._task.duplicates:
            agree = counts == self._counts
        else:
            agree = None not in counts and all(
                map(ge, map(counts.__getitem__, self._counts), self._counts.values())
            )
        renumbered = cast("list[int]", found)
        return renumbered if agree and self._near(renumbered, views) else None

    def _near(self, numbers: list[int], views: Sequence[View]) -> bool:
        if not self._loose_numbers:
            return True
        some = islice(self._rows(numbers, views), _PROBE)
        if any(next(self._near_rows(row), None) is None for row in some):
            return False
        self._spend_on_rows()
        agree = rows_pair_off if self._task.duplicates else rows_cover
        return agree(self._loose_rows, Counter(self._rows(numbers, views)), self._task.budget)

    def _find_loose(self, views: Sequence[View]) -> set[int]:
        """The numbers of rows for which equal classes do not mean that they are near."""
        self._spend_on_rows()
        loose = self._task.classes.loose
        return {
            number
            for view in views
            for number, name in zip(self.numbers, view.ids, strict=True)
            if name in loose
        }

    def _spend_on_rows(self) -> None:
        if columns := len(self._loose):
            steps = STEPS_PER_LOOSE_ROW + columns * STEPS_PER_LOOSE_CELL
            self._task.budget.spend(len(self.numbers) * steps)

    def _rows(self, numbers: list[int], views: Sequence[View]) -> Iterator[Row]:
        cells = zip(numbers, *(views[index].column.cells() for index in self._loose), strict=True)
        return (row for row in cells if row[0] in self._loose_numbers)
