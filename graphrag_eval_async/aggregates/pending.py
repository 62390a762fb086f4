"""Incomplete results, which a complete version will follow once a judge has scored them."""

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
"""The metrics of an incomplete result that do not count yet, sorted, once for each value."""


class ResultKey(NamedTuple):
    """Identifies an incomplete result and its complete version.

    Results of different runs may have the same key.
    """

    template_id: str
    question_id: str
    sample: str

    @classmethod
    def of(cls, evaluation: Evaluation) -> ResultKey:
        """Return the key of a result."""
        # The question and the sample may be of any type.
        return cls(
            template_id=evaluation.template_id,
            question_id=str(evaluation.question_id),
            sample=str(evaluation.sample),
        )


class Pending:
    """The incomplete results that no complete version has followed yet.

    Attributes:
        results: the metrics that do not count yet of each incomplete result, by the key of the
            result. Several results may have the same key.
    """

    def __init__(self) -> None:
        self.results: dict[ResultKey, list[MetricNames]] = {}

    def add(self, evaluation: Evaluation) -> None:
        """Record an incomplete result. None of its metrics counts yet."""
        metrics = [*_metrics_to_judge(evaluation), *evaluation.metrics]
        # If the response lists no steps, their metrics failed. That does not count yet either.
        metrics += [metric for metric in STEP_METRICS if (metric, NO_STEPS) in evaluation.outcomes]
        results = self.results.setdefault(ResultKey.of(evaluation), [])
        results.append(tuple(sorted(metrics)))

    def remove(self, evaluation: Evaluation) -> None:
        """Remove the incomplete result that a complete one follows, if there is one."""
        key = ResultKey.of(evaluation)
        results = self.results.get(key)
        if results is None:
            return
        results.pop()
        if not results:
            del self.results[key]

    def merge(self, other: Pending) -> None:
        """Add the incomplete results of other aggregates."""
        for key, results in other.results.items():
            # Sorted, so that the order of merging does not matter.
            self.results[key] = sorted([*self.results.get(key, []), *results])

    def by_template(self) -> dict[str, Counter[str]]:
        """Count the values that are still to come, by template and metric.

        Templates without incomplete results are absent.
        """
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, results in self.results.items():
            for metrics in results:
                counts[key.template_id].update(metrics)
        return counts


def _metrics_to_judge(evaluation: Evaluation) -> list[str]:
    """Return the metrics that a judge still has to score in a result, once for each value.

    The key `pending` of the result names them. A custom evaluation stands for its outputs, which
    are not known yet.
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
            # It is a custom evaluation.
            metrics.append(name)
        elif metric.of_step:
            metrics += metric.values * retrievals
        else:
            metrics += metric.values
    return metrics


def _is_successful_retrieval(step: Any) -> bool:
    """Return whether a step is one that metrics of retrieval judge; it may be of any type."""
    return (
        isinstance(step, Mapping)
        and step.get("name") == "retrieval"
        and step.get("status") == "success"
    )
