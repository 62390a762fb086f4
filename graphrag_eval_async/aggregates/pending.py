"""Results whose complete version is still to come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import STEP_METRICS
from graphrag_eval_async.catalogue.outcomes import NO_STEPS

if TYPE_CHECKING:
    from graphrag_eval_async.records.evaluation import Evaluation

MetricNames: TypeAlias = tuple[str, ...]
"""The metrics of an incomplete result that do not count yet, once for each value, sorted."""


class ResultKey(NamedTuple):
    """What an incomplete result and its complete version have in common.

    Results of different runs may share it.
    """

    template_id: str
    question_id: str
    sample: str

    @classmethod
    def of(cls, evaluation: Evaluation) -> ResultKey:
        """Return the key of a result, whose question and sample may be of any type."""
        return cls(
            template_id=evaluation.template_id,
            question_id=str(evaluation.question_id),
            sample=str(evaluation.sample),
        )


class Pending:
    """Incomplete results, and their pending metrics.

    Attributes:
        results: the metrics of each incomplete result, by the key of the result.
    """

    def __init__(self) -> None:
        self.results: dict[ResultKey, list[MetricNames]] = {}

    def add(self, evaluation: Evaluation) -> None:
        """Record an incomplete result, whose values do not count yet."""
        metrics = [*_metrics_to_judge(evaluation), *evaluation.metrics]
        metrics += [metric for metric in STEP_METRICS if (metric, NO_STEPS) in evaluation.outcomes]
        results = self.results.setdefault(ResultKey.of(evaluation), [])
        results.append(tuple(sorted(metrics)))

    def remove(self, evaluation: Evaluation) -> None:
        """Record a complete result, whether it was pending or not."""
        key = ResultKey.of(evaluation)
        results = self.results.get(key)
        if results is None:
            return
        results.pop()
        if not results:
            del self.results[key]

    def merge(self, other: Pending) -> None:
        """Add the incomplete results of `other`."""
        for key, results in other.results.items():
            self.results[key] = sorted([*self.results.get(key, []), *results])

    def by_template(self) -> dict[str, Counter[str]]:
        """Return the number of pending values by template and metric.

        Templates without pending results are absent.
        """
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, results in self.results.items():
            for metrics in results:
                counts[key.template_id].update(metrics)
        return counts


def _metrics_to_judge(evaluation: Evaluation) -> list[str]:
    """Return the metrics that a result says are pending, once for each value to come.

    Custom evaluations are returned by name, since their outputs are not known yet.
    """
    names = evaluation.pending
    if not isinstance(names, list | tuple):
        return []
    steps = evaluation.as_dict().get("actual_steps") or ()
    retrievals = sum(_is_successful_retrieval(step) for step in steps)
    metrics: list[str] = []
    for name in names:
        if not isinstance(name, str):
            continue
        metric = JUDGED_BY_NAME.get(name)
        if metric is None:
            metrics.append(name)
        elif metric.of_step:
            metrics += metric.values * retrievals
        else:
            metrics += metric.values
    return metrics


def _is_successful_retrieval(step: Any) -> bool:
    """Return whether an unchecked step is one that metrics of retrieval judge."""
    return (
        isinstance(step, Mapping)
        and step.get("name") == "retrieval"
        and step.get("status") == "success"
    )
