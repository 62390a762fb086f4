"""Ends a stream as soon as its results decide a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH, BOUNDED_METRICS, STEP_METRICS
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.until import Deciding, Sample, Until, unknown_metric
from graphrag_eval_async.sinks.done import sha256_of
from graphrag_eval_async.sinks.rejects import Rejected

if TYPE_CHECKING:
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import DoneLine


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stream found out about its `until` condition.

    Attributes:
        condition: the condition.
        level: confidence level of the decision.
        holds: whether the condition holds; None until that is decided.
        responses: number of results counted, in the order of the input. If the condition names a
            template, only its results count.
        questions: number of different questions that these results answer. Repeats of a question
            say nothing about other questions.
        samples: number of these results to which the metric applies. A result with several
            retrieval steps is one sample: the mean of its steps.
        failed: number of samples without a value, or with a step without one, because the agent or
            the judge failed.
        low: the lower end of the confidence sequence for the mean, if every failed value were 0.
        high: the upper end, if every failed value were 1.
        remaining: number of lines after the result that decided, or still to come, excluding those
            in a journal. Known only for shuffled files and for the questions of an agent, otherwise
            None.
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


class Restored(NamedTuple):
    """Stands in an ordered stream for a line whose result an earlier run has: what that counts."""

    sample: Sample | None


class UntilDecided:
    """Counts the results of an ordered stream until they decide; drops those behind the one that
    decides.

    Quick answers are not a fair sample, so results count in the order of their lines. `answered`
    has the ids of their questions.
    """

    def __init__(self, until: str | Until, evaluator: Evaluator) -> None:
        self._until = until if isinstance(until, Until) else Until(until)
        self._deciding = Deciding(self._until)
        self._restored: dict[str, dict[int, Sample | None]] = {}
        self._kept = self._out = 0
        self.answered: set[str] = set()
        metric, template = self._deciding.condition.metric, self._deciding.condition.template
        templates, fractions = evaluator.reference.templates, evaluator.fractions
        if template is not None and templates and template not in templates:
            raise UsageError(f"until: no template {template!r}; there are: {', '.join(templates)}")
        if metric not in BOUNDED_METRICS and metric not in fractions:
            raise unknown_metric(metric, fractions)
        built_in = [JUDGED_BY_NAME[name] for name in evaluator.judged if name in JUDGED_BY_NAME]
        judged = {value for judged_metric in built_in for value in judged_metric.values}
        if metric not in {*STEP_METRICS, ANSWER_MATCH, *judged, *fractions}:
            raise UsageError(
                f"until: {metric} is not judged; the configuration says which metrics are"
            )

    @property
    def is_over(self) -> bool:
        """Whether the condition is decided."""
        return self._deciding.holds is not None

    def restore(self, line: DoneLine, result: dict[str, Any] | None) -> None:
        """Keep what a line of an earlier run counts until the line is read again."""
        assert line.occurrence is not None  # noqa: S101  (a part of a file has no condition)
        sample = None if result is None else self._deciding.read(result)
        self.answered.update([] if result is None else [result["question_id"]])
        self._restored.setdefault(line.sha256, {})[line.occurrence] = sample
        self._kept += 1

    def restored(self, record: Record) -> Restored | None:
        """Return what stands for a line that has no result in this run, if an earlier run has
        one.
        """
        found = self._restored.get(sha256_of(record)) if self._restored else None
        return Restored(found.pop(min(found))) if found else None

    def count(
        self, result: Evaluation | Rejected | Restored | None, *, failed: bool
    ) -> Evaluation | Rejected | None:
        """Count the next result, unless work has `failed`; return it if it is new, and needed to
        decide.
        """
        if self.is_over:
            return None
        own = None if isinstance(result, Restored) else result
        if own is not None and not isinstance(own, Rejected):
            self.answered.add(own.question_id)
        if not failed:
            self._out += not isinstance(result, Restored)
            if isinstance(result, Restored):
                self._deciding.add(result.sample)
            elif result is not None and not isinstance(result, Rejected):
                self._deciding.add(self._deciding.read(result))
        return own

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
