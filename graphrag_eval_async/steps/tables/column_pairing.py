"""Looks for a pairing of columns under which two tables have equal rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.tables.blank_cells import (
    GroupedColumn,
    PairedColumn,
    blank_nodes_correspond,
    columns_and_blank_nodes_correspond,
    has_blank_nodes,
)
from graphrag_eval_async.steps.tables.rules import Rows

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.classes import CellClasses, Classes
    from graphrag_eval_async.steps.tables.rules import Reference

_MOST_ALIKE = 300
"""Maximum number of columns with several possible partners. With more, no pairing is tried.

The search calls itself for each of them.
"""

_STEPS_PER_PAIRING = 2_000
"""Steps for a pairing of columns with blank nodes, besides those for its cells."""

_STEPS_PER_CELL = 10
"""Steps for a cell of a pairing of columns with blank nodes."""

_FIRST_ROWS = 64
"""Number of rows tried before all rows: most wrong pairings of columns fail here."""


def find_partners(
    reference: Reference, actual: SparqlResults, classes: CellClasses, budget: Budget
) -> dict[str, str] | None:
    """Pair each required column with an actual column of its own, so that the rows are equal.

    Columns of the same name are paired if possible.

    Returns:
        the name of the actual column by that of the required column; empty if there are such pairs,
        but the budget did not suffice to find them out. None if no pairs make the rows equal.

    Args:
        reference: the reference, with at least one bound column.
        actual: the other table, with enough rows and columns to agree.
        classes: the class of each cell in both tables. Cells agree if their classes are equal.
        budget: what may be spent.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide.
    """
    # A quick check: each required column needs an actual column with the same set of cells.
    actual_contents = set(map(frozenset, classes.actual))
    if not all(frozenset(cells) in actual_contents for cells in classes.expected):
        return None
    if has_blank_nodes(reference.columns):
        return _BlankColumnSearch(reference, actual, classes, budget).find_partners()

    expected_cells = _NamedCells([column.name for column in reference.columns], classes.expected)
    actual_cells = _NamedCells([column.name for column in actual.columns], classes.actual)
    if reference.rules.rows is Rows.IN_ORDER:
        return _find_equal_columns(expected_cells, actual_cells)
    if reference.rules.rows is Rows.AS_SET:
        return _find_partners_for_sets(expected_cells, actual_cells, budget)
    return _ColumnSearch(expected_cells, actual_cells, budget).find_partners()


def _find_equal_columns(expected: _NamedCells, actual: _NamedCells) -> dict[str, str] | None:
    """Pair each required column with an actual column of the same cells in the same order.

    This suffices if the order of rows is fixed, since each column can then be compared alone.

    Returns:
        the name of the actual column by that of the required column; None if one has no partner.
    """
    offers = {offer.cells: offer for offer in _offers_of(actual)}
    required_cells = [tuple(cells) for cells in expected.columns]
    for cells, needed in Counter(required_cells).items():
        if cells not in offers or len(offers[cells].names) < needed:
            return None
    return _choose_names(expected.names, [offers[cells].names for cells in required_cells])


def _find_partners_for_sets(
    expected: _NamedCells, actual: _NamedCells, budget: Budget
) -> dict[str, str] | None:
    """Pair each required column with an actual column, so that the sets of rows are equal.

    Returns:
        the name of the actual column by that of the required column; None if there are no such
        pairs.
    """
    expected_once = expected.without_repeated_rows()
    actual_once = actual.without_repeated_rows()
    if expected.height == actual.height and expected_once.height != actual_once.height:
        # Rows that agree as multisets agree as sets, too, and a search that counts repeated rows
        # ends wrong branches sooner. If it fails, half of the budget remains for sets.
        with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
            partners = _ColumnSearch(expected, actual, budget).find_partners()
            if partners is not None:
                return partners
    # Different actual rows may become equal without the columns that have no partner. All expected
    # columns have one, so the different expected rows must not be more.
    if expected_once.height > actual_once.height:
        return None
    return _ColumnSearch(expected_once, actual_once, budget).find_partners()


class _NamedCells(NamedTuple):
    """The columns of a table: their names, and the equivalence classes of their cells."""

    names: Sequence[str]
    columns: Sequence[Classes]

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.columns[0])

    def without_repeated_rows(self) -> _NamedCells:
        """Return the same columns without the rows that are equal to an earlier row."""
        different_rows = dict.fromkeys(zip(*self.columns, strict=True))
        return _NamedCells(self.names, list(zip(*different_rows, strict=True)))


class _BlankColumnSearch:
    """Pairs columns with blank nodes, so that some renaming of the blank nodes makes rows equal.

    Several columns may differ only in the labels of their blank nodes. Which of them are partners
    can then be found out only from all columns together.
    """

    def __init__(
        self, reference: Reference, actual: SparqlResults, classes: CellClasses, budget: Budget
    ) -> None:
        """Prepare to pair the columns of two tables.

        Args:
            reference: the reference.
            actual: the other table.
            classes: the class of each cell in both tables. All blank nodes are of one class.
            budget: what may be spent.
        """
        self._expected = reference.columns
        self._actual = actual.columns
        self._classes = classes
        self._rows = reference.rules.rows
        self._budget = budget

    def find_partners(self) -> dict[str, str] | None:
        """Pair each required column with an actual column, so that the rows are equal.

        Returns:
            the same as the function `find_partners`.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice, or there are too many columns.
        """
        if len(self._expected) != len(self._actual):
            return self._search_partners()

        # Whether there are such pairs is decided much faster than by a search. The search only
        # finds out which columns they are, and must not use up the budget for that.
        if not self._all_columns_correspond():
            return None
        try:
            with self._budget.limited(self._budget.left // 2):
                return self._search_partners()
        except ComparisonBudgetExceeded:
            return {}

    def _search_partners(self) -> dict[str, str] | None:
        """Pair each required column with an actual column, by a search.

        Returns:
            the name of the actual column by that of the required column; None if no pairs make the
            rows equal.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice, or there are too many columns.
        """
        candidates = [self._find_candidates(position) for position in range(len(self._expected))]
        if len(candidates) > _MOST_ALIKE:
            raise ComparisonBudgetExceeded(
                f"not compared: blank nodes in more than {_MOST_ALIKE} columns"
            )
        # Wrong choices show early if columns with few candidates come first, then those that share
        # many blank nodes with others.
        order = sorted(
            range(len(candidates)),
            key=lambda position: (len(candidates[position]), -self._count_shared_labels(position)),
        )
        partners = self._pair_next({}, order=order, candidates=candidates)
        if partners is None:
            return None
        return {
            self._expected[position].name: self._actual[partner].name
            for position, partner in partners.items()
        }

    def _all_columns_correspond(self) -> bool:
        """Return whether all columns of two tables with as many columns can be paired."""
        # Only columns with the same set of cells, which are a group, can be paired.
        group_by_content: dict[frozenset[Any], int] = {}
        expected = []
        for column, cells in zip(self._expected, self._classes.expected, strict=True):
            group = group_by_content.setdefault(frozenset(cells), len(group_by_content))
            expected.append(GroupedColumn(column, cells, group))
        actual = []
        for column, cells in zip(self._actual, self._classes.actual, strict=True):
            group = group_by_content.setdefault(frozenset(cells), len(group_by_content))
            actual.append(GroupedColumn(column, cells, group))

        expected_sizes = Counter(column.group for column in expected)
        if expected_sizes != Counter(column.group for column in actual):
            return False
        return columns_and_blank_nodes_correspond(
            expected, actual, rows=self._rows, budget=self._budget
        )

    def _count_shared_labels(self, position: int) -> int:
        """Return how many blank nodes of a required column are also in other required columns."""
        labels_in_others: set[str | None] = set()
        for other, column in enumerate(self._expected):
            if other != position:
                labels_in_others.update(column.labels or ())
        labels = set(self._expected[position].labels or ())
        # Cells that are no blank node have None as their label.
        return len((labels & labels_in_others) - {None})

    def _find_candidates(self, position: int) -> list[int]:
        """Return the positions of the actual columns that may be partners of a required column.

        They have the same set of cells, apart from the labels of blank nodes. A column of the same
        name comes first.

        Args:
            position: the position of the required column.
        """
        content = frozenset(self._classes.expected[position])
        alike = [
            candidate
            for candidate, cells in enumerate(self._classes.actual)
            if frozenset(cells) == content
        ]
        name = self._expected[position].name
        return sorted(alike, key=lambda candidate: self._actual[candidate].name != name)

    def _pair_next(
        self, partners: dict[int, int], *, order: Sequence[int], candidates: Sequence[list[int]]
    ) -> dict[int, int] | None:
        """Return partners for all required columns; None if those without one cannot be paired.

        The search is depth first. All columns are given by their positions.

        Args:
            partners: the actual column for each of the first required columns in `order`.
            order: all required columns.
            candidates: the actual columns to try for each required column.
        """
        if len(partners) == len(order):
            return partners if self._rows_correspond(partners) else None
        position = order[len(partners)]
        # Check the columns that are paired before a choice. Those that have one candidate come
        # first in `order`, so they are checked only once, all together.
        has_choice = len(candidates[position]) > 1
        if partners and has_choice and not self._rows_correspond(partners):
            return None
        for candidate in candidates[position]:
            if candidate in partners.values():
                continue
            longer = {**partners, position: candidate}
            all_partners = self._pair_next(longer, order=order, candidates=candidates)
            if all_partners is not None:
                return all_partners
        return None

    def _rows_correspond(self, partners: dict[int, int]) -> bool:
        """Return whether some renaming of blank nodes makes the rows of paired columns equal.

        Args:
            partners: the position of the actual column by that of the required column. Other
                columns are not compared.
        """
        pairs = [
            PairedColumn(
                expected=self._expected[position],
                expected_classes=self._classes.expected[position],
                actual=self._actual[partner],
                actual_classes=self._classes.actual[partner],
            )
            for position, partner in partners.items()
        ]
        number_of_rows = len(self._classes.expected[0]) + len(self._classes.actual[0])
        self._budget.spend(_STEPS_PER_PAIRING + _STEPS_PER_CELL * number_of_rows * len(pairs))

        # A quick check: rows of classes must be equal. All blank nodes are of one class.
        expected_rows = zip(*(pair.expected_classes for pair in pairs), strict=True)
        actual_rows = zip(*(pair.actual_classes for pair in pairs), strict=True)
        if self._rows.collect(expected_rows) != self._rows.collect(actual_rows):
            return False
        return blank_nodes_correspond(pairs, rows=self._rows, budget=self._budget)


class _Level(NamedTuple):
    """The numbers of the expected rows. Rows that are equal in some columns have equal numbers."""

    numbers: list[int]
    """The number of each expected row."""

    number_by_row: dict[tuple[Any, ...], int]
    """The number of each different row, which is its number so far and the cells that are added."""

    counts: Counter[int]
    """How many expected rows have each number."""


class _Offer(NamedTuple):
    """The cells of an actual column, and the names of all columns that have these cells."""

    cells: Classes
    names: list[str]


def _offers_of(actual: _NamedCells) -> list[_Offer]:
    """Return the columns of a table, of which those with equal cells are one offer."""
    names_by_cells: dict[Classes, list[str]] = defaultdict(list)
    for name, cells in zip(actual.names, actual.columns, strict=True):
        names_by_cells[tuple(cells)].append(name)
    return [_Offer(cells, names) for cells, names in names_by_cells.items()]


def _choose_names(
    required_names: Sequence[str], offered_names: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Choose a different actual column for each required column: that of its name if possible.

    Args:
        required_names: the names of the required columns.
        offered_names: for each of them, the names of the actual columns that are right for it. They
            are enough for all required columns.

    Returns:
        the name of the actual column by that of the required column.
    """
    columns = list(zip(required_names, offered_names, strict=True))
    chosen = {name: name for name, offered in columns if name in offered}
    taken = set(chosen)
    for name, offered in columns:
        if name not in chosen:
            free_names = [offered_name for offered_name in offered if offered_name not in taken]
            chosen[name] = free_names[0]
            taken.add(free_names[0])
    return chosen


