"""Several judges for a metric: their scores become one, and their disagreement is shown."""

from __future__ import annotations

from collections import Counter
from math import fsum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import BY, COST, DISAGREEMENT
from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.metrics.metric import Keys, Task


class Verdict(NamedTuple):
    """What a judge says in reply to a task, and the cost in US dollars; None if it is unknown."""

    outcome: Keys | JudgeError
    cost: float | None


class Panel(NamedTuple):
    """The judges of a metric."""

    judges: Sequence[str]  # Their names in the configuration.
    vote: str  # "mean" or "majority".
    values: Collection[str]  # Keys of the metric's scores.
    nulls: Collection[str] = ()  # Keys set to None if the metric fails.
    error: str = ""  # Key of its error, without `_error`, if not its name.

    def add(self, known: Keys, task: Task, verdicts: Sequence[Verdict]) -> None:
        """Add the keys of a task to those of the result or of its step; there is a verdict of each
        judge.

        With several judges, a score is the mean or the median of theirs, and a text is what most of
        them say.
        If one fails, the metric fails, and if one gives no score, there is none: the mean of the
        others would not be comparable.
        """
        each = {
            name: self._keys(task, own) for name, own in zip(self.judges, verdicts, strict=True)
        }
        by: dict[str, Keys] = {}
        if len(each) > 1:
            by = known.setdefault(f"{task.metric}{BY}", {name: {} for name in each})
            for name, keys in each.items():  # Recall and precision are tasks of their own.
                by[name] |= keys
        known |= self._keys(task, self._joined(each, verdicts) if by else verdicts[0])
        if task.step is not None:
            for keys in (known, *by.values()):
                _add_f1(keys, task.metric)
        self._vote(known, by, f"{task.metric}{DISAGREEMENT}")

    def _keys(self, task: Task, verdict: Verdict) -> Keys:
        outcome, cost = verdict
        if isinstance(outcome, JudgeError):
            name = self.error or task.metric
            error = f"{outcome.kind}: {outcome.message}"
            outcome = dict.fromkeys(self.nulls) | {f"{name}{task.part}_error": error}
            cost = cost or None  # The cost of a failure without a reply is unknown, not 0.
        return outcome | ({} if cost is None else {f"{task.metric}{task.part}{COST}": cost})

    def _joined(self, each: Mapping[str, Keys], verdicts: Sequence[Verdict]) -> Verdict:
        """Return all errors or, without any, all reasons; and the cost of all judges."""
        costs = [own.cost for own in verdicts if own.cost is not None]
        cost = fsum(costs) if len(costs) == len(verdicts) else None
        outcomes = zip(each, (own.outcome for own in verdicts), strict=True)
        if errors := {name: error for name, error in outcomes if isinstance(error, JudgeError)}:
            text = "; ".join(f"judge {name}: {error.message}" for name, error in errors.items())
            return Verdict(JudgeError(next(iter(errors.values())).kind, text), cost)
        reasons: dict[str, list[str]] = {}
        for name, keys in each.items():
            for key in keys:
                if key.endswith("_reason") and key not in self.values:
                    reasons.setdefault(key, []).append(f"{name}: {keys[key]}")
        return Verdict({key: "\n".join(lines) for key, lines in reasons.items()}, cost)

    def _vote(self, known: Keys, by: Mapping[str, Keys], disagreement: str) -> None:
        """Add each score that all judges have, and by how much they differ at most."""
        for key in self.values if by else ():
            values: list[Any] = [own.get(key) for own in by.values()]
            if None in values:
                continue
            if any(isinstance(value, str) for value in values):
                # The first of those equally frequent.
                known[key] = Counter(values).most_common(1)[0][0]
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
    costs = keys.get(f"{name}_recall{COST}"), keys.get(f"{name}_precision{COST}")
    if None not in costs:
        keys[f"{name}_f1{COST}"] = sum(costs)
