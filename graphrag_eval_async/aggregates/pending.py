"""Results whose complete version is still to come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import STEP_METRICS
from graphrag_eval_async.catalogue.outcomes import NO_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.records.evaluation import Evaluation

# Template, question and sample; results of different runs may share them.
Awaited: TypeAlias = tuple[str, ...]


class Pending:
    """Incomplete results, and their pending metrics."""

    def __init__(self) -> None:
        self.results: dict[Awaited, list[tuple[str, ...]]] = {}

    def add(self, seen: Evaluation) -> None:
        """Record an incomplete result, whose values do not count yet."""
        scored = [metric for metric in STEP_METRICS if (metric, NO_STEPS) in seen.outcomes]
        metrics = [*_metrics(seen), *seen.metrics, *scored]
        self.results.setdefault(_key(seen), []).append(tuple(sorted(metrics)))

    def remove(self, seen: Evaluation) -> None:
        """Record a complete result, whether it was pending or not."""
        key = _key(seen)
        if expected := self.results.get(key):
            expected.pop()
            if not expected:
                del self.results[key]

    def merge(self, other: Pending) -> None:
        for key, expected in other.results.items():
            self.results[key] = sorted([*self.results.get(key, ()), *expected])

    def by_template(self) -> dict[str, Counter[str]]:
        """Return the number of pending values by template and metric; omit templates without
        any.
        """
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (template, _, _), parts in self.results.items():
            for metrics in parts:
                counts[template].update(metrics)
        return counts


def _key(seen: Evaluation) -> Awaited:
    return seen.template_id, str(seen.question_id), str(seen.sample)


def _metrics(seen: Evaluation) -> Iterator[str]:
    """Yield the pending metrics; custom evaluations by name, since their outputs are not known
    yet.
    """
    retrievals = sum(map(_is_retrieval, seen.as_dict().get("actual_steps") or ()))
    for name in seen.pending if isinstance(seen.pending, list | tuple) else ():
        if isinstance(name, str):
            metric = JUDGED_BY_NAME.get(name)
            if metric is None:
                yield name
            else:
                yield from metric.values * (retrievals if metric.of_step else 1)


def _is_retrieval(step: Any) -> bool:
    return (
        isinstance(step, Mapping)
        and step.get("name") == "retrieval"
        and step.get("status") == "success"
    )
