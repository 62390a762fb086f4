"""Conditions that end a stream, checked after each result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE, mean, sum_numbers
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.catalogue.conditions import Condition, parse_condition
from graphrag_eval_async.catalogue.metrics import (
    BOUNDED_METRICS,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    may_be_bounded,
)
from graphrag_eval_async.catalogue.outcomes import CUSTOM_METRICS
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.inference.confidence import Bet, check_level, confidence_sequence
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Until:
    """Ends a stream once it is decided whether the mean of a metric is above or below a bound.

    Each response is one sample; with several retrieval steps, the sample is their mean. A repeated
    question counts again, but only adds information about itself: with repeats, the decision is
    about these questions. The level is valid for one stream in one order: trying seeds of
    `read_jsonl` until the condition holds voids it. A stream ends when the mean is far enough from
    the bound, so the mean in its aggregates is biased away from the bound; the interval of the
    `Decision` is not. In 2,000 simulated runs of 5,000 results with the true mean exactly on the
    bound, 1.0 to 3.2% were decided at all.

    Results count in the order of the input, so a decision does not depend on how quick judges are.

    Attributes:
        condition: ``[TEMPLATE:]METRIC (>=|>|<=|<) NUMBER``, over all results or those of one
            template, whose name may contain colons. The metric is from 0 to 1 by definition, or is
            declared so, like an output of a custom evaluation or your own metric. ``>`` and ``>=``
            are equivalent, and so are ``<`` and ``<=``: no sample can tell them apart.
        level: confidence level of the decision, between 0 and 1. At 0.95, at most one of 20 streams
            is decided wrongly.

    Raises:
        UsageError: an attribute has an invalid value.
    """

    condition: str
    level: float = 0.95

    def __post_init__(self) -> None:
        condition_of(self.condition)
        check_level(self.level, name="until.level")


def unknown_metric(metric: str, outputs: Sequence[str] = ()) -> UsageError:
    """Return the error for a condition on a metric that is not allowed.

    Args:
        metric: the metric.
        outputs: the outputs of custom evaluations that are allowed.
    """
    allowed = [*outputs]
    allowed += [name for name in (*RESULT_METRICS, *RETRIEVAL_METRICS) if name in BOUNDED_METRICS]
    return UsageError(
        'until: takes scores from 0 to 1, outputs of custom evaluations described as "fraction '
        f'0-1", and metrics declared range=(0, 1), not {metric!r}; {did_you_mean(metric, allowed)}'
    )


def condition_of(text: object) -> Condition:
    """Parse a condition that results can decide.

    Raises:
        UsageError: `text` is not a condition, its metric is not from 0 to 1, or its bound is not
            between 0 and 1.
    """
    if not isinstance(text, str):
        text = repr(text)
    try:
        condition = parse_condition(text)
    except ValueError as error:
        raise UsageError(f"until: {error}") from None
    if not may_be_bounded(condition.metric):
        raise unknown_metric(condition.metric)
    if not 0 < condition.bound < 1:
        raise UsageError(
            f"until: expected a bound between 0 and 1, got {condition.bound:g}: "
            "at 0, at 1 or beyond, no number of results could decide"
        )
    return condition


class Sample(NamedTuple):
    """The sample from one result: always one, however many retrieval steps have the metric.

    The steps of a response are correlated; as separate samples they would overstate the evidence.

    Attributes:
        question: id of the question.
        low: mean of the values, with failed ones as 0; None if the metric does not apply.
        high: mean of the values, with failed ones as 1; None if the metric does not apply.
    """

    question: str
    low: float | None = None
    high: float | None = None


class Deciding:
    """Takes samples, in an order that does not depend on their values, until they decide a
    condition.

    The condition is decided once the bound is outside the confidence sequence for the mean, which
    is checked after each sample. A failed value counts as 0 when deciding that the mean is above
    the bound, and as 1 when deciding that it is below. So a decision holds whatever the failed
    values would have been.

    A decision is wrong with a probability of at most 1 - `level`, even if the mean drifts, as long
    as the mean never reaches the decided side: the bets on that side then win even less than in
    fair games.

    Attributes:
        condition: the condition.
        holds: whether the condition holds; None until decided.
        results: number of results taken, of the condition's template if it names one.
        questions: ids of the questions that these results answer.
        samples: number of results that the metric applies to.
        failed: number of samples that lack a value, or the value of a step.
    """

    def __init__(self, until: Until) -> None:
        """Start without samples; `until` has the condition and the level."""
        self.condition = condition_of(until.condition)
        self.holds: bool | None = None
        self.results = 0
        self.samples = 0
        self.failed = 0
        self.questions: set[str] = set()
        self._level = until.level
        # Two histograms of the same samples: with failed values as 0, and with failed values as 1.
        self._low_values = Histogram()
        self._high_values = Histogram()
        self._bet_on_above = Bet(self.condition.bound)
        # If each value x is replaced by 1 - x, a mean below the bound becomes one above it.
        self._bet_on_below = Bet(1 - self.condition.bound)

    def read(self, result: Mapping[str, Any] | Evaluation) -> Sample | None:
        """Return the sample from a result; None if the condition is about another template.

        The sample is the mean of the values of the metric, with failed values as 0 for its low end
        and as 1 for its high end.
        """
        observed = observe(result)
        if self.condition.template not in {None, observed.template_id}:
            return None
        metric = self.condition.metric
        values_in_result = [value for name, value in observed.values if name == metric]
        # A journal may hold anything, so a value that is not from 0 to 1 counts as failed.
        values = [value for value in values_in_result if 0 <= value <= 1]
        failed = sum(name == metric for name, _ in observed.outcomes)
        failed += len(values_in_result) - len(values)
        if not values and not failed and self._may_have_applied(observed):
            failed = 1

        question = observed.question_id
        count = len(values) + failed
        if count == 0:
            return Sample(question)
        if count == 1 and values:
            return Sample(question, values[0], values[0])
        total = sum_numbers(values)
        total_with_ones = total + failed * FIXED_POINT_ONE
        return Sample(
            question,
            low=mean(total, count, integral=False),
            high=mean(total_with_ones, count, integral=False),
        )

    def _may_have_applied(self, observed: Evaluation) -> bool:
        """Return whether the metric might have applied to a result that does not mention it.

        - A result always mentions the metrics of all results.
        - If the agent failed, any other metric might have applied.
        - If the agent gave no answer, metrics of answers might have applied. Metrics of retrieval
          steps and in code were called even then, so that the result would mention them.
        """
        metric = self.condition.metric
        if metric in RESULT_METRICS:
            return False
        if observed.failed:
            return True
        was_called = (
            metric in RETRIEVAL_METRICS
            or observed.is_answered
            or CUSTOM_METRICS in observed.as_dict()
        )
        return not was_called

    def add(self, sample: Sample | None) -> None:
        """Count a sample, and decide the condition if possible.

        Nothing is done if the sample is None, or if the condition is already decided.
        """
        if self.holds is not None or sample is None:
            return
        self.results += 1
        self.questions.add(sample.question)
        # The metric does not apply to this result.
        if sample.low is None or sample.high is None:
            return
        self.samples += 1
        # A sample with failed values has a range: from all of them being 0 to all being 1.
        if sample.low < sample.high:
            self.failed += 1
        self._low_values.add([sample.low])
        self._high_values.add([sample.high])
        # Each bet counts failed values against itself. A bet that is won shows that the mean is
        # above or below the bound; which of the two the condition asks for depends on its operator.
        self._bet_on_above.add(sample.low)
        self._bet_on_below.add(1 - sample.high)
        if self._bet_on_above.refutes(self._level):
            self.holds = self.condition.is_lower_bound
        elif self._bet_on_below.refutes(self._level):
            self.holds = not self.condition.is_lower_bound

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval for the mean, for any values in place of the failed ones."""
        low_weights = self._low_values.weights()
        high_weights = self._high_values.weights()
        if low_weights is None or high_weights is None:
            return 0.0, 1.0
        low, _ = confidence_sequence(low_weights, level=self._level)
        _, high = confidence_sequence(high_weights, level=self._level)
        if self.holds is None:
            return low, high
        # The ends are computed to five digits. Rounding must not make them contradict the decision.
        mean_is_above = self.holds == self.condition.is_lower_bound
        if mean_is_above:
            return max(low, self.condition.bound), high
        return low, min(high, self.condition.bound)
