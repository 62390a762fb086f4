"""Pairs the rows of two tables that agree in all or in some of their cells.

Of few rows, those pairs are found that agree in most cells together. Where that would take more than
`EXACT_STEPS`, or more than the response has left for it, rows are paired step by step:

1. As many rows as possible are paired that agree in every cell.
2. Of the rows that are left, those that agree in some columns are paired. The columns are ranked by how many
   different values both sides still share; columns that share none are set aside. Keys are tried in this
   order: all ranked columns; all but one, where the lowest rank is left out first; the two or more that rank
   highest, from many to few; each alone. Rows with equal keys are paired in sorted order.

Each row is paired once at most, and no pair is undone, so the work is polynomial. Only the contents of the
rows count, not their order. If order matters, equal rows are paired in the order in which they occur, those
at the top and at the bottom of both tables first; of all pairs only a chain counts that is in the same order
in both tables: the one with the most cells that agree.

Pairs of rows that agree in every cell are among the best pairs. If a and b agree, and the best pairs are a
with y and x with b, then a with b and x with y agree in no fewer cells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import pairwise
from operator import attrgetter, eq, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.steps.sparql.assignment import STEPS_PER_WEIGHT, align, assign
from graphrag_eval_async.steps.sparql.columns import near
from graphrag_eval_async.steps.sparql.rows import Matching, NearRows

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Cell, Value

Ids: TypeAlias = "tuple[int, ...]"

EXACT_STEPS = 500_000
"""Steps up to which the best pairs of rows are found: for about 60 rows on both sides that differ."""

_STEPS_PER_ROW = 4


class Pair(NamedTuple):
    """An expected and an actual row, by index, and in how many cells they agree, at least one."""

    expected: int
    actual: int
    cells: int


class Side(NamedTuple):
    """The rows of one table.

    Attributes:
        ids: of each row, the numbers of the classes of its cells.
        cells: of each row, the cells in the columns where cells of one class may disagree.
    """

    ids: Sequence[Ids]
    cells: Sequence[tuple[Cell, ...]]


class RowPairing:
    """Pairs the rows of two tables; see the module.

    Args:
        expected: the rows of one table.
        actual: those of the other, as wide.
        loose: the columns that `cells` holds.
        values: the value that stands for each class, by its number.
        ordered: whether the order of rows counts.
        budget: pays for the work.
    """

    def __init__(
        self,
        expected: Side,
        actual: Side,
        loose: Sequence[int],
        values: Sequence[Value],
        *,
        ordered: bool,
        budget: Budget,
    ) -> None:
        self._sides = expected, actual
        self._width = len(expected.ids[0]) if expected.ids else 0
        self._loose = loose
        self._values = values
        self._ordered = ordered
        self._budget = budget
        self._left: list[int] = [*range(len(expected.ids))]
        self._right: list[int] = [*range(len(actual.ids))]
        self._pairs: list[Pair] = []

    def pairs(self) -> list[Pair]:
        """The pairs that count. Call it only once."""
        if self._ordered:
            self._pair_ends()
        elif not self._loose:
            self._pair_identical()
        certain, left, right = [*self._pairs], self._left, self._right
        found = self._step_by_step()
        steps = self._exact_steps(len(left), len(right))
        if not (left and right) or steps > min(EXACT_STEPS, self._budget.exact):
            return found
        with self._budget.exactly():
            best = self._best(left, right, _cells(found) - _cells(certain))
        return max(found, certain + best, key=_cells)

    def _exact_steps(self, left: int, right: int) -> int:
        """How many steps `_best` takes at most, for so many rows."""
        short, long = sorted((left, right))
        per_weight = self._width + STEPS_PER_WEIGHT * (1 if self._ordered else short)
        return 2 * (short + long) * self._width + short * long * per_weight

    def _best(self, left: list[int], right: list[int], cells: int) -> list[Pair]:
        """The pairs that agree in most cells together; none if they cannot agree in more than `cells`."""
        self._budget.spend((len(left) + len(right)) * self._width)
        ours, theirs = (
            [*map(Counter, zip(*(side.ids[row] for row in rows), strict=True))]
            for rows, side in zip((left, right), self._sides, strict=True)
        )
        if cells >= sum((one & other).total() for one, other in zip(ours, theirs, strict=True)):
            return []
        if not self._ordered:  # Of pairings as good, the rows' contents decide.
            left, right = map(self._sorted, (left, right), self._sides)
        self._budget.spend(len(left) * len(right) * self._width)
        weights = [[self._agreeing(one, other) for other in right] for one in left]
        best = (align if self._ordered else assign)(weights, self._budget)
        return [Pair(left[i], right[j], weights[i][j]) for i, j in best if weights[i][j]]

    def _step_by_step(self) -> list[Pair]:
        """The pairs that are found without a search."""
        if self._loose and not self._ordered:
            self._pair_near()
        elif self._ordered:
            self._pair_identical()
        for key in self._keys():
            self._pair_by(key)
            if not (self._left and self._right):
                break
        return in_order(self._pairs, self._budget) if self._ordered else self._pairs

    def _agreeing(self, expected: int, actual: int) -> int:
        """In how many cells two rows agree."""
        ours, theirs = self._sides
        same: int = sum(map(eq, ours.ids[expected], theirs.ids[actual]))
        if self._loose:
            one, other = ours.ids[expected], theirs.ids[actual]
            cells = zip(self._loose, ours.cells[expected], theirs.cells[actual], strict=True)
            same -= sum(one[column] == other[column] and not near(a, b) for column, a, b in cells)
        return same

    def _take(self, pairs: Iterable[Pair]) -> None:
        """Add pairs; their rows are no longer left."""
        found = [*pairs]
        self._pairs += found
        gone, lost = ({*map(attrgetter(name), found)} for name in ("expected", "actual"))
        self._left = [row for row in self._left if row not in gone]
        self._right = [row for row in self._right if row not in lost]

    def _pair_ends(self) -> None:
        for first, step in ((0, 1), (-1, -1)):
            self._budget.spend(min(len(self._left), len(self._right)) * _STEPS_PER_ROW)
            found = []
            for ours, theirs in zip(self._left[first::step], self._right[first::step], strict=False):
                if self._agreeing(ours, theirs) < self._width:
                    break
                found.append(Pair(ours, theirs, self._width))
            self._take(found)

    def _pair_identical(self) -> None:
        ours, theirs = self._sides
        left, right = (
            zip(side.ids, side.cells, strict=True) if self._loose else side.ids for side in self._sides
        )
        self._budget.spend((len(ours.ids) + len(theirs.ids)) * _STEPS_PER_ROW)
        known: list[Any] = [*right]
        places: dict[Hashable, list[int]] = {}
        for row in reversed(self._right):
            places.setdefault(known[row], []).append(row)
        rows: list[Any] = [*left]
        self._take(
            Pair(row, free.pop(), self._width) for row in self._left if (free := places.get(rows[row]))
        )

    def _pair_near(self) -> None:
        """Pair as many rows as possible of those whose cells are near, of which some may not be the same."""
        left, right = (
            self._items(rows, side) for rows, side in zip((self._left, self._right), self._sides, strict=True)
        )
        wanted, found = ({item: len(rows) for item, rows in items.items()} for items in (left, right))
        flow = Matching(wanted, found, NearRows(found, self._budget), self._budget).maximum()
        self._take(
            Pair(left[ours].pop(), right[theirs].pop(), self._width)
            for theirs, partners in flow.items()
            for ours, times in partners.items()
            for _ in range(times)
        )

    def _items(self, rows: list[int], side: Side) -> dict[tuple[Any, ...], list[int]]:
        """The rows by content, as `NearRows` takes it."""
        items: dict[tuple[Any, ...], list[int]] = {}
        for row in self._sorted(rows, side):
            items.setdefault((side.ids[row], *side.cells[row]), []).append(row)
        return items

    def _keys(self) -> Iterator[Sequence[int]]:
        """The columns to compare rows by, key after key."""
        if not (self._left and self._right):
            return
        ranked = self._ranked()
        if len(ranked) < self._width or self._ordered:
            yield ranked
        if len(ranked) > 1:
            yield from (ranked[:drop] + ranked[drop + 1 :] for drop in reversed(range(len(ranked))))
        yield from (ranked[:size] for size in range(len(ranked) - 2, 1, -1))
        if len(ranked) > 2:
            yield from ([column] for column in ranked)

    def _ranked(self) -> list[int]:
        self._budget.spend((len(self._left) + len(self._right)) * self._width)
        ours, theirs = (
            [*zip(*(side.ids[row] for row in rows), strict=True)]
            for rows, side in zip((self._left, self._right), self._sides, strict=True)
        )
        shared = [len({*one}.intersection(other)) for one, other in zip(ours, theirs, strict=True)]
        ranks = sorted(range(self._width), key=lambda column: -shared[column])
        return [column for column in ranks if shared[column]]

    def _pair_by(self, key: Sequence[int]) -> None:
        if not key:
            return
        left, right = self._left, self._right
        self._budget.spend((len(left) + len(right)) * _STEPS_PER_ROW)
        get = itemgetter(*key)
        ours, theirs = (
            [*map(get, map(side.ids.__getitem__, rows))]
            for rows, side in zip((left, right), self._sides, strict=True)
        )
        common = {*ours}.intersection(theirs)
        if not common:
            return
        blocks = _grouped(left, ours, common)
        others = _grouped(right, theirs, common)
        self._take(
            pair
            for block, rows in blocks.items()
            for one, other in self._zipped(rows, others[block])
            if (pair := Pair(one, other, self._agreeing(one, other))).cells
        )

    def _zipped(self, left: list[int], right: list[int]) -> Iterable[tuple[int, int]]:
        if not self._ordered and (len(left) > 1 or len(right) > 1):
            left, right = (
                self._sorted(rows, side) for rows, side in zip((left, right), self._sides, strict=True)
            )
        return zip(left, right, strict=False)

    def _sorted(self, rows: list[int], side: Side) -> list[int]:
        """Rows in an order that depends on their contents alone."""
        if len(rows) == 1:
            return rows
        self._budget.spend(len(rows) * self._width)
        values, ids, cells = self._values, side.ids, side.cells

        def content(row: int) -> Any:
            own = [_rank(values[number]) for number in ids[row]]
            return own, [(_rank(value), text or "") for _, value, text in cells[row]] if cells else ()

        return sorted(rows, key=content)


def _cells(pairs: Iterable[Pair]) -> int:
    return sum(pair.cells for pair in pairs)


def _rank(value: Any) -> tuple[int, Any]:
    """A key that orders values of all types."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2 if isinstance(value, tuple) else 3, value)


