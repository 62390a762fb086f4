"""Compares reference steps whose output is a table of SPARQL results."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.shapes import CSV, TSV, XML
from graphrag_eval_async.steps.actual import ActualStep, kind_of, read_output
from graphrag_eval_async.steps.sparql.comparison import (
    agree_but_for_order,
    compare,
    lacks_columns,
    prepare_reference,
)
from graphrag_eval_async.steps.sparql.differences import Differences
from graphrag_eval_async.steps.sparql.partial import Partial, compare_in_part
from graphrag_eval_async.steps.sparql.results import is_same_table, read_document, results_of
from graphrag_eval_async.steps.sparql.tables import read_strictly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.sparql.comparison import SparqlReference
    from graphrag_eval_async.steps.sparql.results import SparqlResults


class SparqlStep:
    """Compares with reference results, which are decoded and laid out as columns on first use."""

    __slots__ = ("_blanked", "_document", "_is_typed", "_read", "_reference", "_step")

    def __init__(self, step: Mapping[str, Any]) -> None:
        self._step = step
        media_type = str(step.get("output_media_type"))
        self._read: Callable[[Any], dict[str, Any]] = read_document
        if media_type in (XML, CSV, TSV):
            self._read = partial(read_strictly, media_type=media_type)
        self._is_typed = media_type != CSV
        self._document: dict[str, Any] | None = None
        self._reference: SparqlReference | None = None
        self._blanked: SparqlReference | None = None

    def document(self) -> dict[str, Any]:
        if self._document is None:
            self._document = read_output(self._step, self._read)
        return self._document

    def reference(self) -> SparqlReference:
        if self._reference is None:
            try:
                results = read_output({"output": self.document()}, results_of)
            except ComparisonBudgetExceeded as error:  # A reference like that cannot be right.
                raise MalformedStep(f"output: {error}") from None
            results.has_blanks = not self._is_typed
            self._reference = self._prepared(results)
        return self._reference

    def _prepared(self, results: SparqlResults) -> SparqlReference:
        step = self._step
        return prepare_reference(
            results,
            required_columns=step.get("required_columns"),
            ordered=bool(step.get("ordered")),
            ignore_duplicates=step.get("ignore_duplicates") is not False,
        )

    def sides(self, actual: ActualStep) -> tuple[SparqlReference, SparqlResults]:
        """The reference and the actual results, with empty texts unbound if either cannot tell them apart."""
        reference, results = self.reference(), self.results(actual)
        if not (reference.results.has_blanks or results.has_blanks):
            return reference, results
        if self._blanked is None:
            blanked = reference.results.blanked()
            self._blanked = reference if blanked is reference.results else self._prepared(blanked)
        return self._blanked, results.blanked()

    def results(self, actual: ActualStep) -> SparqlResults:
        """The actual results, in whichever format."""
        try:
            actual.output(read_document)
        except MalformedStep:
            return actual.table(strict=self._is_typed)
        return actual.results()

    def is_same(self, actual: ActualStep) -> bool:
        """Whether the actual output is the same JSON."""
        try:
            document = actual.output(read_document)
        except MalformedStep:
            return False
        return is_same_table(self.document(), document)

    def score(self, actual: ActualStep) -> float:
        if self.is_same(actual):
            return 1.0
        return compare(*self.sides(actual), actual.budget)

    def explain(self, actual: ActualStep) -> str | None:
        expected = kind_of(self.reference().results)
        try:
            reference, results = self.sides(actual)
        except MalformedStep as error:
            raise actual.unlike(expected, error) from None
        if (found := kind_of(results)) != expected:
            raise MalformedStep(f"output: expected {expected}, got {found}")
        if lacks_columns(reference, results):
            return "missing_columns"
        return "wrong_order" if agree_but_for_order(reference, results, actual.budget) else None

    def partial(self, actual: ActualStep) -> Partial:
        """What agrees, computed once for each actual step."""
        return actual.remember(self, lambda: compare_in_part(*self.sides(actual), actual.budget))

    def score_in_part(self, actual: ActualStep) -> float:
        return 1.0 if self.is_same(actual) else self.partial(actual).f1

    def explain_in_part(self, actual: ActualStep) -> str | None:
        reason, partial = self.explain(actual), self.partial(actual)
        return reason or (Differences(partial).reason() if partial.f1 else None)

    def diff(self, actual: ActualStep) -> list[Difference]:
        return Differences(self.partial(actual)).listed()
