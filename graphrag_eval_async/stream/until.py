"""Ends a stream as soon as its results decide a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH, BOUNDED_METRICS, STEP_METRICS
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.until import Deciding, Sample, Until, unknown_metric
from graphrag_eval_async.records.evaluation import Evaluation
from graphrag_eval_async.sinks.done import sha256_of

if TYPE_CHECKING:
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sinks.done import DoneLine
    from graphrag_eval_async.sinks.rejects import Rejected


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
    """Takes the place of a line's result in an ordered stream if an earlier run evaluated it.

    Attributes:
        sample: what the result counts for the condition. None if it counts nothing: it is of
            another template, or the line was rejected.
    """

    sample: Sample | None


class UntilDecided:
    """Counts the results of an ordered stream until they decide its condition.

    Later results are dropped. Results count in the order of their lines, since those that come
    first are of quick answers, which are not a fair sample.

    Attributes:
        answered: ids of the questions that have an answer in this run or an earlier one.
    """

    def __init__(self, until: str | Until, evaluator: Evaluator) -> None:
        """Check the condition of a stream.

        Args:
            until: the condition.
            evaluator: what evaluates the responses of the stream.

        Raises:
            UsageError: the condition is invalid, or `evaluator` never decides it.
        """
        self._until = until if isinstance(until, Until) else Until(until)
        self._deciding = Deciding(self._until)
        _check_condition(self._deciding.condition, evaluator)
        self.answered: set[str] = set()

        # Samples of earlier runs whose lines are not read again yet, by the hash of the line and
        # its occurrence: 1 for the first of several equal lines.
        self._samples_of_earlier_runs: dict[str, dict[int, Sample | None]] = {}
        self._lines_of_earlier_runs = 0
        self._lines_of_this_run = 0

    @property
    def is_over(self) -> bool:
        """Whether the condition is decided."""
        return self._deciding.holds is not None

    def restore(self, line: DoneLine, result: dict[str, Any] | None) -> None:
        """Keep the sample of a line of an earlier run until the line is read again.

        Args:
            line: the line.
            result: its result; None if it was rejected.
        """
        # Only lines of a part of a larger run have no occurrence, and `until` refuses these.
        assert line.occurrence is not None  # noqa: S101
        sample = None
        if result is not None:
            sample = self._deciding.read(result)
            self.answered.add(result["question_id"])
        samples = self._samples_of_earlier_runs.setdefault(line.sha256, {})
        samples[line.occurrence] = sample
        self._lines_of_earlier_runs += 1

    def take_restored(self, record: Record) -> Restored | None:
        """Remove and return the kept sample of a line that was skipped; None if there is none.

        If several lines are equal, the samples come in the order of the earlier run.
        """
        if not self._samples_of_earlier_runs:
            return None
        samples = self._samples_of_earlier_runs.get(sha256_of(record))
        if not samples:
            return None
        first_occurrence = min(samples)
        return Restored(samples.pop(first_occurrence))

    def count(
        self, result: Evaluation | Rejected | Restored | None, *, failed: bool
    ) -> Evaluation | Rejected | None:
        """Count the result of the next line, and return it if it is to be delivered.

        Args:
            result: the result; a `Restored` if an earlier run evaluated the line; None if the line
                has none.
            failed: whether the stream has failed. Then lines before this one may be missing, so
                the result no longer counts for the condition.

        Returns:
            the result; None if an earlier run has delivered it, or if the condition was already
            decided.
        """
        if self.is_over:
            return None

        if isinstance(result, Restored):
            if not failed:
                self._deciding.add(result.sample)
            # The earlier run has delivered the result.
            return None

        if not failed:
            self._lines_of_this_run += 1
        if isinstance(result, Evaluation):
            self.answered.add(result.question_id)
            if not failed:
                sample = self._deciding.read(result)
                self._deciding.add(sample)
        return result

    def decision(self, lines: int | None) -> Decision:
        """Return the decision so far.

        Args:
            lines: number of lines of the source; None if it is not known.
        """
        deciding = self._deciding
        low, high = deciding.interval
        remaining = None
        if lines is not None:
            # Lines of earlier runs need no evaluation, even if they have not been read again yet.
            unread = lines - self._lines_of_earlier_runs - self._lines_of_this_run
            remaining = max(0, unread)
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
            remaining=remaining,
        )


def _check_condition(condition: Condition, evaluator: Evaluator) -> None:
    """Check that the results of an evaluator can decide a condition.

    Raises:
        UsageError: the template of the condition does not exist, the metric does not range from 0
            to 1, or the evaluator does not compute the metric.
    """
    template = condition.template
    templates = evaluator.reference.templates
    # Without a reference set, there are no templates, and responses may name any.
    is_unknown_template = bool(templates) and template not in templates
    if template is not None and is_unknown_template:
        raise UsageError(f"until: no template {template!r}; there are: {', '.join(templates)}")

    metric = condition.metric
    fractions = evaluator.fractions
    if metric not in BOUNDED_METRICS and metric not in fractions:
        raise unknown_metric(metric, fractions)

    computed = {*STEP_METRICS, ANSWER_MATCH, *fractions}
    for name in evaluator.judged:
        if name in JUDGED_BY_NAME:
            computed.update(JUDGED_BY_NAME[name].values)
    if metric not in computed:
        raise UsageError(f"until: {metric} is not judged; the configuration says which metrics are")
