"""Pairs the rows of two tables that agree in all or in some of their cells.

Rows that agree in every cell are among the best pairs: if a and b agree, and the best pairs are a
with y and x with b, then a with b and x with y agree in no fewer cells. Of the other rows, if there
are few, those pairs are found that agree in most cells together. If there are many, rows are paired
that agree in the columns of a key. The columns are ranked by how many different values both tables
still share. Keys are tried in this order: all columns that share any; all of these but one, where
the lowest rank is left out first; the two or more that rank highest, from many to few; each alone.
Rows with equal keys are paired in sorted order. Of wide tables, only `KEY_COLUMNS` are left out, or
make up short keys.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.tables.columns import BLANK
from graphrag_eval_async.steps.tables.temporal import Temporal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.columns import Value
    from graphrag_eval_async.steps.tables.rules import Row

EXACT_STEPS = 500_000
"""Steps up to which the best pairs of rows are found: for about 60 rows on both sides that
differ.
"""

KEY_COLUMNS = 16
"""Maximum number of columns that are left out of keys, or make up short ones."""


class Pair(NamedTuple):
    """An expected and an actual row, by index, and in how many cells they agree, at least one."""

    expected: int
    actual: int
    cells: int


class _Tables(NamedTuple):
    """The rows of two tables whose columns are paired: at least one row and one column."""

    expected: Sequence[Row]
    actual: Sequence[Row]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.expected[0])

    def pair(self, expected_index: int, actual_index: int) -> Pair:
        """Return two rows as a pair, of which no cell may agree."""
        agreeing = map(eq, self.expected[expected_index], self.actual[actual_index])
        return Pair(expected_index, actual_index, sum(agreeing))


class _Unpaired(NamedTuple):
    """The rows of two tables that have no partner yet, by index."""

    expected: list[int]
    actual: list[int]

    def without(self, pairs: Sequence[Pair]) -> _Unpaired:
        """Return those rows that are not in `pairs`."""
        paired_expected = {pair.expected for pair in pairs}
        paired_actual = {pair.actual for pair in pairs}
        return _Unpaired(
            expected=[row for row in self.expected if row not in paired_expected],
            actual=[row for row in self.actual if row not in paired_actual],
        )


def pair_rows(expected: Sequence[Row], actual: Sequence[Row], budget: Budget) -> list[Pair]:
    """Return pairs of rows of two tables that agree in many cells, whatever the order of rows."""
    tables = _Tables(expected, actual)
    budget.spend((len(expected) + len(actual)) * tables.width)

    # The last row of each list is the first in the table, so that it is taken first.
    actual_by_cells: dict[Row, list[int]] = defaultdict(list)
    for index in reversed(range(len(actual))):
        actual_by_cells[actual[index]].append(index)

    equal_pairs = []
    unpaired_expected = []
    for index, cells in enumerate(expected):
        equal_actual = actual_by_cells.get(cells)
        if equal_actual:
            equal_pairs.append(Pair(index, equal_actual.pop(), tables.width))
        else:
            unpaired_expected.append(index)

    unpaired_actual = sorted(chain.from_iterable(actual_by_cells.values()))
    if not unpaired_expected or not unpaired_actual:
        return equal_pairs
    unpaired = _Unpaired(unpaired_expected, unpaired_actual)
    return equal_pairs + _pair_unequal_rows(tables, unpaired, budget)


def _pair_unequal_rows(tables: _Tables, unpaired: _Unpaired, budget: Budget) -> list[Pair]:
    """Return pairs of unpaired rows that agree in many cells, but in no pair in all of them."""
    number_of_expected = len(unpaired.expected)
    number_of_actual = len(unpaired.actual)
    budget.spend(8 * tables.width * (number_of_expected + number_of_actual))
    expected_columns = list(zip(*(tables.expected[row] for row in unpaired.expected), strict=True))
    actual_columns = list(zip(*(tables.actual[row] for row in unpaired.actual), strict=True))

    # First, quickly, those that agree in the columns that tell most.
    shared_values = [
        len(set(expected_cells) & set(actual_cells))
        for expected_cells, actual_cells in zip(expected_columns, actual_columns, strict=True)
    ]
    pairs = _pair_by_keys(tables, unpaired, shared_values, budget)

    # Then, if the rows are few, all pairs are looked at.
    fewer, more = sorted((number_of_expected, number_of_actual))
    if fewer * more * (tables.width + 2 * fewer) > EXACT_STEPS:
        return pairs
    most_cells = sum(
        (Counter(expected_cells) & Counter(actual_cells)).total()
        for expected_cells, actual_cells in zip(expected_columns, actual_columns, strict=True)
    )
    if _count_cells(pairs) == most_cells:
        # No other pairs can agree in more cells.
        return pairs
    best_pairs = _best_pairs(tables, unpaired, budget)
    return max(pairs, best_pairs, key=_count_cells)


def _best_pairs(tables: _Tables, unpaired: _Unpaired, budget: Budget) -> list[Pair]:
    """Return those pairs of unpaired rows that agree in most cells together."""
    expected = _sort_by_cells(unpaired.expected, tables.expected)
    actual = _sort_by_cells(unpaired.actual, tables.actual)
    budget.spend(len(expected) * len(actual) * tables.width)
    candidates = [
        [tables.pair(expected_row, actual_row) for actual_row in actual]
        for expected_row in expected
    ]
    weights = [[pair.cells for pair in pairs_of_row] for pairs_of_row in candidates]
    assigned = assign(weights, budget)
    pairs = [candidates[row][column] for row, column in assigned]
    return [pair for pair in pairs if pair.cells > 0]


def _pair_by_keys(
    tables: _Tables, unpaired: _Unpaired, shared_values: Sequence[int], budget: Budget
) -> list[Pair]:
    """Return pairs of unpaired rows that agree in the columns of a key, one key after the other.

    Args:
        tables: the rows.
        unpaired: those rows that may be paired.
        shared_values: for each column, how many different values both tables share.
        budget: what may be spent.
    """
    sharing_columns = [column for column, shared in enumerate(shared_values) if shared > 0]
    ranked_columns = sorted(sharing_columns, key=lambda column: -shared_values[column])
    pairs: list[Pair] = []
    for key in _keys(ranked_columns, tables.width):
        number_of_rows = len(unpaired.expected) + len(unpaired.actual)
        budget.spend(number_of_rows * (4 + len(key) // 8))
        pairs_of_key = _pair_by_key(tables, unpaired, key)
        pairs += pairs_of_key
        unpaired = unpaired.without(pairs_of_key)
        if not unpaired.expected or not unpaired.actual:
            break
    return pairs


def _keys(ranked_columns: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """Yield keys, which are columns that rows are compared by, in the order in which to try them.

    Args:
        ranked_columns: the columns in which the tables share values, most first.
        width: the number of all columns. No two rows agree in all of them.
    """
    size = len(ranked_columns)
    if 0 < size < width:
        # All columns in which any rows agree.
        yield ranked_columns
    if size > 1:
        # All of these columns but one.
        lowest_first = reversed(range(size))
        for omitted in islice(lowest_first, KEY_COLUMNS):
            yield [*ranked_columns[:omitted], *ranked_columns[omitted + 1 :]]
    # Those with two columns less are the longest that were not tried yet.
    for length in range(min(size - 2, KEY_COLUMNS), 1, -1):
        yield ranked_columns[:length]
    if size > 2:
        # Each column alone. With two columns, that was tried already.
        for column in ranked_columns[:KEY_COLUMNS]:
            yield [column]


def _pair_by_key(tables: _Tables, unpaired: _Unpaired, key: Sequence[int]) -> list[Pair]:
    """Return pairs of unpaired rows that agree in some columns, the key."""
    key_of = itemgetter(*key)
    expected_keys = [key_of(tables.expected[row]) for row in unpaired.expected]
    actual_keys = [key_of(tables.actual[row]) for row in unpaired.actual]
    shared_keys = set(expected_keys).intersection(actual_keys)
    if not shared_keys:
        return []

    rows_by_key: dict[Any, _Unpaired] = {key: _Unpaired([], []) for key in shared_keys}
    for row, expected_key in zip(unpaired.expected, expected_keys, strict=True):
        if expected_key in rows_by_key:
            rows_by_key[expected_key].expected.append(row)
    for row, actual_key in zip(unpaired.actual, actual_keys, strict=True):
        if actual_key in rows_by_key:
            rows_by_key[actual_key].actual.append(row)

    pairs: list[Pair] = []
    for rows in rows_by_key.values():
        expected = _sort_by_cells(rows.expected, tables.expected)
        actual = _sort_by_cells(rows.actual, tables.actual)
        pairs += map(tables.pair, expected, actual)
    return pairs


def _sort_by_cells(indices: list[int], rows: Sequence[Row]) -> list[int]:
    """Return indices of rows in an order that depends only on the contents of the rows."""
    if len(indices) == 1:
        return indices
    return sorted(indices, key=lambda index: [_sort_key(value) for value in rows[index]])


def _sort_key(value: Value) -> tuple[int, Any]:
    """Return a key that orders values of all types: first by type, then by value."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, tuple):
        # A boolean.
        return 2, value
    if isinstance(value, Temporal):
        return 4, (value.kind, value.months, value.seconds, value.has_zone)
    if value is BLANK:
        return 5, 0
    return 3, value


