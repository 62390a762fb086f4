"""Looks for the pairing of columns under which most cells of two tables agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.tables.blank_cells import PairedColumn, shared_labels
from graphrag_eval_async.steps.tables.rows import Pair, pair_in_order, pair_rows
from graphrag_eval_async.steps.tables.rules import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.classes import Classes
    from graphrag_eval_async.steps.tables.columns import Column, Value
    from graphrag_eval_async.steps.tables.rules import Row

MOST_SORTED = 1000
"""Maximum number of rows that are sorted, so that listed differences do not depend on their order.

Sorting more rows is slow.
"""

STEPS_PER_COLUMN_PAIR = 8
"""Steps of a budget for two columns, besides those for their values."""

VALUES_PER_STEP = 4
"""How many values are intersected in the time of one step of a budget."""

STEPS_PER_PAIRING = 200
"""Steps of a budget for a pairing of columns, besides those for its cells."""

MOST_COLUMNS = 300
"""Required columns up to which other pairings than that by name are tried.

The search calls itself for each of them.
"""


@dataclass(frozen=True, slots=True)
class Side:
    """The columns of one of two tables that are paired.

    Attributes:
        columns: the columns, also those without bound cells.
        classes: the equivalence classes of the cells of each column. Cells agree if their classes
            are equal.
        row_order: all rows, by index, in the order in which they are looked at.
    """

    columns: Sequence[Column]
    classes: Sequence[Classes]
    row_order: Sequence[int]

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.row_order)

    def rows_of(self, positions: Sequence[int]) -> list[Row]:
        """Return the rows of some columns, as classes of their cells; empty if no column is given.

        Args:
            positions: the positions of the columns.
        """
        return list(zip(*(self.classes[position] for position in positions), strict=True))

    def first_of_equal(self, rows: Sequence[Row]) -> Sequence[int]:
        """Return the indices of the rows that remain if, of equal rows, only the first is kept.

        Args:
            rows: the cells that are compared, row by row. If no column is compared, it is empty.
        """
        if not rows:
            # Without cells, all rows are equal.
            return self.row_order[:1]
        first_by_cells: dict[Row, int] = {}
        for index in self.row_order:
            first_by_cells.setdefault(rows[index], index)
        return list(first_by_cells.values())


def row_order(
    columns: Sequence[Column], height: int, *, rows: Rows, budget: Budget
) -> Sequence[int]:
    """Return the indices of a table's rows in an order that depends only on the rows' contents.

    If rows are compared in order, or if there are many, they keep their order.

    Args:
        columns: the columns of the table.
        height: the number of its rows.
        rows: how rows are compared.
        budget: what may be spent.
    """
    if rows is Rows.IN_ORDER or not columns or height > MOST_SORTED:
        return range(height)
    budget.spend(height * len(columns))
    sortable_columns: list[Sequence[str | None]] = []
    for column in columns:
        if None in column.texts:
            # None cannot be compared with texts. "\0", which replaces it, comes before most texts.
            sortable_columns.append(["\0" if text is None else text for text in column.texts])
        else:
            sortable_columns.append(column.texts)
    sortable_rows = list(zip(*sortable_columns, strict=True))
    return sorted(range(height), key=sortable_rows.__getitem__)


class Pairing(NamedTuple):
    """Columns of two tables that are paired, and the rows that are paired then."""

    partners: tuple[int | None, ...]
    """For each required column, the position of its actual column; None if it has no partner."""

    expected_rows: Sequence[int]
    """The expected rows that count, by index: all, or the first of equal ones."""

    actual_rows: Sequence[int]
    """The actual rows that count."""

    row_pairs: list[Pair]
    """The rows that are paired with each other."""

    @property
    def cells(self) -> int:
        """The number of cells in which paired rows agree."""
        return sum(pair.cells for pair in self.row_pairs)

    @property
    def height(self) -> int:
        """The number of rows on both sides that count."""
        return len(self.expected_rows) + len(self.actual_rows)

    @property
    def score(self) -> float:
        """F1 of the cells, from 0 to 1."""
        cells = self.cells
        if cells == 0:
            # There may be no cells at all to divide by.
            return 0.0
        return 2 * cells / (len(self.partners) * self.height)


class PairingSearch:
    """Finds the pairing of columns with the greatest F1, by branch and bound.

    In how many cells two columns agree at most is how many values they share. A branch ends if its
    columns do not share enough to be better than the best pairing found.

    Attributes:
        required: the required columns of the reference.
        offered: the actual columns that may be paired with them.
        best: the best pairing found so far: at first, that of columns of the same name.
    """

    def __init__(self, required: Side, offered: Side, *, rows: Rows, budget: Budget) -> None:
        """Rank the possible partners of each column, and try the pairing by name as the first one.

        Args:
            required: the columns of the reference.
            offered: the actual columns.
            rows: how rows are compared.
            budget: what may be spent.
        """
        self.required = required
        self.offered = offered
        self._rows = rows
        self._budget = budget
        all_positions = range(len(required.columns))
        self._expected_rows = self._rows_that_count(required, required.rows_of(all_positions))

        # The greatest possible number of agreeing cells, by required and actual column.
        self._shared = self._count_shared_cells()
        # For each required column, the actual columns, the likeliest partner first.
        self._candidates = [self._rank_candidates(position) for position in all_positions]

        # The required columns in the order in which the search pairs them: those that may agree in
        # most cells first.
        most_shared = [max(shared.values(), default=0) for shared in self._shared]
        self._order = sorted(all_positions, key=lambda position: -most_shared[position])
        # For each number of columns that are paired, in how many cells the remaining columns agree
        # at most.
        self._most_in_others = [
            sum(most_shared[position] for position in self._order[depth:])
            for depth in range(len(self._order) + 1)
        ]

        # For each actual column, the number of its different cells.
        self._different_cells = [len(set(cells)) for cells in offered.classes]
        # For each actual column, the first column with equal cells, which may be the same.
        first_by_cells: dict[tuple[Value, ...], int] = {}
        self._first_equal = [
            first_by_cells.setdefault(tuple(cells), column)
            for column, cells in enumerate(offered.classes)
        ]

        # The first pairing is that by name.
        self._partners_by_name = self._pair_columns_by_name()
        self.best = self._pair_rows(self._partners_by_name)
        self._best_cells = self.best.cells

    def _rows_that_count(self, side: Side, rows: Sequence[Row]) -> Sequence[int]:
        """Return the indices of the rows that count: all or, if rows are a set, different ones.

        Args:
            side: one of the two tables.
            rows: the cells of its rows that are compared.
        """
        if self._rows is Rows.AS_SET:
            return side.first_of_equal(rows)
        return side.row_order

    def _count_shared_cells(self) -> list[Counter[int]]:
        """Return in how many cells each required column and each offered column agree at most.

        The list has a counter for each required column, by the position of the offered column.
        Offered columns that agree with it in no cell are left out.
        """
        # Count how often each value occurs in each column.
        self._budget.spend(sum(map(len, [*self.required.classes, *self.offered.classes])))
        offered_counts = [Counter(cells) for cells in self.offered.classes]
        required_counts = [
            Counter([cells[row] for row in self._expected_rows]) for cells in self.required.classes
        ]

        # A value can agree as often as it occurs in both columns.
        shared_by_position = []
        for required_count in required_counts:
            shared = Counter[int]()
            for column, offered_count in enumerate(offered_counts):
                fewer = min(len(required_count), len(offered_count))
                self._budget.spend(STEPS_PER_COLUMN_PAIR + fewer // VALUES_PER_STEP)
                common = required_count.keys() & offered_count.keys()
                if common:
                    self._budget.spend(len(common))
                    required_times = [required_count[value] for value in common]
                    offered_times = [offered_count[value] for value in common]
                    shared[column] = sum(map(min, required_times, offered_times))
            shared_by_position.append(shared)
        return shared_by_position

    def _rank_candidates(self, position: int) -> list[int]:
        """Return the positions of all actual columns, the likeliest partner of a column first.

        The likeliest partner shares most cells with the required column. Among actual columns that
        share as many cells, one of the same name comes first.

        Args:
            position: the position of the required column.
        """
        name = self.required.columns[position].name
        shared = self._shared[position]
        return sorted(
            range(len(self.offered.columns)),
            key=lambda column: (-shared[column], self.offered.columns[column].name != name),
        )

    def _pair_columns_by_name(self) -> tuple[int | None, ...]:
        """Return the actual column of the same name for each required column.

        A required column without a namesake gets the free actual column that shares most cells with
        it; None if no actual column is free.
        """
        column_by_name = {column.name: index for index, column in enumerate(self.offered.columns)}
        partners = [column_by_name.get(column.name) for column in self.required.columns]
        taken = set(partners)
        for position in self._order:
            if partners[position] is not None:
                continue
            free = [column for column in self._candidates[position] if column not in taken]
            if free:
                partners[position] = free[0]
                taken.add(free[0])
        return tuple(partners)

    def try_others(self, chosen: Sequence[int | None] = ()) -> None:
        """Try all pairings of columns that may be better than the best one, depth first.

        Whenever a pairing is better than `best`, it becomes `best`.

        Args:
            chosen: the partners of the first columns in `_order`, which all these pairings have in
                common.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice to try all pairings, or there are
                too many columns.
        """
        if len(self._order) > MOST_COLUMNS:
            raise ComparisonBudgetExceeded("too many columns to try more than one pairing")
        if len(chosen) == len(self._order):
            # Each column has its partner, so the rows can be paired.
            partner_by_position = dict(zip(self._order, chosen, strict=True))
            partners = tuple(partner_by_position[position] for position in range(len(chosen)))
            # The pairing by name was tried at the beginning.
            if partners != self._partners_by_name:
                self._keep_if_better(self._pair_rows(partners))
            return
        for column in self._choices(chosen):
            longer = [*chosen, column]
            if self._may_be_better(longer):
                self.try_others(longer)

    def _keep_if_better(self, pairing: Pairing) -> None:
        """Make a pairing the best one if its score is greater."""
        cells = pairing.cells
        # This compares the scores, cells / height, without divisions: widths are equal.
        if cells * self.best.height > self._best_cells * pairing.height:
            self.best = pairing
            self._best_cells = cells

    def _choices(self, chosen: Sequence[int | None]) -> Iterator[int | None]:
        """Yield the partners to try for the next required column in `_order`, the likeliest first.

        None, for no partner, comes last, and only if there are fewer actual columns than required.

        Args:
            chosen: the partners of the first columns in `_order`.
        """
        taken = set(chosen)
        tried = set[int]()
        next_position = self._order[len(chosen)]
        for column in self._candidates[next_position]:
            # Of actual columns with equal cells, it is enough to try one.
            first_equal = self._first_equal[column]
            if column not in taken and first_equal not in tried:
                tried.add(first_equal)
                yield column
        # Only as many columns go without a partner as there are too many of them.
        number_without_partner = [*chosen].count(None)
        if len(self._order) - number_without_partner > len(self.offered.columns):
            yield None

    def _may_be_better(self, chosen: Sequence[int | None]) -> bool:
        """Return whether a pairing that begins with `chosen` may have a greater F1 than `best`.

        F1 is proportional to the number of agreeing cells, divided by the number of rows on both
        sides. So a greatest number of cells and a least number of rows give its upper bound.

        Args:
            chosen: the partners of the first columns in `_order`.
        """
        self._budget.spend(STEPS_PER_COLUMN_PAIR + len(chosen))
        column_pairs = [
            (position, column)
            for position, column in zip(self._order, chosen, strict=False)
            if column is not None
        ]

        # Paired columns agree in no more cells than they share, and a row in no more cells than the
        # narrower table has columns.
        shared_cells = sum(self._shared[position][column] for position, column in column_pairs)
        most_cells = shared_cells + self._most_in_others[len(chosen)]
        width = min(len(self.required.columns), len(self.offered.columns))
        expected_height = len(self._expected_rows)
        most_cells = min(most_cells, expected_height * width)

        # Of a set, only different rows count. Their number, to which further columns may add, is at
        # least that of the different cells in any column, and enough for `most_cells`.
        least_actual_height = self.offered.height
        if self._rows is Rows.AS_SET:
            different_cells = [self._different_cells[column] for _, column in column_pairs]
            # This is most_cells / width, rounded up.
            rows_for_most_cells = -(-most_cells // max(width, 1))
            least_actual_height = max([rows_for_most_cells, *different_cells])
        most_cells = min(most_cells, least_actual_height * width)

        # This compares the two quotients without divisions.
        least_height = expected_height + least_actual_height
        return most_cells * self.best.height > self._best_cells * least_height

    def _pair_rows(self, partners: tuple[int | None, ...]) -> Pairing:
        """Return a pairing of columns together with the rows that are paired because of it.

        Args:
            partners: the actual column for each required column; None if it has no partner.
        """
        positions = [position for position, column in enumerate(partners) if column is not None]
        columns = [column for column in partners if column is not None]
        expected_cells = self.required.rows_of(positions)
        actual_cells = self.offered.rows_of(columns)
        expected_rows = self._expected_rows
        actual_rows = self._rows_that_count(self.offered, actual_cells)
        heights = self.required.height + self.offered.height
        self._budget.spend(STEPS_PER_PAIRING + heights * len(columns))
        if not columns or not expected_rows or not actual_rows:
            return Pairing(partners, expected_rows, actual_rows, row_pairs=[])

        expected = [expected_cells[row] for row in expected_rows]
        actual = [actual_cells[row] for row in actual_rows]
        if self._rows is Rows.IN_ORDER:
            pairs = pair_in_order(expected, actual, self._budget)
        else:
            pairs = pair_rows(expected, actual, self._budget)
        # These pairs have positions in the lists of rows that count; return indices of all rows.
        row_pairs = [
            Pair(expected_rows[pair.expected], actual_rows[pair.actual], pair.cells)
            for pair in pairs
        ]
        return Pairing(partners, expected_rows, actual_rows, row_pairs)

    def tell_blank_nodes_apart(self) -> None:
        """Pair the rows of the best pairing again, so that only blank nodes that correspond agree.

        Until now, all blank nodes agreed. This changes their classes in `required` and `offered`.
        """
        partners = self.best.partners
        pairs = [
            PairedColumn(
                expected=self.required.columns[position],
                expected_classes=self.required.classes[position],
                actual=self.offered.columns[column],
                actual_classes=self.offered.classes[column],
            )
            for position, column in enumerate(partners)
            if column is not None
        ]
        if not pairs:
            return
        labels = shared_labels(pairs, rows=self._rows, budget=self._budget)
        self.required = _with_labels_as_classes(self.required, labels.expected)
        self.offered = _with_labels_as_classes(self.offered, labels.actual)
        self._expected_rows = self._rows_that_count(
            self.required, self.required.rows_of(range(len(self.required.columns)))
        )
        self.best = self._pair_rows(partners)
        self._best_cells = self.best.cells


def _with_labels_as_classes(side: Side, new_labels: Mapping[str, str]) -> Side:
    """Return the columns of a table with the new label of each blank node as its class.

    Args:
        side: the columns of the table.
        new_labels: the new label of a blank node by its label in the table.
    """
    new_classes: list[Classes] = []
    for column, classes in zip(side.columns, side.classes, strict=True):
        if column.labels is None:
            new_classes.append(classes)
            continue
        new_classes_of_column: list[Value] = []
        for label, cell_class in zip(column.labels, classes, strict=True):
            if label is None:
                new_classes_of_column.append(cell_class)
            else:
                # A blank node has no new label if it is only in columns without a partner, where
                # its class does not matter.
                new_classes_of_column.append(new_labels.get(label, "_:"))
        new_classes.append(new_classes_of_column)
    return replace(side, classes=new_classes)
