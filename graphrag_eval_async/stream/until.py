"""Ends a stream as soon as its results decide a condition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.until import Deciding, Until, condition_of, unknown_metric
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, OF_STEPS
from graphrag_eval_async.records.outcomes import OF_PENDING
from graphrag_eval_async.sinks.done import sha256_of
from graphrag_eval_async.sinks.rejects import Rejected
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.inference.until import Sample
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import DoneLine
    from graphrag_eval_async.sources import Responses


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stream found out about its `until` condition.

    Attributes:
        condition: the condition.
        level: confidence level of the decision.
        holds: whether the condition holds; None as long as that is not decided.
        responses: how many results were counted for it, in the order of the input; of those of the template,
            if the condition names one.
        questions: how many different questions these answer. About others, asking the same ones again says
            nothing.
        samples: to how many of these responses the metric applies. One with several retrieval steps is one
            sample, their mean.
        failed: how many of these have no value, or lack that of a step, since the agent or the judge failed.
        low: the lower end of the confidence sequence for the mean, if every failed value were 0.
        high: the upper end, if every failed value were 1.
        remaining: how many lines are behind the result that decided, or are still to come; those that a
            journal has do not count, all of which are taken to be in the file. None but for files that are
            shuffled, whose lines are known, and for the questions that an agent is asked.
    """

    condition: str
    level: float
    holds: bool | None
    responses: int
    questions: int
    samples: int
    failed: int
    low: float
    high: float
    remaining: int | None


def as_until(until: str | Until, evaluator: Evaluator, *, resumed: bool) -> Until:
    """The condition that ends a stream; `resumed` if a journal has lines that are not read again."""
    checked = until if isinstance(until, Until) else Until(until)
    condition = condition_of(checked.condition)
    templates = evaluator.reference.templates
    if condition.template is not None and templates and condition.template not in templates:
        raise UsageError(f"until: no template {condition.template!r}; there are: {', '.join(templates)}")
    judged = {metric for name in evaluator.judged for metric in OF_PENDING.get(name, ())}
    fractions = evaluator.fractions
    if condition.metric not in BOUNDED_METRICS and condition.metric not in fractions:
        raise unknown_metric(condition.metric, fractions)
    if condition.metric not in {*OF_STEPS, *judged, *fractions}:
        raise UsageError(f"until: {condition.metric} is not judged; the configuration says which metrics are")
    if resumed:
        raise UsageError(
            "until: cannot be combined with a journal of followed files, whose old lines are not read again; "
            "read_jsonl reads them from their start"
        )
    return checked


def in_fair_order(responses: Responses) -> Responses:
    """Return a path's lines in random order if they can be shuffled: files are often sorted by template."""
    if isinstance(responses, str | os.PathLike) and read_jsonl(responses).can_be_shuffled:
        return read_jsonl(responses, shuffle=0)
    return responses


class Restored:
    """Stands in an ordered stream for a line whose result an earlier run has: what that counts."""

    __slots__ = ("sample",)

    def __init__(self, sample: Sample | None) -> None:
        self.sample = sample


class UntilDecided:
    """Counts the results of an ordered stream until they decide; drops those behind the one that decides.

    Quick answers are not a fair sample, so results count in the order of their lines.
    """

    def __init__(self, until: Until) -> None:
        self._until = until
        self._deciding = Deciding(until)
        self._restored: dict[str, dict[int, Sample | None]] = {}
        self._kept = self._out = 0

    def restore(self, line: DoneLine, result: dict[str, Any] | None) -> None:
        """Keep what a line of an earlier run counts until the line is read again."""
        assert line.occurrence is not None  # noqa: S101  (a part of a file has no condition)
        sample = None if result is None else self._deciding.read(result)
        self._restored.setdefault(line.sha256, {})[line.occurrence] = sample
        self._kept += 1

    def restored(self, record: Record) -> Restored | None:
        """Return what stands for a line that has no result in this run, if an earlier run has one."""
        found = self._restored.get(sha256_of(record)) if self._restored else None
        return Restored(found.pop(min(found))) if found else None

    def take(
        self, result: Evaluation | Rejected | Restored | None, *, failed: bool
    ) -> Evaluation | Rejected | None:
        """Count the result of the next line, unless the work of a line has `failed`.

        Returns:
            the result; None if the condition was decided before, or an earlier run has it.
        """
        if self.is_over:
            return None
        if not failed:
            self._out += not isinstance(result, Restored)
            if result is not None and not isinstance(result, Rejected):
                sample = result.sample if isinstance(result, Restored) else self._deciding.read(result)
                self._deciding.add(sample)
        return None if isinstance(result, Restored) else result

    @property
    def is_over(self) -> bool:
        """Whether the condition is decided."""
        return self._deciding.holds is not None

    def decision(self, lines: int | None) -> Decision:
        """Return the decision so far, given the number of lines of the source, if it is known."""
        deciding = self._deciding
        low, high = deciding.interval
        return Decision(
            condition=self._until.condition,
            level=self._until.level,
            holds=deciding.holds,
            responses=deciding.results,
            questions=len(deciding.questions),
            samples=deciding.samples,
            failed=deciding.failed,
            low=low,
            high=high,
            # All that a journal has is subtracted, whether it came again by now or not.
            remaining=None if lines is None else max(0, lines - self._kept - self._out),
        )