class _ColumnSearch:
    """Pairs each required column with an actual column, so that the rows agree in any order.

    If both tables have as many rows, the rows must agree as multisets. Rows of a set are all
    different, so they agree as a set then, too. If there are more actual rows, each expected row
    needs one or more of them.

    The pairing grows column by column, depth first. Each expected row has a number that stands for
    its cells in the columns that are paired so far, and an actual row has the number of the
    expected rows that it equals. A branch of the search ends as soon as an actual row equals none.
    """

    def __init__(self, expected: _NamedCells, actual: _NamedCells, budget: Budget) -> None:
        """Prepare to pair the columns of two tables.

        Args:
            expected: the required columns.
            actual: the actual columns, with at least as many rows.
            budget: what may be spent.
        """
        self._expected = expected
        self._actual_height = actual.height
        self._budget = budget
        # For each required column, the offers that it may be paired with, by index.
        self._candidates: list[list[int]] = []
        # The required columns that have several candidates, in the order in which they are paired.
        self._undecided: list[int] = []
        # The numbers of the expected rows in the decided columns; then also in the first undecided
        # column, and so on.
        self._levels: list[_Level] = []
        self._offers = _offers_of(actual)
        # The offer for each undecided column, once all columns are paired.
        self._chosen: dict[int, int] = {}

    @property
    def _compares_counts(self) -> bool:
        """Whether each row must occur as often in both tables."""
        return self._expected.height == self._actual_height

    def find_partners(self) -> dict[str, str] | None:
        """Pair each required column with an actual column, so that the rows agree.

        Returns:
            the name of the actual column by that of the required column; None if there are no such
            pairs.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice, or too many columns look alike.
        """
        offers_by_signature: dict[Hashable, list[int]] = defaultdict(list)
        for index, offer in enumerate(self._offers):
            offers_by_signature[self._signature(offer.cells)].append(index)
        signatures = [self._signature(cells) for cells in self._expected.columns]
        # A quick check: there must be enough actual columns of each signature.
        for signature, needed in Counter(signatures).items():
            offers = [self._offers[index] for index in offers_by_signature[signature]]
            available = sum(len(offer.names) for offer in offers)
            if needed > available:
                return None
        self._candidates = [offers_by_signature[signature] for signature in signatures]
        if not self._pair_columns():
            return None

        # A column that is not undecided has one candidate.
        offered_names = []
        for position, candidates in enumerate(self._candidates):
            offer = self._offers[self._chosen.get(position, candidates[0])]
            offered_names.append(offer.names)
        return _choose_names(self._expected.names, offered_names)

    def _signature(self, cells: Classes) -> Hashable:
        """Return a value that is equal for all columns that may be paired: the set of their cells.

        If rows are counted, and a cell is repeated, the set also says how often each cell occurs.
        """
        self._budget.spend(len(cells))
        different_cells = frozenset(cells)
        has_repeated_cells = len(different_cells) < len(cells)
        if not has_repeated_cells or not self._compares_counts:
            return different_cells
        return frozenset(Counter(cells).items())

    def _pair_columns(self) -> bool:
        """Return whether each required column can be paired with one of its candidates.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice, or too many columns look alike.
        """
        positions = range(len(self._candidates))
        decided = [position for position in positions if len(self._candidates[position]) == 1]
        undecided = [position for position in positions if len(self._candidates[position]) > 1]
        if len(undecided) > _MOST_ALIKE:
            raise ComparisonBudgetExceeded(
                f"not compared: more than {_MOST_ALIKE} columns look alike"
            )
        # Columns with few candidates and many different cells come first: few pairings of them are
        # tried, and they distinguish most rows, so that wrong ones fail early.
        undecided.sort(
            key=lambda position: (
                len(self._candidates[position]),
                -len(set(self._expected.columns[position])),
            )
        )
        self._undecided = undecided

        # Pair the columns that have one candidate, all at once, and then the others. At first, all
        # rows have the number 0.
        self._levels = [self._number_expected_rows([0] * self._expected.height, decided)]
        numbers = self._number_actual_rows(
            self._levels[0],
            [0] * self._actual_height,
            [self._offers[self._candidates[position][0]].cells for position in decided],
        )
        return numbers is not None and self._pair_next(numbers, Counter())

    def _pair_next(self, numbers: list[int], times_taken: Counter[int]) -> bool:
        """Return whether the undecided columns that have no partner yet can be paired, too.

        The search is depth first. Add their partners to `_chosen` if they can.

        Args:
            numbers: the numbers of the actual rows in the columns that are paired so far.
            times_taken: how many undecided columns are paired with each offer so far.
        """
        depth = times_taken.total()
        if depth == len(self._undecided):
            return True
        position = self._undecided[depth]
        # The numbers of the expected rows are the same in all branches of this depth.
        is_first_branch = depth + 1 == len(self._levels)
        if is_first_branch:
            level = self._number_expected_rows(self._levels[-1].numbers, [position])
            self._levels.append(level)

        # Try the candidates.
        self._budget.spend(len(self._candidates[position]))
        name = self._expected.names[position]
        same_name_first = sorted(
            self._candidates[position], key=lambda index: name not in self._offers[index].names
        )
        for index in same_name_first:
            offer = self._offers[index]
            if times_taken[index] == len(offer.names):
                # All actual columns with these cells are taken.
                continue
            new_numbers = self._number_actual_rows(self._levels[depth + 1], numbers, [offer.cells])
            if new_numbers is None:
                # With this column, the rows cannot agree.
                continue
            if self._pair_next(new_numbers, times_taken + Counter([index])):
                self._chosen[position] = index
                return True
        return False

    def _number_expected_rows(self, numbers: Sequence[int], positions: Sequence[int]) -> _Level:
        """Return new numbers of the expected rows after further columns are paired.

        Rows have the same new number if they had the same number, and are equal in these columns.

        Args:
            numbers: the number of each row so far.
            positions: the positions of the further columns.
        """
        self._budget.spend(len(numbers) * (1 + len(positions)))
        further_columns = [self._expected.columns[position] for position in positions]
        rows = list(zip(numbers, *further_columns, strict=True))
        different_rows = dict.fromkeys(rows)
        number_by_row = dict(zip(different_rows, count()))
        new_numbers = list(map(number_by_row.__getitem__, rows))
        return _Level(new_numbers, number_by_row, counts=Counter(new_numbers))

    def _number_actual_rows(
        self, level: _Level, numbers: list[int], further_columns: Sequence[Classes]
    ) -> list[int] | None:
        """Return, for each actual row, the new number of the expected rows that it equals.

        None is returned if the rows cannot agree in the columns that are paired: if an actual row
        equals no expected row, or if an expected row has too few actual rows that equal it.

        Args:
            level: the new numbers of the expected rows.
            numbers: the number of each actual row so far.
            further_columns: the cells of the actual columns that are paired on this level.
        """
        # Most wrong columns fail in the first rows.
        cells_in_row = 1 + len(further_columns)
        self._budget.spend(cells_in_row * min(_FIRST_ROWS, len(numbers)))
        first_rows = islice(zip(numbers, *further_columns, strict=True), _FIRST_ROWS)
        if not all(row in level.number_by_row for row in first_rows):
            return None

        # Then look at all rows.
        self._budget.spend(cells_in_row * len(numbers))
        rows = zip(numbers, *further_columns, strict=True)
        new_numbers = list(map(level.number_by_row.get, rows))
        counts = Counter(new_numbers)
        if None in counts:
            # An actual row equals no expected row.
            return None
        has_enough_rows = counts >= level.counts
        if not has_enough_rows:
            # An expected row occurs more often than the actual rows that equal it.
            return None
        if self._compares_counts and counts != level.counts:
            return None
        return cast("list[int]", new_numbers)
