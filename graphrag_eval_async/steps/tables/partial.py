"""Partial credit for SPARQL results: F1 over rows and cells tells a nearly right query from a wrong
one.

Each required column is paired with an actual column of its own, whatever the names. Module
`best_pairing` pairs the columns, and module `rows` the rows. With k required columns, m expected
rows, n actual rows, and c cells in which paired rows agree,

    precision = c / (k n),   recall = c / (k m),   F1 = 2 c / (k (m + n)).

A row without a partner adds nothing to c. F1 is the harmonic mean of the other two:
https://en.wikipedia.org/wiki/F-score. Cells agree as in `agree`. If duplicates are ignored, equal
rows of the paired columns count once. A required column without a partner agrees in no row; other
columns of the actual results cost nothing, as in `agree`.

The score is that of the pairing of columns with the greatest F1, and 1 if and only if `agree` says
so. If columns are so alike that `SEARCH_STEPS` do not suffice to try all pairings that may be
better, it is that of the best pairing tried: first columns of the same name, then those that share
most values.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import MAX_CELLS, Agreement, first_of_each, shorten
from graphrag_eval_async.steps.tables.best_pairing import PairingSearch, Side, row_order
from graphrag_eval_async.steps.tables.blank_cells import has_blank_nodes
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.columns import Column
from graphrag_eval_async.steps.tables.comparison import agree, agree_by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.best_pairing import Pairing
    from graphrag_eval_async.steps.tables.rows import Pair
    from graphrag_eval_async.steps.tables.rules import Reference

SEARCH_STEPS = 4_000_000
"""Steps after which no more pairings of columns are tried. At least one is."""


def compare_in_part(reference: Reference, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return how far actual results agree with the reference: F1 of the cells, and differences.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice for a single pairing of columns, or was
            stopped.
    """
    if reference.results.boolean is not None or actual.boolean is not None:
        return Agreement(float(agree(reference, actual, budget)))
    if agree_by_name(reference, actual, budget):
        return Agreement(1.0)
    with_blank_nodes = has_blank_nodes(reference.columns)
    if with_blank_nodes and agree(reference, actual, budget):
        # The search below counts all blank nodes as equal until it ends.
        return Agreement(1.0)

    rows = reference.rules.rows
    required = _columns(reference.results, reference.names)
    offered = [*actual.columns, *_unbound_columns(actual, len(required))]
    agreements = []
    for classes in classify_cells(required, offered, budget):
        expected_order = row_order(required, reference.results.row_count, rows=rows, budget=budget)
        actual_order = row_order(offered, actual.row_count, rows=rows, budget=budget)
        search = PairingSearch(
            required=Side(required, classes.expected, expected_order),
            offered=Side(offered, classes.actual, actual_order),
            rows=rows,
            budget=budget,
        )
        try:
            with budget.limited(SEARCH_STEPS):
                search.try_others()
        except ComparisonBudgetExceeded:
            if budget.quick or budget.stopped:
                raise
            # The best pairing so far counts, unless a search for equal rows alone, which is
            # shorter, finds that the tables agree.
            with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
                if agree(reference, actual, budget):
                    return Agreement(1.0)
        if with_blank_nodes:
            search.tell_blank_nodes_apart()
        agreements.append(_describe(search.best, search.required, search.offered))
    return max(agreements, key=lambda agreement: agreement.score)


def _columns(results: SparqlResults, names: Sequence[str]) -> list[Column]:
    """Return the columns of these variables; those that are never bound have no cell in any row."""
    column_by_name = {column.name: column for column in results.columns}
    unbound = [None] * results.row_count
    columns = []
    for name in names:
        column = column_by_name.get(name)
        if column is None:
            column = Column(name, unbound, unbound)
        columns.append(column)
    return columns


def _unbound_columns(results: SparqlResults, most: int) -> list[Column]:
    """Return the first columns, no more than `most`, that have no cell in any row."""
    bound_names = {column.name for column in results.columns}
    unbound_names = [name for name in results.variables if name not in bound_names]
    return _columns(results, unbound_names[:most])


