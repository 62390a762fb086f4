"""Compares reference steps whose output is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, read_output
from graphrag_eval_async.steps.failure import Facts
from graphrag_eval_async.steps.rdf.comparison import isomorphic, overlap
from graphrag_eval_async.steps.rdf.reading import (
    Source,
    check_installed,
    read_dataset,
    read_union,
    steps_to_read,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.rdf.comparison import Overlap
    from graphrag_eval_async.steps.rdf.graph import Graph


class GraphStep:
    """Compares with a reference graph, which is read on first use."""

    __slots__ = ("_graph", "_read", "_step")

    def __init__(self, step: Mapping[str, Any]) -> None:
        self._step = step
        self._read = read_union if step.get("ignore_graph_names") else read_dataset
        self._graph: Graph | None = None

    def reference(self) -> Graph:
        """Return the reference graph.

        Raises:
            MalformedStep: it is not RDF of its media type, or pyoxigraph is not installed.
        """
        if self._graph is None:
            check_installed()
            media_type, budget = self._step.get("output_media_type"), ActualStep(self._step).budget
            self._graph = read_output(
                self._step, lambda output: self._read(Source(output, media_type, budget, lenient=False))
            )
        return self._graph

    def score(self, actual: ActualStep) -> float:
        """Return 1 for isomorphic graphs, else 0; with ``score: f1``, the F1 of their statements.

        Raises:
            MalformedStep: the actual output is not RDF.
            ComparisonBudgetExceeded: undecided within the budget.
        """
        if actual.budget.quick and self._graph is None:
            actual.budget.spend(steps_to_read(self._step.get("output")))
        reference, graph = self.reference(), actual.graph(self._read)
        if isomorphic(reference, graph, actual.budget):
            return 1.0
        if self._step.get("score") != "f1":
            return 0.0
        return overlap(reference, graph, actual.budget).f1

    def overlap(self, actual: ActualStep) -> Overlap:
        """Return precision, recall, F1 and the statements that differ; raises what `score` raises."""
        return overlap(self.reference(), actual.graph(self._read), actual.budget)

    def explain(self, actual: ActualStep) -> Facts:
        """Return what only graphs tell of an actual step that scored below 1; raises what `score` raises."""
        actual.graph(self._read)
        return Facts()

    def diff(self, actual: ActualStep) -> list[dict[str, Any]]:
        """List up to ten statements that differ; nothing if the actual output is not RDF."""
        try:
            return self.overlap(actual).differences()
        except MalformedStep:
            return []
