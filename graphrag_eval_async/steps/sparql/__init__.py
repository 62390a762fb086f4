"""Comparison of SPARQL query results: read, prepare the reference once, compare it with many."""

from graphrag_eval_async.steps.sparql.budget import QUICK_SEARCH_STEPS, SEARCH_STEPS, Budget
from graphrag_eval_async.steps.sparql.comparison import (
    SparqlReference,
    agree_but_for_order,
    compare,
    lacks_columns,
    prepare_reference,
)
from graphrag_eval_async.steps.sparql.results import (
    SparqlResults,
    are_plain,
    is_same_table,
    read_document,
    read_results,
    results_of,
)

__all__ = [
    "QUICK_SEARCH_STEPS",
    "SEARCH_STEPS",
    "Budget",
    "SparqlReference",
    "SparqlResults",
    "agree_but_for_order",
    "are_plain",
    "compare",
    "is_same_table",
    "lacks_columns",
    "prepare_reference",
    "read_document",
    "read_results",
    "results_of",
]
