"""Statistics of the values in a window, which come and go: the mean or a quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import mean, to_units
from graphrag_eval_async.aggregates.ordered import OrderedValues
from graphrag_eval_async.aggregates.series import stored

if TYPE_CHECKING:
    from fractions import Fraction


class Mean:
    """The mean of values, correctly rounded."""

    def __init__(self) -> None:
        self._units = 0
        self._count = 0

    def add(self, value: float) -> None:
        self._units += to_units(value)
        self._count += 1

    def remove(self, value: float) -> None:
        self._units -= to_units(value)
        self._count -= 1

    @property
    def value(self) -> float | None:
        """The mean; None without values."""
        return mean(self._units, self._count, integral=False) if self._count else None


class Quantile:
    """A quantile of values, linearly interpolated between two of them, as in aggregates."""

    def __init__(self, share: Fraction) -> None:
        """`share` of the values is at most the quantile; it is between 0 and 1."""
        self._share = share
        self._values = OrderedValues()

    def add(self, value: float) -> None:
        value = stored(value)
        if type(value) is int:
            self._values.widen()
        self._values.extend([value])

    def remove(self, value: float) -> None:
        self._values.remove(stored(value))

    @property
    def value(self) -> float | None:
        """The quantile; None without values."""
        share = self._share
        return self._values.quantile(share.numerator, share.denominator) if self._values else None
