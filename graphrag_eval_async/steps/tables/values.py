"""Compares SPARQL results as sets of values, ignoring rows, columns and types.

Let R and A be the texts of all bound cells of the expected and the actual results. For ASK, they
are {"true"} or empty. Then

    precision = |A ∩ R| / |A|,   recall = |A ∩ R| / |R|,   F1 = 2 |A ∩ R| / (|A| + |R|).

All are 1 if both are empty, and 0 if one of them is, or if one is the answer to an ASK and the
other a table. F1 is `set_F` of trec_eval:
https://trec.nist.gov/trec_eval/
"""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING

from graphrag_eval_async.steps.differences import MAX_DIFFERENCES, Agreement, first_of_each, shorten
from graphrag_eval_async.steps.tables.blank_cells import has_blank_nodes

if TYPE_CHECKING:
    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.formats.results import SparqlResults


_NOTHING_RIGHT = (0.0, 0.0, 0.0, 1.0, 0.0)
"""`VALUES` of an output without a right value."""


def compare_values(reference: SparqlResults, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return the F1 of two sets of values with `VALUES`, and which values differ."""
    if (reference.boolean is None) != (actual.boolean is None):
        # No table is the answer to an ASK, not even an empty one or one with the value "true".
        return Agreement(0.0, "wrong_query_result", shares=_NOTHING_RIGHT)
    expected_values = _values(reference, budget)
    actual_values = _values(actual, budget)
    if expected_values == actual_values:
        published_f1 = 1.0 if expected_values else 0.0
        return Agreement(1.0, shares=(1.0, 1.0, 1.0, 0.0, published_f1))

    common = len(expected_values & actual_values)
    # If a set is empty, there are no common values, and the divisor may be any number but 0.
    precision = common / (len(actual_values) or 1)
    recall = common / (len(expected_values) or 1)
    f1 = 2 * common / (len(actual_values) + len(expected_values))
    wrong = len(actual_values - expected_values) / (len(actual_values) or 1)
    published_f1 = _text2sparql_f1(reference, actual, f1)
    differences = first_of_each(
        _listed("missing_value", expected_values - actual_values),
        _listed("extra_value", actual_values - expected_values),
    )
    shares = (precision, recall, f1, wrong, published_f1)
    return Agreement(f1, "wrong_query_result", differences, shares)


def _text2sparql_f1(reference: SparqlResults, actual: SparqlResults, f1: float) -> float:
    """Return the F1 that the client of TEXT2SPARQL, version 2.1.0, computes of values that differ.

    It takes both answers to an ASK for the value "true", so false is right where true is expected.
    """
    if reference.boolean and actual.boolean is not None:
        return 1.0
    return f1


def _values(results: SparqlResults, budget: Budget) -> set[str | None]:
    """Return the different texts of all bound cells.

    The answer to ASK is the text "true", or no text if it is false. Labels of blank nodes are local
    to a table, so only their number can be compared: numbers replace them.
    """
    if results.boolean is not None:
        return {"true"} if results.boolean else set()
    budget.spend(2 * len(results.columns) * results.row_count)
    texts = {*chain.from_iterable(column.texts for column in results.columns)} - {None}
    if not has_blank_nodes(results.columns):
        return texts
    labels = set[str]()
    for column in results.columns:
        labels.update(f"_:{label}" for label in column.labels or () if label is not None)
    return texts - labels | {f"_:{number}" for number in range(len(labels))}


def _listed(kind: str, values: set[str | None]) -> list[Difference]:
    """Return the first of some values, as differences of a kind.

    The values are sorted, so that the differences do not depend on the order of rows.
    """
    first_values = nsmallest(MAX_DIFFERENCES, map(str, values))
    return [{"kind": kind, "value": shorten(value)} for value in first_values]
