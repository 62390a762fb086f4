"""Partial credit for SPARQL results: F1 over rows and cells tells a nearly right query from a wrong
one.

Each required column is paired with an actual column of its own, whatever the names. Module `rows`
pairs the rows. With k required columns, m expected rows, n actual rows, and c cells in which paired
rows agree,

    precision = c / (k n),   recall = c / (k m),   F1 = 2 c / (k (m + n)).

A row without a partner adds nothing to c. F1 is the harmonic mean of the other two:
https://en.wikipedia.org/wiki/F-score. Cells agree as in `agree`. If duplicates are ignored, equal
rows of the paired columns count once. A required column without a partner agrees in no row; other
columns of the actual results cost nothing, as in `agree`.

The score is that of the pairing of columns with the greatest F1, and 1 if and only if `agree` says
so. If columns are so alike that `SEARCH_STEPS` do not suffice to try all pairings that may be
better, it is that of the best pairing tried: first columns of the same name, then those that share
most values.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import MAX_CELLS, Agreement, first_of_each, shorten
from graphrag_eval_async.steps.tables.blank_cells import (
    PairedColumn,
    has_blank_nodes,
    shared_labels,
)
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.columns import Column
from graphrag_eval_async.steps.tables.comparison import agree, agree_by_name
from graphrag_eval_async.steps.tables.rows import Pair, pair_in_order, pair_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.columns import Value
    from graphrag_eval_async.steps.tables.comparison import Classes, Reference

# Steps after which no more pairings of columns are tried. At least one is.
SEARCH_STEPS = 4_000_000

_Chosen: TypeAlias = "tuple[int | None, ...]"
"""The actual column for each required one, by index; None for those without partner."""

MOST_SORTED = 1000
"""Rows up to which what is listed of equal values does not depend on their order; sorting more
is slow.
"""

MOST_COLUMNS = 300  # Required columns up to which other pairings than that by name are tried.


def compare_in_part(reference: Reference, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return how far the actual results agree with the reference."""
    if reference.results.boolean is not None or actual.boolean is not None:
        return Agreement(float(agree(reference, actual, budget)))
    with_blank_nodes = has_blank_nodes(reference.columns)
    if agree_by_name(reference, actual, budget):
        return Agreement(1.0)
    if with_blank_nodes and agree(reference, actual, budget):
        return Agreement(1.0)
    required = _columns(reference.results, reference.names)
    bound = {column.name for column in actual.columns}
    spare = [name for name in actual.variables if name not in bound][: len(required)]
    offered = [*actual.columns, *_columns(actual, spare)]
    agreements = []
    for classes in classify_cells(required, offered, budget):
        search = _Search(reference, actual, required, offered, classes, budget)
        try:
            with budget.limited(SEARCH_STEPS):
                search.try_others()
        except ComparisonBudgetExceeded:
            if budget.quick or budget.stopped:
                raise
            with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
                if agree(reference, actual, budget):
                    return Agreement(1.0)
        if with_blank_nodes:
            search.tell_blank_nodes_apart(reference.rows_as)
        agreements.append(search.agreement())
    return max(agreements, key=lambda each: each.score)


class _Pairing(NamedTuple):
    """The columns that are paired, the rows on each side that count, and those of them that are
    paired.
    """

    chosen: _Chosen
    rows: tuple[Sequence[int], Sequence[int]]
    pairs: list[Pair]
    cells: int
    height: int

    def is_better(self, other: _Pairing) -> bool:
        return self.cells * other.height > other.cells * self.height


