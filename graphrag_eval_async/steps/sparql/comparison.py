"""Comparison of SPARQL results, for step scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.sparql.budget import (
    STEPS_PER_CELL,
    STEPS_PER_LOOSE_CELL,
    STEPS_PER_PAIR,
    STEPS_PER_TABLES,
)
from graphrag_eval_async.steps.sparql.columns import Classes, check_hashes, near
from graphrag_eval_async.steps.sparql.rows import Matching
from graphrag_eval_async.steps.sparql.search import Task, agree_unordered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Column, Value
    from graphrag_eval_async.steps.sparql.rows import Row


@dataclass(frozen=True, slots=True)
class SparqlReference:
    """Reference results, the required columns, and how to compare rows; made by `prepare_reference`.

    `names` are the required columns; `required` are those of them that are bound in at least one row, and
    `unbound` counts the others.
    """

    results: SparqlResults
    names: tuple[str, ...]
    required: tuple[str, ...]
    unbound: int
    rows_as: type[list[Any] | frozenset[Any] | Counter[Any]]
    rows: Collection[tuple[Value, ...]]


def prepare_reference(
    results: SparqlResults,
    *,
    required_columns: Sequence[str] | None,
    ordered: bool,
    ignore_duplicates: bool,
) -> SparqlReference:
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
    required = tuple(required_columns or results.variables)
    check_required(required)
    if unknown := dict.fromkeys(required).keys() - results.variables:
        raise MalformedStep(
            f"required_columns: not among the variables of the output: {', '.join(map(repr, unknown))}"
        )
    columns = results.named(required)
    names = tuple(column.name for column in columns)
    rows_as = list if ordered else frozenset if ignore_duplicates else Counter
    unbound = len(required) - len(names)
    return SparqlReference(results, required, names, unbound, rows_as, rows_as(_rows(columns)))


def check_required(columns: Sequence[str]) -> None:
    """Raise `MalformedStep` if a required column is repeated."""
    for name, times in Counter(columns).items():
        if times > 1:
            raise MalformedStep(f"required_columns: {name!r} is repeated")


def _rows(columns: Sequence[Column]) -> Iterator[tuple[Value, ...]]:
    return zip(*(column.values for column in columns), strict=True)


def compare(reference: SparqlReference, actual: SparqlResults, budget: Budget) -> float:
    """1.0 if the actual results have the required columns of the reference, compared by value; else 0.0.

    Each required column is paired with an actual column of its own, whatever the names, so that the rows
    agree as a set, as a multiset or in order. Cells of numeric types agree when within 1e-8, relative or
    absolute, or equal where both are integers; booleans by truth; unbound cells with each other; and all
    other pairs of cells when their texts are equal.

    Args:
        budget: steps that all comparisons of one response may spend in total, in addition to some steps
            granted for each cell.

    Raises:
        ComparisonBudgetExceeded: the columns or rows are too similar to pair them within the budget, or the
            budget was stopped.
    """
    expected = reference.results
    if expected.boolean is not None or actual.boolean is not None:
        return float(expected.boolean is actual.boolean)
    if not _shapes_agree(reference, actual):
        return 0.0
    if not reference.required:
        return 1.0
    return float(_same_by_name(reference, actual) or _tables_agree(reference, actual, budget))


def agree_by_name(reference: SparqlReference, actual: SparqlResults) -> bool:
    """Whether tables agree with columns of the same names, without a search; False does not tell."""
    if not _shapes_agree(reference, actual):
        return False
    return not reference.required or _same_by_name(reference, actual)


def lacks_columns(reference: SparqlReference, actual: SparqlResults) -> bool:
    """Whether the actual results have too few columns, or too few that are bound in any row."""
    if reference.results.boolean is not None or actual.boolean is not None:
        return False
    required = len(reference.required)
    return len(actual.columns) < required or len(actual.variables) < required + reference.unbound


def agree_but_for_order(reference: SparqlReference, actual: SparqlResults, budget: Budget) -> bool:
    """Whether results that do not agree with the reference would agree if the order of rows were ignored."""
    if reference.rows_as is not list or not _shapes_agree(reference, actual):
        return False
    in_any_order = replace(reference, rows_as=Counter, rows=Counter(reference.rows))
    return compare(in_any_order, actual, budget) == 1


def _shapes_agree(reference: SparqlReference, actual: SparqlResults) -> bool:
    """Whether there are enough rows and columns. Columns without bound cells can only be paired together."""
    wanted, found = reference.results.row_count, actual.row_count
    return (
        len(actual.columns) >= len(reference.required)
        and len(actual.variables) - len(actual.columns) >= reference.unbound
        and (bool(wanted) == bool(found) if reference.rows_as is frozenset else wanted == found)
    )


def _same_by_name(reference: SparqlReference, actual: SparqlResults) -> bool:
    """Whether columns with the required names have equal values: sufficient to agree, common, and cheap."""
    columns = actual.named(reference.required)
    if len(columns) < len(reference.required):
        return False
    rows = list(_rows(columns))
    if reference.rows_as is not list:
        check_hashes(rows)
    return reference.rows_as(rows) == reference.rows


def _tables_agree(reference: SparqlReference, actual: SparqlResults, budget: Budget) -> bool:
    budget.pay(STEPS_PER_TABLES)
    expected = reference.results
    if expected.row_count != actual.row_count:  # as sets, or they would not agree
        expected, actual = expected.distinct(), actual.distinct()
    required = expected.named(reference.required)
    found = actual.columns
    cells = expected.row_count * len(required) + actual.row_count * len(found)
    try:
        with budget.granted(cells * STEPS_PER_CELL):
            classes = Classes([*required, *found], budget)
            if reference.rows_as is list:
                return _agree_in_order(required, found, classes, budget)
            return agree_unordered(required, found, Task(classes, budget, reference.rows_as is Counter))
    except ComparisonBudgetExceeded as error:
        raise ComparisonBudgetExceeded(
            f"{len(required)} columns of {expected.row_count} rows, {len(found)} of {actual.row_count} "
            f"in the actual output: {error}"
        ) from None


def _agree_in_order(
    required: Sequence[Column], actual: Sequence[Column], classes: Classes, budget: Budget
) -> bool:
    """Whether the required columns can be paired with actual columns that are near them in each row.

    No column depends on how the others are paired.
    """
    offered = _by_classes(actual, classes, budget)
    for ids, wanted in _by_classes(required, classes, budget).items():
        offers = offered[ids]
        if len(wanted) > len(offers):
            return False
        loose = [row for row, name in enumerate(ids) if name in classes.loose]
        if loose and not _pair_off(wanted, offers, loose, budget):
            return False
    return True


def _by_classes(
    columns: Sequence[Column], classes: Classes, budget: Budget
) -> dict[tuple[Value, ...], list[Column]]:
    grouped: dict[tuple[Value, ...], list[Column]] = defaultdict(list)
    budget.spend(sum(len(column.values) for column in columns))
    ids = [tuple(classes.of(column.values)) for column in columns]
    check_hashes(ids)
    for names, column in zip(ids, columns, strict=True):
        grouped[names].append(column)
    return grouped


def _pair_off(wanted: list[Column], offers: list[Column], loose: list[int], budget: Budget) -> bool:
    left, right = _count(wanted, budget), _count(offers, budget)

    def partners(cells: Row) -> Iterator[Row]:
        for other in right:
            budget.spend(len(loose) * STEPS_PER_PAIR)
            if all(near(cells[row], other[row]) for row in loose):
                yield other

    return Matching(left, right, partners, budget).saturates()


def _count(columns: Sequence[Column], budget: Budget) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for column in columns:
        budget.spend(len(column.values) * STEPS_PER_LOOSE_CELL)
        counts[tuple(column.cells())] += 1
    return counts
