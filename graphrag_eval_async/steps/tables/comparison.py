"""Whether SPARQL results agree with those of a reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.tables.blank_cells import (
    PairedColumn,
    blank_nodes_correspond,
    has_blank_nodes,
)
from graphrag_eval_async.steps.tables.classes import classify_cells

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.columns import Column, Value

    Classes: TypeAlias = Sequence[Value]
    """The cells of a column; see `classify_cells`."""

    _Level: TypeAlias = tuple[dict[tuple[Any, ...], int], list[int], Counter[int]]
    """The number of each different row, of each expected row, and how many there are of each."""

_MOST_FREE = 300  # Columns that each may be paired in several ways, up to which pairings are tried.
_STEPS_PER_PAIRING = 2_000
"""Steps for a pairing of columns with blank nodes, besides those for its cells."""

_STEPS_PER_CELL = 10
"""Steps for a cell of such a pairing."""

_PROBE = 64  # Number of rows tried before all rows: most wrong pairings of columns fail here.


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference results and how to compare rows; made by `prepare_reference`."""

    results: SparqlResults
    names: tuple[str, ...]  # The required columns.
    columns: Sequence[Column]  # Those of them that are bound in at least one row.
    # A list if in order, a set, or a multiset.
    rows_as: type[list[Any] | frozenset[Any] | Counter[Any]]
    rows: Collection[tuple[Value, ...]]  # Of `columns`, by value.


def prepare_reference(
    results: SparqlResults,
    *,
    required_columns: Sequence[str] | None,
    ordered: bool,
    ignore_duplicates: bool,
) -> Reference:
    """Make a reference that can be compared with any number of results, or raise `MalformedStep`.

    Without `required_columns`, all variables must match; `ordered` takes precedence over
    `ignore_duplicates`.
    """
    if results.flaw:
        raise MalformedStep(f"output: not SPARQL JSON: {results.flaw}")
    names = tuple(required_columns or results.variables)
    check_required(names)
    if unknown := dict.fromkeys(names).keys() - results.variables:
        listed = ", ".join(map(repr, unknown))
        raise MalformedStep(f"required_columns: not among the variables of the output: {listed}")
    columns = results.named(names)
    rows_as = list if ordered else frozenset if ignore_duplicates else Counter
    return Reference(results, names, columns, rows_as, rows_as(_rows(columns)))


def check_required(columns: Sequence[str]) -> None:
    """Raise `MalformedStep` if a required column is repeated."""
    for name, times in Counter(columns).items():
        if times > 1:
            raise MalformedStep(f"required_columns: {name!r} is repeated")


def _rows(columns: Sequence[Column]) -> Iterator[tuple[Value, ...]]:
    return zip(*(column.values for column in columns), strict=True)


