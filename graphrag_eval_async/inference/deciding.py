"""Whether the mean of a metric is over or under a bound, checked after each result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.exact import ONE, Sums, mean, sum_units, to_units
from graphrag_eval_async.inference.confidence import confidence_sequence, is_above
from graphrag_eval_async.inference.until import parse_condition
from graphrag_eval_async.records.metrics import RESULT_METRICS, RETRIEVAL_METRICS
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.records.evaluation import Evaluation


class Sample(NamedTuple):
    """What counts of one result: one sample, however many retrieval steps have the metric.

    The steps of a response resemble each other; as separate samples they would seem to say more than they do.

    Attributes:
        question: the id of the question.
        low: the mean of its values, failed ones as 0; None if the metric does not apply.
        high: the mean with failed ones as 1; None if the metric does not apply.
    """

    question: str
    low: float | None = None
    high: float | None = None


class _ExactSums:
    """Sums of values and of their squares, in units of 2**-1074."""

    def __init__(self) -> None:
        self._total = self._squares = 0

    def add(self, value: float) -> None:
        self._total += to_units(value)
        self._squares += to_units(value * value)

    def of(self, n: int) -> Sums:
        """Rounded, of `n` values."""
        return Sums(n, self._total / ONE, self._squares / ONE)


class Deciding:
    """Takes samples in an order that does not depend on them, until they decide a condition.

    They do as soon as the bound is outside the confidence sequence for the mean, which may be looked at after
    each sample. A failed value counts as 0 when deciding that the mean is over the bound, and as 1 when
    deciding that it is under: a decision holds whatever the failed values would have been.

    A decision is wrong with a probability of 1 - `level` at most, even if the mean drifts, as long as it
    never reaches the side that is decided. For bets on that side this is plain. The mixture of Robbins bets
    on both sides; but it is convex in the sum, and at most 1 where the mean of the values is the bound. So
    what it has won by saying "under" is less than what it would have won on smaller values whose mean is the
    bound, and on those its games are fair.

    Attributes:
        condition: the condition.
        holds: whether it holds; None until that is decided.
        results: the number of results taken, of the template if the condition names one.
        questions: the ids of the questions that they answer.
        samples: the number of results that the metric applies to.
        failed: how many of these lack a value, or the value of a step.
    """

    def __init__(self, until: Until) -> None:
        self.condition = parse_condition(until.condition)
        self.holds: bool | None = None
        self.results = self.samples = self.failed = 0
        self.questions: set[str] = set()
        self._level = until.level
        self._low, self._high = _ExactSums(), _ExactSums()

    def read(self, result: Mapping[str, Any] | Evaluation) -> Sample | None:
        """What counts of a result; None if it is of another template.

        Raises:
            AggregationError: it is not a result, or a metric of it is not a number.
        """
        seen = observe(result, include_errors=False)
        metric = self.condition.metric
        if self.condition.template not in {None, seen.template_id}:
            return None
        found = [value for name, value in seen.values if name == metric]
        values = [value for value in found if 0 <= value <= 1]  # A journal may hold anything.
        failed = sum(name == metric for name, _ in seen.tallies) + len(found) - len(values)
        if not (found or failed or metric in RESULT_METRICS):
            # Whether the metric would have applied is not known if the agent failed or gave no answer.
            failed = seen.failed or not (metric in RETRIEVAL_METRICS or seen.is_answered)
        question = seen.question_id
        if not failed and len(values) == 1:
            return Sample(question, values[0], values[0])
        if not (n := len(values) + failed):
            return Sample(question)
        total = sum_units(values)
        return Sample(question, mean(total, n, integral=False), mean(total + failed * ONE, n, integral=False))

    def add(self, sample: Sample | None) -> None:
        """Count a sample, if there is one and the condition is not decided yet."""
        if self.holds is not None or sample is None:
            return
        question, low, high = sample
        self.results += 1
        self.questions.add(question)
        if low is None or high is None:
            return
        self.samples += 1
        self.failed += low < high
        self._low.add(low)
        self._high.add(high)
        if (low, high) != (0, 1):  # A sample that failed whole brings no bound nearer.
            self._decide()

    def _decide(self) -> None:
        over, bound, level = self.condition.over, self.condition.bound, self._level
        low = self._low.of(self.samples)
        if low.total > self.samples * bound:
            if is_above(bound, low, level=level):
                self.holds = over
        elif is_above(1 - bound, self._high.of(self.samples).mirrored(), level=level):
            self.holds = not over

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence sequence for the mean, whatever the failed values would have been."""
        if not self.samples:
            return 0.0, 1.0
        low, _ = confidence_sequence(self._low.of(self.samples), level=self._level)
        _, high = confidence_sequence(self._high.of(self.samples), level=self._level)
        return low, high
