"""Statistics of one metric."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import (
    ONE,
    mean,
    sum_floats,
    sum_units,
)
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.aggregates.ordered import OrderedValues
from graphrag_eval_async.aggregates.questions import QuestionValues
from graphrag_eval_async.catalogue.metrics import may_be_bounded

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphrag_eval_async.aggregates.column import Column

QUANTILES = (50, 90, 95, 99)
"""The percentiles of a detailed snapshot."""


class Series:
    """The values of one metric: exact sum and, if `ordered`, order statistics.

    Attributes:
        integral: whether all values are ints. They are stored as doubles even so, except ints that
            no double equals.
        ordered: whether all values are kept, for order statistics.
        size: the number of values.
        units: the exact sum of the values, as a multiple of 2**-1074.
        values: all values if `ordered`, otherwise none.
        histogram: for a metric that may be from 0 to 1, one value of each question; filled by the
            owner.
        questions: for a template, its values by question; filled by the owner.
    """

    __slots__ = ("histogram", "integral", "ordered", "questions", "size", "units", "values")

    def __init__(self, metric: str, *, by_question: bool = False, ordered: bool = True) -> None:
        self.integral = True
        self.ordered = ordered
        self.size = 0
        self.units = 0
        self.values = OrderedValues()
        self.histogram = Histogram() if may_be_bounded(metric) else None
        self.questions = QuestionValues() if by_question else None

    def __len__(self) -> int:
        return self.size

    def add(self, column: Column) -> None:
        """Add values, except to the histogram and to `questions`."""
        self.integral &= column.are_ints
        self.size += len(column)
        self.units += column.units
        if self.ordered:
            if type(column.stored) is not array:
                self.values.widen()
            self.values.extend(column.stored)

    def merge(self, other: Series) -> None:
        """Add the values of `other`, except those in `questions`, whose places may differ."""
        self.integral &= other.integral
        self.size += other.size
        self.units += other.units
        if other.values.wide:
            self.values.widen()
        for chunk in other.values.chunks:
            self.values.extend(chunk)
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)

    def restore(self, values: Collection[float], *, integral: bool, wide: bool) -> None:
        """Add values in the form that another series kept them.

        Args:
            values: floats, and ints only if `wide`.
            integral: whether they were ints when they were added to the other series.
            wide: whether there may be ints that no double equals.
        """
        self.integral &= integral
        self.size += len(values)
        if wide:
            self.values.widen()
            self.units += sum_units(values)
        else:
            self.units += sum_floats(values)
        self.values.extend(values)

    def stats(self) -> dict[str, float]:
        """Return `sum`, `mean` and, if `ordered`, `median`, `min` and `max` of the values.

        There must be a value. If all values are ints, the types are those of `sum` and
        `statistics`. Otherwise all are floats, except extremes and medians that are ints no double
        equals. `sum` is absent beyond the largest double.
        """
        stats: dict[str, float] = {}
        with suppress(OverflowError):
            stats["sum"] = self.units // ONE if self.integral else self.units / ONE
        stats["mean"] = mean(self.units, len(self), integral=self.integral)
        if self.ordered:
            stats["median"] = self._quantile(50)
            stats["min"] = self._restore_type(self.values.first())
            stats["max"] = self._restore_type(self.values.last())
        return stats

    def quantiles(self) -> dict[str, float]:
        """Return the values at `QUANTILES`, of a series that is `ordered`."""
        return {f"p{percent}": self._quantile(percent) for percent in QUANTILES}

    def _quantile(self, percent: int) -> float:
        """Return a percentile, as `OrderedValues.quantile` defines it; 50 is the median."""
        quantile = self.values.quantile(percent)
        is_one_of_the_values = (len(self) - 1) * percent % 100 == 0
        if is_one_of_the_values:
            return self._restore_type(quantile)
        return quantile

    def _restore_type(self, value: float) -> float:
        """Return a stored value as it is shown: an int if all values are ints."""
        if self.integral:
            return int(value)
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        return value + 0


def series_of(
    series_by_metric: dict[str, Series],
    metric: str,
    *,
    by_question: bool = False,
    ordered: bool = True,
) -> Series:
    """Return the series of a metric; create it with these options if needed."""
    series = series_by_metric.get(metric)
    if series is None:
        series = Series(metric, by_question=by_question, ordered=ordered)
        series_by_metric[metric] = series
    return series