def agree(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Whether the actual results have the required columns of the reference, compared by value.

    Each required column is paired with an actual column of its own, whatever the names, so that the
    rows agree as a set, as a multiset or in order. For cells, see `classify_cells`.
    """
    if reference.results.boolean is not None or actual.boolean is not None:
        return reference.results.boolean is actual.boolean
    if not _shapes_agree(reference, actual):
        return False
    try:
        if not reference.columns or agree_by_name(reference, actual, budget):
            return True
        ways = classify_cells(reference.columns, actual.columns, budget)
        return any(_columns_pair(reference, actual, *way, budget) for way in ways)
    except ComparisonBudgetExceeded as error:
        wanted = f"{len(reference.columns)} columns of {reference.results.row_count} rows"
        found = f"{len(actual.columns)} of {actual.row_count} in the actual output"
        raise ComparisonBudgetExceeded(f"{wanted}, {found}: {error}") from None


def _columns_pair(
    reference: Reference,
    actual: SparqlResults,
    wanted: Sequence[Classes],
    found: Sequence[Classes],
    budget: Budget,
) -> bool:
    if not {*map(frozenset, found)}.issuperset(map(frozenset, wanted)):
        return False
    if has_blank_nodes(reference.columns):
        return _columns_with_blank_nodes_pair(reference, actual, wanted, found, budget)
    if reference.rows_as is list:
        return not Counter(map(tuple, wanted)) - Counter(map(tuple, found))
    names = (
        [column.name for column in reference.columns],
        [column.name for column in actual.columns],
    )
    if reference.rows_as is frozenset:
        rows, others = _distinct(wanted), _distinct(found)
        if len(rows[0]) != len(others[0]) and len(wanted[0]) == len(found[0]):
            # Rows that agree as multisets agree as sets; counting ends wrong branches sooner.
            with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
                if _Search(wanted, found, names, budget).succeeds():
                    return True
        wanted, found = rows, others
    return len(wanted[0]) <= len(found[0]) and _Search(wanted, found, names, budget).succeeds()


def _columns_with_blank_nodes_pair(
    reference: Reference,
    actual: SparqlResults,
    wanted: Sequence[Classes],
    found: Sequence[Classes],
    budget: Budget,
) -> bool:
    """Return whether columns can be paired so that some renaming of blank nodes makes the rows
    equal.

    Columns that are alike but for their labels differ, so each way to pair them is tried, those of
    the same name first.
    """
    options: list[list[int]] = []
    for column, classes in zip(reference.columns, wanted, strict=True):
        alike = frozenset(classes)
        places = [place for place, other in enumerate(found) if frozenset(other) == alike]
        same_name = [place for place in places if actual.columns[place].name == column.name]
        options.append([*same_name, *(place for place in places if place not in same_name)])

    if len(options) > _MOST_FREE:
        raise ComparisonBudgetExceeded(f"blank nodes in more than {_MOST_FREE} columns")

    def rows_are_alike(chosen: list[int]) -> bool:
        """Return whether the columns chosen so far give equal rows, but for labels."""
        cells = len(chosen) * (len(wanted[0]) + len(found[0]))
        budget.spend(_STEPS_PER_PAIRING + _STEPS_PER_CELL * cells)
        expected_rows = zip(*wanted[: len(chosen)], strict=True)
        actual_rows = zip(*(found[other] for other in chosen), strict=True)
        return bool(reference.rows_as(expected_rows) == reference.rows_as(actual_rows))

    def complete(chosen: list[int]) -> bool:
        """Return whether the columns after those chosen can be paired, too."""
        if chosen and not rows_are_alike(chosen):
            return False
        if len(chosen) == len(options):
            pairs = [
                PairedColumn(
                    expected=reference.columns[place],
                    expected_classes=wanted[place],
                    actual=actual.columns[other],
                    actual_classes=found[other],
                )
                for place, other in enumerate(chosen)
            ]
            return blank_nodes_correspond(pairs, rows_as=reference.rows_as, budget=budget)
        for other in options[len(chosen)]:
            if other not in chosen and complete([*chosen, other]):
                return True
        return False

    return complete([])


def agree_by_name(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Whether columns with the required names have equal values: sufficient to agree, common,
    and cheap.
    """
    if reference.results.boolean is not None or not _shapes_agree(reference, actual):
        return False
    columns = actual.named(column.name for column in reference.columns)
    if len(columns) != len(reference.columns):
        return False
    if reference.rows_as(_rows(columns)) != reference.rows:
        return False
    if not has_blank_nodes(reference.columns):
        return True
    pairs = [
        PairedColumn(ours, ours.values, theirs, theirs.values)
        for ours, theirs in zip(reference.columns, columns, strict=True)
    ]
    return blank_nodes_correspond(pairs, rows_as=reference.rows_as, budget=budget)


def lacks_columns(reference: Reference, actual: SparqlResults) -> bool:
    """Whether the actual results have too few columns, or too few that are bound in any row."""
    if reference.results.boolean is not None or actual.boolean is not None:
        return False
    return len(actual.columns) < len(reference.columns) or len(actual.variables) < len(
        reference.names
    )


def agree_but_for_order(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Whether results that do not agree with the reference would agree if the order of rows were
    ignored.
    """
    if reference.rows_as is not list:
        return False
    return agree(replace(reference, rows_as=Counter, rows=Counter(reference.rows)), actual, budget)


def _shapes_agree(reference: Reference, actual: SparqlResults) -> bool:
    """Whether there are enough rows and columns. Columns without bound cells can only be paired
    together.
    """
    wanted, found = reference.results.row_count, actual.row_count
    unbound = len(reference.names) - len(reference.columns)
    return (
        actual.boolean is None
        and len(actual.columns) >= len(reference.columns)
        and len(actual.variables) - len(actual.columns) >= unbound
        and bool(
            reference.names or not (wanted and actual.columns)
        )  # Rows of nothing are not any rows.
        and (bool(wanted) == bool(found) if reference.rows_as is frozenset else wanted == found)
    )


def _distinct(columns: Sequence[Classes]) -> list[Classes]:
    """The columns without repeated rows."""
    return [*zip(*dict.fromkeys(zip(*columns, strict=True)), strict=True)]


class _Search:
    """Pairs each required column with an actual one, so that the rows agree in any order.

    If there are as many rows on both sides, they must agree as multisets; rows of sets are
    distinct, so that these agree as sets then, too. If there are more actual rows, each expected
    row needs one or more of them. The pairing grows column by column, depth first. A branch ends as
    soon as the rows' projections differ: each expected row has a number, by the columns that are
    paired so far, and so have actual rows like it.
    """

    def __init__(
        self,
        wanted: Sequence[Classes],
        found: Sequence[Classes],
        names: tuple[Sequence[str], Sequence[str]],
        budget: Budget,
    ) -> None:
        self._wanted, self._budget, self._names = wanted, budget, names[0]
        self._heights = len(wanted[0]), len(found[0])
        same: dict[Classes, list[str]] = defaultdict(list)
        for cells, name in zip(found, names[1], strict=True):
            same[tuple(cells)].append(name)
        self._offers = [*same.items()]
        """Different columns of cells, and the names that each has: trying one of them is enough."""

    def _signature(self, cells: Classes) -> Hashable:
        """What columns have in common that can be paired."""
        self._budget.spend(len(cells))
        different = frozenset(cells)
        if self._heights[0] != self._heights[1] or len(different) == len(cells):
            return different
        return frozenset(Counter(cells).items())

    def succeeds(self) -> bool:
        offers: dict[Hashable, list[int]] = defaultdict(list)
        for offer, (cells, _) in enumerate(self._offers):
            offers[self._signature(cells)].append(offer)
        signatures = [*map(self._signature, self._wanted)]
        for signature, number in Counter(signatures).items():
            if number > sum(len(self._offers[offer][1]) for offer in offers[signature]):
                return False
        choices = [offers[signature] for signature in signatures]
        forced = [place for place, own in enumerate(choices) if len(own) == 1]
        # Varied columns with few choices distinguish most rows, which leaves few options for the
        # others.
        free = sorted(
            (place for place, own in enumerate(choices) if len(own) > 1),
            key=lambda place: (len(choices[place]), -len({*self._wanted[place]})),
        )
        if len(free) > _MOST_FREE:
            raise ComparisonBudgetExceeded(f"more than {_MOST_FREE} columns look alike")
        self._levels = [self._level([0] * self._heights[0], forced)]
        theirs = self._admitted(
            0, [0] * self._heights[1], [self._offers[choices[place][0]][0] for place in forced]
        )
        return theirs is not None and self._extends(theirs, free, choices, Counter())

    def _extends(
        self, theirs: list[int], free: list[int], choices: list[list[int]], taken: Counter[int]
    ) -> bool:
        """Whether the free columns can be paired, too, given the numbers of the actual rows."""
        depth = taken.total()
        if depth == len(free):
            return True
        place = free[depth]
        if depth + 1 == len(self._levels):
            self._levels.append(self._level(self._levels[-1][1], [place]))
        self._budget.spend(len(choices[place]))
        for offer in sorted(
            choices[place], key=lambda own: self._names[place] not in self._offers[own][1]
        ):
            cells, names = self._offers[offer]
            if taken[offer] < len(names):
                admitted = self._admitted(depth + 1, theirs, [cells])
                if admitted is not None and self._extends(
                    admitted, free, choices, taken + Counter([offer])
                ):
                    return True
        return False

    def _level(self, numbers: Sequence[int], places: Sequence[int]) -> _Level:
        """Number the expected rows by their numbers so far and by more columns."""
        self._budget.spend(len(numbers) * (1 + len(places)))
        rows = [*zip(numbers, *(self._wanted[place] for place in places), strict=True)]
        number_of = dict(zip(dict.fromkeys(rows), count()))
        found = [*map(number_of.__getitem__, rows)]
        return number_of, found, Counter(found)

    def _admitted(
        self, depth: int, numbers: list[int], added: Sequence[Classes]
    ) -> list[int] | None:
        """The actual rows, numbered as the expected ones are; None where the two cannot agree."""
        number_of, _, wanted = self._levels[depth]
        self._budget.spend((1 + len(added)) * min(_PROBE, len(numbers)))
        first = islice(zip(numbers, *added, strict=True), _PROBE)
        if not all(map(number_of.__contains__, first)):
            return None
        self._budget.spend((1 + len(added)) * len(numbers))
        found = [*map(number_of.get, zip(numbers, *added, strict=True))]
        counts = Counter(found)
        same = counts == wanted if self._heights[0] == self._heights[1] else counts >= wanted
        return cast("list[int]", found) if same and None not in counts else None
