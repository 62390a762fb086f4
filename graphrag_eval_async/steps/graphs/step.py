"""Compares reference steps whose output is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.actual import GRAPH, ActualStep, read_output
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.graphs.comparison import isomorphic, overlap
from graphrag_eval_async.steps.graphs.reading import Source, import_pyoxigraph, read_dataset, read_union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.graphs.reading import Graph


class GraphStep:
    """Compares with a reference graph, which is read on first use."""

    __slots__ = ("_graph", "_is_partial", "_read", "_step")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        self._step = step
        self._is_partial = partial
        self._read = read_union if step.get("ignore_graph_names") else read_dataset
        self._graph: Graph | None = None

    def reference(self) -> Graph:
        """Return the reference graph.

        Raises:
            MalformedStep: it is not RDF of its media type, or pyoxigraph is not installed.
        """
        if self._graph is None:
            import_pyoxigraph()
            media_type, budget = self._step.get("output_media_type"), ActualStep(self._step).budget
            self._graph = read_output(
                self._step, lambda output: self._read(Source(output, media_type, budget, lenient=False))
            )
        return self._graph

    def kind(self) -> str:
        """What the output is; raises what `reference` raises."""
        self.reference()
        return GRAPH

    def compare(self, actual: ActualStep) -> Agreement:
        """Return 1 for isomorphic graphs; else 0 or, with partial credit, the F1 of the statements."""
        reference, graph = self.reference(), actual.graph(self._read)
        if isomorphic(reference, graph, actual.budget):
            return Agreement(1.0)
        if not self._is_partial:
            return Agreement(0.0)
        found = overlap(reference, graph, actual.budget)
        reason = "missing_triples" if found.missing else "extra_triples" if found.extra else None
        return Agreement(found.f1, reason, found.differences() if found.f1 else ())
