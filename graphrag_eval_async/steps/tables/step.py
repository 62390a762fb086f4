"""Compares reference steps whose output is a table of SPARQL results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.catalogue.reference_steps import (
    BY_COUNT,
    BY_NAME,
    REFERENCE_QUERY,
)
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, kind_of_results, read_output
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.formats.delimited import is_lone_header
from graphrag_eval_async.steps.formats.json_tables import ANY_COLUMNS, answer_below
from graphrag_eval_async.steps.formats.reading import read_reference
from graphrag_eval_async.steps.formats.results import SparqlResults, is_same_table, results_of
from graphrag_eval_async.steps.formats.second_reading import read_again
from graphrag_eval_async.steps.formats.terms import XSD
from graphrag_eval_async.steps.queries import query_of
from graphrag_eval_async.steps.tables.comparison import (
    agree,
    agree_but_for_order,
    compare_as_a_whole,
    lacks_columns,
)
from graphrag_eval_async.steps.tables.partial import compare_in_part
from graphrag_eval_async.steps.tables.rules import TableRules, prepare_reference
from graphrag_eval_async.steps.tables.values import compare_values
from graphrag_eval_async.steps.tokens import form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.formats.table import Table
    from graphrag_eval_async.steps.tables.rules import Reference


class SparqlStep:
    """Compares with reference results, which are decoded and laid out as columns on first use."""

    __slots__ = ("_as_values", "_is_partial", "_references", "_step", "_table")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        """Keep a reference step, whose table is read on first use.

        Args:
            step: the step, whose output is a table.
            partial: whether tables that agree in part score more than 0.
        """
        self._step = step
        self._is_partial = partial
        self._as_values = step.get("score") == VALUES_F1
        self._table: Table | None = None
        # The references that were prepared, by the arguments `has_blanks` and `strict_types` of the
        # method `reference`.
        self._references: dict[tuple[bool, bool], Reference] = {}

    def table(self) -> Table:
        """Return the reference output as a table, which is read on first use and then kept.

        Raises:
            MalformedStep: the output is no table.
        """
        if self._table is None:
            read = partial(read_reference, media_type=str(self._step.get("output_media_type")))
            self._table = read_output(self._step, read)
        return self._table

    def reference(self, *, has_blanks: bool = False, strict_types: bool = False) -> Reference:
        """Return the reference results, prepared for comparison and kept for the next call.

        Args:
            has_blanks: whether the actual table cannot distinguish empty texts from unbound cells.
            strict_types: whether an IRI differs from a literal of the same text.

        Raises:
            MalformedStep: the output is no table, or its required columns are not in it.
        """
        table = self.table()
        has_blanks = has_blanks or table.has_blanks
        key = (has_blanks, strict_types)
        if key not in self._references:
            read = partial(results_of, has_blanks=has_blanks, strict_types=strict_types)
            try:
                results = read_output({"output": table.document}, read)
            except ComparisonBudgetExceeded as error:
                # The table is too sparse, which is a mistake in a reference.
                raise MalformedStep(f"output: {error}") from None
            self._references[key] = prepare_reference(results, TableRules.of_step(self._step))
        return self._references[key]

    def kind(self) -> str:
        """Return what error messages call the reference output: a table or a boolean.

        Raises:
            MalformedStep: the output is no table, or its required columns are not in it.
        """
        return kind_of_results(self.reference().results)

    def compare(self, actual: ActualStep) -> Agreement:
        """Return how far the output of an actual step agrees with the reference output.

        If it does not agree fully, and its cells have no types, a second reading is compared, too,
        in which cells are what their texts may stand for. The better agreement counts.

        Raises:
            MalformedStep: one of the outputs is no table.
            ComparisonBudgetExceeded: the budget did not suffice to compare them.
        """
        agreement = self._compare_reading(actual)
        if agreement.score == 1:
            return agreement
        table = actual.table()
        if table.typed:
            return agreement
        document = read_again(table.document, self.table().document)
        if document is None:
            return agreement
        second_table = table._replace(document=document)
        second_agreement = self._compare_reading(actual.with_table(second_table))
        if second_agreement.score > agreement.score:
            return second_agreement
        return agreement

    def _compare_reading(self, actual: ActualStep) -> Agreement:
        """Return how far the table of an actual step, as it is read, agrees with the reference.

        The errors are those of `compare`.
        """
        table = self.table()
        column_rule = actual.budget.match_columns
        if self._is_same_empty_column(actual.step.get("output"), column_rule):
            return Agreement(1.0)
        actual_table = actual.table(strict=table.typed)
        # If the cells are the same in the same order, their values need not be compared.
        if not self._as_values and is_same_table(table.document, actual_table.document):
            return Agreement(1.0)

        strict_types = actual.budget.strict_types and table.typed and actual_table.typed
        reference = self.reference(has_blanks=actual_table.has_blanks, strict_types=strict_types)
        results = actual.results(has_blanks=table.has_blanks, strict_types=strict_types)
        expects_boolean = reference.results.boolean is not None
        has_boolean = results.boolean is not None
        if has_boolean and _is_no_ask(query_of(actual.step)):
            results = _read_as_table(results)
        elif expects_boolean and _may_hide_boolean(actual.step, query_of(actual.step)):
            results = _read_as_boolean(results)
        elif has_boolean and _may_hide_boolean(self._step, self._step.get(REFERENCE_QUERY)):
            # A reference in CSV or TSV may be the answer to ASK as some stores write it.
            boolean_results = _read_as_boolean(reference.results)
            reference = replace(reference, results=boolean_results)
        return compare_results(
            reference,
            results,
            actual.budget,
            as_values=self._as_values,
            is_partial=self._is_partial,
        )

    def _is_same_empty_column(self, actual_output: Any, column_rule: str) -> bool:
        """Return whether the reference is one column without rows, and the output its header.

        Such an output is not read as a table: without the reference, a text of one word cannot be
        distinguished from a header.

        Args:
            actual_output: the output of the actual step.
            column_rule: which columns are paired, one of `COLUMN_RULES`, if the reference step does
                not say so.
        """
        reference = self.reference().with_column_rule(column_rule)
        is_boolean = reference.results.boolean is not None
        if is_boolean or reference.results.row_count > 0 or len(reference.names) != 1:
            return False
        allow_others = reference.rules.columns != BY_NAME
        return is_lone_header(actual_output, reference.names[0], allow_others=allow_others)


def compare_results(
    reference: Reference,
    results: SparqlResults,
    budget: Budget,
    *,
    as_values: bool,
    is_partial: bool,
) -> Agreement:
    """Return how far the results of an actual step agree with a reference, and the reason if not.

    Args:
        reference: the expected results, and how to compare them.
        results: the results of the actual step.
        budget: what may be spent.
        as_values: whether both are compared as sets of values.
        is_partial: whether results that agree in part score more than 0.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to compare them.
    """
    if as_values:
        return compare_values(reference.results, results, budget)
    reference = reference.with_column_rule(budget.match_columns)
    has_boolean = reference.results.boolean is not None or results.boolean is not None
    if has_boolean:
        return Agreement(float(agree(reference, results, budget)))

    # An empty list has no columns, so it agrees with an empty table of any columns.
    may_have_any_columns = results.row_count == 0 and len(results.variables) == ANY_COLUMNS
    if reference.rules.columns == BY_NAME and not may_have_any_columns:
        results = _with_columns_named(results, reference.names)
    if reference.rules.columns == BY_COUNT and not may_have_any_columns:
        expected_count = len(reference.names)
        actual_count = len(results.variables)
        if actual_count != expected_count:
            reason = "missing_columns" if actual_count < expected_count else "wrong_query_result"
            detail = f"columns: expected {expected_count}, got {actual_count}"
            return Agreement(0.0, reason, detail=detail)
    return _compare_rows(reference, results, budget, is_partial=is_partial)


def _with_columns_named(results: SparqlResults, names: Sequence[str]) -> SparqlResults:
    """Return results with only those columns that have one of some names."""
    variables = [name for name in names if name in results.variables]
    return SparqlResults(variables, results.named(variables), results.row_count)


def _compare_rows(
    reference: Reference, results: SparqlResults, budget: Budget, *, is_partial: bool
) -> Agreement:
    """Return how far the rows of an actual step agree with a reference, and the reason if not.

    Args:
        reference: the reference, a table.
        results: the results of the actual step, a table.
        budget: what may be spent.
        is_partial: whether results that agree in part score more than 0.
    """
    if is_partial:
        agreement = compare_in_part(reference, results, budget)
    else:
        agreement = compare_as_a_whole(reference, results, budget)
    if agreement.score == 1:
        return agreement
    if lacks_columns(reference, results):
        return agreement._replace(reason="missing_columns")
    try:
        has_other_order = agree_but_for_order(reference, results, budget)
    except ComparisonBudgetExceeded:
        if budget.quick:
            # The response is compared again in a thread, with a larger budget.
            raise
        # The score is known, and only the reason may be less exact.
        return agreement
    if has_other_order:
        return agreement._replace(reason="wrong_order")
    return agreement


def _may_hide_boolean(step: Mapping[str, Any], query: str | None) -> bool:
    """Return whether the output of a step may be the answer to ASK, although it is a table.

    It is not if its query is known not to be an ASK, nor if this package ran the query: then the
    answer to ASK is a boolean.

    Args:
        step: the step, with the key `executed_at` if its query was run.
        query: its query, if it has one. It may also be a question in words.
    """
    return "executed_at" not in step and not _is_no_ask(query)


def _is_no_ask(query: str | None) -> bool:
    """Return whether a query is known, and known not to be an ASK.

    Args:
        query: the query of a step, if it has one. It may also be a question in words.
    """
    # Only a query has braces. In words, "Select ..." and "Describe ..." are no forms of queries.
    if query is None or "{" not in query:
        return False
    return form_of(query) not in (None, "ASK")


def _read_as_boolean(results: SparqlResults) -> SparqlResults:
    """Return results as a boolean if they are a table of one cell that has a boolean.

    Some stores write the answer to ASK like this. All other results are returned unchanged.
    """
    if results.row_count != 1 or len(results.columns) != 1:
        return results
    [column] = results.columns
    boolean = answer_below(column.name, str(column.texts[0]))
    if boolean is None:
        return results
    return SparqlResults(boolean=boolean)


def _read_as_table(results: SparqlResults) -> SparqlResults:
    """Return a boolean as a table of one cell, which is how a SELECT returns one.

    Its column has the name "boolean", since an output that was read as a boolean has no names.
    """
    value = str(results.boolean).lower()
    cell = {"type": "literal", "value": value, "datatype": f"{XSD}boolean"}
    rows = [{"boolean": cell}]
    return results_of({"head": {"vars": ["boolean"]}, "results": {"bindings": rows}})
