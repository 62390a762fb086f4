"""Statistics of one metric."""

from __future__ import annotations

from array import array
from contextlib import suppress
from struct import pack
from typing import TYPE_CHECKING, NamedTuple, Self

from graphrag_eval_async.aggregates.exact import DOUBLE_INTS, ONE, mean, sum_floats, sum_units
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.aggregates.ordered import OrderedValues
from graphrag_eval_async.aggregates.questions import QuestionValues
from graphrag_eval_async.catalogue.metrics import may_be_bounded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_INTS = {int}

QUANTILES = (50, 90, 95, 99)


def stored(value: float) -> float:
    """Return the double that equals `value`, or `value` itself if it is an int that no double
    equals.
    """
    double = float(value)
    return double if double == value else value


class Column(NamedTuple):
    """Values of a metric, as an array of doubles if these equal them, which is several times faster
    to add.

    `integral` says whether all are ints, and `units` is their exact sum, as a multiple of 2**-1074.
    """

    values: Sequence[float]
    integral: bool
    units: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Make one of floats and ints."""
        kinds = {*map(type, values)}
        if int in kinds and not -DOUBLE_INTS <= min(values) <= max(values) <= DOUBLE_INTS:
            return cls([stored(value) for value in values], kinds == _INTS, sum_units(values))
        doubles = array("d")
        # A third of the time of `array("d", values)`.
        doubles.frombytes(pack(f"{len(values)}d", *values))
        return cls(doubles, kinds == _INTS, sum_floats(doubles))


class Series:
    """The values of one metric: exact sum and, if `ordered`, order statistics.

    `integral` says whether all values are ints; they are stored as doubles even so, except ints
    that no double equals.

    Attributes:
        histogram: for a metric that may be from 0 to 1, one value of each question; filled by the
            owner.
        questions: for a template, its values by question; filled by the owner.
        size: the number of values.
        units: the exact sum of the values, as a multiple of 2**-1074.
        values: all values if `ordered`, otherwise none.
    """

    __slots__ = ("histogram", "integral", "ordered", "questions", "size", "units", "values")

    def __init__(self, metric: str, *, by_question: bool = False, ordered: bool = True) -> None:
        self.histogram = Histogram() if may_be_bounded(metric) else None
        self.questions = QuestionValues() if by_question else None
        self.integral = True
        self.ordered = ordered
        self.values = OrderedValues()
        self.size = self.units = 0

    def __len__(self) -> int:
        return self.size

    def add(self, column: Column) -> None:
        self.integral &= column.integral
        self.size += len(column.values)
        self.units += column.units
        if self.ordered:
            if type(column.values) is not array:
                self.values.widen()
            self.values.extend(column.values)

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

    def extend(self, values: Collection[float], *, integral: bool, wide: bool) -> None:
        """Add values in the form of `self.values`: floats, and ints only if `wide`."""
        self.integral &= integral
        if wide:
            self.values.widen()
        self.values.extend(values)
        self.size += len(values)
        self.units += sum_units(values) if wide else sum_floats(values)

    def stats(self) -> dict[str, float]:
        """Return `sum`, `mean` and, if `ordered`, `median`, `min` and `max` of the values, at least
        one.

        If all values are ints, the types are those of `sum` and `statistics`. Otherwise all are
        floats, except extremes and medians that are ints no double equals. `sum` is absent beyond
        the largest double.
        """
        stats: dict[str, float] = {}
        with suppress(OverflowError):
            stats["sum"] = self.units // ONE if self.integral else self.units / ONE
        stats["mean"] = mean(self.units, len(self), integral=self.integral)
        if self.ordered:
            stats["median"] = self.quantile(50)
            stats["min"] = self._shown(self.values.first())
            stats["max"] = self._shown(self.values.last())
        return stats

    def quantiles(self) -> dict[str, float]:
        """Return the values at `QUANTILES`, of a series that is `ordered`."""
        return {f"p{percent}": self.quantile(percent) for percent in QUANTILES}

    def quantile(self, percent: int) -> float:
        """Return a percentile, as `OrderedValues.quantile` defines it; 50 is the median."""
        value = self.values.quantile(percent)
        return value if (len(self) - 1) * percent % 100 else self._shown(value)

    def _shown(self, value: float) -> float:
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        return int(value) if self.integral else value + 0
