"""Compares several systems on the same questions: their means, and each against the first."""

from __future__ import annotations

from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.exact import mean, sum_floats
from graphrag_eval_async.aggregates.questions import clusters
from graphrag_eval_async.catalogue.metrics import is_metric, is_primary, lower_is_better
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.one_look import one_look
from graphrag_eval_async.inference.verdicts import (
    check_known,
    is_fraction,
    position,
    rows_of_comparisons,
)
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.inference.verdicts import Row
    from graphrag_eval_async.records.evaluation import Evaluation


class _System(NamedTuple):
    """What is known of one system.

    Attributes:
        results: number of its results.
        questions: number of its questions.
        missing: ids of the questions that only the first system has.
        question_means: the means of its questions, by metric.
    """

    results: int
    questions: int
    missing: list[str]
    question_means: dict[str, list[float]]


class RunningSystems:
    """Compares systems from their results, which are added one by one.

    Each question takes about two kilobytes for each system but the first.
    """

    def __init__(self, names: Sequence[str], *, primary: Collection[str] | None = None) -> None:
        """Create a comparison without results.

        Args:
            names: a different name for each of two systems or more. The others are compared with
                the first.
            primary: the metrics that are compared; see `is_primary` for the default.

        Raises:
            UsageError: there are fewer than two names, or two are equal.
        """
        if len(names) < 2 or len(set(names)) < len(names):
            raise UsageError(f"systems: expected two or more different names, got {names}")
        self._first = names[0]
        self._primary = primary
        self._comparisons = {name: RunningComparison(primary=primary) for name in names[1:]}

    def add(self, name: str, result: Mapping[str, Any] | Evaluation) -> None:
        """Add a result of the system with this name.

        Raises:
            AggregationError: it is not a result of a question.
        """
        observed = observe(result)
        if name != self._first:
            self._comparisons[name].add(observed)
            return
        for comparison in self._comparisons.values():
            comparison.add_baseline(observed)

    def snapshot(self, *, level: float = 0.95) -> dict[str, Any]:
        """Return the means of all systems, and the changes from the first.

        The changes of all systems and metrics share the error: with a probability of `level`, none
        of their verdicts is wrong.

        Returns:
            a dict with these keys:

            - `level`, and `first`, the name of the system with which the others are compared;
            - `systems`: by name, the number of `results` and of `questions`, the ids of the
              `missing` questions, which only the first system has, and `metrics`: by metric, the
              `mean` over questions, the `interval` of the mean unless it has none, and `change`: a
              row in the layout of `compare`. The first system has no `change`, nor has a metric
              that no question has in both systems;
            - `ranking`: by metric, the names of the systems that have it, the best first;
            - `lower_is_better`: the metrics of which lower values are better;
            - `warnings`.

        Raises:
            UsageError: `level` is not between 0 and 1, or no result has one of the primary metrics.
        """
        check_level(level)
        comparisons = self._comparisons.values()
        known_metrics = {metric for comparison in comparisons for metric in comparison.metrics}
        fractions = {name for comparison in comparisons for name in comparison.fractions}
        lower_outputs = {name for comparison in comparisons for name in comparison.lower_outputs}
        check_known("primary", filterfalse(is_metric, self._primary or ()), known_metrics)

        changes = rows_of_comparisons(
            {name: comparison.shared_pairs() for name, comparison in self._comparisons.items()},
            fractions=fractions,
            level=level,
            primary=self._primary,
            lower_outputs=lower_outputs,
        )
        systems: dict[str, dict[str, Any]] = {}
        for name, system in self._systems().items():
            # The first system has no changes: the others are compared with it.
            metrics_of_system = self._metrics_of_system(
                system, changes.get(name, {}), fractions=fractions, level=level
            )
            systems[name] = {
                "results": system.results,
                "questions": system.questions,
                "missing": system.missing,
                "metrics": metrics_of_system,
            }

        metrics = {metric for facts in systems.values() for metric in facts["metrics"]}
        lower_metrics = [
            metric
            for metric in sorted(metrics, key=position)
            if metric in lower_outputs or lower_is_better(metric)
        ]
        ranking = {
            metric: _rank(systems, metric, lower=metric in lower_metrics)
            for metric in sorted(metrics, key=position)
        }
        return {
            "level": level,
            "first": self._first,
            "systems": systems,
            "ranking": ranking,
            "lower_is_better": lower_metrics,
            "warnings": self._warnings(),
        }

    def _metrics_of_system(
        self,
        system: _System,
        changes: Mapping[str, Row],
        *,
        fractions: Collection[str],
        level: float,
    ) -> dict[str, dict[str, Any]]:
        """Return the mean, the interval and the change of each primary metric of a system.

        Args:
            system: the system.
            changes: the changes of its metrics from the first system; empty for that system itself.
            fractions: names of outputs of custom evaluations that are from 0 to 1.
            level: confidence level of the intervals.
        """
        metrics = {}
        for metric in sorted(system.question_means, key=position):
            if not is_primary(metric, self._primary, fractions):
                continue
            stats = _mean_and_interval(
                system.question_means[metric], level, is_bounded=is_fraction(metric, fractions)
            )
            if metric in changes:
                stats["change"] = changes[metric]
            metrics[metric] = stats
        return metrics

    def _systems(self) -> dict[str, _System]:
        """Return the counts and means of each system, by name; the first system comes first."""
        # All comparisons have the first system as their baseline.
        any_comparison = next(iter(self._comparisons.values()))
        systems = {
            self._first: _System(
                **any_comparison.counts("baseline"),
                missing=[],
                question_means=any_comparison.question_means("baseline"),
            )
        }
        for name, comparison in self._comparisons.items():
            systems[name] = _System(
                **comparison.counts("candidate"),
                missing=comparison.missing(),
                question_means=comparison.question_means("candidate"),
            )
        return systems

    def _warnings(self) -> list[str]:
        """Return the warnings of all comparisons, each with the name of a system before it."""
        return [
            f"{name}: {warning}"
            for name, comparison in self._comparisons.items()
            for warning in comparison.warnings()
        ]


def _mean_and_interval(
    question_means: Sequence[float], level: float, *, is_bounded: bool
) -> dict[str, Any]:
    """Return the mean of the means of questions and, if it has one, the interval of that mean.

    Args:
        question_means: the means of one question or more.
        level: confidence level of the interval.
        is_bounded: whether the metric is from 0 to 1.
    """
    total = sum_floats(question_means)
    mean_of_means = mean(total, len(question_means), integral=False)
    stats: dict[str, Any] = {"mean": mean_of_means, "questions": len(question_means)}
    ends = one_look(clusters(question_means, mean_of_means), level, bounded=is_bounded)
    if ends is not None:
        low, high = ends
        stats["interval"] = {"level": level, "low": low, "high": high, "kind": "one_look"}
    return stats


def _rank(systems: Mapping[str, Mapping[str, Any]], metric: str, *, lower: bool) -> list[str]:
    """Return the names of the systems that have a metric, sorted by its mean, the best first.

    Args:
        systems: the facts of each system, by name.
        metric: the metric.
        lower: whether lower values are better.
    """
    means = {
        name: facts["metrics"][metric]["mean"]
        for name, facts in systems.items()
        if metric in facts["metrics"]
    }
    return sorted(means, key=lambda name: means[name] if lower else -means[name])
