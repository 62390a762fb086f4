"""Compares reference steps whose output is a table of SPARQL results."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, kind_of_results, read_output
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.formats.delimited import is_lone_header
from graphrag_eval_async.steps.formats.json_tables import answer_below
from graphrag_eval_async.steps.formats.reading import read_reference
from graphrag_eval_async.steps.formats.results import SparqlResults, is_same_table, results_of
from graphrag_eval_async.steps.tables.comparison import (
    agree,
    agree_but_for_order,
    lacks_columns,
    prepare_reference,
)
from graphrag_eval_async.steps.tables.partial import compare_in_part
from graphrag_eval_async.steps.tables.values import compare_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.formats.table import Table
    from graphrag_eval_async.steps.tables.comparison import Reference


class SparqlStep:
    """Compares with reference results, which are decoded and laid out as columns on first use."""

    __slots__ = ("_as_values", "_is_partial", "_references", "_step", "_table")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        self._step = step
        self._is_partial, self._as_values = partial, step.get("score") == VALUES_F1
        self._table: Table | None = None
        self._references: dict[tuple[bool, bool], Reference] = {}

    def table(self) -> Table:
        if self._table is None:
            media_type = str(self._step.get("output_media_type"))
            self._table = read_output(self._step, lambda output: read_reference(output, media_type))
        return self._table

    def reference(self, *, has_blanks: bool = False, strict_types: bool = False) -> Reference:
        """Return the reference to compare with.

        Args:
            has_blanks: whether the other side cannot tell empty texts from unbound cells.
            strict_types: whether an IRI is no literal of the same text.

        Raises:
            MalformedStep: the output is no table, or its required columns are not in it.
        """
        table, step = self.table(), self._step
        has_blanks = has_blanks or table.has_blanks
        key = has_blanks, strict_types
        if key not in self._references:
            read = partial(results_of, has_blanks=has_blanks, strict_types=strict_types)
            try:
                results = read_output({"output": table.document}, read)
            except ComparisonBudgetExceeded as error:  # A reference like that cannot be right.
                raise MalformedStep(f"output: {error}") from None
            self._references[key] = prepare_reference(
                results,
                required_columns=step.get("required_columns"),
                ordered=bool(step.get("ordered")),
                ignore_duplicates=step.get("ignore_duplicates") is not False,
            )
        return self._references[key]

    def kind(self) -> str:
        """What the output is; raises what `reference` raises."""
        return kind_of_results(self.reference().results)

    def _is_empty_column(self, output: Any) -> bool:
        """Return whether both are empty tables with one column, of which an output has the header.

        Without the reference, a text of one word cannot be told from a header.
        """
        results = self.reference().results
        if results.boolean is not None or results.row_count > 0 or len(results.variables) != 1:
            return False
        [name] = results.variables
        return is_lone_header(output, name)

    def compare(self, actual: ActualStep) -> Agreement:
        """How far an actual output agrees; raises what comparators raise."""
        table = self.table()
        if self._is_empty_column(actual.step.get("output")):
            return Agreement(1.0)
        other = actual.table(strict=table.typed)
        if not self._as_values and is_same_table(table.document, other.document):
            return Agreement(1.0)
        strict_types = actual.budget.strict_types and table.typed and other.typed
        reference = self.reference(has_blanks=other.has_blanks, strict_types=strict_types)
        results = actual.results(has_blanks=table.has_blanks, strict_types=strict_types)
        if reference.results.boolean is not None:
            results = _as_answer(results)
        if self._as_values:
            return compare_values(reference.results, results, actual.budget)
        if self._is_partial:
            found = compare_in_part(reference, results, actual.budget)
        else:
            found = Agreement(float(agree(reference, results, actual.budget)))
        if found.score == 1 or reference.results.boolean is not None or results.boolean is not None:
            return found
        if lacks_columns(reference, results):
            return found._replace(reason="missing_columns")
        try:
            is_disordered = agree_but_for_order(reference, results, actual.budget)
        except ComparisonBudgetExceeded:
            if actual.budget.quick:
                raise
            return found
        return found._replace(reason="wrong_order") if is_disordered else found


def _as_answer(results: SparqlResults) -> SparqlResults:
    """Return the answer to ASK that stores write as a table of one cell; all else as it is."""
    if results.row_count != 1 or len(results.columns) != 1:
        return results
    [column] = results.columns
    boolean = answer_below(column.name, str(column.texts[0]))
    return results if boolean is None else SparqlResults(boolean=boolean)
