"""What the two runs have of each question, and exact sums over the pairs of their values."""

from __future__ import annotations

from math import isclose
from sys import float_info
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, Sums, mean, sum_floats
from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Side = Literal["baseline", "candidate"]
SIDES: tuple[Side, Side] = ("baseline", "candidate")

BATCH = 1024
"""At most this many pairs wait to be summed together."""

Values: TypeAlias = "float | tuple[int, int, int]"
"""The values that one side has of one metric of a question: one value as it is or, of several, the numerator
and denominator of their exact sum, and their number. This takes little memory, and the garbage collector does
not track it.
"""


def _mean(values: Values) -> tuple[float, int]:
    """The mean, correctly rounded and never -0.0, and the number of values."""
    if isinstance(values, tuple):
        numerator, denominator, count = values
        return numerator / (denominator * count), count
    return values + 0.0, 1


def _plus(values: Values, value: float) -> Values:
    """Exactly; all denominators are powers of two."""
    one, below, count = values if isinstance(values, tuple) else (*values.as_integer_ratio(), 1)
    other, other_below = value.as_integer_ratio()
    common = max(below, other_below)
    return one * (common // below) + other * (common // other_below), common, count + 1


class Pair(NamedTuple):
    """The means of both sides in one question.

    Attributes:
        change: candidate - baseline, at most the largest double; 0.0 if they differ by rounding alone.
        is_even: whether both sides have equally many values. If not, the sign test would be biased: of an
            agent that is right nine times in ten, one sample mostly beats the mean of five.
    """

    baseline: float
    candidate: float
    change: float
    is_even: bool


def _pair(baseline: Values, candidate: Values) -> Pair:
    (one, count), (other, other_count) = _mean(baseline), _mean(candidate)
    change = 0.0 if isclose(one, other) else max(-float_info.max, min(float_info.max, other - one))
    return Pair(one, other, change, count == other_count)


class Question:
    """What the two sides have of one question.

    Attributes:
        values: by side and metric; only sides with complete results.
        pending: sides with results, all of them incomplete.
        differs: whether results have different reference data.
    """

    __slots__ = ("_reference", "_templates", "differs", "pending", "values")

    def __init__(self) -> None:
        self.values: dict[Side, dict[str, Values]] = {}
        self.pending: tuple[Side, ...] = ()
        self.differs = False
        self._templates: dict[Side, str] = {}
        self._reference: int | None = None

    def add(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        """Add the values of one complete result."""
        own = self.values.setdefault(side, {})
        self.pending = tuple(other for other in self.pending if other != side)
        for metric, value in values:
            own[metric] = _plus(own[metric], value) if metric in own else value
        self._templates[side] = min(template, self._templates.get(side, template))
        if self._reference is None:
            self._reference = reference
        self.differs |= reference not in (None, self._reference)

    @property
    def template(self) -> str:
        """The template on the baseline or, without one, on the candidate; of several, the first by name."""
        return next(self._templates[side] for side in SIDES if side in self._templates)

    @property
    def is_shared(self) -> bool:
        """Whether both sides have complete results."""
        return len(self.values) == len(SIDES)

    @property
    def only_in(self) -> Side | None:
        """The side that has the question, if the other has not even an incomplete result."""
        return next(iter(self.values)) if len(self.values) == 1 and not self.pending else None

    @property
    def is_even(self) -> bool:
        """Whether both sides have equally many results."""
        baseline, candidate = (_mean(self.values[side][ERROR_RATE])[1] for side in SIDES)
        return baseline == candidate

    def pairs(self) -> Iterator[tuple[str, Pair]]:
        """The metrics of which both sides have values, and their pairs, if the question is shared."""
        baseline, candidate = (self.values[side] for side in SIDES)
        for metric, values in baseline.items():
            if metric in candidate:
                yield metric, _pair(values, candidate[metric])


class PairSums(NamedTuple):
    """Exact sums over pairs, in units of 2**-1074, and counts. Squares are rounded before they are added.

    Attributes:
        squares: of changes from -1 to 1.
        inside: pairs of values from 0 to 1.
    """

    pairs: int = 0
    baseline: int = 0
    candidate: int = 0
    change: int = 0
    squares: int = 0
    rises: int = 0
    falls: int = 0
    even: int = 0
    even_rises: int = 0
    even_falls: int = 0
    inside: int = 0

    @classmethod
    def of(cls, pairs: list[Pair]) -> PairSums:
        """The sums over some pairs, at least one."""
        baselines, candidates, changes, _ = zip(*pairs, strict=True)
        even = [change for _, _, change, is_even in pairs if is_even]
        return cls(
            pairs=len(pairs),
            baseline=sum_floats(baselines),
            candidate=sum_floats(candidates),
            change=sum_floats(changes),
            squares=sum_floats([change * change for change in changes if -1 <= change <= 1]),
            rises=len([change for change in changes if change > 0]),
            falls=len([change for change in changes if change < 0]),
            even=len(even),
            even_rises=len([change for change in even if change > 0]),
            even_falls=len([change for change in even if change < 0]),
            inside=len([0 for one, other, _, _ in pairs if 0 <= one <= 1 and 0 <= other <= 1]),
        )

    def plus(self, other: PairSums, sign: int = 1) -> PairSums:
        """With the pairs of another added or, with a `sign` of -1, removed."""
        return PairSums(*[own + sign * more for own, more in zip(self, other, strict=True)])

    def means(self) -> dict[str, float]:
        """Of the baseline, of the candidate and of their differences."""
        sums = {"baseline": self.baseline, "candidate": self.candidate, "difference": self.change}
        return {name: mean(units, self.pairs, integral=False) for name, units in sums.items()}

    def confidence(self, level: float) -> dict[str, float] | None:
        """The confidence sequence of the mean difference; None if a value is not from 0 to 1."""
        if self.inside < self.pairs:
            return None
        # Of (1 + change) / 2, which is from 0 to 1.
        count, change = self.pairs * ONE, self.change
        total, squares = (count + change) / (2 * ONE), (count + 2 * change + self.squares) / (4 * ONE)
        low, high = confidence_sequence(Sums(self.pairs, total, squares), level=level)
        return {"level": level, "low": 2 * low - 1, "high": 2 * high - 1}


class RunningPairSums:
    """Sums over pairs that come and go."""

    __slots__ = ("_sums", "_waiting")

    def __init__(self) -> None:
        self._sums = PairSums()
        # Many at once are summed faster than one by one.
        self._waiting: dict[int, list[Pair]] = {1: [], -1: []}

    def count(self, pair: Pair, sign: int) -> None:
        """Add a pair or, with a `sign` of -1, remove one that was added."""
        waiting = self._waiting[sign]
        waiting.append(pair)
        if len(waiting) >= BATCH:
            self.sums()

    def sums(self) -> PairSums:
        """The sums now: the same object until another pair comes or goes."""
        for sign, pairs in self._waiting.items():
            if pairs:
                self._sums = self._sums.plus(PairSums.of(pairs), sign)
                pairs.clear()
        return self._sums
