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

from graphrag_eval_async.catalogue.metrics import VALUES, VALUES_F1
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES, Agreement, first_of_each, shorten
from graphrag_eval_async.steps.tables.blank_cells import has_blank_nodes

if TYPE_CHECKING:
    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.formats.results import SparqlResults


_NOTHING_RIGHT = (0.0, 0.0, 0.0, 1.0, 0.0)
"""`VALUES` of an output without a right value."""


def compare_values(reference: SparqlResults, actual: SparqlResults, budget: Budget) -> Agreement:
    """Return the F1 of two sets of values, and which values differ."""
    if (reference.boolean is None) != (actual.boolean is None):
        # No table is the answer to an ASK, not even an empty one or one with the value "true".
        return Agreement(0.0, "wrong_query_result", shares=_NOTHING_RIGHT)
    expected = _values(reference, budget)
    returned = _values(actual, budget)
    shares = _shares(expected, returned)
    f1 = shares[VALUES.index(VALUES_F1)]
    published_f1 = _text2sparql_f1(reference, actual, f1=f1, nothing_expected=not expected)
    shares = (*shares, published_f1)
    if expected == returned:
        return Agreement(1.0, shares=shares)
    missing = _listed("missing_value", expected - returned)
    extra = _listed("extra_value", returned - expected)
    return Agreement(f1, "wrong_query_result", first_of_each(missing, extra), shares)


def _shares(expected: set[str | None], returned: set[str | None]) -> tuple[float, ...]:
    """Return precision, recall, F1 and the share of wrong values, as `VALUES` begins."""
    if expected == returned:
        return 1.0, 1.0, 1.0, 0.0
    common = len(expected & returned)
    precision = common / (len(returned) or 1)
    recall = common / (len(expected) or 1)
    f1 = common / ((len(returned) + len(expected)) / 2)
    wrong = len(returned - expected) / (len(returned) or 1)
    return precision, recall, f1, wrong


def _text2sparql_f1(
    reference: SparqlResults, actual: SparqlResults, *, f1: float, nothing_expected: bool
) -> float:
    """Return the F1 that version 2.1.0 of TEXT2SPARQL's client computes.

    It differs from the F1 of the values in two cases: a question whose expected answer is empty,
    or false, scores 0, and if true is expected, both answers to an ASK score 1.
    """
    if nothing_expected:
        return 0.0
    if reference.boolean and actual.boolean is not None:
        return 1.0
    return f1


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