def _describe(pairing: Pairing, required: Side, offered: Side) -> Agreement:
    """Return the score of a pairing of two tables, the main reason for it, and the differences.

    A pair of rows has wrong values if at least half of the cells in paired columns agree.
    Otherwise, its expected row counts as missing, and its actual row as extra.

    Args:
        pairing: the columns and rows that are paired.
        required: the columns of the reference.
        offered: the columns of the actual table.
    """
    score = pairing.score
    if score in (0, 1):
        return Agreement(score)

    width = len(pairing.partners)
    paired_width = width - pairing.partners.count(None)
    place_of_row = {row: place for place, row in enumerate(pairing.expected_rows)}
    near_pairs = [pair for pair in pairing.row_pairs if 2 * pair.cells >= paired_width]
    near_pairs.sort(key=lambda pair: place_of_row[pair.expected])
    inexact_pairs = [pair for pair in near_pairs if pair.cells < paired_width]
    near_expected = {pair.expected for pair in near_pairs}
    near_actual = {pair.actual for pair in near_pairs}
    missing_rows = [row for row in pairing.expected_rows if row not in near_expected]
    extra_rows = [row for row in pairing.actual_rows if row not in near_actual]

    # The reason is what costs most cells, the first of equals. Missing columns may be all there is.
    wrong_cells = {
        "missing_rows": len(missing_rows) * width,
        "extra_rows": len(extra_rows) * width,
        "wrong_values": sum(paired_width - pair.cells for pair in inexact_pairs),
    }
    reason: str | None = max(wrong_cells, key=wrong_cells.__getitem__)
    if not any(wrong_cells.values()):
        reason = None

    partners = [None if column is None else offered.columns[column] for column in pairing.partners]
    differences = first_of_each(
        _missing_columns(required.columns, partners),
        (
            {"kind": "missing_row", "row": _texts(required.columns, required.columns, row)}
            for row in missing_rows
        ),
        (
            {"kind": "extra_row", "row": _texts(required.columns, partners, row)}
            for row in extra_rows
        ),
        _wrong_values(inexact_pairs, pairing.partners, required, offered),
    )
    return Agreement(score, reason, differences)


def _missing_columns(
    required: Sequence[Column], partners: Sequence[Column | None]
) -> Iterator[Difference]:
    """Yield a difference for each required column without a partner."""
    for column, partner in zip(required, partners, strict=True):
        if partner is None:
            yield {"kind": "missing_column", "column": shorten(column.name)}


def _wrong_values(
    inexact_pairs: Iterable[Pair],
    partners: Sequence[int | None],
    required: Side,
    offered: Side,
) -> Iterator[Difference]:
    """Yield a difference for each cell that differs in pairs of rows.

    Args:
        inexact_pairs: the pairs of rows.
        partners: the actual column for each required one; None if it has no partner.
        required: the columns of the reference.
        offered: the columns of the actual table.
    """
    for pair in inexact_pairs:
        for position, column in enumerate(partners):
            if column is None:
                continue
            expected_class = required.classes[position][pair.expected]
            if expected_class != offered.classes[column][pair.actual]:
                yield {
                    "kind": "wrong_value",
                    "row": pair.actual,
                    "column": shorten(required.columns[position].name),
                    "expected": shorten(required.columns[position].texts[pair.expected]),
                    "actual": shorten(offered.columns[column].texts[pair.actual]),
                }


def _texts(
    required: Iterable[Column], columns: Iterable[Column | None], row: int
) -> dict[str, str | None]:
    """Return the texts of a row's first cells, by the names of required columns.

    Args:
        required: the required columns, which name the cells.
        columns: for each of them, the column that has the cell; None if there is none.
        row: the index of the row.
    """
    cells = (
        (required_column.name, column.texts[row])
        for required_column, column in zip(required, columns, strict=True)
        if column is not None
    )
    return {str(shorten(name)): shorten(text) for name, text in islice(cells, MAX_CELLS)}
