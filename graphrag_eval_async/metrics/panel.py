"""Panels: the judges of a metric, whose verdicts become one, and how much they disagree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import fsum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import BY, COST, DISAGREEMENT
from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.metrics.metric import Task


class Verdict(NamedTuple):
    """The verdict of one judge on a task.

    Attributes:
        outcome: the entries for the result or the step, or the error of the judge.
        cost: the cost in US dollars; None if it is unknown.
    """

    outcome: dict[str, Any] | JudgeError
    cost: float | None


@dataclass(frozen=True)
class Panel:
    """The judges of a metric, which all judge the same.

    Attributes:
        judges: the names of the judges in the configuration.
        vote: how numbers of several judges become one: "mean" or "majority".
        values: keys of the metric's scores.
        error_name: key of the metric's error, without ``_error``.
        nulls: keys set to None if the metric fails.
    """

    judges: Sequence[str]
    vote: str
    values: Sequence[str]
    error_name: str
    nulls: Sequence[str] = ()

    def add_verdicts(
        self, entries: dict[str, Any], task: Task, verdicts: Sequence[Verdict]
    ) -> None:
        """Add the scores, reason, error and cost of a judged task to `entries`.

        Args:
            entries: the entries of the result, or of the step that the task is about.
            task: the judged task.
            verdicts: the verdict of each judge, in the order of `judges`.
        """
        if len(verdicts) > 1:
            self._add_joint_verdict(entries, task, verdicts)
            return
        entries.update(self._entries_of(verdicts[0], task))
        if task.step is not None:
            _add_f1(entries, task.metric)

    def _add_joint_verdict(
        self, entries: dict[str, Any], task: Task, verdicts: Sequence[Verdict]
    ) -> None:
        """Add the joint verdict of several judges to `entries`, and the verdict of each judge.

        A joint score is the mean or the median of the judges' scores, and a joint text is the most
        frequent one. If one judge fails, the metric fails. If one judge gives no score, there is no
        joint score, since the mean of the other scores would not be comparable.
        """
        # The verdicts of single judges stand under one key. Recall and precision are tasks of their
        # own, so the other task may have added its verdicts already.
        entries_by_judge = entries.setdefault(
            f"{task.metric}{BY}", {judge: {} for judge in self.judges}
        )
        for judge, verdict in zip(self.judges, verdicts, strict=True):
            entries_by_judge[judge].update(self._entries_of(verdict, task))

        joint_verdict = self._join(verdicts)
        entries.update(self._entries_of(joint_verdict, task))

        if task.step is not None:
            _add_f1(entries, task.metric)
            for judge_entries in entries_by_judge.values():
                _add_f1(judge_entries, task.metric)
        self._add_joint_scores(entries, task, list(entries_by_judge.values()))

    def _entries_of(self, verdict: Verdict, task: Task) -> dict[str, Any]:
        """Return the entries of a result or step for a verdict: scores or an error, and the cost."""
        cost_key = f"{task.metric}{task.part}{COST}"
        if not isinstance(verdict.outcome, JudgeError):
            entries = dict(verdict.outcome)
            if verdict.cost is not None:
                entries[cost_key] = verdict.cost
            return entries

        error = verdict.outcome
        entries = dict.fromkeys(self.nulls)
        entries[f"{self.error_name}{task.part}_error"] = f"{error.kind}: {error.message}"
        # A call that failed without a reply has a cost of 0, but its true cost is unknown.
        if verdict.cost:
            entries[cost_key] = verdict.cost
        return entries

    def _join(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Return one verdict with the errors or, if no judge failed, the reasons of all judges.

        Its cost is the sum of all costs, or None if any cost is unknown. Its scores are added
        later, by `_add_joint_scores`.
        """
        total_cost = None
        costs = [verdict.cost for verdict in verdicts if verdict.cost is not None]
        if len(costs) == len(verdicts):
            total_cost = fsum(costs)

        errors = {
            judge: verdict.outcome
            for judge, verdict in zip(self.judges, verdicts, strict=True)
            if isinstance(verdict.outcome, JudgeError)
        }
        if not errors:
            return Verdict(self._join_reasons(verdicts), total_cost)
        messages = [f"judge {judge}: {error.message}" for judge, error in errors.items()]
        first_error = next(iter(errors.values()))
        return Verdict(JudgeError(first_error.kind, "; ".join(messages)), total_cost)

    def _join_reasons(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Return the entries for reasons: by key, a line for each judge with its name and reason.

        No judge has failed.
        """
        lines_by_key: dict[str, list[str]] = {}
        for judge, verdict in zip(self.judges, verdicts, strict=True):
            assert not isinstance(verdict.outcome, JudgeError)  # noqa: S101  (no judge has failed)
            for key, value in verdict.outcome.items():
                # A score of a custom evaluation may have a name that ends like this, too.
                is_reason = key.endswith("_reason") and key not in self.values
                if is_reason:
                    lines_by_key.setdefault(key, []).append(f"{judge}: {value}")
        return {key: "\n".join(lines) for key, lines in lines_by_key.items()}

    def _add_joint_scores(
        self, entries: dict[str, Any], task: Task, entries_of_judges: Sequence[dict[str, Any]]
    ) -> None:
        """Add joint scores to `entries`, and the greatest disagreement between judges on a score.

        A score that some judge has not given is left out.
        """
        disagreement_key = f"{task.metric}{DISAGREEMENT}"
        for key in self.values:
            scores = [judge_entries.get(key) for judge_entries in entries_of_judges]
            if None in scores:
                continue
            entries[key] = self._vote_on(scores)
            previous_disagreement = entries.get(disagreement_key, 0.0)
            entries[disagreement_key] = max(previous_disagreement, _disagreement(scores))

    def _vote_on(self, scores: Sequence[Any]) -> Any:
        """Return the mean or the median of numbers; of texts, the first of the most frequent."""
        if _has_texts(scores):
            [(most_frequent_text, _)] = Counter(scores).most_common(1)
            return most_frequent_text
        if self.vote == "mean":
            return fmean(scores)
        return median(scores)


def _has_texts(scores: Iterable[Any]) -> bool:
    """Return whether any score is a text; then the scores are not numbers to average."""
    return any(isinstance(score, str) for score in scores)


def _disagreement(scores: Sequence[Any]) -> float:
    """Return the difference of the greatest and the least number; of texts, 1 if any two differ,
    else 0.
    """
    if _has_texts(scores):
        return float(len(set(scores)) > 1)
    return float(max(scores) - min(scores))


def _add_f1(entries: dict[str, Any], metric: str) -> None:
    """Add the metric's F1 and the cost of F1 to `entries` of a step.

    F1 needs recall and precision, and its cost needs the costs of both. What is missing one of
    them is not added.
    """
    recall = entries.get(f"{metric}_recall")
    precision = entries.get(f"{metric}_precision")
    if recall is not None and precision is not None:
        f1 = 0.0
        if recall + precision > 0:
            f1 = 2 * recall * precision / (recall + precision)
        entries[f"{metric}_f1"] = f1

    recall_cost = entries.get(f"{metric}_recall{COST}")
    precision_cost = entries.get(f"{metric}_precision{COST}")
    if recall_cost is not None and precision_cost is not None:
        entries[f"{metric}_f1{COST}"] = recall_cost + precision_cost
