"""What the two runs have of each question, and exact sums over the pairs of their values."""

from __future__ import annotations

from itertools import chain
from math import copysign, isclose, isfinite
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import orjson

from graphrag_eval_async.aggregates.exact import ONE, Sums, mean, sum_floats
from graphrag_eval_async.inference.confidence import show_confidence
from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Side = Literal["baseline", "candidate"]
SIDES: tuple[Side, Side] = ("baseline", "candidate")

REFERENCE_KEYS = ("question_text", "reference_answer", "reference_steps")

BATCH = 1024
"""At most this many questions of a template wait to be summed together."""

Values: TypeAlias = "float | tuple[int, int, int]"
"""The values that one side has of one metric of a question: one value as it is or, of several, the numerator
and denominator of their exact sum, and their number. This takes little memory, and the garbage collector does
not track it.
"""

Metrics: TypeAlias = dict[str, Values]


def mean_of(values: Values) -> tuple[float, int]:
    """The mean, correctly rounded and never -0.0, and the number of values."""
    if isinstance(values, tuple):
        numerator, denominator, count = values
        return numerator / (denominator * count), count
    return values + 0.0, 1


def _means(values: Sequence[Values]) -> tuple[Sequence[float], Sequence[int]]:
    if tuple in set(map(type, values)):
        means, counts = zip(*map(mean_of, values), strict=True)
        return means, counts
    # As nearly always, at a fraction of the time.
    return [*map(float, cast("Sequence[float]", values))], (1,) * len(values)


def _plus(values: Values, value: float) -> Values:
    """Exactly; all denominators are powers of two."""
    one, below, count = values if isinstance(values, tuple) else (*values.as_integer_ratio(), 1)
    other, other_below = value.as_integer_ratio()
    common = max(below, other_below)
    return one * (common // below) + other * (common // other_below), common, count + 1


def change_between(baseline: float, candidate: float) -> float:
    """candidate - baseline, at most the largest double; 0.0 if they differ by rounding alone."""
    if isclose(baseline, candidate):
        return 0.0
    change = candidate - baseline
    return change if isfinite(change) else copysign(float_info.max, change)


class Question:
    """What the two sides have of one question.

    Attributes:
        values: by side and metric; only sides with complete results.
        pending: sides with results, all of them incomplete.
        differs: whether results have different reference data.
    """

    __slots__ = ("_reference", "_templates", "differs", "pending", "values")

    def __init__(self) -> None:
        self.values: dict[Side, Metrics] = {}
        self.pending: tuple[Side, ...] = ()
        self.differs = False
        self._templates: dict[Side, str] = {}
        self._reference: int | None = None

    def add(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        """Add the values of one complete result."""
        own = self.values.setdefault(side, {})
        for metric, value in values:
            own[metric] = _plus(own[metric], value) if metric in own else value
        self._templates[side] = min(template, self._templates.get(side, template))
        if side in self.pending:
            self.pending = tuple(other for other in self.pending if other != side)
        if self._reference is None:
            self._reference = reference
        elif reference is not None:
            self.differs |= reference != self._reference

    def expect(self, side: Side) -> None:
        """Note that a complete result is still to come."""
        if side not in self.values and side not in self.pending:
            self.pending += (side,)

    @property
    def template(self) -> str:
        """The template on the baseline or, without one, on the candidate; of several, the first by name."""
        own = self._templates
        return own["baseline"] if "baseline" in own else own["candidate"]

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
        baseline, candidate = (mean_of(self.values[side][ERROR_RATE])[1] for side in SIDES)
        return baseline == candidate

    def sides(self) -> tuple[Metrics, Metrics]:
        """The values of the baseline and of the candidate by metric, if both have any."""
        return self.values["baseline"], self.values["candidate"]


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """A hash of the reference data in a result, without what scoring adds; None if there are none."""
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(groups := reference[-1], list):
        reference[-1] = [[*map(_plain, group)] if isinstance(group, list) else group for group in groups]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:  # It holds what orjson does not write, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _plain(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "matches"} if isinstance(step, dict) else step


class PairSums(NamedTuple):
    """Exact sums over pairs of means, in units of 2**-1074, and counts. Squares are rounded before they are
    added.

    Attributes:
        squares: of changes from -1 to 1.
        even: pairs with equally many values on both sides. The sign test takes no others: of an agent that is
            right nine times in ten, one sample mostly beats the mean of five.
        inside: pairs of means from 0 to 1.
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
    def of(cls, baselines: Sequence[Values], candidates: Sequence[Values]) -> PairSums:
        """The sums over some pairs, at least one."""
        ones, counts = _means(baselines)
        others, other_counts = _means(candidates)
        changes = even = [*map(change_between, ones, others)]
        if counts != other_counts:
            both = zip(changes, counts, other_counts, strict=True)
            even = [change for change, count, other in both if count == other]
        return cls(
            pairs=len(changes),
            baseline=sum_floats(ones),
            candidate=sum_floats(others),
            change=sum_floats(changes),
            squares=sum_floats([change * change for change in changes if -1 <= change <= 1]),
            rises=len([change for change in changes if change > 0]),
            falls=len([change for change in changes if change < 0]),
            even=len(even),
            even_rises=len([change for change in even if change > 0]),
            even_falls=len([change for change in even if change < 0]),
            inside=len(
                [0 for one, other in zip(ones, others, strict=True) if 0 <= one <= 1 and 0 <= other <= 1]
            ),
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
        shown = show_confidence(Sums(self.pairs, total, squares), level)
        return shown | {end: 2 * shown[end] - 1 for end in ("low", "high")}


class RunningPairSums:
    """Sums by metric over the shared questions of one template, which come and go.

    Many are summed much faster together than one by one.
    """

    __slots__ = ("_leaving", "_sums", "_waiting")

    def __init__(self) -> None:
        self._sums: dict[str, PairSums] = {}
        self._waiting: dict[Question, None] = {}
        self._leaving: list[tuple[Metrics, Metrics]] = []

    def add(self, question: Question) -> None:
        """Count a question; before it changes, `remove` takes that back."""
        self._waiting[question] = None
        if len(self._waiting) >= BATCH:
            self.sums()

    def remove(self, question: Question) -> None:
        """Take back `add`."""
        if question in self._waiting:
            del self._waiting[question]
        else:
            baseline, candidate = question.sides()
            self._leaving.append((baseline.copy(), candidate.copy()))

    def sums(self) -> Mapping[str, PairSums]:
        """The sums now, which do not change later."""
        if self._waiting or self._leaving:
            self._sums = self._sums.copy()
            self._sum([question.sides() for question in self._waiting], 1)
            self._sum(self._leaving, -1)
            self._waiting.clear()
            self._leaving.clear()
        return self._sums

    def _sum(self, questions: Collection[tuple[Metrics, Metrics]], sign: int) -> None:
        for metric in dict.fromkeys(chain.from_iterable(baseline for baseline, _ in questions)):
            both = [
                (one[metric], other[metric]) for one, other in questions if metric in one and metric in other
            ]
            if both:
                sums = PairSums.of(*zip(*both, strict=True))
                self._sums[metric] = self._sums.get(metric, PairSums()).plus(sums, sign)
