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
    """Return the F1 of two sets of values, and which values differ."""
    expected, found = _values(reference, budget), _values(actual, budget)
    if expected == found:
        return Agreement(1.0, shares=(1.0, 1.0, 1.0))
    common = len(expected & found)
    sizes = len(found) or 1, len(expected) or 1, (len(found) + len(expected)) / 2
    shares = tuple(common / size for size in sizes)
    missing, extra = (
        _listed("missing_value", expected - found),
        _listed("extra_value", found - expected),
    )
    return Agreement(shares[-1], "wrong_query_result", first_of_each(missing, extra), shares)


def _values(results: SparqlResults, budget: Budget) -> set[str | None]:
    if results.boolean is not None:
        return {"true"} if results.boolean else set()
    budget.spend(2 * len(results.columns) * results.row_count)
    texts = {*chain.from_iterable(column.texts for column in results.columns)} - {None}
    if not has_blank_nodes(results.columns):
        return texts
    # Their labels are local to a table, so only how many they are can be compared.
    nodes = {f"_:{label}" for column in results.columns for label in column.labels or () if label}
    return texts - nodes | {f"_:{number}" for number in range(len(nodes))}


def _listed(kind: str, values: set[str | None]) -> list[Difference]:
    """The first values in alphabetical order, whatever the order of rows."""
    return [
        {"kind": kind, "value": shorten(each)}
        for each in nsmallest(MAX_DIFFERENCES, map(str, values))
    ]
