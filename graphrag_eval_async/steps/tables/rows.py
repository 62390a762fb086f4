"""Pairs the rows of two tables that agree in all or in some of their cells.

Rows that agree in every cell are among the best pairs: if a and b agree, and the best pairs are a
with y and x with b, then a with b and x with y agree in no fewer cells. Of the other rows, if there
are few, those pairs are found that agree in most cells together. If there are many, rows are paired
that agree in some columns. The columns are ranked by how many different values both sides still
share. Keys are tried in this order: all columns that share any; all of these but one, where the
lowest rank is left out first; the two or more that rank highest, from many to few; each alone. Rows
with equal keys are paired in sorted order. Of wide tables, only `KEY_COLUMNS` are left out, or make
up short keys.

If order counts, only pairs count that are in the same order in both tables. Of many rows, first
those at the top and at the bottom that agree, then as many as possible of equal rows are paired,
then those between them.

A row is a tuple of the classes of its cells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import chain, islice, pairwise, takewhile
from math import inf
from operator import eq, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.steps.tables.columns import BLANK
from graphrag_eval_async.steps.tables.temporal import Temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.columns import Value

    Rows: TypeAlias = Sequence[tuple[Value, ...]]

EXACT_STEPS = 500_000
"""Steps up to which the best pairs of rows are found: for about 60 rows on both sides that
differ.
"""

KEY_COLUMNS = 16  # Maximum number of columns that are left out of keys, or make up short ones.


class Pair(NamedTuple):
    """An expected and an actual row, by index, and in how many cells they agree, at least one."""

    expected: int
    actual: int
    cells: int


def pair_rows(left: Rows, right: Rows, budget: Budget) -> list[Pair]:
    """The pairs of rows, whatever their order."""
    width = len(left[0])
    budget.spend((len(left) + len(right)) * width)
    free: dict[tuple[Value, ...], list[int]] = defaultdict(list)
    for row in reversed(range(len(right))):
        free[right[row]].append(row)
    equal = [
        Pair(row, same.pop(), width) for row, cells in enumerate(left) if (same := free.get(cells))
    ]
    paired = {pair.expected for pair in equal}
    ours = [row for row in range(len(left)) if row not in paired]
    theirs = sorted(chain.from_iterable(free.values()))
    return equal + _pair_rest(left, right, ours, theirs, budget) if ours and theirs else equal


def _pair_rest(
    left: Rows, right: Rows, ours: list[int], theirs: list[int], budget: Budget
) -> list[Pair]:
    """The pairs of rows that agree in no pair in every cell."""
    width = len(left[0])
    budget.spend(8 * width * (len(ours) + len(theirs)))
    columns = [
        [*zip(*map(side.__getitem__, rows), strict=True)]
        for side, rows in ((left, ours), (right, theirs))
    ]
    shared = [len({*one} & {*other}) for one, other in zip(*columns, strict=True)]
    found = _pair_by_keys(left, right, ours, theirs, shared, budget)
    short, long = sorted((len(ours), len(theirs)))
    if short * long * (width + 2 * short) > EXACT_STEPS:
        return found
    most = sum((Counter(one) & Counter(other)).total() for one, other in zip(*columns, strict=True))
    if _cells(found) == most:
        return found
    ours, theirs = _sorted(ours, left), _sorted(theirs, right)
    budget.spend(short * long * width)
    weights = [[sum(map(eq, left[one], right[other])) for other in theirs] for one in ours]
    chosen = assign(weights, budget)
    best = [Pair(ours[i], theirs[j], weights[i][j]) for i, j in chosen if weights[i][j]]
    return max(found, best, key=_cells)


def _pair_by_keys(
    left: Rows,
    right: Rows,
    ours: list[int],
    theirs: list[int],
    shared: Sequence[int],
    budget: Budget,
) -> list[Pair]:
    """Pair rows that agree in some columns; `shared` counts the values that both sides of each
    share.
    """
    pairs: list[Pair] = []
    ranked = sorted(
        filter(shared.__getitem__, range(len(shared))), key=lambda column: -shared[column]
    )
    for key in _keys(ranked, len(shared)):
        budget.spend((len(ours) + len(theirs)) * (4 + len(key) // 8))
        found = [
            Pair(one, other, sum(map(eq, left[one], right[other])))
            for own, others in _blocks(ours, theirs, left, right, itemgetter(*key))
            for one, other in zip(_sorted(own, left), _sorted(others, right), strict=False)
        ]
        pairs += found
        gone, lost = ({*map(itemgetter(side), found)} for side in (0, 1))
        ours = [row for row in ours if row not in gone]
        theirs = [row for row in theirs if row not in lost]
        if not (ours and theirs):
            break
    return pairs


def _sorted(rows: list[int], side: Rows) -> list[int]:
    """Rows in an order that depends on their contents alone."""
    return rows if len(rows) == 1 else sorted(rows, key=lambda row: [*map(_rank, side[row])])


def _blocks(
    ours: list[int],
    theirs: list[int],
    left: Rows,
    right: Rows,
    key: Callable[[tuple[Value, ...]], Any],
) -> Iterable[tuple[list[int], list[int]]]:
    """The rows on both sides with equal keys."""
    keys, others = (
        [*map(key, map(left.__getitem__, ours))],
        [*map(key, map(right.__getitem__, theirs))],
    )
    blocks: dict[Any, tuple[list[int], list[int]]] = {
        each: ([], []) for each in {*keys}.intersection(others)
    }
    if blocks:
        for side, rows in enumerate(
            (zip(ours, keys, strict=True), zip(theirs, others, strict=True))
        ):
            for row, own in rows:
                if own in blocks:
                    blocks[own][side].append(row)
    return blocks.values()


def _rank(value: Value) -> tuple[int, Any]:
    """A key that orders values of all types."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, tuple):
        return 2, value
    if isinstance(value, Temporal):
        return 4, (value.kind, value.months, value.seconds, value.has_zone)
    if value is BLANK:
        return 5, 0
    return 3, value