def _count_cells(pairs: Iterable[Pair]) -> int:
    """Return in how many cells pairs of rows agree together."""
    return sum(pair.cells for pair in pairs)


def assign(weights: Sequence[Sequence[float]], budget: Budget) -> list[tuple[int, int]]:
    """Return the pairs of a row and a column with the greatest sum of weights.

    Each row and each column is in one pair at most. As many as possible are paired, even where
    their weight is 0.

    Args:
        weights: for each row, its weight with each column.
        budget: what may be spent.
    """
    if len(weights) > len(weights[0]):
        transposed = list(zip(*weights, strict=True))
        return [(row, column) for column, row in assign(transposed, budget)]
    assignment = _Assignment(weights, budget)
    for row in range(len(weights)):
        assignment.add_row(row)
    row_by_column = assignment.row_by_column
    return [(row, column) for column, row in enumerate(row_by_column) if row is not None]


class _Paths(NamedTuple):
    """The cheapest paths from a row to columns; see `_Assignment._find_path`."""

    costs: list[float]
    """The cost of the path to each column."""

    previous_columns: list[int | None]
    """The column before each column on its path; None if the path leads there directly."""

    visited: list[int]
    """The columns that are cheaper to reach than the free one."""

    free_column: int
    """The nearest column to which no row is assigned."""


