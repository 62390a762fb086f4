"""Whether SPARQL results agree with those of a reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from operator import ge
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.tables.columns import classes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.columns import Column, Value

    Classes: TypeAlias = Sequence[Value]
    """The cells of a column; see `classes_of`."""

_PROBE = 64
"""Number of rows tried before all rows: most wrong pairings of columns fail here."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference results and how to compare rows; made by `prepare_reference`.

    Attributes:
        names: the required columns.
        columns: those of them that are bound in at least one row.
        rows_as: what rows are compared as: a list if in order, a set, or a multiset.
        rows: the rows of `columns`, by value.
    """

    results: SparqlResults
    names: tuple[str, ...]
    columns: Sequence[Column]
    rows_as: type[list[Any] | frozenset[Any] | Counter[Any]]
    rows: Collection[tuple[Value, ...]]


def prepare_reference(
    results: SparqlResults, *, required_columns: Sequence[str] | None, ordered: bool, ignore_duplicates: bool
) -> Reference:
    """Make a reference that can be compared with any number of results.

    Args:
        results: results of the reference query.
        required_columns: variables that must match; all of them if None or empty.
        ordered: whether rows must be in the same order. Takes precedence over `ignore_duplicates`.
        ignore_duplicates: whether rows are compared as a set; otherwise as a multiset.

    Raises:
        MalformedStep: the results have a flaw that is only tolerated in an actual output, or a required
            column is repeated or is not a variable of the results. The message starts with the key.
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

    Each required column is paired with an actual column of its own, whatever the names, so that the rows
    agree as a set, as a multiset or in order. For cells, see `classes_of`.

    Raises:
        ComparisonBudgetExceeded: the tables are too large, or their columns too similar, to pair the columns
            within the budget, or it was stopped.
    """
    if reference.results.boolean is not None or actual.boolean is not None:
        return reference.results.boolean is actual.boolean
    if not _shapes_agree(reference, actual):
        return False
    if not reference.columns or agree_by_name(reference, actual):
        return True
    try:
        return _columns_pair(reference, actual, budget)
    except ComparisonBudgetExceeded as error:
        wanted = f"{len(reference.columns)} columns of {reference.results.row_count} rows"
        found = f"{len(actual.columns)} of {actual.row_count} in the actual output"
        raise ComparisonBudgetExceeded(f"{wanted}, {found}: {error}") from None


def _columns_pair(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    wanted, found = classes_of(reference.columns, actual.columns, budget)
    if not {*map(frozenset, found)}.issuperset(map(frozenset, wanted)):
        return False
    if reference.rows_as is list:
        return not Counter(map(tuple, wanted)) - Counter(map(tuple, found))
    names = [column.name for column in reference.columns], [column.name for column in actual.columns]
    if reference.rows_as is frozenset:
        rows, others = _distinct(wanted), _distinct(found)
        if len(rows[0]) != len(others[0]) and len(wanted[0]) == len(found[0]):
            # Rows that agree as multisets agree as sets; counting ends wrong branches sooner.
            with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
                if _Search(wanted, found, *names, budget).succeeds():
                    return True
        wanted, found = rows, others
    return len(wanted[0]) <= len(found[0]) and _Search(wanted, found, *names, budget).succeeds()


def agree_by_name(reference: Reference, actual: SparqlResults) -> bool:
    """Whether columns with the required names have equal values: sufficient to agree, common, and cheap."""
    if reference.results.boolean is not None or not _shapes_agree(reference, actual):
        return False
    columns = actual.named(column.name for column in reference.columns)
    return len(columns) == len(reference.columns) and reference.rows_as(_rows(columns)) == reference.rows


def lacks_columns(reference: Reference, actual: SparqlResults) -> bool:
    """Whether the actual results have too few columns, or too few that are bound in any row."""
    if reference.results.boolean is not None or actual.boolean is not None:
        return False
    return len(actual.columns) < len(reference.columns) or len(actual.variables) < len(reference.names)


def agree_but_for_order(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Whether results that do not agree with the reference would agree if the order of rows were ignored."""
    if reference.rows_as is not list:
        return False
    return agree(replace(reference, rows_as=Counter, rows=Counter(reference.rows)), actual, budget)


def _shapes_agree(reference: Reference, actual: SparqlResults) -> bool:
    """Whether there are enough rows and columns. Columns without bound cells can only be paired together."""
    wanted, found = reference.results.row_count, actual.row_count
    unbound = len(reference.names) - len(reference.columns)
    return (
        actual.boolean is None
        and len(actual.columns) >= len(reference.columns)
        and len(actual.variables) - len(actual.columns) >= unbound
        and (bool(wanted) == bool(found) if reference.rows_as is frozenset else wanted == found)
    )


def _distinct(columns: Sequence[Classes]) -> list[Classes]:
    """The columns without repeated rows."""
    return [*zip(*dict.fromkeys(zip(*columns, strict=True)), strict=True)]


@dataclass(slots=True)
class _Offer:
    """Actual columns with the same cells, since trying one of them is enough; `left` are not paired yet."""

    cells: tuple[Value, ...]
    names: set[str]
    left: int = 0


