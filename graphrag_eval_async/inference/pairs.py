"""Pairs of values, and what they sum up to."""

from __future__ import annotations

from collections import Counter
from math import isclose
from sys import float_info
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, Sums, mean, sum_floats

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH = 1024
"""So many pairs wait, at most, to be summed together."""


class Mean:
    """The mean of values that come one by one, exact until it is rounded.

    Attributes:
        count: how many there are.
    """

    __slots__ = ("_denominator", "_numerator", "count")

    def __init__(self, value: float) -> None:
        self._numerator, self._denominator = value.as_integer_ratio()
        self.count = 1

    def add(self, value: float) -> None:
        numerator, denominator = value.as_integer_ratio()
        common = max(self._denominator, denominator)  # Both are powers of two.
        self._numerator = (
            self._numerator * (common // self._denominator) + numerator * (common // denominator)
        )  # fmt: skip
        self._denominator = common
        self.count += 1

    @property
    def value(self) -> float:
        """Correctly rounded."""
        return self._numerator / (self._denominator * self.count)


PairedValues: TypeAlias = "dict[str, float | Mean]"
"""By metric, what one side has of a question: a value as it is, several as their mean."""


def put(values: PairedValues, metric: str, value: float) -> None:
    """Add one more value to those of a question."""
    known = values.get(metric)
    if known is None:
        values[metric] = value
    elif isinstance(known, Mean):
        known.add(value)
    else:
        values[metric] = both = Mean(known)
        both.add(value)


def _rounded(value: float | Mean) -> float:
    """As a double, and 0.0 for -0.0."""
    return value.value if isinstance(value, Mean) else value + 0.0


def count_of(value: float | Mean) -> int:
    """Of how many values it is the mean."""
    return value.count if isinstance(value, Mean) else 1


def difference(baseline: float, candidate: float) -> float:
    """By how much the candidate is more; nothing where they differ by rounding alone.

    One beyond the doubles is the largest of them.
    """
    if isclose(baseline, candidate):
        return 0.0
    return max(-float_info.max, min(float_info.max, candidate - baseline))


class Pair(NamedTuple):
    """What the sides have of one question.

    Attributes:
        baseline: the mean of that side.
        candidate: the mean of the other.
        is_even: whether both are means of equally many values. If not, one is more than the other too
            often: of an agent that is right nine times in ten, one sample mostly beats the mean of five.
    """

    baseline: float
    candidate: float
    is_even: bool

    @property
    def change(self) -> float:
        """Their difference."""
        return difference(self.baseline, self.candidate)


def pair_of(baseline: float | Mean, candidate: float | Mean) -> Pair:
    """Of what both sides have of a metric."""
    if not (isinstance(baseline, Mean) or isinstance(candidate, Mean)):
        return Pair(baseline + 0.0, candidate + 0.0, True)
    return Pair(_rounded(baseline), _rounded(candidate), count_of(baseline) == count_of(candidate))


class PairSums:
    """Sums over pairs, which may come and go; exact, each square as it is rounded.

    Attributes:
        are_fractions: whether it is the output of a custom evaluation that is from 0 to 1 by its definition.
        pairs: how many there are.
    """

    __slots__ = ("_copy", "_counts", "_units", "_waiting", "are_fractions", "pairs")

    def __init__(self, *, are_fractions: bool = False) -> None:
        self.are_fractions = are_fractions
        self.pairs = 0
        self._copy: PairSums | None = None
        self._counts: Counter[str] = Counter()
        self._units = [0, 0, 0, 0]
        # Many at once are summed faster than one by one.
        self._waiting: dict[int, list[Pair]] = {1: [], -1: []}

    def count(self, pair: Pair, sign: int) -> None:
        """Add a pair or, with a `sign` of -1, remove one that was added so."""
        self.pairs += sign
        self._copy = None
        waiting = self._waiting[sign]
        waiting.append(pair)
        if len(waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        for sign, pairs in self._waiting.items():
            if pairs:
                baselines, candidates, are_even = zip(*pairs, strict=True)
                changes = list(map(difference, baselines, candidates))
                squares = [change * change for change in changes if -1 <= change <= 1]
                self._add_units([sign * sum_floats(of) for of in (baselines, candidates, changes, squares)])
                rises = [is_even for is_even, change in zip(are_even, changes, strict=True) if change > 0]
                falls = [is_even for is_even, change in zip(are_even, changes, strict=True) if change < 0]
                inside = [0 <= one <= 1 and 0 <= other <= 1 for one, other, _ in pairs]
                for name, count in {
                    "rises": len(rises),
                    "falls": len(falls),
                    "even rises": sum(rises),
                    "even falls": sum(falls),
                    "even": sum(are_even),
                    "inside": sum(inside),
                }.items():
                    self._counts[name] += sign * count
                pairs.clear()

    def _add_units(self, more: Iterable[int]) -> None:
        self._units = [units + own for units, own in zip(self._units, more, strict=True)]

    def merge(self, other: PairSums) -> None:
        """Add the pairs of another, which stays as it is."""
        self._flush()
        other._flush()
        self._copy = None
        self.pairs += other.pairs
        self._add_units(other._units)
        self._counts.update(other._counts)

    def copy(self) -> PairSums:
        """These sums as they are now, for another thread to read.

        Nobody may change them: it is the same copy as long as these stay as they are.
        """
        if self._copy is None or self._copy.are_fractions != self.are_fractions:
            copied = PairSums(are_fractions=self.are_fractions)
            copied.merge(self)
            self._copy = copied
        return self._copy

    def changes(self) -> tuple[int, int]:
        """In how many pairs the candidate is more, and in how many it is less."""
        self._flush()
        return self._counts["rises"], self._counts["falls"]

    def even_changes(self) -> tuple[int, int]:
        """The same, of the pairs that are even: those which a sign test may count."""
        self._flush()
        return self._counts["even rises"], self._counts["even falls"]

    @property
    def uneven(self) -> int:
        """How many pairs are not even."""
        self._flush()
        return self.pairs - self._counts["even"]

    def means(self) -> dict[str, float]:
        """Of the baseline, of the candidate and of their differences."""
        self._flush()
        names = ("baseline", "candidate", "difference")
        return {
            name: mean(units, self.pairs, integral=False)
            for name, units in zip(names, self._units, strict=False)
        }

    def confidence(self, level: float) -> dict[str, Any] | None:
        """The confidence sequence of the mean difference, if all values are from 0 to 1."""
        self._flush()
        if self._counts["inside"] < self.pairs:
            return None
        from graphrag_eval_async.inference.confidence import confidence_sequence

        # Of (1 + change) / 2, which is from 0 to 1.
        *_, changes, squares = self._units
        count = self.pairs * ONE
        sums = Sums(self.pairs, (count + changes) / (2 * ONE), (count + 2 * changes + squares) / (4 * ONE))
        low, high = confidence_sequence(sums, level=level)
        return {"level": level, "low": 2 * low - 1, "high": 2 * high - 1}
