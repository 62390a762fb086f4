"""Counts of a stream so far: results, rejects and samples, including those of earlier runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from graphrag_eval_async.catalogue.metrics import is_counted_cost
from graphrag_eval_async.catalogue.outcomes import REASON, RETRYABLE
from graphrag_eval_async.errors import GraphragEvalWarning, RejectedResponse, warn_caller
from graphrag_eval_async.records import Reason, Rejects
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reference import misnamed_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.sinks.done import DoneLine
    from graphrag_eval_async.stream.options import OnReject
    from graphrag_eval_async.stream.until import UntilDecided

RESULTS_BEFORE_NAME_CHECK = 20
"""Number of results after which the names of steps are checked for the first time."""

LOGGER = logging.getLogger("graphrag_eval_async")


@dataclass(eq=False)
class Observers:
    """Functions that are called with each result, besides the consumer of a stream.

    They must not raise, and must be added before the first result is asked for.

    Attributes:
        of_results: called with the evaluation of each result that the stream yields, after it is
            counted.
        of_restored: called with each result of an earlier run, after it is counted.
    """

    of_results: list[Callable[[Evaluation], object]] = field(default_factory=list)
    of_restored: list[Callable[[Mapping[str, Any]], object]] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class Counts:
    """The results and rejects of a stream so far; a journal restores those of earlier runs.

    Attributes:
        aggregates: running aggregates of the results.
        usage: counts of the judge's calls, to which the costs of earlier runs are added.
        reference: the reference set.
        until: the condition that ends the stream, if there is one.
        on_reject: what to do with a reject; see `evaluate_stream`.
        is_numbered: whether results have the number of their sample. Those of a part of a larger
            run have none.
        retries_failed: whether lines in which a metric failed are evaluated again. The results of
            earlier runs for these lines then count only in the costs.
        observers: functions that are called with each result.
        rejects: the rejects so far.
        samples: number of the last sample of each answered question, by id. The answers to a
            question are its samples 1, 2 and so on. If earlier runs have left a gap in these
            numbers, it is the number before the first gap.
        unfinished: ids of the questions whose responses were read, but whose evaluation ended
            without a result, because the run ended before.
        rejects_are_read: whether the caller has asked for the rejects, or gets them anyway.
        warns_at_close: whether to warn of rejects when the stream is closed instead of after the
            last result, as the caller may still ask for them in between.
    """

    aggregates: RunningAggregates
    usage: JudgeUsage
    reference: Reference
    until: UntilDecided | None
    on_reject: OnReject
    is_numbered: bool
    retries_failed: bool
    observers: Observers
    rejects: Rejects = field(default_factory=Rejects)
    samples: dict[str, int] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    rejects_are_read: bool = False
    warns_at_close: bool = False

    def __post_init__(self) -> None:
        self.rejects_are_read = self.on_reject != "collect"
        # Numbers of samples of earlier runs that follow a gap, by question.
        self._samples_beyond_gaps: dict[str, set[int]] = {}
        self._results_before_name_check = RESULTS_BEFORE_NAME_CHECK
        self._has_warned_of_step_names = False
        # Whether results still have to be counted for the name check, or shown to observers.
        self._needs_watching = True

    # Results of this run

    def add(self, result: Evaluation) -> None:
        """Count a result that is delivered to the consumer, and call the observers with it."""
        self.aggregates.add(result)
        if self._needs_watching:
            self._check_names_and_notify(result)

    def _check_names_and_notify(self, result: Evaluation) -> None:
        """Call the observers with a result; check the names of steps if enough results came."""
        if self._results_before_name_check > 0:
            self._results_before_name_check -= 1
            if self._results_before_name_check == 0:
                self._warn_of_step_names("so far, ")
        for observer in self.observers.of_results:
            observer(result)
        # Once the names are checked and if there are no observers, `add` need not call this.
        is_check_due = self._results_before_name_check > 0
        self._needs_watching = is_check_due or bool(self.observers.of_results)

    def finish(self, *, is_complete: bool) -> None:
        """Finish the aggregates, and warn of unknown step names and of unread rejects.

        Called after the last result.

        Args:
            is_complete: whether all responses were read and evaluated.
        """
        if is_complete and self.until is None:
            self.aggregates.finish()
        self._warn_of_step_names()
        if not self.warns_at_close:
            self.warn_of_rejects()

    def _warn_of_step_names(self, when: str = "") -> None:
        """Warn once if the agent's tools seem to have other names than the reference steps.

        Args:
            when: the beginning of the warning, such as "so far, ".
        """
        if self._has_warned_of_step_names:
            return
        warning = misnamed_steps(self.reference, self.aggregates._step_names())
        if warning is not None:
            self._has_warned_of_step_names = True
            warn_or_log(when + warning)

    # Rejects of this run

    def reject(self, reject: Reject) -> None:
        """Count a reject, and then keep it, raise it or call the caller's function with it.

        Raises:
            RejectedResponse: `on_reject` is "raise".
        """
        if self.on_reject == "collect":
            is_first_of_reason = reject.reason not in self.rejects.counts
            if is_first_of_reason and not self.rejects_are_read:
                LOGGER.warning("rejected: %s", reject.described())
            self.rejects.add(reject)
            return

        self.rejects.add(reject, keep=False)
        if self.on_reject == "raise":
            raise RejectedResponse(reject)
        self.on_reject(reject)

    def warn_of_rejects(self) -> None:
        """Warn once of rejects that the caller has not asked for."""
        has_rejects = len(self.rejects) > 0
        if self.rejects_are_read or not has_rejects:
            return
        # Further calls do not warn again.
        self.rejects_are_read = True
        counts = ", ".join(
            f"{reason} {count}" for reason, count in self.rejects.counts.most_common()
        )
        total = self.rejects.total
        subject = "response was" if total == 1 else "responses were"
        warn_or_log(
            f"{total} {subject} rejected: {counts}. "
            f"The first: {self.rejects[0].described()}. "
            "All are in the rejects of the stream; on_reject gets each."
        )

    # Samples

    def take_sample(self, question_id: str) -> int | None:
        """Assign the lowest free sample number of a question to its next answer.

        Returns:
            the number; None if samples are not numbered.
        """
        if not self.is_numbered:
            return None
        sample = self.samples.get(question_id, 0) + 1
        if self._samples_beyond_gaps:
            self._add_sample(question_id, sample)
        else:
            self.samples[question_id] = sample
        return sample

    def _add_sample(self, question_id: str, sample: int) -> None:
        """Record that a sample number is taken. Samples of earlier runs may come in any order."""
        last = self.samples.setdefault(question_id, 0)
        if sample != last + 1:
            self._samples_beyond_gaps.setdefault(question_id, set()).add(sample)
            return

        # The sample may fill a gap. Then the last number before a gap is higher.
        beyond_gap = self._samples_beyond_gaps.get(question_id, set())
        last = sample
        while last + 1 in beyond_gap:
            last += 1
            beyond_gap.remove(last)
        self.samples[question_id] = last

    def give_back_sample(self, question_id: str) -> None:
        """Count one answer less to a question, whose response was dropped.

        Samples that were delivered keep their numbers.
        """
        if not self.is_numbered:
            return
        # If so, earlier runs have answered the question, so it must stay among `samples`.
        has_other_answers = question_id in self._samples_beyond_gaps
        if has_other_answers:
            return
        self.samples[question_id] -= 1
        if self.samples[question_id] == 0:
            # The question is without an answer again.
            del self.samples[question_id]

    # Earlier runs

    def restore_result(self, line: DoneLine, result: dict[str, Any]) -> bool:
        """Count a result of an earlier run.

        If a metric failed and `retries_failed` is set, only the cost of the result is counted.

        Args:
            line: the line that was evaluated.
            result: its result, as read from a journal and not yet checked.

        Returns:
            whether a metric failed.

        Raises:
            ValueError: it is not a complete result. Nothing is counted.
            KeyError: it lacks a key. Nothing is counted.
            AggregationError: a value is invalid. Nothing is counted.
        """
        # Check the result. Where samples are not numbered, it has no `sample`.
        question_id = result["question_id"]
        sample = result["sample"] if self.is_numbered else 1
        has_question = type(question_id) is str
        has_sample = type(sample) is int and sample >= 1
        is_complete = "pending" not in result
        if not (has_question and has_sample and is_complete):
            raise ValueError("no whole result")

        # Find out whether a metric failed, and count what the judge cost.
        evaluation = observe(result)
        causes = {cause for metric, cause in evaluation.outcomes if metric != REASON}
        has_failed = not RETRYABLE.isdisjoint(causes)
        if "judge" in result:
            self.usage.restored_dollars += _dollars_of(result)
        if has_failed and self.retries_failed:
            return True

        # Count it like a result of this run.
        self.aggregates.add(evaluation)
        if self.is_numbered:
            self._add_sample(question_id, sample)
        if self.until is not None:
            self.until.restore(line, result)
        for observer in self.observers.of_restored:
            observer(result)
        return has_failed

    def restore_reject(self, line: DoneLine, reason: Any) -> None:
        """Count a reject of an earlier run.

        Args:
            line: the line that was rejected.
            reason: the reason, as read from a journal and not yet checked.

        Raises:
            ValueError: there is no such reason.
        """
        if reason not in get_args(Reason):
            raise ValueError("no reject")
        self.rejects.counts[reason] += 1
        if self.until is not None:
            self.until.restore(line, None)


def _dollars_of(result: Mapping[str, Any]) -> float:
    """Return the cost of the judge's calls for a result, in US dollars."""
    values = observe(result, include_errors=True).values
    return sum(value for name, value in values if is_counted_cost(name))


def warn_or_log(text: str) -> None:
    """Issue a warning, or log it if the caller has turned warnings into errors.

    An exception would end the stream.
    """
    try:
        warn_caller(text)
    except GraphragEvalWarning:
        LOGGER.warning("%s", text)
