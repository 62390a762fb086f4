"""Statistics of one metric."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import (
    FIXED_POINT_ONE,
    mean,
    sum_floats,
    sum_numbers,
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
    """The values of one metric in a group of results, or in all results.

    Attributes:
        integral: whether all values are ints. Ints are stored as doubles if a double equals them.
        ordered: whether all values are kept, for medians and quantiles.
        size: the number of values.
        exact_sum: the sum of the values, as a multiple of 2**-1074.
        values: all values if `ordered`, otherwise none.
        histogram: the values of first samples of questions; None unless the metric may be from 0
            to 1. The group of results adds them.
        questions: the values by question; None over all templates, since questions belong to one
            template. The group of results adds them.
    """

    __slots__ = ("exact_sum", "histogram", "integral", "ordered", "questions", "size", "values")

    def __init__(self, metric: str, *, by_question: bool = False, ordered: bool = True) -> None:
        self.integral = True
        self.ordered = ordered
        self.size = 0
        self.exact_sum = 0
        self.values = OrderedValues()
        self.histogram = Histogram() if may_be_bounded(metric) else None
        self.questions = QuestionValues() if by_question else None

    def __len__(self) -> int:
        return self.size

    def add(self, column: Column) -> None:
        """Add the values of a batch of results, but not to `histogram` and `questions`."""
        self.integral &= column.are_ints
        self.size += len(column)
        self.exact_sum += column.exact_sum
        if self.ordered:
            has_large_ints = type(column.stored) is not array
            if has_large_ints:
                self.values.allow_large_ints()
            self.values.extend(column.stored)

    def merge(self, other: Series) -> None:
        """Add the values of another series, but not to `questions`.

        The other group may number its questions differently, which only the groups know.
        """
        self.integral &= other.integral
        self.size += other.size
        self.exact_sum += other.exact_sum
        if other.values.holds_large_ints:
            self.values.allow_large_ints()
        for chunk in other.values.chunks:
            self.values.extend(chunk)
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)

    def restore(self, values: Collection[float], *, integral: bool, holds_large_ints: bool) -> None:
        """Add values that another series stored.

        Args:
            values: the values as they were stored. Ints that a double equals are floats.
            integral: whether all values were ints when they were added to the other series.
            holds_large_ints: whether `values` may have ints, which no double equals.
        """
        self.integral &= integral
        self.size += len(values)
        if holds_large_ints:
            self.values.allow_large_ints()
            self.exact_sum += sum_numbers(values)
        else:
            self.exact_sum += sum_floats(values)
        self.values.extend(values)

    def stats(self) -> dict[str, float]:
        """Return `sum`, `mean` and, if `ordered`, `median`, `min` and `max` of at least one value.

        If all values are ints, the types of these are those that `sum` and the functions of
        `statistics` return. Otherwise they are floats, except a median or an extreme that is an int
        which no double equals. The sum is absent if it exceeds the largest double.
        """
        stats: dict[str, float] = {}
        if self.integral:
            stats["sum"] = self.exact_sum // FIXED_POINT_ONE
        else:
            with suppress(OverflowError):
                stats["sum"] = self.exact_sum / FIXED_POINT_ONE
        stats["mean"] = mean(self.exact_sum, len(self), integral=self.integral)
        if self.ordered:
            stats["median"] = self._quantile(50)
            stats["min"] = self._restore_type(self.values.first())
            stats["max"] = self._restore_type(self.values.last())
        return stats

    def quantiles(self) -> dict[str, float]:
        """Return the percentiles `QUANTILES` of a series that is `ordered`."""
        return {f"p{percent}": self._quantile(percent) for percent in QUANTILES}

    def _quantile(self, percent: int) -> float:
        """Return a percentile, interpolated between two values; 50 is the median."""
        quantile = self.values.quantile(percent)
        is_one_of_the_values = (len(self) - 1) * percent % 100 == 0
        if is_one_of_the_values:
            return self._restore_type(quantile)
        return quantile

    def _restore_type(self, value: float) -> float:
        """Return a stored value with the type that it had when it was added."""
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
    """Return the series of a metric; if there is none, add an empty one with these options.

    Args:
        series_by_metric: the series, to which a new one is added.
        metric: the name of the metric.
        by_question: whether a new series has its values by question.
        ordered: whether a new series keeps all values, for medians and quantiles.
    """
    series = series_by_metric.get(metric)
    if series is None:
        series = Series(metric, by_question=by_question, ordered=ordered)
        series_by_metric[metric] = series
    return series
