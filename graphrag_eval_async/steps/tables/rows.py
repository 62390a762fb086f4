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
"""Steps up to which the best pairs of rows are found.

They are enough for about 60 rows on both sides that have no equal row on the other side.
"""

KEY_COLUMNS = 16
"""Maximum number of columns that are left out of keys, or make up short ones."""


class Pair(NamedTuple):
    """The index of an expected row, that of an actual row, and the number of cells that agree."""

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
        """Return two rows as a pair with the number of cells in which they agree, which may be 0.

        Args:
            expected_index: the index of the expected row.
            actual_index: the index of the actual row.
        """
        agreeing = map(eq, self.expected[expected_index], self.actual[actual_index])
        return Pair(expected_index, actual_index, sum(agreeing))


class _Unpaired(NamedTuple):
    """The rows of two tables that have no partner yet, by index."""

    expected: list[int]
    actual: list[int]

    def without(self, pairs: Sequence[Pair]) -> _Unpaired:
        """Return the rows that remain without the rows in `pairs`."""
        paired_expected = {pair.expected for pair in pairs}
        paired_actual = {pair.actual for pair in pairs}
        return _Unpaired(
            expected=[row for row in self.expected if row not in paired_expected],
            actual=[row for row in self.actual if row not in paired_actual],
        )


def pair_rows(expected: Sequence[Row], actual: Sequence[Row], budget: Budget) -> list[Pair]:
    """Pair the rows of two tables so that many cells agree; the order of rows is ignored.

    Each row is in at most one pair. Equal rows are paired first.
    """
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
    """Return pairs of rows that agree in many cells, where no expected row equals an actual one.

    Args:
        tables: the rows of both tables.
        unpaired: those rows that may be paired.
        budget: what may be spent.
    """
    number_of_expected = len(unpaired.expected)
    number_of_actual = len(unpaired.actual)
    budget.spend(8 * tables.width * (number_of_expected + number_of_actual))
    expected_columns = list(zip(*(tables.expected[row] for row in unpaired.expected), strict=True))
    actual_columns = list(zip(*(tables.actual[row] for row in unpaired.actual), strict=True))

    # First, which is quick, pair rows that agree in the columns that distinguish most rows.
    shared_values = [
        len(set(expected_cells) & set(actual_cells))
        for expected_cells, actual_cells in zip(expected_columns, actual_columns, strict=True)
    ]
    pairs = _pair_by_keys(tables, unpaired, shared_values, budget)

    # Then, if there are few rows, compare all of them with each other. Each pair of rows costs a
    # comparison of its cells, and the choice of the best pairs.
    fewer_rows, more_rows = sorted((number_of_expected, number_of_actual))
    if fewer_rows * more_rows * (tables.width + 2 * fewer_rows) > EXACT_STEPS:
        return pairs
    most_cells = sum(
        (Counter(expected_cells) & Counter(actual_cells)).total()
        for expected_cells, actual_cells in zip(expected_columns, actual_columns, strict=True)
    )
    if _count_cells(pairs) == most_cells:
        # No other pairs can agree in more cells than the columns have in common.
        return pairs
    best_pairs = _best_pairs(tables, unpaired, budget)
    return max(pairs, best_pairs, key=_count_cells)


