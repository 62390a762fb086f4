"""Pairing of each required column with its own actual column, so that the rows agree in any order.

The pairing grows column by column, and a branch ends as soon as the rows' projections disagree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from operator import ge
from typing import TYPE_CHECKING, TypeAlias, cast

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.budget import STEPS_PER_LOOSE_CELL, STEPS_PER_LOOSE_ROW, STEPS_PER_PAIR
from graphrag_eval_async.steps.sparql.columns import check_hashes
from graphrag_eval_async.steps.sparql.rows import NearRows, rows_cover, rows_pair_off

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Classes, Column
    from graphrag_eval_async.steps.sparql.rows import Row

_Signature: TypeAlias = "frozenset[Hashable]"

# Number of rows tried before all rows: most wrong branches fail here.
_PROBE = 64


@dataclass(frozen=True, slots=True)
class Task:
    """Context of one comparison. `duplicates` is True for a multiset of rows, False for a set."""

    classes: Classes
    budget: Budget
    duplicates: bool


class _View:
    """A column as the classes of its cells. `left` counts the equal actual columns not paired yet."""

    __slots__ = ("column", "ids", "left", "loose", "signature")

    def __init__(self, column: Column, task: Task) -> None:
        classes = task.classes
        task.budget.spend(len(column.values))
        distinct = frozenset(classes.of(column.distinct))
        self.column = column
        self.ids = classes.of(column.values)
        self.signature: _Signature = frozenset(Counter(self.ids).items()) if task.duplicates else distinct
        self.loose = not classes.loose.isdisjoint(distinct)
        self.left = 1

    def content(self) -> Hashable:
        """A key that is equal for interchangeable columns."""
        return tuple(self.column.cells() if self.loose else self.ids)


class _Projection:
    """The reference's rows in some columns, each known by a number for the classes of its cells there.

    Args:
        numbers: the rows' numbers without the columns that are added.
        added: those columns.
        views: all columns, the added ones included.
        counted: of each number, there must be as many actual rows as there are among these; at least as
            many when the rows are a set.
    """

    def __init__(
        self,
        numbers: Sequence[int],
        added: Sequence[_View],
        views: Sequence[_View],
        counted: Iterable[int],
        task: Task,
    ) -> None:
        task.budget.spend(len(numbers))
        rows = list(zip(numbers, *(view.ids for view in added), strict=True))
        self._number_of = dict(zip(dict.fromkeys(rows), count()))
        self.numbers = list(map(self._number_of.__getitem__, rows))
        self._counts = Counter(map(self.numbers.__getitem__, counted))
        self._task = task
        self._loose = [index for index, view in enumerate(views) if view.loose]
        self._loose_numbers = self._find_loose([views[index] for index in self._loose])
        self._loose_rows = Counter(self._rows(self.numbers, views))
        self._near_rows = NearRows(self._loose_rows, task.budget)

    def admit(
        self, numbers: Sequence[int], added: Sequence[_View], views: Sequence[_View]
    ) -> list[int] | None:
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

    def _near(self, numbers: list[int], views: Sequence[_View]) -> bool:
        if not self._loose_numbers:
            return True
        some = islice(self._rows(numbers, views), _PROBE)
        if any(next(self._near_rows(row), None) is None for row in some):
            return False
        self._spend_on_rows()
        agree = rows_pair_off if self._task.duplicates else rows_cover
        return agree(self._loose_rows, Counter(self._rows(numbers, views)), self._task.budget)

    def _find_loose(self, views: Sequence[_View]) -> set[int]:
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

    def _rows(self, numbers: list[int], views: Sequence[_View]) -> Iterator[Row]:
        cells = zip(numbers, *(views[index].column.cells() for index in self._loose), strict=True)
        return (row for row in cells if row[0] in self._loose_numbers)


def agree_unordered(required: Sequence[Column], actual: Sequence[Column], task: Task) -> bool:
    """Whether the required columns, at least one, can be paired with actual ones."""
    wanted, found = ([_View(column, task) for column in columns] for columns in (required, actual))
    check_hashes([view.signature for view in chain(wanted, found)])
    offered: dict[_Signature, list[_View]] = defaultdict(list)
    for view in found:
        offered[view.signature].append(view)
    # Only columns with the same signature can be paired, and all of them are candidates.
    needed = Counter(view.signature for view in wanted)
    if any(number > len(offered[signature]) for signature, number in needed.items()):
        return False
    search = _Search(wanted, {signature: _merge_equal(offered[signature]) for signature in needed}, task)
    if search.ambiguous and not task.duplicates and _agree_as_multisets(required, actual, task):
        return True
    return search.succeeds()


def _agree_as_multisets(required: Sequence[Column], actual: Sequence[Column], task: Task) -> bool:
    """Whether rows agree. Rows that agree as multisets agree as sets; counting ends wrong branches sooner."""
    if len(required[0].values) != len(actual[0].values):
        return False
    try:
        with task.budget.halved():
            return agree_unordered(required, actual, replace(task, duplicates=True))
    except ComparisonBudgetExceeded:
        return False


def _merge_equal(views: list[_View]) -> list[_View]:
    """One view for all columns that are equal row by row, since trying one of them is enough."""
    if len(views) == 1:
        return views
    contents = [view.content() for view in views]
    check_hashes(contents)
    different: dict[Hashable, _View] = {}
    for content, view in zip(contents, views, strict=True):
        kept = different.setdefault(content, view)
        kept.left += kept is not view
    return list(different.values())


class _Search:
    """Depth first: columns with one candidate all at once, then the others one by one."""

    def __init__(self, wanted: list[_View], choices: Mapping[_Signature, list[_View]], task: Task) -> None:
        self._choices = choices
        self._task = task
        self._forced = [view for view in wanted if len(choices[view.signature]) == 1]
        # Tight and varied columns distinguish most rows, which leaves few options for the others.
        self._free = sorted(
            (view for view in wanted if len(choices[view.signature]) > 1),
            key=lambda view: (view.loose, len(choices[view.signature]), -len(view.signature)),
        )
        self._height = len(wanted[0].ids)
        self._counted = self._needed(wanted)
        self._projections: list[_Projection] = []

    @property
    def ambiguous(self) -> bool:
        """Whether any column has more than one candidate."""
        return bool(self._free)

    def succeeds(self) -> bool:
        paired = [self._choices[view.signature][0] for view in self._forced]
        [anyone, *_] = next(iter(self._choices.values()))
        start = self._projection(0).admit([0] * len(anyone.ids), paired, paired)
        trail = [] if start is None else [(start, self._options(0))]
        while trail:
            if len(trail) > len(self._free):
                return True
            numbers, options = trail[-1]
            view = next(options, None)
            if view is None:
                trail.pop()
                if trail:
                    paired.pop().left += 1
                continue
            found = self._projection(len(trail)).admit(numbers, [view], [*paired, view])
            if found is not None:
                view.left -= 1
                paired.append(view)
                trail.append((found, self._options(len(trail))))
        return False

    def _options(self, index: int) -> Iterator[_View]:
        """Current candidates for the free column, columns with the same name first."""
        wanted = self._free[index]
        choices = self._choices[wanted.signature]
        self._task.budget.spend(len(choices))
        name = wanted.column.name
        for view in sorted(choices, key=lambda view: view.column.name != name):
            if view.left:
                yield view

    def _projection(self, depth: int) -> _Projection:
        """The reference's projection on the forced columns and some free ones, cached on first use."""
        if depth == len(self._projections):
            views = self._forced + self._free[:depth]
            numbers = self._projections[-1].numbers if depth else [0] * self._height
            added = views[-1:] if depth else views
            self._projections.append(_Projection(numbers, added, views, self._counted, self._task))
        return self._projections[depth]

    def _needed(self, wanted: list[_View]) -> Collection[int]:
        """The reference rows that each need their own actual row; for a set, the distinct ones."""
        rows = range(self._height)
        if self._task.duplicates:
            return rows
        self._task.budget.spend(self._height)
        return dict(zip(zip(*(view.ids for view in wanted), strict=True), rows, strict=True)).values()