class _Assignment:
    """Rows with the columns that are assigned to them, by the Hungarian method.

    https://en.wikipedia.org/wiki/Hungarian_algorithm

    Attributes:
        row_by_column: the row to which each column is assigned; None if it is free.
    """

    def __init__(self, weights: Sequence[Sequence[float]], budget: Budget) -> None:
        """Begin without rows; `weights` has no more rows than columns."""
        self.row_by_column: list[int | None] = [None] * len(weights[0])
        self._weights = weights
        self._prices = [0.0] * len(weights[0])
        self._budget = budget

    def add_row(self, added_row: int) -> None:
        """Assign a column to a row. Other rows change columns where this makes the sum greater."""
        paths = self._find_path(added_row)

        # Columns that were cheaper to reach than the free one become dearer by the difference.
        cost_of_free_column = paths.costs[paths.free_column]
        for column in paths.visited:
            self._prices[column] += paths.costs[column] - cost_of_free_column

        # Each row on the path takes the next column, and the added row the first one.
        column = paths.free_column
        previous = paths.previous_columns[column]
        while previous is not None:
            self.row_by_column[column] = self.row_by_column[previous]
            column = previous
            previous = paths.previous_columns[column]
        self.row_by_column[column] = added_row

    def _find_path(self, added_row: int) -> _Paths:
        """Return the cheapest paths from a row to columns, one of which is free.

        A path leads from a row to a column, from there to the row to which it is assigned, and so
        on. It costs less if these rows have greater weights with their next columns.
        """
        columns = range(len(self.row_by_column))
        costs = [inf] * len(columns)
        previous_columns: list[int | None] = [None] * len(columns)
        visited: list[int] = []
        unvisited = set(columns)
        row = added_row
        cost_of_row = 0.0
        while True:
            # Go on from the row to all columns, if that is cheaper than the path there so far.
            self._budget.spend(2 * len(columns))
            weights = self._weights[row]
            for column in unvisited:
                cost = cost_of_row - weights[column] - self._prices[column]
                if cost < costs[column]:
                    costs[column] = cost
                    previous_columns[column] = visited[-1] if visited else None

            nearest = min(unvisited, key=costs.__getitem__)
            assigned_row = self.row_by_column[nearest]
            if assigned_row is None:
                return _Paths(costs, previous_columns, visited, free_column=nearest)
            unvisited.remove(nearest)
            visited.append(nearest)
            row = assigned_row
            cost_of_row = costs[nearest] + self._weights[row][nearest] + self._prices[nearest]


