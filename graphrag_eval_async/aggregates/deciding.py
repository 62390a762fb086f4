"""Whether the mean of a metric is over or under a bound, found out from one result after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.confidence import Sums, confidence_sequence, is_above
from graphrag_eval_async.aggregates.exact import ONE, sum_units
from graphrag_eval_async.aggregates.reading import observe
from graphrag_eval_async.aggregates.until import parse_condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.aggregates.until import Until


class Samples(NamedTuple):
    """What counts of one result: the values of the metric, and how often it applies and has none."""

    values: Sequence[float] = ()
    failed: int = 0


class Deciding:
    """Takes results in an order that does not depend on them, until they decide.

    They do as soon as the bound is outside of the confidence sequence for the mean; looking after each result
    is what that allows. A sample without a value counts as 0 where the mean may be over the bound, and as 1
    where it may be under it: a decision holds whatever the failed ones would have been.

    It is wrong with a probability of 1 - `level` at most, and for that the mean may drift, as long as it
    never comes to the side that is said. Of bets on that side this is plain. The mixture of Robbins bets on
    both; but it is convex in the sum, and not more than 1 where the mean of the values is the bound: what it
    has won by saying "under" is less than what it would have won on lesser values, with the bound as their
    mean, and on those its games are fair.

    Attributes:
        condition: that is to be decided.
        holds: whether it holds; None as long as that is not decided.
        results: how many were taken.
        samples: how many values these had, and failed samples.
        failed: how many samples failed.
    """

    def __init__(self, until: Until) -> None:
        """Begin with none."""
        self.condition = parse_condition(until.condition)
        self.holds: bool | None = None
        self.results = self.samples = self.failed = 0
        self._level = until.level
        self._total = self._squares = 0

    def read(self, result: Mapping[str, Any]) -> Samples:
        """What counts of a result.

        Raises:
            AggregationError: it is none, or a metric of it is no number.
        """
        seen = observe(result, include_errors=False)
        metric = self.condition.metric
        if self.condition.template not in {None, seen.template}:
            return Samples()
        found = [value for name, value in seen.values if name == metric]
        values = [value for value in found if 0 <= value <= 1]  # Of a journal, it may be anything.
        failed = sum(name == metric for name, _ in seen.failures)
        return Samples(values, failed + len(found) - len(values))

    def add(self, samples: Samples) -> None:
        """Take what counts of the next result; nothing more once it is decided."""
        if self.holds is not None:
            return
        values, failed = samples
        self.results += 1
        self.samples += len(values) + failed
        self.failed += failed
        self._total += sum_units(values)
        self._squares += sum_units([value * value for value in values])
        if values:  # Failed samples alone bring no bound nearer.
            self._decide()

    def _decide(self) -> None:
        bound, level = self.condition.bound, self._level
        if is_above(bound, self._sums(0), level=level):
            self.holds = self.condition.over
        elif is_above(1 - bound, self._sums(1).mirrored(), level=level):
            self.holds = not self.condition.over

    def _sums(self, worth: int) -> Sums:
        """Where each failed sample is worth so much."""
        failed = self.failed * worth
        return Sums(self.samples, self._total / ONE + failed, self._squares / ONE + failed)

    @property
    def interval(self) -> tuple[float, float]:
        """That of the confidence sequence for the mean, wide enough for whatever the failed ones were."""
        if not self.samples:
            return 0.0, 1.0
        low, _ = confidence_sequence(self._sums(0), level=self._level)
        _, high = confidence_sequence(self._sums(1), level=self._level)
        return low, high