def _best_pairs(tables: _Tables, unpaired: _Unpaired, budget: Budget) -> list[Pair]:
    """Return the pairs of unpaired rows for which the sum of agreeing cells is the greatest.

    Args:
        tables: the rows of both tables.
        unpaired: those rows that may be paired.
        budget: what may be spent.
    """
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
    """Return pairs of unpaired rows that agree in the columns of a key.

    Several keys are tried, one after the other. Rows that one key pairs are left out from the next.

    Args:
        tables: the rows of both tables.
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
    """Yield keys, which are columns by which rows are compared, in the order in which to try them.

    Args:
        ranked_columns: the columns in which the tables share any values, the one with most first.
        width: the number of all columns. No two rows agree in all of them.
    """
    # First, all columns in which any rows agree. If these are all columns, no rows agree in them.
    size = len(ranked_columns)
    if 0 < size < width:
        yield ranked_columns

    # Then all of these columns but one; the column with fewest shared values is omitted first.
    if size > 1:
        omitted_positions = islice(reversed(range(size)), KEY_COLUMNS)
        for omitted in omitted_positions:
            yield [*ranked_columns[:omitted], *ranked_columns[omitted + 1 :]]

    # Then the first columns, fewer and fewer, down to two. Keys that lack one column were tried
    # above, so the longest of these keys lacks two.
    longest = min(size - 2, KEY_COLUMNS)
    for length in range(longest, 1, -1):
        yield ranked_columns[:length]

    # At last, each column alone. Of two columns, each was tried above, as all but one.
    if size > 2:
        for column in ranked_columns[:KEY_COLUMNS]:
            yield [column]


def _pair_by_key(tables: _Tables, unpaired: _Unpaired, key: Sequence[int]) -> list[Pair]:
    """Return pairs of unpaired rows that agree in the columns of a key.

    Args:
        tables: the rows of both tables.
        unpaired: those rows that may be paired.
        key: the positions of the columns.
    """
    key_of = itemgetter(*key)
    expected_keys = [key_of(tables.expected[row]) for row in unpaired.expected]
    actual_keys = [key_of(tables.actual[row]) for row in unpaired.actual]
    shared_keys = set(expected_keys).intersection(actual_keys)
    if not shared_keys:
        return []

    # Collect the rows of both tables that have equal keys.
    rows_by_key: dict[Any, _Unpaired] = {
        shared_key: _Unpaired([], []) for shared_key in shared_keys
    }
    for row, expected_key in zip(unpaired.expected, expected_keys, strict=True):
        if expected_key in rows_by_key:
            rows_by_key[expected_key].expected.append(row)
    for row, actual_key in zip(unpaired.actual, actual_keys, strict=True):
        if actual_key in rows_by_key:
            rows_by_key[actual_key].actual.append(row)

    # Pair them in sorted order, until the rows of one table run out.
    pairs: list[Pair] = []
    for rows in rows_by_key.values():
        expected = _sort_by_cells(rows.expected, tables.expected)
        actual = _sort_by_cells(rows.actual, tables.actual)
        pairs += map(tables.pair, expected, actual)
    return pairs


def _sort_by_cells(indices: list[int], rows: Sequence[Row]) -> list[int]:
    """Return indices of rows, sorted by the contents of the rows."""
    if len(indices) == 1:
        return indices
    return sorted(indices, key=lambda index: [_sort_key(value) for value in rows[index]])


def _sort_key(value: Value) -> tuple[int, Any]:
    """Return a key by which values of all types can be sorted: first by type, then by value."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, tuple):
        # Booleans are tuples.
        return 2, value
    if isinstance(value, Temporal):
        return 4, (value.kind, value.months, value.seconds, value.has_zone)
    if value is BLANK:
        return 5, 0
    return 3, value


def _count_cells(pairs: Iterable[Pair]) -> int:
    """Return the sum of the agreeing cells of all pairs."""
    return sum(pair.cells for pair in pairs)


def assign(weights: Sequence[Sequence[float]], budget: Budget) -> list[tuple[int, int]]:
    """Return the pairs of a row and a column for which the sum of their weights is the greatest.

    Each row and each column is in at most one pair. There are as many pairs as possible, even if
    the weight of some is 0.

    Args:
        weights: for each row, its weight with each column.
        budget: what may be spent.
    """
    if len(weights) > len(weights[0]):
        # The method needs a column for each row, so rows and columns change places.
        transposed = list(zip(*weights, strict=True))
        return [(row, column) for column, row in assign(transposed, budget)]
    assignment = _Assignment(weights, budget)
    for row in range(len(weights)):
        assignment.add_row(row)
    row_by_column = assignment.row_by_column
    return [(row, column) for column, row in enumerate(row_by_column) if row is not None]


class _Paths(NamedTuple):
    """The cheapest paths from a row to columns; see `_Assignment._find_paths`."""

    costs: list[float]
    """The cost of the path to each column."""

    previous_columns: list[int | None]
    """The column before each column on its path; None if the path leads there directly."""

    visited: list[int]
    """The columns that are cheaper to reach than the free column."""

    free_column: int
    """The cheapest column to reach of those that are assigned to no row."""