def _keys(ranked: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """The columns to compare rows by, key after key. No rows agree in all columns."""
    size = len(ranked)
    if 0 < size < width:
        yield ranked
    if size > 1:
        lowest = islice(reversed(range(size)), KEY_COLUMNS)
        yield from ([*ranked[:drop], *ranked[drop + 1 :]] for drop in lowest)
    yield from (ranked[:most] for most in range(min(size - 2, KEY_COLUMNS), 1, -1))
    if size > 2:
        yield from ([column] for column in ranked[:KEY_COLUMNS])


def _cells(pairs: Iterable[Pair]) -> int:
    return sum(pair.cells for pair in pairs)


def assign(weights: Sequence[Sequence[float]], budget: Budget) -> list[tuple[int, int]]:
    """The pairs of a row and a column with the greatest sum of weights; each is in one at most.

    The Hungarian method: https://en.wikipedia.org/wiki/Hungarian_algorithm.
    """
    if len(weights) > len(weights[0]):
        return [(row, column) for column, row in assign([*zip(*weights, strict=True)], budget)]
    columns = range(len(weights[0]))
    prices = [0.0] * len(columns)
    partners: list[int | None] = [None] * len(columns)  # the row of each column
    for start in range(len(weights)):
        row = start
        costs, before = [inf] * len(columns), [-1] * len(columns)
        free, column = {*columns}, -1
        while True:  # Extend the cheapest path to a column without a partner.
            budget.spend(2 * len(columns))
            own = weights[row]
            base = 0.0 if column < 0 else costs[column] + own[column] + prices[column]
            for other in free:
                cost = base - own[other] - prices[other]
                if cost < costs[other]:
                    costs[other], before[other] = cost, column
            column = min(free, key=costs.__getitem__)
            free.remove(column)
            partner = partners[column]
            if partner is None:
                break
            row = partner
        for other in columns:
            if other not in free and other != column:
                prices[other] += costs[other] - costs[column]
        while column >= 0:
            previous = before[column]
            partners[column] = start if previous < 0 else partners[previous]
            column = previous
    return [(row, column) for column, row in enumerate(partners) if row is not None]


def pair_in_order(left: Rows, right: Rows, budget: Budget) -> list[Pair]:
    """The pairs of rows that are in the same order in both tables."""
    budget.spend((len(left) + len(right)) * (len(left[0]) + 4))
    most = min(len(left), len(right))
    top = sum(1 for _ in takewhile(bool, map(eq, left, right)))
    bottom = sum(
        1 for _ in takewhile(bool, islice(map(eq, reversed(left), reversed(right)), most - top))
    )
    ends = len(left) - bottom, len(right) - bottom
    ours, theirs = range(top, ends[0]), range(top, ends[1])
    is_few = len(ours) * len(theirs) * (len(left[0]) + 2) <= EXACT_STEPS
    anchors = [] if is_few else _chain(left, right, ours, theirs)
    found = [*anchors, *zip(range(top), range(top), strict=True)]
    found += zip(range(ends[0], len(left)), range(ends[1], len(right)), strict=True)
    room = 4 * EXACT_STEPS
    for (one, other), (stop, last) in pairwise([(top - 1, top - 1), *anchors, ends]):
        ours, theirs = range(one + 1, stop), range(other + 1, last)
        steps = len(ours) * len(theirs) * (len(left[0]) + 2)
        if steps <= min(EXACT_STEPS, room):
            room -= steps
            budget.spend(steps)
            found += _align(left, right, ours, theirs)
        else:
            found += zip(ours, theirs, strict=False)
    pairs = [Pair(one, other, sum(map(eq, left[one], right[other]))) for one, other in found]
    return [pair for pair in pairs if pair.cells]


def _chain(left: Rows, right: Rows, ours: range, theirs: range) -> list[tuple[int, int]]:
    """Most pairs of equal rows in the same order, the first with the first and so on, by
    patience sorting.
    """
    places: dict[tuple[Value, ...], list[int]] = defaultdict(list)
    for row in reversed(theirs):
        places[right[row]].append(row)
    tops: list[int] = []  # Of the chains of each length, the actual row of the one that ends first.
    links: list[tuple[int, int, Any]] = []
    for row in ours:
        if same := places.get(left[row]):
            other = same.pop()
            at = bisect_left(tops, other)
            link = row, other, links[at - 1] if at else None
            tops[at : at + 1], links[at : at + 1] = [other], [link]
    found, last = [], links[-1] if links else None
    while last is not None:
        found.append(last[:2])
        last = last[2]
    return found[::-1]


def _align(left: Rows, right: Rows, ours: range, theirs: range) -> list[tuple[int, int]]:
    """The pairs in the same order that agree in most cells together, by dynamic programming."""
    table = [[0] * (len(theirs) + 1)]
    for row in ours:
        above, current = table[-1], [0]
        for column, other in enumerate(theirs):
            agreeing = above[column] + sum(map(eq, left[row], right[other]))
            current.append(max(above[column + 1], current[column], agreeing))
        table.append(current)
    pairs = []
    row, column = len(ours), len(theirs)
    while row and column:
        if table[row][column] == table[row - 1][column]:
            row -= 1
        elif table[row][column] == table[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((ours[row], theirs[column]))
    return pairs[::-1]
