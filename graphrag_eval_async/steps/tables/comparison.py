"""Whether SPARQL results agree with those of a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.reference_steps import BY_NAME
from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import Agreement, describe_pairs
from graphrag_eval_async.steps.tables.blank_cells import (
    PairedColumn,
    blank_nodes_correspond,
    has_blank_nodes,
)
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.column_pairing import find_partners
from graphrag_eval_async.steps.tables.rules import Rows, rows_of

if TYPE_CHECKING:
    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.rules import Reference


def agree(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Return whether actual results agree with the reference in its required columns.

    They agree if each required column can be paired with an actual column of its own so that the
    rows are equal: as a set, as a multiset or in order. The names of columns do not matter, unless
    the rules say otherwise. `classify_cells` says which cells agree.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide. The message has the sizes of
            both tables.
    """
    if reference.results.boolean is not None or actual.boolean is not None:
        return reference.results.boolean is actual.boolean
    return pair_columns(reference, actual, budget) is not None


def compare_as_a_whole(reference: Reference, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return a score of 1, with the columns that are paired, if two tables agree; otherwise 0.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide.
    """
    partners = pair_columns(reference, actual, budget)
    if partners is None:
        return Agreement(0.0)
    return Agreement(1.0, paired_columns=describe_pairs(partners))


def pair_columns(
    reference: Reference, actual: SparqlResults, budget: Budget
) -> dict[str, str] | None:
    """Return the names of the columns that are paired if two tables agree as `agree` says.

    Columns without bound cells are not listed.

    Returns:
        the name of the actual column by that of the required column; empty if it is not known. None
        if the tables do not agree.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide. The message has the sizes of
            both tables.
    """
    if not _shapes_agree(reference, actual):
        return None
    names = [column.name for column in reference.columns]
    same_names = dict(zip(names, names, strict=True))
    if not names:
        # All required columns are without bound cells.
        return same_names
    try:
        if agree_by_name(reference, actual, budget):
            return same_names
        if reference.rules.columns == BY_NAME:
            return same_names if _named_columns_agree(reference, actual, budget) else None
        for classes in classify_cells(reference.columns, actual.columns, budget):
            partners = find_partners(reference, actual, classes, budget)
            if partners is not None:
                return partners
        return None
    except ComparisonBudgetExceeded as error:
        expected_size = f"{len(reference.columns)} columns of {reference.results.row_count} rows"
        actual_size = f"{len(actual.columns)} of {actual.row_count} in the actual output"
        raise ComparisonBudgetExceeded(f"{expected_size}, {actual_size}: {error}") from None


def agree_by_name(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Return whether the actual columns of the required names have the same rows as the reference.

    If they have, the results agree. This is common, and quicker to find out than by `agree`. If
    they have not, the results may still agree by other columns.
    """
    if reference.results.boolean is not None or not _shapes_agree(reference, actual):
        return False
    actual_columns = actual.named(column.name for column in reference.columns)
    if len(actual_columns) != len(reference.columns):
        return False
    rows = reference.rules.rows
    if rows.collect(rows_of(actual_columns)) != reference.rows:
        return False
    if not has_blank_nodes(reference.columns):
        return True
    pairs = [
        PairedColumn(
            expected=expected_column,
            expected_classes=expected_column.values,
            actual=actual_column,
            actual_classes=actual_column.values,
        )
        for expected_column, actual_column in zip(reference.columns, actual_columns, strict=True)
    ]
    return blank_nodes_correspond(pairs, rows=rows, budget=budget)


def _named_columns_agree(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Return whether the actual columns of the required names have the rows of the reference.

    Cells may have several readings; the rows must be equal in one of these.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide.
    """
    rows = reference.rules.rows
    actual_columns = actual.named(column.name for column in reference.columns)
    if len(actual_columns) < len(reference.columns):
        return False
    for classes in classify_cells(reference.columns, actual_columns, budget):
        budget.spend(sum(map(len, [*classes.expected, *classes.actual])))
        expected_rows = rows.collect(zip(*classes.expected, strict=True))
        if rows.collect(zip(*classes.actual, strict=True)) != expected_rows:
            continue
        columns_and_classes = zip(
            reference.columns, classes.expected, actual_columns, classes.actual, strict=True
        )
        pairs = [PairedColumn(*paired) for paired in columns_and_classes]
        if blank_nodes_correspond(pairs, rows=rows, budget=budget):
            return True
    return False


def lacks_columns(reference: Reference, actual: SparqlResults) -> bool:
    """Return whether actual results have fewer columns than required, or fewer with bound cells."""
    if reference.results.boolean is not None or actual.boolean is not None:
        # A boolean, the answer to ASK, has no columns.
        return False
    has_too_few_bound = len(actual.columns) < len(reference.columns)
    return has_too_few_bound or len(actual.variables) < len(reference.names)


def agree_but_for_order(reference: Reference, actual: SparqlResults, budget: Budget) -> bool:
    """Return whether results that do not agree with an ordered reference do so in another order.

    If the reference is not ordered, return False.
    """
    if reference.rules.rows is not Rows.IN_ORDER:
        return False
    return agree(reference.with_rows_in_any_order(), actual, budget)


def _shapes_agree(reference: Reference, actual: SparqlResults) -> bool:
    """Return whether actual results are a table with the right number of rows and enough columns.

    Required columns without bound cells can only be paired with such actual columns.
    """
    if actual.boolean is not None:
        return False

    expected_height = reference.results.row_count
    actual_height = actual.row_count
    if reference.rules.rows is Rows.AS_SET:
        # Rows of a set may be repeated, so only whether there are any can be compared.
        heights_agree = (expected_height > 0) == (actual_height > 0)
    else:
        heights_agree = expected_height == actual_height
    if not heights_agree:
        return False

    if not reference.names and expected_height > 0 and actual.columns:
        # Rows without any columns are equal only to rows without any columns.
        return False

    expected_unbound = len(reference.names) - len(reference.columns)
    actual_unbound = len(actual.variables) - len(actual.columns)
    has_enough_bound = len(actual.columns) >= len(reference.columns)
    return has_enough_bound and actual_unbound >= expected_unbound
