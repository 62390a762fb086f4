"""Compares reference steps whose output is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import GRAPH, ActualStep, read_output
from graphrag_eval_async.steps.graphs.comparison import isomorphic, overlap
from graphrag_eval_async.steps.graphs.reading import Source, import_pyoxigraph, read_dataset, read_union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.graphs.comparison import Overlap
    from graphrag_eval_async.steps.graphs.reading import Graph


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
            import_pyoxigraph()
            media_type, budget = self._step.get("output_media_type"), ActualStep(self._step).budget
            self._graph = read_output(
                self._step, lambda output: self._read(Source(output, media_type, budget, lenient=False))
            )
        return self._graph

    def score(self, actual: ActualStep) -> float:
        """Return 1 for isomorphic graphs, else 0."""
        return float(isomorphic(self.reference(), actual.graph(self._read), actual.budget))

    def score_in_part(self, actual: ActualStep) -> float:
        """Return the F1 of the statements; raises what `score` raises."""
        return self.score(actual) or self.overlap(actual).f1

    def overlap(self, actual: ActualStep) -> Overlap:
        """Return precision, recall, F1 and the statements that differ; raises what `score` raises."""
        return actual.remember(
            self, lambda: overlap(self.reference(), actual.graph(self._read), actual.budget)
        )

    def explain(self, actual: ActualStep) -> None:
        """Read an actual step that scored 0, so that an empty graph is known as one; raises as `score`."""
        try:
            actual.graph(self._read)
        except MalformedStep as error:
            raise actual.unlike(GRAPH, error) from None

    def explain_in_part(self, actual: ActualStep) -> str | None:
        """Return which statements differ; raises what `score` raises."""
        self.explain(actual)
        found = self.overlap(actual)
        return "missing_triples" if found.missing else "extra_triples" if found.extra else None

    def diff(self, actual: ActualStep) -> list[dict[str, Any]]:
        """List up to ten statements that differ; nothing if the actual output is not RDF."""
        try:
            return self.overlap(actual).differences()
        except MalformedStep:
            return []
