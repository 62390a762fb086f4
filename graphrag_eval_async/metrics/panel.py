"""Several judges for a metric: their scores become one, and their disagreement is shown."""

from __future__ import annotations

from collections import Counter
from math import fsum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.retrieval import add_f1
from graphrag_eval_async.records.metrics import BY, DISAGREEMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import MetricTask


class Panel(NamedTuple):
    """The judges of a metric.

    Attributes:
        judges: their names in the configuration.
        vote: "mean" or "majority".
        values: keys of the metric's scores.
    """

    judges: Sequence[str]
    vote: str
    values: Collection[str]

    def add(self, known: dict[str, Any], task: MetricTask, verdicts: Sequence[MetricCalls]) -> None:
        """Add the keys of a task to those of the result or of its step; there is a verdict of each judge."""
        keys = self._keys(task, verdicts)
        by, apart = f"{task.metric}{BY}", f"{task.metric}{DISAGREEMENT}"
        if by in keys and by in known:  # Recall and precision are tasks of their own.
            keys[by] = {name: known[by][name] | own for name, own in keys[by].items()}
            keys[apart] = max(known.get(apart, 0.0), keys.get(apart, 0.0))
        known |= keys
        if task.step is None:
            return
        each = [*keys.get(by, {}).values()]
        for own in (known, *each):
            add_f1(own, task.metric)
        if each:
            known.pop(f"{task.metric}_f1", None)
            self._vote_on(f"{task.metric}_f1", task.metric, known, each)

    def _keys(self, task: MetricTask, verdicts: Sequence[MetricCalls]) -> dict[str, Any]:
        """Return the keys of a task.

        With several judges, a score is the mean or the median of theirs, and a text is what most of them say.
        If one fails, the metric fails, and if one gives no score, there is none: the mean of the others would
        not be comparable.
        """
        if len(verdicts) == 1:
            return _keys_of(task, verdicts[0])
        each = {name: _keys_of(task, verdict) for name, verdict in zip(self.judges, verdicts, strict=True)}
        keys = self._joined(task, verdicts, each) | {f"{task.metric}{BY}": each}
        costs = [cost for verdict in verdicts if (cost := verdict.cost) is not None]
        if len(costs) == len(verdicts):
            keys[task.cost_key] = fsum(costs)
        return keys

    def _joined(
        self, task: MetricTask, verdicts: Sequence[MetricCalls], each: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        failed = {
            name: verdict.outcome
            for name, verdict in zip(self.judges, verdicts, strict=True)
            if isinstance(verdict.outcome, JudgeError)
        }
        if failed:
            text = "; ".join(f"judge {name}: {error.message}" for name, error in failed.items())
            return _failed(task, JudgeError(next(iter(failed.values())).kind, text))
        keys: dict[str, Any] = {}
        for key in dict.fromkeys(key for own in each.values() for key in own):
            if key in self.values:
                self._vote_on(key, task.metric, keys, [*each.values()])
            elif key.endswith("_reason"):
                keys[key] = "\n".join(f"{name}: {own[key]}" for name, own in each.items() if key in own)
        return keys

    def _vote_on(
        self, key: str, metric: str, keys: dict[str, Any], each: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add a score and the disagreement to the keys of a result or step, if every judge has the score."""
        if all(key in own for own in each):
            values, apart = [own[key] for own in each], f"{metric}{DISAGREEMENT}"
            keys[key] = _vote(values, self.vote)
            keys[apart] = max(keys.get(apart, 0.0), _range(values))


def _keys_of(task: MetricTask, verdict: MetricCalls) -> dict[str, Any]:
    outcome, cost = verdict.outcome, verdict.cost
    is_error = isinstance(outcome, JudgeError)
    keys = _failed(task, outcome) if isinstance(outcome, JudgeError) else dict(outcome)
    # The cost of a failure without a reply is unknown, not 0.
    if cost is not None and (cost or not is_error):
        keys[task.cost_key] = cost
    return keys


def _failed(task: MetricTask, error: JudgeError) -> dict[str, Any]:
    return dict.fromkeys(task.nulls) | {task.error_key: f"{error.kind}: {error.message}"}


def _vote(values: Sequence[Any], vote: str) -> Any:
    if any(isinstance(value, str) for value in values):
        return Counter(values).most_common(1)[0][0]  # The first of those that are equally frequent.
    return fmean(values) if vote == "mean" else median(values)


def _range(values: Sequence[Any]) -> float:
    """Return how far numbers are apart; for texts, 1 if they differ."""
    if any(isinstance(value, str) for value in values):
        return float(len({*values}) > 1)
    return float(max(values) - min(values))
