"""Partial credit for SPARQL results: F1 over rows and cells tells a nearly right query from a wrong one.

Each required column is paired with an actual column of its own, whatever the names. Module `row_pairs` pairs
the rows. With k required columns, m expected rows, n actual rows, and c cells in which paired rows agree,

    precision = c / (k n),   recall = c / (k m),   F1 = 2 c / (k (m + n)).

A row without a partner adds nothing to c. F1 is the harmonic mean of the other two:
https://en.wikipedia.org/wiki/F-score. Cells agree as in `compare`. If duplicates are ignored, equal rows of
the paired columns count once. A required column without a partner agrees in no row; other columns of the
actual results cost nothing, as in `compare`.

The score is that of the pairing of columns with the greatest F1, and 1 if and only if `compare` says 1. If
columns are so alike that `SEARCH_STEPS` do not suffice to try all pairings that may be better, it is that of
the best pairing tried: first columns of the same name, then those that share most values. Otherwise it is
exact, unless so many rows differ that `row_pairs` pairs them step by step.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.budget import STEPS_PER_CELL, STEPS_PER_PAIR, STEPS_PER_TABLES
from graphrag_eval_async.steps.sparql.comparison import agree_by_name, compare
from graphrag_eval_async.steps.sparql.row_pairs import Pair, RowPairing
from graphrag_eval_async.steps.sparql.sheets import columns_of, lay_out

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Column
    from graphrag_eval_async.steps.sparql.comparison import SparqlReference
    from graphrag_eval_async.steps.sparql.sheets import Sheet

SEARCH_STEPS = 4_000_000
"""Steps after which no more pairings of columns are tried. At least one is."""

_STEPS_PER_PAIRING = 200
_QUICK_STEPS_PER_CELL = 8
"""Cost of each cell on an event loop, besides what is granted: 2,500 alike cells may take tens of
milliseconds."""


class Partial(NamedTuple):
    """How far actual results agree with a reference.

    Attributes:
        precision, recall, f1: from 0 to 1; 1 if the results agree.
        required: the required columns.
        partners: the actual column that is paired with each; None for those without.
        pairs: the rows that are paired.
        missing: the expected rows without partner, by index.
        extra: the actual rows without partner, by index.
    """

    precision: float
    recall: float
    f1: float
    required: Sequence[Column] = ()
    partners: Sequence[Column | None] = ()
    pairs: Sequence[Pair] = ()
    missing: Sequence[int] = ()
    extra: Sequence[int] = ()


_EQUAL = Partial(1.0, 1.0, 1.0)
_NOTHING = Partial(0.0, 0.0, 0.0)


def compare_in_part(reference: SparqlReference, actual: SparqlResults, budget: Budget) -> Partial:
    """Return how far the actual results agree with the reference."""
    if reference.results.boolean is not None or actual.boolean is not None:
        return _EQUAL if compare(reference, actual, budget) else _NOTHING
    if agree_by_name(reference, actual):
        return _EQUAL
    budget.pay(STEPS_PER_TABLES)
    expected = reference.results
    width, found = len(reference.names), min(len(actual.variables), len(reference.names))
    cells = expected.row_count * width + actual.row_count * max(found, len(actual.columns))
    if budget.quick:
        budget.spend(cells * _QUICK_STEPS_PER_CELL)
    with budget.granted(cells * STEPS_PER_CELL):
        search = _Search(reference, actual, budget)
        best = search.best()
    # A search that was cut short, and rows of a set that have several near rows, do not tell.
    if best.f1 < 1 and search.undecided and _agree(reference, actual, budget):
        return _EQUAL
    return best


def _agree(reference: SparqlReference, actual: SparqlResults, budget: Budget) -> bool:
    try:
        with budget.halved():
            return compare(reference, actual, budget) == 1
    except ComparisonBudgetExceeded:
        if budget.quick or budget.stopped:
            raise
        return False


_Chosen: TypeAlias = "dict[int, int | None]"
"""The actual column for each required one, by index; None for those without partner."""

_END = -1


class _Leaf(NamedTuple):
    """A pairing of columns: its pairs of rows, the actual rows, in how many cells the pairs agree, and how
    many rows there are, expected and actual ones together."""

    chosen: _Chosen
    pairs: list[Pair]
    rows: Sequence[int]
    cells: int
    height: int


class _Search:
    """Finds the pairing of columns with the greatest F1, by branch and bound.

    In how many cells two columns agree at most is how many values they share. A branch ends if its columns do
    not share enough to be better than the best pairing found.

    Attributes:
        undecided: whether results may agree with the reference though the score is below 1.
    """

    def __init__(self, reference: SparqlReference, actual: SparqlResults, budget: Budget) -> None:
        self._budget = budget
        self._ordered = reference.rows_as is list
        self._as_set = reference.rows_as is frozenset
        self._heights = reference.results.row_count, actual.row_count
        required = columns_of(reference.results, reference.names)
        spare = [name for name in actual.variables if name not in {each.name for each in actual.columns}]
        found = [*actual.columns, *columns_of(actual, spare[: len(required)])]
        self._wanted, self._found, self._values = lay_out(required, found, budget)
        self._size = min(len(required), len(found))
        self.undecided = self._as_set and any((*self._wanted.loose, *self._found.loose))
        self._rows = self._distinct(self._wanted, range(len(required)), self._heights[0])
        self._shared = self._count_shared()
        self._options = [self._ranked(place) for place in range(len(required))]
        self._alike = self._interchangeable()
        self._varieties = [len({*ids}) for ids in self._found.ids] if self._as_set else []
        self._order = sorted(
            range(len(required)), key=lambda place: -max(self._shared[place].values(), default=0)
        )
        self._best: _Leaf | None = None

    def _distinct(self, sheet: Sheet, chosen: Sequence[int], height: int) -> Sequence[int]:
        if not self._as_set:
            return range(height)
        self._budget.spend(height)
        return sheet.distinct(chosen, height)

    def _count_shared(self) -> list[Counter[int]]:
        """For each required column, in how many cells it agrees with each actual column at most."""
        budget, rows, height = self._budget, self._rows, self._heights[0]
        budget.spend(sum(len(ids) for ids in chain(self._wanted.ids, self._found.ids)))
        found = [Counter(ids) for ids in self._found.ids]
        shared: list[Counter[int]] = []
        for ids in self._wanted.ids:
            wanted = Counter(ids if len(rows) == height else map(ids.__getitem__, rows))
            own: Counter[int] = Counter()
            for column, counted in enumerate(found):
                budget.spend(1 + min(len(wanted), len(counted)) // 4)
                if common := wanted.keys() & counted.keys():
                    budget.spend(len(common))
                    counts = map(wanted.__getitem__, common), map(counted.__getitem__, common)
                    own[column] = sum(map(min, *counts))
            shared.append(own)
        return shared

    def _ranked(self, place: int) -> list[int]:
        """The actual columns for a required one: those that share most cells first, then its own name."""
        shared, name = self._shared[place], self._wanted.columns[place].name
        columns = self._found.columns
        self._budget.spend(len(columns))
        return sorted(range(len(columns)), key=lambda column: (-shared[column], columns[column].name != name))

    def _interchangeable(self) -> list[int]:
        """For each actual column the first with the same cells, since trying one of them is enough."""
        first: dict[Hashable, int] = {}
        return [
            first.setdefault((*ids, *column.cells()) if loose else (*ids,), index)
            for index, (column, ids, loose) in enumerate(
                zip(self._found.columns, self._found.ids, self._found.loose, strict=True)
            )
        ]

    def best(self) -> Partial:
        """Return the best pairing found."""
        before = self._budget.left
        first = self._by_name()
        self._try(first)
        chosen: dict[int, int | None] = {}
        trail = [self._choices(chosen)]
        while trail:
            if before - self._budget.left >= SEARCH_STEPS:
                self.undecided = True
                break
            column = next(trail[-1], _END)
            if column == _END:
                trail.pop()
                if trail:
                    chosen.popitem()
                continue
            chosen[self._order[len(chosen)]] = column
            if self._promises(chosen):
                if len(chosen) < len(self._order):
                    trail.append(self._choices(chosen))
                    continue
                if chosen != first:
                    self._try(chosen)
            chosen.popitem()
        return self._result()

    def _by_name(self) -> _Chosen:
        """The pairing of columns of the same names; others get the column that shares most."""
        places = {column.name: index for index, column in enumerate(self._found.columns)}
        chosen: _Chosen = {}
        for place, column in enumerate(self._wanted.columns):
            if column.name in places:
                chosen[place] = places[column.name]
        for place in self._order:
            if place not in chosen:
                taken = {*chosen.values()}
                chosen[place] = next((each for each in self._options[place] if each not in taken), None)
        return chosen

    def _choices(self, chosen: _Chosen) -> Iterator[int | None]:
        """The actual columns for the next required column; None to leave it without partner."""
        if len(chosen) == len(self._order):
            return
        taken, seen = {*chosen.values()}, set()
        paired = sum(column is not None for column in chosen.values())
        can_skip = paired + len(self._order) - len(chosen) > self._size
        for column in self._options[self._order[len(chosen)]]:
            if column not in taken and self._alike[column] not in seen:
                seen.add(self._alike[column])
                yield column
        if can_skip:
            yield None

    def _promises(self, chosen: _Chosen) -> bool:
        """Whether the columns that are paired so far may lead to a better score than the best one."""
        self._budget.spend(STEPS_PER_PAIR + len(self._order))
        columns = {column for column in chosen.values() if column is not None}
        cells = sum(self._shared[place][column] for place, column in chosen.items() if column is not None)
        for place in self._order[len(chosen) :]:
            cells += next(
                (self._shared[place][column] for column in self._options[place] if column not in columns), 0
            )
        expected, actual = len(self._rows), self._heights[1]
        cells = min(cells, expected * self._size)
        if self._as_set:
            fewest = max((self._varieties[column] for column in columns), default=0)
            actual = max(fewest, -(-cells // (self._size or 1)))
        cells = min(cells, actual * self._size)
        return self._best is None or cells * self._best.height > self._best.cells * (expected + actual)

    def _try(self, chosen: _Chosen) -> None:
        """Pair the rows, and keep the pairing if it is the best so far."""
        paired = {place: column for place, column in sorted(chosen.items()) if column is not None}
        places, columns = [*paired], [*paired.values()]
        rows = self._distinct(self._found, columns, self._heights[1])
        self._budget.spend(_STEPS_PER_PAIRING + (len(self._rows) + len(rows)) * len(places))
        loose = [
            index
            for index, (place, column) in enumerate(paired.items())
            if self._wanted.loose[place] or self._found.loose[column]
        ]
        pairs = []
        if places and self._rows and rows:
            pairing = RowPairing(
                self._wanted.side(places, self._rows, loose),
                self._found.side(columns, rows, loose),
                loose,
                self._values,
                ordered=self._ordered,
                budget=self._budget,
            )
            pairs = [Pair(self._rows[one], rows[other], cells) for one, other, cells in pairing.pairs()]
        cells, height = sum(pair.cells for pair in pairs), len(self._rows) + len(rows)
        if self._best is None or cells * self._best.height > self._best.cells * height:
            self._best = _Leaf(dict(chosen), pairs, rows, cells, height)

    def _result(self) -> Partial:
        best, wanted, found = self._best, self._wanted.columns, self._found.columns
        assert best is not None  # noqa: S101  (at least one pairing was tried)
        partners = [best.chosen[place] for place in range(len(wanted))]
        ours, theirs = {pair.expected for pair in best.pairs}, {pair.actual for pair in best.pairs}
        width = len(wanted)
        return Partial(
            _share(best.cells, width * len(best.rows)),
            _share(best.cells, width * len(self._rows)),
            _share(2 * best.cells, width * best.height),
            wanted,
            [None if column is None else found[column] for column in partners],
            sorted(best.pairs),
            [row for row in self._rows if row not in ours],
            [row for row in best.rows if row not in theirs],
        )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