class _Search:
    """Finds the pairing of columns with the greatest F1, by branch and bound.

    In how many cells two columns agree at most is how many values they share. A branch ends if its
    columns do not share enough to be better than the best pairing found.
    """

    def __init__(
        self,
        reference: Reference,
        actual: SparqlResults,
        required: Sequence[Column],
        offered: Sequence[Column],
        classes: tuple[Sequence[Classes], Sequence[Classes]],
        budget: Budget,
    ) -> None:
        self._budget, self._required, self._offered = budget, required, offered
        self._ordered, self._as_set = reference.rows_as is list, reference.rows_as is frozenset
        self._wanted, self._found = classes
        width = len(self._required)
        self._heights = reference.results.row_count, actual.row_count
        sides = zip((self._required, self._offered), self._heights, strict=True)
        self._orders = [self._in_order(columns, height) for columns, height in sides]
        self._rows = self._distinct([*zip(*self._wanted, strict=True)], 0)
        self._shared = self._count_shared()
        names = [column.name for column in self._offered]
        self._options = [
            sorted(range(len(names)), key=lambda each: (-own[each], names[each] != column.name))
            for own, column in zip(self._shared, self._required, strict=True)
        ]
        most = [max(own.values(), default=0) for own in self._shared]
        self._order = sorted(range(width), key=lambda place: -most[place])
        self._rest = [
            sum(most[place] for place in self._order[depth:]) for depth in range(width + 1)
        ]
        self._varieties = [len({*own}) for own in self._found]
        first: dict[tuple[Value, ...], int] = {}
        self._alike = [
            first.setdefault(tuple(each), index) for index, each in enumerate(self._found)
        ]
        self._first = self._by_name()
        self._best = self._pair(self._first)

    def _in_order(self, columns: Sequence[Column], height: int) -> Sequence[int]:
        """The rows in an order that depends on their contents alone, unless their order counts."""
        if self._ordered or not columns or height > MOST_SORTED:
            return range(height)
        self._budget.spend(height * len(columns))
        texts = ((column.texts, None in column.texts) for column in columns)
        cells = [
            ["\0" if text is None else text for text in own] if gaps else own for own, gaps in texts
        ]
        return sorted(range(height), key=[*zip(*cells, strict=True)].__getitem__)

    def _distinct(self, rows: Sequence[tuple[Value, ...]], side: int) -> Sequence[int]:
        """Of a set, the first of each group of equal rows; else all rows."""
        order = self._orders[side]
        if not self._as_set:
            return order
        if not rows:
            return order[:1]
        first: dict[tuple[Value, ...], int] = {}
        for row in order:
            first.setdefault(rows[row], row)
        return [*first.values()]

    def _count_shared(self) -> list[Counter[int]]:
        """For each required column, in how many cells it agrees with each actual column at most."""
        self._budget.spend(sum(map(len, [*self._wanted, *self._found])))
        found = [Counter(cells) for cells in self._found]
        shared = []
        for cells in self._wanted:
            wanted, own = Counter(map(cells.__getitem__, self._rows)), Counter[int]()
            for column, counts in enumerate(found):
                self._budget.spend(8 + min(len(wanted), len(counts)) // 4)
                if common := wanted.keys() & counts.keys():
                    self._budget.spend(len(common))
                    own[column] = sum(
                        map(min, *(map(each.__getitem__, common) for each in (wanted, counts)))
                    )
            shared.append(own)
        return shared

    def _by_name(self) -> _Chosen:
        """The pairing of columns of the same names; others get the column that shares most."""
        places = {column.name: index for index, column in enumerate(self._offered)}
        chosen = [places.get(column.name) for column in self._required]
        taken = {*chosen}
        for place in self._order:
            if chosen[place] is None:
                chosen[place] = next(
                    (each for each in self._options[place] if each not in taken), None
                )
                taken.add(chosen[place])
        return tuple(chosen)

    def try_others(self, chosen: Sequence[int | None] = ()) -> None:
        """Try all pairings of columns that begin like this and may be better than the best,
        depth first.
        """
        if len(self._order) > MOST_COLUMNS:
            raise ComparisonBudgetExceeded("too many columns to try more than one pairing")
        if len(chosen) == len(self._order):
            by_place = dict(zip(self._order, chosen, strict=True))
            whole = tuple(by_place[place] for place in range(len(chosen)))
            if whole != self._first and (pairing := self._pair(whole)).is_better(self._best):
                self._best = pairing
            return
        for column in self._choices(chosen):
            if self._promises(longer := [*chosen, column]):
                self.try_others(longer)

    def _choices(self, chosen: Sequence[int | None]) -> Iterator[int | None]:
        """The actual columns for the next required one, the likeliest first; last None, if there
        are few.
        """
        taken, seen = {*chosen}, set[int]()
        for column in self._options[self._order[len(chosen)]]:
            # One of equal columns is enough.
            if column not in taken and self._alike[column] not in seen:
                seen.add(self._alike[column])
                yield column
        if len(self._order) - [*chosen].count(None) > len(self._found):
            yield None

    def _promises(self, chosen: Sequence[int | None]) -> bool:
        """Whether the columns that are paired so far may lead to a better score than the best
        one.
        """
        self._budget.spend(8 + len(chosen))
        pairs = [
            (place, column)
            for place, column in zip(self._order, chosen, strict=False)
            if column is not None
        ]
        cells = (
            sum(self._shared[place][column] for place, column in pairs) + self._rest[len(chosen)]
        )
        size = min(len(self._required), len(self._found))
        expected, actual = len(self._rows), self._heights[1]
        cells = min(cells, expected * size)
        if self._as_set:
            fewest = max((self._varieties[column] for _, column in pairs), default=0)
            actual = max(fewest, -(-cells // (size or 1)))
        cells = min(cells, actual * size)
        return bool(cells * self._best.height > self._best.cells * (expected + actual))

    def _pair(self, chosen: _Chosen) -> _Pairing:
        """Pair the rows, given a pairing of columns."""
        columns = [(place, column) for place, column in enumerate(chosen) if column is not None]
        ours = [*zip(*(self._wanted[place] for place, _ in columns), strict=True)]
        theirs = [*zip(*(self._found[column] for _, column in columns), strict=True)]
        rows = self._rows, self._distinct(theirs, 1)
        self._budget.spend(200 + sum(self._heights) * len(columns))
        pairs = []
        if columns and all(rows):
            left, right = [ours[row] for row in rows[0]], [theirs[row] for row in rows[1]]
            if self._ordered:
                found = pair_in_order(left, right, self._budget)
            else:
                found = pair_rows(left, right, self._budget)
            pairs = [Pair(rows[0][one], rows[1][other], cells) for one, other, cells in found]
        return _Pairing(chosen, rows, pairs, sum(pair.cells for pair in pairs), sum(map(len, rows)))

    def tell_blank_nodes_apart(self, rows_as: type[Any]) -> None:
        """Pair the rows of the best pairing once more, now with the blank nodes that correspond.

        Until then, all blank nodes count as equal.
        """
        chosen = self._best.chosen
        pairs = [
            PairedColumn(
                expected=self._required[place],
                expected_classes=self._wanted[place],
                actual=self._offered[column],
                actual_classes=self._found[column],
            )
            for place, column in enumerate(chosen)
            if column is not None
        ]
        if not pairs:
            return
        labels = shared_labels(pairs, rows_as=rows_as, budget=self._budget)
        self._wanted = _with_labels(self._required, self._wanted, labels.expected)
        self._found = _with_labels(self._offered, self._found, labels.actual)
        self._rows = self._distinct([*zip(*self._wanted, strict=True)], 0)
        self._best = self._pair(chosen)

    def agreement(self) -> Agreement:
        """Describe the best pairing.

        A pair of rows has wrong values if at least half of the cells in paired columns agree.
        Otherwise its expected row counts as missing, and its actual row as extra.
        """
        chosen, rows, pairs, cells, height = self._best
        width, paired = len(chosen), len(chosen) - chosen.count(None)
        score = 2 * cells / (width * height) if cells else 0.0
        if not 0 < score < 1:
            return Agreement(score)
        order = {row: place for place, row in enumerate(rows[0])}
        near = sorted(
            (pair for pair in pairs if 2 * pair.cells >= paired),
            key=lambda pair: order[pair.expected],
        )
        ours, theirs = {pair.expected for pair in near}, {pair.actual for pair in near}
        missing = [row for row in rows[0] if row not in ours]
        extra = [row for row in rows[1] if row not in theirs]
        wrong = sum(paired - pair.cells for pair in near)
        costs = [
            (len(missing) * width, "missing_rows"),
            (len(extra) * width, "extra_rows"),
            (wrong, "wrong_values"),
        ]
        cost, reason = max(costs, key=itemgetter(0))
        inexact = [pair for pair in near if pair.cells < paired]
        return Agreement(
            score, reason if cost else None, self._differences(missing, extra, inexact)
        )

    def _differences(
        self, missing: Sequence[int], extra: Sequence[int], inexact: Sequence[Pair]
    ) -> list[Difference]:
        chosen, required = self._best.chosen, self._required
        found = [None if column is None else self._offered[column] for column in chosen]
        return first_of_each(
            (
                {"kind": "missing_column", "column": shorten(column.name)}
                for column, partner in zip(required, found, strict=True)
                if partner is None
            ),
            ({"kind": "missing_row", "row": _shown(required, required, row)} for row in missing),
            ({"kind": "extra_row", "row": _shown(required, found, row)} for row in extra),
            (
                {
                    "kind": "wrong_value",
                    "row": actual,
                    "column": shorten(required[place].name),
                    "expected": shorten(required[place].texts[expected]),
                    "actual": shorten(self._offered[column].texts[actual]),
                }
                for expected, actual, _ in inexact
                for place, column in enumerate(chosen)
                if column is not None
                and self._wanted[place][expected] != self._found[column][actual]
            ),
        )


def _shown(
    named: Iterable[Column], columns: Iterable[Column | None], row: int
) -> dict[str, str | None]:
    """The texts of a row, under the names of other columns."""
    cells = (
        (ours.name, each.texts[row]) for ours, each in zip(named, columns, strict=True) if each
    )
    return {str(shorten(name)): shorten(text) for name, text in islice(cells, MAX_CELLS)}


def _with_labels(
    columns: Sequence[Column], classes: Sequence[Classes], new_labels: Mapping[str, str]
) -> list[Classes]:
    """Return the classes of cells, with a class of its own for each blank node."""
    relabelled: list[Classes] = []
    for column, column_classes in zip(columns, classes, strict=True):
        if column.labels is None:
            relabelled.append(column_classes)
            continue
        cells = zip(column.labels, column_classes, strict=True)
        relabelled.append(
            [value if label is None else new_labels.get(label, "_:") for label, value in cells]
        )
    return relabelled


def _columns(results: SparqlResults, names: Sequence[str]) -> list[Column]:
    """The columns of these variables; those that are never bound have no cell in any row."""
    known = {column.name: column for column in results.columns}
    unbound = [None] * results.row_count
    return [known.get(name) or Column(name, unbound, unbound) for name in names]
