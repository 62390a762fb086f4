"""Pairing of columns: each required one with its own actual one, so that the rows agree in any order.

The pairing grows column by column, and a branch ends as soon as the rows' projections disagree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.projection import Projection, View

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.sparql.columns import Column
    from graphrag_eval_async.steps.sparql.projection import Signature, Task


def agree_unordered(required: Sequence[Column], actual: Sequence[Column], task: Task) -> bool:
    """Whether the required columns, at least one, can be paired with actual ones.

    Raises:
        ComparisonBudgetExceeded: the search took too long.
    """
    wanted = [View(column, task) for column in required]
    offered: dict[Signature, list[View]] = defaultdict(list)
    for column in actual:
        view = View(column, task)
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
    """Rows that agree as multisets do so as sets, and counting them ends wrong branches sooner."""
    if len(required[0].values) != len(actual[0].values):
        return False
    try:
        with task.budget.halved():
            return agree_unordered(required, actual, replace(task, duplicates=True))
    except ComparisonBudgetExceeded:
        return False


def _merge_equal(views: list[View]) -> list[View]:
    """One view for all columns that are equal row by row, since trying one of them is enough."""
    if len(views) == 1:
        return views
    different: dict[Hashable, View] = {}
    for view in views:
        kept = different.setdefault(view.content(), view)
        kept.left += kept is not view
    return list(different.values())


class _Search:
    """Depth first: columns with one candidate all at once, then the others one by one."""

    def __init__(self, wanted: list[View], choices: Mapping[Signature, list[View]], task: Task) -> None:
        self._choices = choices
        self._task = task
        self._forced = [view for view in wanted if len(choices[view.signature]) == 1]
        # Rows that tight and varied columns have told apart leave little to try for the others.
        self._free = sorted(
            (view for view in wanted if len(choices[view.signature]) > 1),
            key=lambda view: (view.loose, len(choices[view.signature]), -len(view.signature)),
        )
        self._rows = range(len(wanted[0].ids))
        self._projections: list[Projection] = []

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

    def _options(self, index: int) -> Iterator[View]:
        """What the free column could be paired with now, columns of the same name first."""
        wanted = self._free[index]
        choices = self._choices[wanted.signature]
        self._task.budget.spend(len(choices))
        name = wanted.column.name
        for view in sorted(choices, key=lambda view: view.column.name != name):
            if view.left:
                yield view

    def _projection(self, depth: int) -> Projection:
        """The reference's, in the forced columns and so many free ones; made when first needed, and kept."""
        if depth == len(self._projections):
            views = self._forced + self._free[:depth]
            numbers = self._projections[-1].numbers if depth else [0] * len(self._rows)
            added = views[-1:] if depth else views
            self._projections.append(Projection(numbers, added, views, self._counted, self._task))
        return self._projections[depth]

    @cached_property
    def _counted(self) -> Collection[int] | None:
        """The reference's rows, each of which needs an actual row of its own: as a set, the different ones.

        None where there is nothing to search, so that it would only cost time to find them.
        """
        if self._task.duplicates:
            return self._rows
        if not self._free:
            return None
        self._task.budget.spend(len(self._rows))
        ids = [view.ids for view in self._forced + self._free]
        return dict(zip(zip(*ids, strict=True), self._rows, strict=True)).values()