def pair_in_order(expected: Sequence[Row], actual: Sequence[Row], budget: Budget) -> list[Pair]:
    """Return pairs of rows of two tables that are in the same order in both.

    Each pair agrees in one cell or more.
    """
    tables = _Tables(expected, actual)
    budget.spend((len(expected) + len(actual)) * (tables.width + 4))

    # First, the rows at the top and at the bottom that are equal.
    top = _count_equal(expected, actual)
    most_at_bottom = min(len(expected), len(actual)) - top
    bottom = min(most_at_bottom, _count_equal(reversed(expected), reversed(actual)))
    expected_end = len(expected) - bottom
    actual_end = len(actual) - bottom
    index_pairs = list(zip(range(top), range(top), strict=True))
    index_pairs += zip(
        range(expected_end, len(expected)), range(actual_end, len(actual)), strict=True
    )

    # Then, of many rows between them, those that are equal and in the same order.
    expected_middle = range(top, expected_end)
    actual_middle = range(top, actual_end)
    equal_pairs: list[tuple[int, int]] = []
    if _steps_to_align(tables, expected_middle, actual_middle) > EXACT_STEPS:
        equal_pairs = _longest_chain(tables, expected_middle, actual_middle)
    index_pairs += equal_pairs

    # Then the rows in each gap between two of these pairs.
    steps_for_gaps = 4 * EXACT_STEPS
    borders = [(top - 1, top - 1), *equal_pairs, (expected_end, actual_end)]
    for (expected_before, actual_before), (expected_after, actual_after) in pairwise(borders):
        expected_gap = range(expected_before + 1, expected_after)
        actual_gap = range(actual_before + 1, actual_after)
        steps = _steps_to_align(tables, expected_gap, actual_gap)
        if steps <= min(EXACT_STEPS, steps_for_gaps):
            steps_for_gaps -= steps
            budget.spend(steps)
            index_pairs += _align(tables, expected_gap, actual_gap)
        else:
            index_pairs += zip(expected_gap, actual_gap, strict=False)

    pairs = [tables.pair(expected_row, actual_row) for expected_row, actual_row in index_pairs]
    return [pair for pair in pairs if pair.cells > 0]


def _count_equal(expected: Iterable[Row], actual: Iterable[Row]) -> int:
    """Return how many rows at the beginning of two iterables are equal."""
    return sum(1 for _ in takewhile(bool, map(eq, expected, actual)))


def _steps_to_align(tables: _Tables, expected: range, actual: range) -> int:
    """Return how many steps of a budget `_align` takes for these rows."""
    return len(expected) * len(actual) * (tables.width + 2)


class _Link(NamedTuple):
    """The last of a chain of pairs of rows that are in the same order in two tables."""

    expected: int
    actual: int
    previous: _Link | None
    """None at the first pair of the chain."""


def _longest_chain(tables: _Tables, expected: range, actual: range) -> list[tuple[int, int]]:
    """Return as many pairs of equal rows as possible that are in the same order in both tables.

    Of rows that occur several times, only the first is paired with the first and so on. The method
    is patience sorting: https://en.wikipedia.org/wiki/Patience_sorting
    """
    # The last row of each list is the first in the table, so that it is taken first.
    actual_by_cells: dict[Row, list[int]] = defaultdict(list)
    for row in reversed(actual):
        actual_by_cells[tables.actual[row]].append(row)

    # For each length of a chain, one less than its position here: the chain that ends at the
    # earliest actual row, and that row.
    chains: list[_Link] = []
    last_rows: list[int] = []
    for expected_row in expected:
        equal_actual = actual_by_cells.get(tables.expected[expected_row])
        if not equal_actual:
            continue
        actual_row = equal_actual.pop()
        position = bisect_left(last_rows, actual_row)
        previous = None
        if position > 0:
            previous = chains[position - 1]
        # Replaces the chain at the position, or is appended.
        chains[position : position + 1] = [_Link(expected_row, actual_row, previous)]
        last_rows[position : position + 1] = [actual_row]

    pairs = []
    link = None
    if chains:
        link = chains[-1]
    while link is not None:
        pairs.append((link.expected, link.actual))
        link = link.previous
    return pairs[::-1]


def _align(tables: _Tables, expected: range, actual: range) -> list[tuple[int, int]]:
    """Return the pairs of rows in the same order that agree in most cells together.

    The method is that of Needleman and Wunsch:
    https://en.wikipedia.org/wiki/Needleman%E2%80%93Wunsch_algorithm
    """
    # most_cells[i][j] is in how many cells the first i expected and the first j actual rows agree.
    most_cells = [[0] * (len(actual) + 1)]
    for expected_row in expected:
        expected_cells = tables.expected[expected_row]
        above = most_cells[-1]
        current = [0]
        for column, actual_row in enumerate(actual):
            if_paired = above[column] + sum(map(eq, expected_cells, tables.actual[actual_row]))
            current.append(max(above[column + 1], current[column], if_paired))
        most_cells.append(current)

    # From the end, a row is left out if that loses no cell.
    pairs = []
    row = len(expected)
    column = len(actual)
    while row > 0 and column > 0:
        if most_cells[row][column] == most_cells[row - 1][column]:
            row -= 1
        elif most_cells[row][column] == most_cells[row][column - 1]:
            column -= 1
        else:
            row -= 1
            column -= 1
            pairs.append((expected[row], actual[column]))
    return pairs[::-1]
