"""Draws results at random, for people to label."""

from __future__ import annotations

from hashlib import sha256 as sha256_of
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import check_integer
from graphrag_eval_async.inference.labels import check_metric, no_score, score_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = ("question_id", "sample", "template_id", "question_text", "reference_answer", "actual_answer")
"""The keys of a result that people see. The judge's score is not among them: it would sway them."""

OF_RETRIEVAL = ("faithfulness", "context_relevance", "retrieval_answer", "retrieval_context")
EVIDENCE = {"sparql_groundedness": "sparql_query"} | dict.fromkeys(OF_RETRIEVAL, "retrieval")
"""The steps whose outputs people need to judge a metric, by how its name begins."""


def _outputs(result: Mapping[str, Any], name: str) -> list[Any]:
    """Return what the successful steps of a name returned."""
    return [
        step.get("output")
        for step in result.get("actual_steps") or ()
        if isinstance(step, dict) and (step.get("name"), step.get("status")) == (name, "success")
    ]


class LabelSample:
    """Draws `n` of the results that have a score, each set of them equally likely.

    It takes the results with the smallest hashes of seed and line. So the draw does not depend on their
    order, the first of a smaller sample are those of a larger one, and no more than `n` results are kept.

    Attributes:
        total: number of results that have a score.
    """

    def __init__(self, n: int, *, metric: str, seed: int) -> None:
        check_integer("n", n)
        check_metric(metric)
        self.total = 0
        self._n, self._metric, self._seed = n, metric, seed
        self._metrics: set[str] = set()
        self._drawn: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, result: Mapping[str, Any], sha256: str) -> None:
        """Add a result and the SHA-256 of its line.

        Raises:
            AggregationError: it is not a result.
        """
        if score_of(result, self._metric, sha256, self._metrics) is None:
            return
        self.total += 1
        place = -int(sha256_of(f"{self._seed}:{sha256}".encode()).hexdigest(), 16)
        shown = {key: result[key] for key in SHOWN if key in result}
        for metric, name in EVIDENCE.items():
            if self._metric.startswith(metric):
                shown["evidence"] = _outputs(result, name)
        entry = (place, self.total, {**shown, "sha256": sha256})
        if len(self._drawn) < self._n:
            heappush(self._drawn, entry)
        else:
            heappushpop(self._drawn, entry)

    def labels(self) -> list[dict[str, Any]]:
        """Return what was drawn, in random order, as labels whose value is still None.

        Raises:
            UsageError: no result has the metric.
        """
        if not self.total:
            raise no_score(self._metric, self._metrics)
        drawn = {"n": len(self._drawn), "of": self.total, "seed": self._seed}
        return [
            {**shown, "metric": self._metric, "value": None, "drawn": drawn}
            for _, _, shown in sorted(self._drawn, key=lambda entry: entry[:2], reverse=True)
        ]