class _Assignment:
    """Assigns columns to rows by the Hungarian method, so that the sum of weights is the greatest.

    https://en.wikipedia.org/wiki/Hungarian_algorithm

    Attributes:
        row_by_column: the row to which each column is assigned; None if it is free.
    """

    def __init__(self, weights: Sequence[Sequence[float]], budget: Budget) -> None:
        """Begin without any assigned row.

        Args:
            weights: for each row, its weight with each column; no more rows than columns.
            budget: what may be spent.
        """
        self.row_by_column: list[int | None] = [None] * len(weights[0])
        self._weights = weights
        self._prices = [0.0] * len(weights[0])
        self._budget = budget

    def add_row(self, added_row: int) -> None:
        """Assign a column to a row that has none.

        Rows that have a column change it where this makes the sum of weights greater.
        """
        paths = self._find_paths(added_row)

        # Change the prices, so that all visited columns cost as much to reach as the free column.
        cost_of_free_column = paths.costs[paths.free_column]
        for column in paths.visited:
            self._prices[column] += paths.costs[column] - cost_of_free_column

        # From the end of the path to its beginning, each row takes the next column on the path. The
        # added row takes the first column.
        column = paths.free_column
        previous = paths.previous_columns[column]
        while previous is not None:
            self.row_by_column[column] = self.row_by_column[previous]
            column = previous
            previous = paths.previous_columns[column]
        self.row_by_column[column] = added_row

    def _find_paths(self, added_row: int) -> _Paths:
        """Return the cheapest paths from a row to columns, up to the first free column.

        A free column is assigned to no row. A path leads from the row to a column, from there to
        the row to which this column is assigned, and so on. With w the weight of a row and a
        column, and p the price of the column, the step from the row to the column costs -(w + p),
        and the step from the column to the row costs w + p. The method is Dijkstra's.
        """
        columns = range(len(self.row_by_column))
        costs = [inf] * len(columns)
        previous_columns: list[int | None] = [None] * len(columns)
        visited: list[int] = []
        unvisited = set(columns)
        row = added_row
        column_of_row: int | None = None
        cost_of_row = 0.0
        while True:
            # The path by this row to a column may be cheaper than the path found before.
            self._budget.spend(2 * len(columns))
            weights = self._weights[row]
            for column in unvisited:
                cost = cost_of_row - weights[column] - self._prices[column]
                if cost < costs[column]:
                    costs[column] = cost
                    previous_columns[column] = column_of_row

            # Go on from the column that is cheapest to reach, unless it is free.
            cheapest = min(unvisited, key=costs.__getitem__)
            assigned_row = self.row_by_column[cheapest]
            if assigned_row is None:
                return _Paths(costs, previous_columns, visited, free_column=cheapest)
            unvisited.remove(cheapest)
            visited.append(cheapest)
            row = assigned_row
            column_of_row = cheapest
            cost_of_row = costs[cheapest] + self._weights[row][cheapest] + self._prices[cheapest]


def pair_in_order(expected: Sequence[Row], actual: Sequence[Row], budget: Budget) -> list[Pair]:
    """Pair rows that are in the same order in both tables, so that many cells agree.

    Each pair agrees in at least one cell.
    """
    tables = _Tables(expected, actual)
    budget.spend((len(expected) + len(actual)) * (tables.width + 4))

    # Pair equal rows at the top and at the bottom. A row at the top is not at the bottom, too.
    top = _count_equal(expected, actual)
    most_at_bottom = min(len(expected), len(actual)) - top
    bottom = min(most_at_bottom, _count_equal(reversed(expected), reversed(actual)))
    expected_end = len(expected) - bottom
    actual_end = len(actual) - bottom
    index_pairs = [(row, row) for row in range(top)]
    index_pairs += zip(
        range(expected_end, len(expected)), range(actual_end, len(actual)), strict=True
    )

    # If many rows remain between them, pair equal rows there that are in the same order.
    expected_middle = range(top, expected_end)
    actual_middle = range(top, actual_end)
    equal_pairs: list[tuple[int, int]] = []
    if _steps_to_align(tables, expected_middle, actual_middle) > EXACT_STEPS:
        equal_pairs = _longest_chain(tables, expected_middle, actual_middle)
    index_pairs += equal_pairs

    # Pair the rows in the gaps that remain: without equal pairs, this is all the middle.
    last_of_top = (top - 1, top - 1)
    first_of_bottom = (expected_end, actual_end)
    index_pairs += _pair_in_gaps(tables, [last_of_top, *equal_pairs, first_of_bottom], budget)

    pairs = [tables.pair(expected_row, actual_row) for expected_row, actual_row in index_pairs]
    return [pair for pair in pairs if pair.cells > 0]


