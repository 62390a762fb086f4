"""Several judges for a metric: their scores become one, and their disagreement is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import fsum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import BY, COST, DISAGREEMENT
from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.metrics.metric import Keys, Task


class Verdict(NamedTuple):
    """What a judge says in reply to a task, and the cost in US dollars; None if it is unknown."""

    outcome: Keys | JudgeError
    cost: float | None


@dataclass(frozen=True)
class Panel:
    """The judges of a metric.

    Attributes:
        judges: their names in the configuration.
        vote: "mean" or "majority".
        values: keys of the metric's scores.
        error_name: key of the metric's error, without ``_error``.
        nulls: keys set to None if the metric fails.
    """

    judges: Sequence[str]
    vote: str
    values: Sequence[str]
    error_name: str
    nulls: Sequence[str] = ()

    def add(self, keys: Keys, task: Task, verdicts: Sequence[Verdict]) -> None:
        """Add the keys of a task to those of the result or of its step.

        With several judges, a score is the mean or the median of theirs, and a text is what most of
        them say. If one fails, the metric fails, and if one gives no score, there is none: the mean
        of the others would not be comparable.

        Args:
            keys: those of the result or of its step, to which others are added.
            task: the task.
            verdicts: one of each judge.
        """
        if len(self.judges) == 1:
            keys |= self._keys_of(task, verdicts[0])
            if task.step is not None:
                _add_f1(keys, task.metric)
            return

        keys_by_judge = {
            judge: self._keys_of(task, verdict)
            for judge, verdict in zip(self.judges, verdicts, strict=True)
        }
        # Recall and precision are tasks of their own, which add to the same keys.
        shown_by_judge = keys.setdefault(
            f"{task.metric}{BY}", {judge: {} for judge in keys_by_judge}
        )
        for judge, keys_of_judge in keys_by_judge.items():
            shown_by_judge[judge] |= keys_of_judge
        keys |= self._keys_of(task, self._joined_verdict(keys_by_judge, verdicts))
        if task.step is not None:
            for keys_with_parts in (keys, *shown_by_judge.values()):
                _add_f1(keys_with_parts, task.metric)
        self._add_votes(keys, shown_by_judge.values(), f"{task.metric}{DISAGREEMENT}")

    def _keys_of(self, task: Task, verdict: Verdict) -> Keys:
        """Return the keys of a verdict: its values or its error, and its cost."""
        cost_key = f"{task.metric}{task.part}{COST}"
        if not isinstance(verdict.outcome, JudgeError):
            if verdict.cost is None:
                return dict(verdict.outcome)
            return verdict.outcome | {cost_key: verdict.cost}

        error = verdict.outcome
        keys: Keys = dict.fromkeys(self.nulls)
        keys[f"{self.error_name}{task.part}_error"] = f"{error.kind}: {error.message}"
        if verdict.cost:
            # The cost of a failure without a reply is unknown, not 0.
            keys[cost_key] = verdict.cost
        return keys

    def _joined_verdict(
        self, keys_by_judge: Mapping[str, Keys], verdicts: Sequence[Verdict]
    ) -> Verdict:
        """Return all errors or, without any, all reasons; and the cost of all judges."""
        costs = [verdict.cost for verdict in verdicts if verdict.cost is not None]
        cost = fsum(costs) if len(costs) == len(verdicts) else None

        errors = {
            judge: verdict.outcome
            for judge, verdict in zip(keys_by_judge, verdicts, strict=True)
            if isinstance(verdict.outcome, JudgeError)
        }
        if errors:
            first_error = next(iter(errors.values()))
            messages = [f"judge {judge}: {error.message}" for judge, error in errors.items()]
            return Verdict(JudgeError(first_error.kind, "; ".join(messages)), cost)
        return Verdict(self._joined_reasons(keys_by_judge), cost)

    def _joined_reasons(self, keys_by_judge: Mapping[str, Keys]) -> Keys:
        """Return the reasons of all judges, a line each, by the key of the reason."""
        lines: dict[str, list[str]] = {}
        for judge, keys in keys_by_judge.items():
            for key, reason in keys.items():
                # An output of a custom evaluation may have such a name, too.
                if key.endswith("_reason") and key not in self.values:
                    lines.setdefault(key, []).append(f"{judge}: {reason}")
        return {key: "\n".join(reasons) for key, reasons in lines.items()}

    def _add_votes(self, keys: Keys, by_judge: Iterable[Keys], disagreement_key: str) -> None:
        """Add each score that all judges have, and by how much they differ at most."""
        keys_of_judges = [*by_judge]
        for key in self.values:
            values = [keys_of_judge.get(key) for keys_of_judge in keys_of_judges]
            if None in values:
                continue
            keys[key] = self._vote_on(values)
            disagreement = _disagreement(values)
            keys[disagreement_key] = max(keys.get(disagreement_key, 0.0), disagreement)

    def _vote_on(self, values: Sequence[Any]) -> Any:
        """Return the mean or the median of numbers; of texts, the first of the most frequent."""
        if _has_texts(values):
            [(most_frequent, _)] = Counter(values).most_common(1)
            return most_frequent
        if self.vote == "mean":
            return fmean(values)
        return median(values)


def _has_texts(values: Iterable[Any]) -> bool:
    """Return whether any value is a text; then they are not numbers to average."""
    return any(isinstance(value, str) for value in values)


def _disagreement(values: Sequence[Any]) -> float:
    """Return by how much numbers differ at most; of texts, 1 if any two differ, else 0."""
    if _has_texts(values):
        return float(len(set(values)) > 1)
    return float(max(values) - min(values))


def _add_f1(keys: Keys, metric: str) -> None:
    """Add F1 and its cost to a step's keys if a metric's recall and precision have them."""
    recall = keys.get(f"{metric}_recall")
    precision = keys.get(f"{metric}_precision")
    if recall is not None and precision is not None:
        # Both may be 0.
        keys[f"{metric}_f1"] = 2 * recall * precision / (recall + precision or 1)

    recall_cost = keys.get(f"{metric}_recall{COST}")
    precision_cost = keys.get(f"{metric}_precision{COST}")
    if recall_cost is not None and precision_cost is not None:
        keys[f"{metric}_f1{COST}"] = recall_cost + precision_cost
