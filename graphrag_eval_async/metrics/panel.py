"""Several judges for a metric: their scores become one, and their disagreement is shown."""

from __future__ import annotations

from collections import Counter
from math import fsum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.records.metrics import BY, DISAGREEMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.metrics.metric import Keys, Task

Verdict: TypeAlias = "tuple[Mapping[str, Any] | JudgeError, float | None]"
"""The keys that a judge gives, or why there are none; and the cost in US dollars, None if it is unknown."""


class Panel(NamedTuple):
    """The judges of a metric.

    Attributes:
        judges: their names in the configuration.
        vote: "mean" or "majority".
        values: keys of the metric's scores.
        nulls: keys set to None if the metric fails.
    """

    judges: Sequence[str]
    vote: str
    values: Collection[str]
    nulls: Collection[str] = ()

    def add(self, known: Keys, task: Task, verdicts: Sequence[Verdict]) -> None:
        """Add the keys of a task to those of the result or of its step; there is a verdict of each judge.

        With several judges, a score is the mean or the median of theirs, and a text is what most of them say.
        If one fails, the metric fails, and if one gives no score, there is none: the mean of the others would
        not be comparable.
        """
        each = {name: self._keys(task, *verdict) for name, verdict in zip(self.judges, verdicts, strict=True)}
        by: dict[str, Keys] = {}
        if len(each) == 1:
            known |= each[self.judges[0]]
        else:
            known |= self._joined(task, verdicts, each)
            by = known.setdefault(f"{task.metric}{BY}", {name: {} for name in each})
            for name, own in each.items():  # Recall and precision are tasks of their own.
                by[name] |= own
        if task.step is not None:
            for own in (known, *by.values()):
                _add_f1(own, task.metric)
        self._vote(known, by, f"{task.metric}{DISAGREEMENT}")

    def _keys(self, task: Task, outcome: Mapping[str, Any] | JudgeError, cost: float | None) -> Keys:
        is_error = isinstance(outcome, JudgeError)
        keys = self._failed(task, outcome) if isinstance(outcome, JudgeError) else {**outcome}
        # The cost of a failure without a reply is unknown, not 0.
        return keys | ({} if cost is None or (is_error and not cost) else {task.cost_key: cost})

    def _failed(self, task: Task, error: JudgeError) -> Keys:
        return dict.fromkeys(self.nulls) | {task.error_key: f"{error.kind}: {error.message}"}

    def _joined(self, task: Task, verdicts: Sequence[Verdict], each: Mapping[str, Keys]) -> Keys:
        """Return the error, or else all reasons, and the cost of all judges."""
        outcomes = dict(zip(each, (outcome for outcome, _ in verdicts), strict=True))
        failed = {name: error for name, error in outcomes.items() if isinstance(error, JudgeError)}
        keys: Keys = {}
        if failed:
            text = "; ".join(f"judge {name}: {error.message}" for name, error in failed.items())
            keys = self._failed(task, JudgeError(next(iter(failed.values())).kind, text))
        else:
            for key in {
                key: None
                for own in each.values()
                for key in own
                if key.endswith("_reason") and key not in self.values
            }:
                keys[key] = "\n".join(f"{name}: {own[key]}" for name, own in each.items() if key in own)
        costs = [cost for _, cost in verdicts if cost is not None]
        return keys | ({task.cost_key: fsum(costs)} if len(costs) == len(verdicts) else {})

    def _vote(self, known: Keys, by: Mapping[str, Keys], disagreement: str) -> None:
        """Add each score that all judges have, and by how much they differ at most."""
        for key in self.values if by else ():
            values = [own.get(key) for own in by.values()]
            if None in values:
                continue
            is_text = any(isinstance(value, str) for value in values)
            if is_text:
                known[key] = Counter(values).most_common(1)[0][0]  # The first of those equally frequent.
                apart = float(len({*values}) > 1)
            else:
                known[key] = fmean(values) if self.vote == "mean" else median(values)
                apart = float(max(values) - min(values))
            known[disagreement] = max(known.get(disagreement, 0.0), apart)


def _add_f1(keys: Keys, name: str) -> None:
    """Add F1 and its cost to a step's keys if a metric's recall and precision have them."""
    recall, precision = keys.get(f"{name}_recall"), keys.get(f"{name}_precision")
    if recall is not None and precision is not None:
        keys[f"{name}_f1"] = 2 * recall * precision / (recall + precision or 1)
    costs = keys.get(f"{name}_recall_cost"), keys.get(f"{name}_precision_cost")
    if None not in costs:
        keys[f"{name}_f1_cost"] = sum(costs)
