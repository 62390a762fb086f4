"""Compares reference steps whose output is the result of a Cypher query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.media_types import plain_type
from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, read_output
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.cypher.cells import results_of_cypher
from graphrag_eval_async.steps.cypher.detail import (
    Detail,
    common_detail,
    describe_missing_detail,
    find_traits,
)
from graphrag_eval_async.steps.cypher.output import CypherOutput
from graphrag_eval_async.steps.cypher.reading import read_cypher_table
from graphrag_eval_async.steps.formats.reading import steps_to_read
from graphrag_eval_async.steps.tables.rules import TableRules, prepare_reference
from graphrag_eval_async.steps.tables.step import compare_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.differences import Agreement
    from graphrag_eval_async.steps.tables.rules import Reference

A_TABLE = "a table"
"""How errors call the output."""

MOST_REFERENCES = 8
"""How many preparations of one reference are kept, one for each detail of comparison.

The outputs of one agent need one or two.
"""

UNLIMITED = 1 << 62
"""Steps of a budget for a reference, which is read once."""


class CypherStep:
    """Compares actual outputs with a reference result of Cypher, which is read on first use."""

    __slots__ = ("_as_values", "_is_partial", "_output", "_references", "_step")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        """Keep a reference step without reading its output.

        Args:
            step: the reference step.
            partial: whether results that agree in part score more than 0.
        """
        self._step = step
        self._is_partial = partial
        self._as_values = step.get("score") == VALUES_F1
        self._output: CypherOutput | None = None
        self._references: dict[tuple[Detail, bool], Reference] = {}

    def kind(self) -> str:
        """Return what errors call the output, after checking that it can be compared.

        Raises:
            MalformedStep: the output is no table, or its required columns are not in it.
        """
        # Reading the reference checks it.
        self._reference(Detail(is_ordered=self._is_ordered), has_blanks=False)
        return A_TABLE

    def compare(self, actual: ActualStep) -> Agreement:
        """Return how far an actual output agrees with that of the reference step.

        Raises:
            MalformedStep: one of the outputs is no table.
            ComparisonBudgetExceeded: the outputs are too large.
        """
        # Read both outputs.
        expected_output = self._expected_output()
        actual_output = actual.remember(CypherOutput, lambda: _read_actual(actual))
        has_expected_types = expected_output.table.has_types
        has_actual_types = actual_output.table.has_types
        if actual.budget.strict_types and has_expected_types and not has_actual_types:
            raise MalformedStep("output: the cells have no types")

        # Compare them by what both of them tell. Scores of values as a set are compared with
        # published ones, for which all values are texts. A format without types cannot
        # distinguish null from empty text, so for its sake, empty texts of the other output are
        # null.
        detail = common_detail(
            expected_output.traits,
            actual_output.traits,
            is_ordered=self._is_ordered,
            has_types=has_expected_types and has_actual_types and not self._as_values,
        )
        reference = self._reference(detail, has_blanks=not has_actual_types)
        results = results_of_cypher(
            actual_output.table,
            detail,
            actual.budget,
            has_blanks=not has_expected_types,
            default_names=reference.names,
        )
        agreement = compare_results(
            reference,
            results,
            actual.budget,
            as_values=self._as_values,
            is_partial=self._is_partial,
        )

        # If they differ, and nothing else is to be said, say what was not compared.
        if agreement.score < 1 and agreement.detail is None:
            lacking = describe_missing_detail(expected_output.traits, actual_output.traits)
            return agreement._replace(detail=lacking)
        return agreement

    @property
    def _is_ordered(self) -> bool:
        """Whether the order of rows, and of items in lists, counts."""
        return bool(self._step.get("ordered"))

    def _expected_output(self) -> CypherOutput:
        """Return the output of the reference step, which is read on first use and then kept.

        Raises:
            MalformedStep: the output is no table.
        """
        if self._output is None:
            media_type = plain_type(self._step.get("output_media_type"))
            table = read_output(
                self._step, lambda output: read_cypher_table(output, media_type=media_type)
            )
            self._output = CypherOutput(table, find_traits(table, Budget(UNLIMITED)))
        return self._output

    def _reference(self, detail: Detail, *, has_blanks: bool) -> Reference:
        """Return the output of the reference step as it is compared, in a detail.

        It is kept for further calls. If `MOST_REFERENCES` are kept already, these are dropped.

        Args:
            detail: which parts of values count.
            has_blanks: whether the actual output cannot distinguish null from empty text.

        Raises:
            MalformedStep: the output is no table, or its required columns are not in it.
        """
        key = (detail, has_blanks)
        if key not in self._references:
            results = results_of_cypher(
                self._expected_output().table,
                detail,
                Budget(UNLIMITED),
                has_blanks=has_blanks,
                default_names=(),
            )
            rules = TableRules.of_step(self._step, ignores_duplicates=False)
            if len(self._references) >= MOST_REFERENCES:
                self._references.clear()
            self._references[key] = prepare_reference(results, rules)
        return self._references[key]


def _read_actual(actual: ActualStep) -> CypherOutput:
    """Read the output of an actual step, and find its traits.

    Raises:
        MalformedStep: the output is no table.
        ComparisonBudgetExceeded: the output is too large.
    """
    if actual.budget.quick:
        actual.budget.spend(_steps_to_read(actual.step.get("output")))
    media_type = plain_type(actual.step.get("output_media_type"))
    table = read_output(actual.step, lambda text: read_cypher_table(text, media_type=media_type))
    return CypherOutput(table, find_traits(table, actual.budget))


def _steps_to_read(output: Any) -> int:
    """Return about how many steps of a `Budget` reading an output takes."""
    if isinstance(output, str):
        # Each character is a step.
        return len(output)
    return steps_to_read(output)
