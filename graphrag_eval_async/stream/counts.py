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

LOOK_AT_NAMES = 20
"""Number of results after which the names of steps are looked at, before the end of the stream."""

LOGGER = logging.getLogger("graphrag_eval_async")


@dataclass(eq=False)
class Counts:
    """The results and rejects of a stream so far; a journal restores those of earlier runs.

    Attributes:
        samples: number of the last sample of each answered question; with gaps, of the last before
            a gap.
        add: counts a result that is handed out.
        on_restored: called with each result of an earlier run after the aggregates count it.
        retry_failed: whether results of earlier runs with a failed metric only count in what was
            spent.
        rejects_are_read: whether the caller has asked for the rejects.
    """

    aggregates: RunningAggregates
    usage: JudgeUsage
    reference: Reference
    until: UntilDecided | None
    on_reject: OnReject
    is_numbered: bool
    retry_failed: bool = False
    rejects: Rejects = field(default_factory=Rejects)
    samples: dict[str, int] = field(default_factory=dict)
    on_restored: list[Callable[[Mapping[str, Any]], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add: Callable[[Evaluation], None] = self._add_first
        self._count: Callable[[Evaluation], None] = self.aggregates.add
        self.rejects_are_read = self.on_reject != "collect"
        self._scattered: dict[str, set[int]] = {}  # Samples of earlier runs beyond a gap.
        self._left, self._is_warned = LOOK_AT_NAMES, False

    def tell(self, call: Callable[[Evaluation], object]) -> None:
        """Call a function with each result that is handed out, after it is counted."""
        count = self._count

        def count_and_tell(result: Evaluation) -> None:
            count(result)
            call(result)

        self._count = count_and_tell
        if self._left <= 0:
            self.add = count_and_tell

    def _add_first(self, result: Evaluation) -> None:
        self._count(result)
        self._left -= 1
        if not self._left:
            self.add = self._count
            self.warn_of_names("so far, ")

    def warn_of_names(self, when: str = "") -> None:
        """Warn once if the agent's tools seem to have other names than the reference steps."""
        told = misnamed_steps(self.reference, self.aggregates._step_names())
        if told and not self._is_warned:
            self._is_warned = True
            warn_or_log(when + told)

    def reject(self, reject: Reject) -> None:
        """Count a reject and give it to the caller."""
        if self.on_reject == "collect":
            if not self.rejects_are_read and reject.reason not in self.rejects.counts:
                LOGGER.warning("rejected: %s", reject.described())
            self.rejects.add(reject)
            return
        self.rejects.add(reject, keep=False)
        if self.on_reject == "raise":
            raise RejectedResponse(reject)
        self.on_reject(reject)

    def warn_of_rejects(self) -> None:
        """Warn once of rejects that the caller has not looked at; log them if warnings are
        errors.
        """
        if self.rejects_are_read or not len(self.rejects):
            return
        self.rejects_are_read = True
        counts = ", ".join(
            f"{reason} {count}" for reason, count in self.rejects.counts.most_common()
        )
        total = self.rejects.total
        warn_or_log(
            f"{total} {'response was' if total == 1 else 'responses were'} rejected: {counts}. "
            f"The first: {self.rejects[0].described()}. "
            "All are in the rejects of the stream; on_reject gets each."
        )

    def take_sample(self, question_id: str) -> int | None:
        """Return the number of the next sample of a question, the lowest that is free, if it has
        one.
        """
        if not self.is_numbered:
            return None
        sample = self.samples.get(question_id, 0) + 1
        if self._scattered:
            self._add_sample(question_id, sample)
        else:
            self.samples[question_id] = sample
        return sample

    def _add_sample(self, question_id: str, sample: int) -> None:
        """Record the number of a sample; those of earlier runs may leave gaps."""
        if sample != self.samples.setdefault(question_id, 0) + 1:
            self._scattered.setdefault(question_id, set()).add(sample)
            return
        beyond = self._scattered.get(question_id, set())
        while sample + 1 in beyond:
            sample += 1
            beyond.remove(sample)
        self.samples[question_id] = sample

    def give_back_sample(self, question_id: str) -> None:
        """Undo counting one answer to a question; its samples keep their numbers."""
        if self.is_numbered and question_id not in self._scattered:  # Else the journal has others.
            self.samples[question_id] -= 1
            if not self.samples[question_id]:
                del self.samples[question_id]

    def restore_result(self, line: DoneLine, result: dict[str, Any]) -> bool:
        """Count a result from an earlier run, and return whether a metric failed.

        Raises an error, and counts nothing, if it is none.
        """
        question_id = result["question_id"]
        sample = result["sample"] if self.is_numbered else 1
        if (
            type(question_id) is not str
            or type(sample) is not int
            or sample < 1
            or "pending" in result
        ):
            raise ValueError("no whole result")
        seen = observe(result)
        has_failed = not RETRYABLE.isdisjoint(
            kind for what, kind in seen.outcomes if what != REASON
        )
        if "judge" in result:
            metrics = observe(result, include_errors=True).values
            self.usage.restored_dollars += sum(
                value for name, value in metrics if is_counted_cost(name)
            )
        if has_failed and self.retry_failed:
            return True
        self.aggregates.add(seen)
        if self.is_numbered:
            self._add_sample(question_id, sample)
        if self.until is not None:
            self.until.restore(line, result)
        for call in self.on_restored:
            call(result)
        return has_failed

    def restore_reject(self, line: DoneLine, reason: Any) -> None:
        """Count a reject from an earlier run; raise a ValueError if it is none."""
        if reason not in get_args(Reason):
            raise ValueError("no reject")
        self.rejects.counts[reason] += 1
        if self.until is not None:
            self.until.restore(line, None)


def warn_or_log(text: str) -> None:
    """Warn; log it if warnings are errors."""
    try:
        warn_caller(text)
    except GraphragEvalWarning:
        LOGGER.warning("%s", text)
