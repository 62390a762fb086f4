"""The comparison of SPARQL results that step scores are made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.sparql.budget import SEARCH_STEPS, STEPS_PER_CELL, Budget
from graphrag_eval_async.steps.sparql.classes import Classes
from graphrag_eval_async.steps.sparql.ordered import agree_in_order
from graphrag_eval_async.steps.sparql.projection import Task
from graphrag_eval_async.steps.sparql.search import agree_unordered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from graphrag_eval_async.steps.sparql.columns import Column, Value
    from graphrag_eval_async.steps.sparql.results import SparqlResults


@dataclass(frozen=True, slots=True)
class SparqlReference:
    """Results to compare with, the columns that count, and how; made by `prepare_reference`."""

    results: SparqlResults
    required: tuple[str, ...]
    rows_as: type[list[Any] | frozenset[Any] | Counter[Any]]
    rows: Collection[tuple[Value, ...]]


def prepare_reference(
    results: SparqlResults,
    *,
    required_columns: Sequence[str] | None,
    ordered: bool,
    ignore_duplicates: bool,
) -> SparqlReference:
    """Make a reference that any number of results can be compared with.

    Args:
        results: what the reference query returned.
        required_columns: the variables that count; all of them where it is None or empty.
        ordered: the rows must come in the same order. Wins over `ignore_duplicates`.
        ignore_duplicates: the rows are a set; otherwise a multiset.

    Raises:
        MalformedStep: a required column is repeated or is no variable of the results.
    """
    variables = dict.fromkeys(column.name for column in results.columns)
    required = tuple(required_columns or variables)
    for name, times in Counter(required).items():
        if times > 1:
            raise MalformedStep(f"required_columns: {name!r} is repeated")
    if unknown := [name for name in required if name not in variables]:
        raise MalformedStep(
            f"required_columns: not among the variables of the output: {', '.join(map(repr, unknown))}"
        )
    rows_as = list if ordered else frozenset if ignore_duplicates else Counter
    return SparqlReference(results, required, rows_as, rows_as(_rows(results.named(required))))


def _rows(columns: Sequence[Column]) -> Iterator[tuple[Value, ...]]:
    return zip(*(column.values for column in columns), strict=True)


def compare(reference: SparqlReference, actual: SparqlResults, *, search_steps: int = SEARCH_STEPS) -> float:
    """1.0 where the actual results have the reference's required columns, by values, else 0.0.

    Each required column is paired with an actual column of its own, whatever the names, so that the rows
    agree as a set, as a multiset or in order. Cells of numeric types agree when within 1e-8, relative or
    absolute, or equal where both are integers; booleans by truth; unbound cells with each other; and all
    other pairs of cells when their texts are equal.

    Raises:
        ComparisonBudgetExceeded: the columns, or rows, look too much alike to pair them within `search_steps`
            and some steps for each cell.
    """
    expected = reference.results
    if expected.boolean is not None or actual.boolean is not None:
        return float(expected.boolean is actual.boolean)
    if len(actual.columns) < len(reference.required) or not _row_counts_agree(reference, actual):
        return 0.0
    if not actual.row_count or not reference.required:
        return 1.0
    return float(_same_by_name(reference, actual) or _tables_agree(reference, actual, search_steps))


def _row_counts_agree(reference: SparqlReference, actual: SparqlResults) -> bool:
    wanted, found = reference.results.row_count, actual.row_count
    return bool(wanted) == bool(found) if reference.rows_as is frozenset else wanted == found


def _same_by_name(reference: SparqlReference, actual: SparqlResults) -> bool:
    """Whether columns of the required names have equal values: not needed to agree, but common and cheap."""
    columns = actual.named(reference.required)
    return len(columns) == len(reference.required) and reference.rows_as(_rows(columns)) == reference.rows


def _tables_agree(reference: SparqlReference, actual: SparqlResults, search_steps: int) -> bool:
    expected = reference.results
    if expected.row_count != actual.row_count:  # as sets, or they would not agree
        expected, actual = expected.distinct(), actual.distinct()
    required = expected.named(reference.required)
    classes = Classes([*required, *actual.columns])
    budget = _budget(expected.row_count, len(required), actual, search_steps)
    if reference.rows_as is list:
        return agree_in_order(required, actual.columns, classes, budget)
    task = Task(classes, budget, duplicates=reference.rows_as is Counter)
    return agree_unordered(required, actual.columns, task)


def _budget(rows: int, columns: int, actual: SparqlResults, search_steps: int) -> Budget:
    subject = (
        f"{columns} columns of {rows} rows, {len(actual.columns)} of {actual.row_count} in the actual output"
    )
    cells = rows * columns + actual.row_count * len(actual.columns)
    return Budget(search_steps + STEPS_PER_CELL * cells, subject)
