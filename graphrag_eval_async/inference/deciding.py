"""Whether the mean of a metric is over or under a bound, found out from one result after the other."""

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
    """What counts of one result: one sample, however many steps of it have the metric.

    The steps of a response resemble each other; as samples of their own they would say less than they seem.

    Attributes:
        question: the id of the one that it answers.
        low: the mean of its values, with failed ones as 0; None where the metric does not apply.
        high: with failed ones as 1; None likewise.
    """

    question: str
    low: float | None = None
    high: float | None = None


def _is_silent(seen: Evaluation, metric: str) -> bool:
    """Whether the agent failed or, of an output of a custom evaluation, gave no answer."""
    return seen.failed or not (metric in RETRIEVAL_METRICS or seen.is_answered)


class _Totals:
    """Exact sums of values and of their squares."""

    def __init__(self) -> None:
        self._total = self._squares = 0

    def add(self, value: int, square: int) -> None:
        self._total += value
        self._squares += square

    def sums(self, n: int) -> Sums:
        return Sums(n, self._total / ONE, self._squares / ONE)


def _with_square(value: float) -> tuple[int, int]:
    return to_units(value), to_units(value * value)


class Deciding:
    """Takes results in an order that does not depend on them, until they decide.

    They do as soon as the bound is outside of the confidence sequence for the mean; looking after each result
    is what that allows. A value that failed counts as 0 where the mean may be over the bound, and as 1 where
    it may be under it: a decision holds whatever the failed ones would have been.

    It is wrong with a probability of 1 - `level` at most, and for that the mean may drift, as long as it
    never comes to the side that is said. Of bets on that side this is plain. The mixture of Robbins bets on
    both; but it is convex in the sum, and not more than 1 where the mean of the values is the bound: what it
    has won by saying "under" is less than what it would have won on lesser values, with the bound as their
    mean, and on those its games are fair.

    Attributes:
        condition: that is to be decided.
        holds: whether it holds; None as long as that is not decided.
        results: how many were taken, of the template where the condition names one.
        questions: the ids of those that they answer.
        samples: to how many of them the metric applies.
        failed: how many of these lack a value, or that of a step.
    """

    def __init__(self, until: Until) -> None:
        """Begin with none."""
        self.condition = parse_condition(until.condition)
        self.holds: bool | None = None
        self.results = self.samples = self.failed = 0
        self.questions: set[str] = set()
        self._level = until.level
        self._low, self._high = _Totals(), _Totals()

    def read(self, result: Mapping[str, Any] | Evaluation) -> Sample | None:
        """What counts of a result; None of one of another template.

        Raises:
            AggregationError: it is none, or a metric of it is no number.
        """
        seen = observe(result, include_errors=False)
        metric = self.condition.metric
        if self.condition.template not in {None, seen.template_id}:
            return None
        found = [value for name, value in seen.values if name == metric]
        values = [value for value in found if 0 <= value <= 1]  # Of a journal, it may be anything.
        failed = sum(name == metric for name, _ in seen.tallies) + len(found) - len(values)
        if not (found or failed or metric in RESULT_METRICS) and _is_silent(seen, metric):
            failed = 1  # Whether it would have applied is not known.
        question = seen.question_id
        if not failed and len(values) == 1:
            return Sample(question, values[0], values[0])
        if not (n := len(values) + failed):
            return Sample(question)
        total = sum_units(values)
        return Sample(question, mean(total, n, integral=False), mean(total + failed * ONE, n, integral=False))

    def add(self, sample: Sample | None) -> None:
        """Take what counts of the next result, if anything; nothing more once it is decided."""
        if self.holds is not None or sample is None:
            return
        question, low, high = sample
        self.results += 1
        self.questions.add(question)
        if low is None or high is None:
            return
        self.samples += 1
        self.failed += low < high
        self._low.add(*(units := _with_square(low)))
        self._high.add(*(units if low == high else _with_square(high)))
        if (low, high) != (0, 1):  # Failed samples alone bring no bound nearer.
            self._decide()

    def _decide(self) -> None:
        bound, level = self.condition.bound, self._level
        low = self._low.sums(self.samples)
        if low.total > self.samples * bound:
            if is_above(bound, low, level=level):
                self.holds = self.condition.over
        elif is_above(1 - bound, self._high.sums(self.samples).mirrored(), level=level):
            self.holds = not self.condition.over

    @property
    def interval(self) -> tuple[float, float]:
        """That of the confidence sequence for the mean, wide enough for whatever the failed ones were."""
        if not self.samples:
            return 0.0, 1.0
        low, _ = confidence_sequence(self._low.sums(self.samples), level=self._level)
        _, high = confidence_sequence(self._high.sums(self.samples), level=self._level)
        return low, high