class _Search:
    """Pairs each required column with an actual one, so that the rows agree in any order.

    If there are as many rows on both sides, they must agree as multisets; rows of sets are distinct, so that
    these agree as sets then, too. If there are more actual rows, each expected row needs one or more of them.
    The pairing grows column by column, depth first. A branch ends as soon as the rows' projections differ.
    """

    def __init__(
        self,
        wanted: Sequence[Classes],
        found: Sequence[Classes],
        wanted_names: Sequence[str],
        found_names: Sequence[str],
        budget: Budget,
    ) -> None:
        self._wanted, self._names, self._budget = wanted, wanted_names, budget
        self._heights = len(wanted[0]), len(found[0])
        self._offers: dict[Hashable, dict[Classes, _Offer]] = defaultdict(dict)
        for cells, name in zip(found, found_names, strict=True):
            key = tuple(cells)
            offer = self._offers[self._signature(cells)].setdefault(key, _Offer(key, set()))
            offer.names.add(name)
            offer.left += 1
        self._signatures = [self._signature(cells) for cells in wanted]

    def _signature(self, cells: Classes) -> Hashable:
        """What columns have in common that can be paired."""
        self._budget.spend(len(cells))
        different = frozenset(cells)
        if self._heights[0] != self._heights[1] or len(different) == len(cells):
            return different
        return frozenset(Counter(cells).items())

    def succeeds(self) -> bool:
        for signature, number in Counter(self._signatures).items():
            if number > sum(offer.left for offer in self._offers[signature].values()):
                return False
        choices = [[*self._offers[signature].values()] for signature in self._signatures]
        forced = [place for place, offers in enumerate(choices) if len(offers) == 1]
        # Varied columns with few choices distinguish most rows, which leaves few options for the others.
        free = sorted(
            (place for place, offers in enumerate(choices) if len(offers) > 1),
            key=lambda place: (len(choices[place]), -len({*self._wanted[place]})),
        )
        level = self._level([0] * self._heights[0], forced)
        start = level.admit([0] * self._heights[1], [choices[place][0].cells for place in forced])
        return start is not None and self._extend(level, start, [(place, choices[place]) for place in free])

    def _extend(self, level: _Level, numbers: list[int], free: Sequence[tuple[int, list[_Offer]]]) -> bool:
        """Whether the free columns can be paired, too, given the numbers of the actual rows."""
        levels, trail, chosen = [level], [(numbers, self._ranked(*free[0]))] if free else [], list[_Offer]()
        while trail:
            numbers, offers = trail[-1]
            offer = next(offers, None)
            if offer is None:
                trail.pop()
                if chosen:
                    chosen.pop().left += 1
                continue
            depth = len(trail)
            if depth == len(levels):
                levels.append(self._level(levels[-1].numbers, [free[depth - 1][0]]))
            admitted = levels[depth].admit(numbers, [offer.cells])
            if admitted is None:
                continue
            if depth == len(free):
                return True
            offer.left -= 1
            chosen.append(offer)
            trail.append((admitted, self._ranked(*free[depth])))
        return not free

    def _ranked(self, place: int, offers: list[_Offer]) -> Iterator[_Offer]:
        """The offers that are left, those with the name of the required column first."""
        self._budget.spend(len(offers))
        name = self._names[place]
        return (offer for offer in sorted(offers, key=lambda each: name not in each.names) if offer.left)

    def _level(self, numbers: Sequence[int], places: Sequence[int]) -> _Level:
        exact = self._heights[0] == self._heights[1]
        return _Level(numbers, [self._wanted[place] for place in places], self._budget, exact=exact)


class _Level:
    """The expected rows in the columns that are paired up to some depth, each known by a number.

    It adds columns to the `numbers` of the level above. `exact`: whether of each number there must be as many
    actual rows, otherwise at least as many.
    """

    def __init__(
        self, numbers: Sequence[int], added: Sequence[Classes], budget: Budget, *, exact: bool
    ) -> None:
        budget.spend(len(numbers) * (1 + len(added)))
        rows = list(zip(numbers, *added, strict=True))
        self._number_of = dict(zip(dict.fromkeys(rows), count()))
        self.numbers = list(map(self._number_of.__getitem__, rows))
        self._counts = Counter(self.numbers)
        self._exact = exact
        self._budget = budget

    def admit(self, numbers: Sequence[int], added: Sequence[Classes]) -> list[int] | None:
        """The actual rows, numbered as the expected ones are; None where the two cannot agree."""
        self._budget.spend((1 + len(added)) * min(_PROBE, len(numbers)))
        first = islice(zip(numbers, *added, strict=True), _PROBE)
        if not all(map(self._number_of.__contains__, first)):
            return None
        self._budget.spend((1 + len(added)) * len(numbers))
        found = list(map(self._number_of.get, zip(numbers, *added, strict=True)))
        counts = Counter(found)
        if self._exact:
            agrees = counts == self._counts
        else:
            enough = map(ge, map(counts.__getitem__, self._counts), self._counts.values())
            agrees = None not in counts and all(enough)
        return cast("list[int]", found) if agrees else None
