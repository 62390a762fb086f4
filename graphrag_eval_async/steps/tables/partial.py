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
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.reference_steps import BY_NAME
from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import (
    MAX_CELLS,
    Agreement,
    describe_pairs,
    first_of_each,
    shorten,
)
from graphrag_eval_async.steps.tables.best_pairing import PairingSearch, Side, row_order
from graphrag_eval_async.steps.tables.blank_cells import has_blank_nodes
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.columns import Column
from graphrag_eval_async.steps.tables.comparison import agree, agree_by_name, compare_as_a_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.best_pairing import Pairing
    from graphrag_eval_async.steps.tables.classes import CellClasses
    from graphrag_eval_async.steps.tables.rows import Pair
    from graphrag_eval_async.steps.tables.rules import Reference

SEARCH_STEPS = 4_000_000
"""Steps after which no more pairings of columns are tried. At least one is."""


def compare_in_part(reference: Reference, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return how far actual results agree with the reference: F1 of the cells, and differences.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice for a single pairing of columns, or was
            stopped, or it is a quick budget that did not suffice for all pairings.
    """
    # First, find out whether everything agrees, which is quicker than the search.
    if reference.results.boolean is not None or actual.boolean is not None:
        return Agreement(float(agree(reference, actual, budget)))
    if agree_by_name(reference, actual, budget):
        return Agreement(1.0)
    with_blank_nodes = has_blank_nodes(reference.columns)
    if with_blank_nodes:
        # The search below could miss that all rows agree, since it takes all blank nodes for equal
        # until it ends.
        whole_agreement = compare_as_a_whole(reference, actual, budget)
        if whole_agreement.score == 1:
            return whole_agreement

    # Search for the best pairing of columns, for each way to read the values of the cells.
    required = _columns(reference.results, reference.names)
    offered = [*actual.columns, *_unbound_columns(actual, len(required))]
    agreements = []
    for classes in classify_cells(required, offered, budget):
        search = _start_search(
            reference=reference,
            actual=actual,
            required=required,
            offered=offered,
            classes=classes,
            budget=budget,
        )
        may_pair_others = reference.rules.columns != BY_NAME
        if may_pair_others and not _try_other_pairings(search, budget):
            # The best pairing so far counts, unless all rows agree. Whether they do takes a shorter
            # search, which gets half of the remaining budget.
            with suppress(ComparisonBudgetExceeded), budget.limited(budget.left // 2):
                whole_agreement = compare_as_a_whole(reference, actual, budget)
                if whole_agreement.score == 1:
                    return whole_agreement
        if with_blank_nodes:
            search.tell_blank_nodes_apart()
        agreement = _describe_pairing(search.best, search.required, search.offered)
        partners = _named_partners(search.best, search.required, search.offered)
        agreements.append(agreement._replace(paired_columns=describe_pairs(partners)))
    return max(agreements, key=lambda agreement: agreement.score)


def _try_other_pairings(search: PairingSearch, budget: Budget) -> bool:
    """Return whether the budget suffices to try all pairings of columns that may be better.

    The search then has the best pairing that was tried.

    Raises:
        ComparisonBudgetExceeded: the budget was stopped, or it is a quick budget that did not
            suffice: then the comparison is repeated in a thread, with a larger budget.
    """
    try:
        with budget.limited(SEARCH_STEPS):
            search.try_others()
    except ComparisonBudgetExceeded:
        if budget.quick or budget.stopped:
            raise
        return False
    return True


def _start_search(
    reference: Reference,
    actual: SparqlResults,
    required: Sequence[Column],
    offered: Sequence[Column],
    classes: CellClasses,
    budget: Budget,
) -> PairingSearch:
    """Return a search for the best pairing of columns, which has tried the pairing by name so far.

    Args:
        reference: the reference.
        actual: the actual results.
        required: the columns of the reference that are to be paired.
        offered: the columns of the actual results that may be their partners.
        classes: the class of each cell in these columns. Cells agree if their classes are equal.
        budget: what may be spent.
    """
    rows = reference.rules.rows
    expected_order = row_order(required, reference.results.row_count, rows=rows, budget=budget)
    actual_order = row_order(offered, actual.row_count, rows=rows, budget=budget)
    return PairingSearch(
        required=Side(required, classes.expected, expected_order),
        offered=Side(offered, classes.actual, actual_order),
        rows=rows,
        budget=budget,
    )


def _columns(results: SparqlResults, names: Sequence[str]) -> list[Column]:
    """Return a column for each of the named variables.

    All cells are unbound in the column of a variable that the results never bind.
    """
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
    """Return the columns of variables that are bound in no row: the first ones, at most `most`."""
    bound_names = {column.name for column in results.columns}
    unbound_names = [name for name in results.variables if name not in bound_names]
    return _columns(results, unbound_names[:most])


def _named_partners(pairing: Pairing, required: Side, offered: Side) -> dict[str, str]:
    """Return the name of the actual column by that of the required column, if it has a partner.

    A pairing in which no cells agree says nothing, so its columns are not listed.

    Args:
        pairing: the positions of the columns that are paired.
        required: the columns of the reference.
        offered: the columns of the actual table.
    """
    if pairing.cells == 0:
        return {}
    return {
        column.name: offered.columns[partner].name
        for column, partner in zip(required.columns, pairing.partners, strict=True)
        if partner is not None
    }


def _describe_pairing(pairing: Pairing, required: Side, offered: Side) -> Agreement:
    """Return the score of a pairing of two tables, the main reason of a low score, and differences.

    If at least half of the cells of a pair of rows agree, the other cells are wrong values. If
    fewer agree, the expected row is missing, and the actual row is extra.

    Args:
        pairing: the columns and rows that are paired.
        required: the columns of the reference.
        offered: the columns of the actual table.
    """
    score = pairing.score
    if score in (0, 1):
        # Nothing or everything agrees, so no differences are listed.
        return Agreement(score)

    # Rows are listed in the order in which they were looked at.
    place_of_row = {row: place for place, row in enumerate(pairing.expected_rows)}
    # The number of required columns that have a partner.
    paired_width = len(pairing.partners) - pairing.partners.count(None)
    near_pairs = [pair for pair in pairing.row_pairs if 2 * pair.cells >= paired_width]
    near_pairs.sort(key=lambda pair: place_of_row[pair.expected])
    inexact_pairs = [pair for pair in near_pairs if pair.cells < paired_width]
    near_expected = {pair.expected for pair in near_pairs}
    near_actual = {pair.actual for pair in near_pairs}
    missing_rows = [row for row in pairing.expected_rows if row not in near_expected]
    extra_rows = [row for row in pairing.actual_rows if row not in near_actual]

    reason = _costliest_reason(
        missing_rows=len(missing_rows) * len(pairing.partners),
        extra_rows=len(extra_rows) * len(pairing.partners),
        wrong_values=sum(paired_width - pair.cells for pair in inexact_pairs),
    )
    partners = [None if column is None else offered.columns[column] for column in pairing.partners]
    differences = first_of_each(
        _missing_columns(required.columns, partners),
        _different_rows("missing_row", missing_rows, required.columns, required.columns),
        _different_rows("extra_row", extra_rows, required.columns, partners),
        _wrong_values(inexact_pairs, pairing.partners, required, offered),
    )
    return Agreement(score, reason, differences)


def _costliest_reason(**cells_by_reason: int) -> str | None:
    """Return the reason that costs most cells; None if no reason costs any cells.

    Of reasons that cost as many cells, the first one is returned.

    Args:
        **cells_by_reason: the number of cells that each reason costs.
    """
    reason = max(cells_by_reason, key=cells_by_reason.__getitem__)
    if cells_by_reason[reason] == 0:
        # Only columns are missing.
        return None
    return reason


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
    """Yield a difference for each cell of paired columns that differs within a pair of rows.

    Args:
        inexact_pairs: the pairs of rows.
        partners: the actual column for each required column; None if it has no partner.
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


def _different_rows(
    kind: str,
    rows: Iterable[int],
    required: Sequence[Column],
    columns: Sequence[Column | None],
) -> Iterator[Difference]:
    """Yield a difference of the given kind for each row, with the texts of the row's first cells.

    Args:
        kind: the kind of difference.
        rows: the indices of the rows.
        required: the required columns, by whose names the cells are listed.
        columns: for each required column, the column of the rows' table; None if it has none.
    """
    named_columns = [
        (str(shorten(required_column.name)), column)
        for required_column, column in zip(required, columns, strict=True)
        if column is not None
    ]
    for row in rows:
        texts = {name: shorten(column.texts[row]) for name, column in named_columns[:MAX_CELLS]}
        yield {"kind": kind, "row": texts}
