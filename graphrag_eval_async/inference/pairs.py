"""The values of each question in two runs, and exact sums over pairs of them."""

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
"""Maximum questions per template that wait to be summed in a batch."""

Values: TypeAlias = "float | tuple[int, int, int]"
"""The values of one metric of a question on one side.

A single value is stored as a float; several are stored as numerator and denominator of their exact sum, and
their count. This takes little memory, and the garbage collector does not track it.
"""

Metrics: TypeAlias = dict[str, Values]


def mean_of(values: Values) -> tuple[float, int]:
    """Return the mean, correctly rounded and never -0.0, and the number of values."""
    if isinstance(values, tuple):
        numerator, denominator, count = values
        return numerator / (denominator * count), count
    return values + 0.0, 1


def _means(values: Sequence[Values]) -> tuple[Sequence[float], Sequence[int]]:
    if tuple in set(map(type, values)):
        means, counts = zip(*map(mean_of, values), strict=True)
        return means, counts
    # The usual case, in a fraction of the time.
    return [*map(float, cast("Sequence[float]", values))], (1,) * len(values)


def _plus(values: Values, value: float) -> Values:
    """Add a value exactly; all denominators are powers of two."""
    one, below, count = values if isinstance(values, tuple) else (*values.as_integer_ratio(), 1)
    other, other_below = value.as_integer_ratio()
    common = max(below, other_below)
    return one * (common // below) + other * (common // other_below), common, count + 1


def change_between(baseline: float, candidate: float) -> float:
    """Return candidate - baseline, clamped to finite doubles; 0.0 if they differ only by rounding."""
    if isclose(baseline, candidate):
        return 0.0
    change = candidate - baseline
    return change if isfinite(change) else copysign(float_info.max, change)


class Question:
    """The values of one question on the two sides.

    Attributes:
        values: values by side and metric, for sides with complete results.
        pending: sides that have only incomplete results.
        differs: whether the results have different reference data.
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
        """Record that a complete result is still to come."""
        if side not in self.values and side not in self.pending:
            self.pending += (side,)

    @property
    def template(self) -> str:
        """The template in the baseline, else in the candidate; of several, the first by name."""
        own = self._templates
        return own["baseline"] if "baseline" in own else own["candidate"]

    @property
    def is_shared(self) -> bool:
        """Whether both sides have complete results."""
        return len(self.values) == len(SIDES)

    @property
    def only_in(self) -> Side | None:
        """The only side that has the question; None if the other has even an incomplete result."""
        return next(iter(self.values)) if len(self.values) == 1 and not self.pending else None

    @property
    def is_even(self) -> bool:
        """Whether both sides have the same number of results."""
        baseline, candidate = (mean_of(self.values[side][ERROR_RATE])[1] for side in SIDES)
        return baseline == candidate

    def sides(self) -> tuple[Metrics, Metrics]:
        """Return the values of baseline and candidate by metric; both must have results."""
        return self.values["baseline"], self.values["candidate"]


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """Return a hash of a result's reference data, without keys added by scoring; None if it has none."""
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(groups := reference[-1], list):
        reference[-1] = [[*map(_plain, group)] if isinstance(group, list) else group for group in groups]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:  # orjson cannot encode some values, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _plain(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "matches"} if isinstance(step, dict) else step


class PairSums(NamedTuple):
    """Exact sums over pairs of means, in units of 2**-1074, and counts.

    Squares are rounded before they are added.

    Attributes:
        squares: sum of the squares of changes from -1 to 1.
        even: number of pairs with the same number of values on both sides. The sign test uses only these: for
            an agent that is right nine times in ten, one sample mostly beats the mean of five.
        inside: number of pairs with both means from 0 to 1.
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
        """Return the sums over pairs, at least one."""
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
        """Return the sums with the pairs of `other` added, or with a `sign` of -1 removed."""
        return PairSums(*[own + sign * more for own, more in zip(self, other, strict=True)])

    def means(self) -> dict[str, float]:
        """Return the means of the baseline, of the candidate, and of their differences."""
        sums = {"baseline": self.baseline, "candidate": self.candidate, "difference": self.change}
        return {name: mean(units, self.pairs, integral=False) for name, units in sums.items()}

    def confidence(self, level: float) -> dict[str, float] | None:
        """Return the confidence interval of the mean difference; None if a mean is not from 0 to 1."""
        if self.inside < self.pairs:
            return None
        # Sums of (1 + change) / 2, which is from 0 to 1.
        count, change = self.pairs * ONE, self.change
        total, squares = (count + change) / (2 * ONE), (count + 2 * change + self.squares) / (4 * ONE)
        shown = show_confidence(Sums(self.pairs, total, squares), level)
        return shown | {end: 2 * shown[end] - 1 for end in ("low", "high")}


class RunningPairSums:
    """Sums by metric over the shared questions of one template; questions can be added and removed.

    Summing in batches is much faster than one by one.
    """

    __slots__ = ("_leaving", "_sums", "_waiting")

    def __init__(self) -> None:
        self._sums: dict[str, PairSums] = {}
        self._waiting: dict[Question, None] = {}
        self._leaving: list[tuple[Metrics, Metrics]] = []

    def add(self, question: Question) -> None:
        """Add a question; before its values change, call `remove`."""
        self._waiting[question] = None
        if len(self._waiting) >= BATCH:
            self.sums()

    def remove(self, question: Question) -> None:
        """Undo `add`."""
        if question in self._waiting:
            del self._waiting[question]
        else:
            baseline, candidate = question.sides()
            self._leaving.append((baseline.copy(), candidate.copy()))

    def sums(self) -> Mapping[str, PairSums]:
        """Return the current sums; the mapping does not change later."""
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