def _count_equal(expected: Iterable[Row], actual: Iterable[Row]) -> int:
    """Return how many rows at the beginning of two tables are equal."""
    return sum(1 for _ in takewhile(bool, map(eq, expected, actual)))


def _pair_in_gaps(
    tables: _Tables, borders: Sequence[tuple[int, int]], budget: Budget
) -> list[tuple[int, int]]:
    """Return pairs of an expected and an actual row in the gaps between borders.

    In small gaps, the best pairs are found. In other gaps, the first row is paired with the first,
    and so on.

    Args:
        tables: the rows of both tables.
        borders: an expected and an actual row before and after each gap, in order.
        budget: what may be spent.
    """
    pairs: list[tuple[int, int]] = []
    # There may be many gaps, so their steps together have a limit, too.
    steps_left = 4 * EXACT_STEPS
    for (expected_before, actual_before), (expected_after, actual_after) in pairwise(borders):
        expected_gap = range(expected_before + 1, expected_after)
        actual_gap = range(actual_before + 1, actual_after)
        steps = _steps_to_align(tables, expected_gap, actual_gap)
        if steps <= min(EXACT_STEPS, steps_left):
            steps_left -= steps
            budget.spend(steps)
            pairs += _align(tables, expected_gap, actual_gap)
        else:
            pairs += zip(expected_gap, actual_gap, strict=False)
    return pairs


def _steps_to_align(tables: _Tables, expected: range, actual: range) -> int:
    """Return how many steps of a budget `_align` takes for these expected and actual rows."""
    return len(expected) * len(actual) * (tables.width + 2)


class _Link(NamedTuple):
    """The last of a chain of pairs of rows that are in the same order in two tables."""

    expected: int
    actual: int
    previous: _Link | None
    """None at the first pair of the chain."""


def _longest_chain(tables: _Tables, expected: range, actual: range) -> list[tuple[int, int]]:
    """Return as many pairs of equal rows as possible that are in the same order in both tables.

    Of rows that occur several times, the first may only be paired with the first, and so on. The
    method is patience sorting: https://en.wikipedia.org/wiki/Patience_sorting

    Args:
        tables: the rows of both tables.
        expected: the indices of the expected rows that may be paired.
        actual: the indices of the actual rows that may be paired.
    """
    # The last row of each list is the first in the table, so that it is taken first.
    actual_by_cells: dict[Row, list[int]] = defaultdict(list)
    for row in reversed(actual):
        actual_by_cells[tables.actual[row]].append(row)

    # Of the chains with n + 1 pairs, the one that ends at the earliest actual row is at position n;
    # that row is in `last_rows`.
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
        # The new chain replaces the one at this position, or is appended after the last one.
        chains[position : position + 1] = [_Link(expected_row, actual_row, previous)]
        last_rows[position : position + 1] = [actual_row]

    # Walk the longest chain from its end.
    pairs = []
    link = None
    if chains:
        link = chains[-1]
    while link is not None:
        pairs.append((link.expected, link.actual))
        link = link.previous
    return pairs[::-1]


def _align(tables: _Tables, expected: range, actual: range) -> list[tuple[int, int]]:
    """Return pairs of rows in the same order for which the sum of agreeing cells is the greatest.

    The method is that of Needleman and Wunsch:
    https://en.wikipedia.org/wiki/Needleman%E2%80%93Wunsch_algorithm

    Args:
        tables: the rows of both tables.
        expected: the indices of the expected rows that may be paired.
        actual: the indices of the actual rows that may be paired.
    """
    # most_cells[i][j] is the greatest sum for the first i expected and the first j actual rows.
    most_cells = [[0] * (len(actual) + 1)]
    for expected_row in expected:
        expected_cells = tables.expected[expected_row]
        above = most_cells[-1]
        current = [0]
        for column, actual_row in enumerate(actual):
            if_paired = above[column] + sum(map(eq, expected_cells, tables.actual[actual_row]))
            current.append(max(above[column + 1], current[column], if_paired))
        most_cells.append(current)

    # Walk back from the end. A row is left without a partner if this does not lessen the sum.
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
