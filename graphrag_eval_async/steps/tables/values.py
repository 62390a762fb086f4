"""Compares SPARQL results as sets of values, ignoring rows, columns and types.

Let R and A be the texts of all bound cells of the expected and the actual results. For ASK, they
are {"true"} or empty. Then

    precision = |A ∩ R| / |A|,   recall = |A ∩ R| / |R|,   F1 = 2 |A ∩ R| / (|A| + |R|).

All are 1 if both are empty, and 0 if one of them is. F1 is `set_F` of trec_eval:
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


def compare_values(reference: SparqlResults, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return the F1, precision and recall of two sets of values, and the values that differ."""
    expected_values = _values(reference, budget)
    actual_values = _values(actual, budget)
    if expected_values == actual_values:
        return Agreement(1.0, shares=(1.0, 1.0, 1.0))
    common = len(expected_values & actual_values)
    # If one set is empty, there are no common values, so any divisor gives the right 0.
    precision = common / (len(actual_values) or 1)
    recall = common / (len(expected_values) or 1)
    f1 = 2 * common / (len(actual_values) + len(expected_values))
    differences = first_of_each(
        _listed("missing_value", expected_values - actual_values),
        _listed("extra_value", actual_values - expected_values),
    )
    return Agreement(f1, "wrong_query_result", differences, (precision, recall, f1))


def _values(results: SparqlResults, budget: Budget) -> set[str | None]:
    """Return the set of the texts of all bound cells; for ASK, {"true"} or the empty set.

    Labels of blank nodes are local to a table, so only the number of blank nodes can be compared:
    their labels are replaced by the numbers from 0.
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
    numbers = {f"_:{number}" for number in range(len(labels))}
    return (texts - labels) | numbers


def _listed(kind: str, values: set[str | None]) -> list[Difference]:
    """Return the first values in alphabetical order as differences of the given kind.

    Because of this order, the list does not depend on the order of rows.
    """
    first_values = nsmallest(MAX_DIFFERENCES, map(str, values))
    return [{"kind": kind, "value": shorten(value)} for value in first_values]