def _grouped(rows: list[int], keys: list[Hashable], common: set[Hashable]) -> dict[Hashable, list[int]]:
    blocks: dict[Hashable, list[int]] = defaultdict(list)
    for row, key in zip(rows, keys, strict=True):
        if key in common:
            blocks[key].append(row)
    return blocks


def in_order(pairs: list[Pair], budget: Budget) -> list[Pair]:
    """The pairs of a chain that is in the same order in both tables, with the most cells that agree.

    Found in n log n steps: the best chain that ends with each pair extends the best one so far that ends
    further up in the actual table.
    """
    ranked = sorted(pairs)
    budget.spend(len(ranked) * _STEPS_PER_ROW)
    if all(one.actual < other.actual for one, other in pairwise(ranked)):
        return ranked
    budget.spend(len(ranked) * len(ranked).bit_length() * _STEPS_PER_ROW)
    places = sorted(pair.actual for pair in ranked)
    best: list[tuple[int, int]] = [(0, -1)] * (len(places) + 1)  # a Fenwick tree of maxima
    before: list[int] = []
    for index, pair in enumerate(ranked):
        place = bisect_left(places, pair.actual)
        most, last = (0, -1)
        node = place
        while node:
            most, last = max((most, last), best[node])
            node &= node - 1
        before.append(last)
        node = place + 1
        while node <= len(places):
            best[node] = max(best[node], (most + pair.cells, index))
            node += node & -node
    node, end = len(places), (0, -1)
    while node:
        end = max(end, best[node])
        node &= node - 1
    kept = []
    index = end[1]
    while index >= 0:
        kept.append(ranked[index])
        index = before[index]
    return kept[::-1]
