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
    """The judges of a metric, each of which judges every task of the metric.

    Attributes:
        judges: the names of the judges in the configuration.
        vote: how the numbers of several judges become one number: "mean", or "majority" for the
            median.
        values: the keys of the metric's scores.
        error_name: the key of the metric's error, without ``_error``.
        nulls: the keys that are set to None if the metric fails.
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

        - A joint score is the mean or the median of the judges' scores; a joint text is the most
          frequent text.
        - If one judge fails, the metric fails.
        - If one judge gives no score, there is no joint score, since the mean of the other scores
          could not be compared with joint scores of other results.
        """
        # Add the verdicts of single judges, by judge, at one key. If recall and precision are two
        # tasks, the other task may have added its verdicts there already.
        entries_by_judge = entries.setdefault(
            f"{task.metric}{BY}", {judge: {} for judge in self.judges}
        )
        for judge, verdict in zip(self.judges, verdicts, strict=True):
            entries_by_judge[judge].update(self._entries_of(verdict, task))

        # Add the joint reasons or errors, and the total cost.
        joint_verdict = self._join(verdicts)
        entries.update(self._entries_of(joint_verdict, task))

        # Add the joint scores, among them F1, which single judges must have first.
        if task.step is not None:
            _add_f1(entries, task.metric)
            for judge_entries in entries_by_judge.values():
                _add_f1(judge_entries, task.metric)
        self._add_joint_scores(entries, task, list(entries_by_judge.values()))

    def _entries_of(self, verdict: Verdict, task: Task) -> dict[str, Any]:
        """Return the entries for a verdict: its scores and reasons, or its error, and the cost.

        The cost is left out if it is unknown.
        """
        cost_key = f"{task.metric}{task.part}{COST}"
        if not isinstance(verdict.outcome, JudgeError):
            entries = dict(verdict.outcome)
            if verdict.cost is not None:
                entries[cost_key] = verdict.cost
            return entries

        error = verdict.outcome
        entries = dict.fromkeys(self.nulls)
        entries[f"{self.error_name}{task.part}_error"] = f"{error.kind}: {error.message}"
        # A failed call without a reply has a cost of 0 here, but may be billed, so 0 is left out.
        if verdict.cost:
            entries[cost_key] = verdict.cost
        return entries

    def _join(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Return one verdict for all judges, without scores, which `_add_joint_scores` adds later.

        The verdict has the errors of all judges or, if no judge failed, their reasons. Its cost is
        the sum of all costs; None if any cost is unknown.
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
        """Return the joint reasons by key: one line for each judge, with its name and its reason.

        None of the verdicts may be an error.
        """
        lines_by_key: dict[str, list[str]] = {}
        for judge, verdict in zip(self.judges, verdicts, strict=True):
            assert not isinstance(verdict.outcome, JudgeError)  # noqa: S101  (no judge has failed)
            for key, value in verdict.outcome.items():
                # The name of a custom evaluation's score may end in "_reason", too.
                is_reason = key.endswith("_reason") and key not in self.values
                if is_reason:
                    lines_by_key.setdefault(key, []).append(f"{judge}: {value}")
        return {key: "\n".join(lines) for key, lines in lines_by_key.items()}

    def _add_joint_scores(
        self, entries: dict[str, Any], task: Task, entries_of_judges: Sequence[dict[str, Any]]
    ) -> None:
        """Add joint scores to `entries`, and the greatest disagreement between judges on any score.

        A score is left out if any judge has not given it.

        Args:
            entries: the entries of the result, or of the step that the task is about.
            task: the judged task.
            entries_of_judges: the entries of each judge.
        """
        disagreement_key = f"{task.metric}{DISAGREEMENT}"
        for key in self.values:
            scores = [judge_entries.get(key) for judge_entries in entries_of_judges]
            if None in scores:
                continue
            entries[key] = self._vote_on(scores)
            # The greatest disagreement on the scores before, perhaps those of another task.
            previous_disagreement = entries.get(disagreement_key, 0.0)
            entries[disagreement_key] = max(previous_disagreement, _disagreement(scores))

    def _vote_on(self, scores: Sequence[Any]) -> Any:
        """Return the mean or the median of numbers, or the most frequent of texts.

        Among equally frequent texts, the text of the earliest judge is returned.
        """
        if _has_texts(scores):
            [(most_frequent_text, _)] = Counter(scores).most_common(1)
            return most_frequent_text
        if self.vote == "mean":
            return fmean(scores)
        return median(scores)


def _has_texts(scores: Iterable[Any]) -> bool:
    """Return whether any score is a text, so that the scores cannot be averaged."""
    return any(isinstance(score, str) for score in scores)


def _disagreement(scores: Sequence[Any]) -> float:
    """Return how much the judges disagree on a score.

    For numbers, this is the greatest minus the least. For texts, it is 0 if all are equal, else 1.
    """
    if _has_texts(scores):
        are_different = len(set(scores)) > 1
        return float(are_different)
    return float(max(scores) - min(scores))


def _add_f1(entries: dict[str, Any], metric: str) -> None:
    """Add the F1 of a metric and the cost of F1 to `entries` of a step.

    F1 is only added if recall and precision are in `entries`, and the cost only if the costs of
    both are.
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
