"""The values of each question in two runs, and exact sums over pairs of them."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from math import copysign, isclose, isfinite
from operator import itemgetter
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import orjson

from graphrag_eval_async.aggregates.exact import mean, sum_floats
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.aggregates.questions import mean_and_count, plus
from graphrag_eval_async.catalogue.conditions import LEAST_RIGHT_VALUES
from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT
from graphrag_eval_async.catalogue.reference_steps import KEYS_OF_EVALUATIONS
from graphrag_eval_async.inference.confidence import confidence_sequence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import ValueSum
    from graphrag_eval_async.catalogue.tags import Tags
    from graphrag_eval_async.records.evaluation import Evaluation

Side = Literal["baseline", "candidate"]
SIDES: tuple[Side, Side] = ("baseline", "candidate")

REFERENCE_KEYS = ("question_text", "reference_answer", "reference_steps")

_OF_EXECUTED = (*KEYS_OF_EVALUATIONS, "output", "output_media_type")

Metrics: TypeAlias = "dict[str, float | ValueSum]"
"""The values of a question on one side, by metric: one value, or several as their exact sum and
number.
"""


Rightness: TypeAlias = "dict[str, bool | None]"
"""Whether a result is right, by metric of `LEAST_RIGHT_VALUES`; None if the agent left it
without a value.
"""


def change_between(baseline: float, candidate: float) -> float:
    """Return candidate - baseline, clamped to finite doubles; 0.0 if they differ only by
    rounding.
    """
    if isclose(baseline, candidate):
        return 0.0
    change = candidate - baseline
    return change if isfinite(change) else copysign(float_info.max, change)


class Question:
    """The values of one question on the two sides.

    Attributes:
        values: values by side and metric, for sides with complete results.
        pending: sides that have only incomplete results.
        tags: whether they are the candidate's, and the tags; if results differ, the last in order.
        differs: whether the results have different reference data.
        valueless: number of results without a value, by side and metric, and whether the result is
            an error.
    """

    __slots__ = (
        "_reference",
        "_samples",
        "_templates",
        "differs",
        "pending",
        "tags",
        "valueless",
        "values",
    )

    def __init__(self) -> None:
        self.values: dict[Side, Metrics] = {}
        self.pending: tuple[Side, ...] = ()
        self.differs = False
        self.valueless = Counter[tuple[Side, str, bool]]()
        self._samples: dict[Side, list[tuple[int, Rightness | None]]] = {}
        self._templates: dict[Side, str] = {}
        self.tags: tuple[bool, Tags] = False, ()
        self._reference: int | None = None

    def add(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        """Add the values of one complete result."""
        own = self.values.setdefault(side, {})
        for metric, value in values:
            own[metric] = plus(own[metric], value) if metric in own else value
        self._templates[side] = min(template, self._templates.get(side, template))
        if side in self.pending:
            self.pending = tuple(other for other in self.pending if other != side)
        if self._reference is None:
            self._reference = reference
        elif reference is not None:
            self.differs |= reference != self._reference

    def add_sample(self, side: Side, seen: Evaluation) -> None:
        """Add whether a sample is right; one without a number counts as the first.

        A metric that the agent left without a value, such as by giving no answer, is not right. One
        without a value for another reason, such as a failure of its judge, does not count.
        """
        right: Rightness | None = None
        if not seen.failed:
            right = {
                metric: None
                for metric, kind in seen.outcomes
                if metric in LEAST_RIGHT_VALUES and kind in CAUSED_BY_AGENT
            }
            right |= {
                metric: value >= LEAST_RIGHT_VALUES[metric]
                for metric, value in seen.values
                if metric in LEAST_RIGHT_VALUES
            }
        sample = seen.sample if type(seen.sample) is int else 1, right
        insort(self._samples.setdefault(side, []), sample, key=itemgetter(0))

    def became_wrong(self, before: Side, after: Side) -> bool:
        """Whether the question is right on one side and not on the other.

        It is right if its first samples all are, by all metrics that are known of each sample, and
        of which the side `before` has a value. As many samples of both sides count: more are all
        right less often.
        """
        count = min(map(len, self._samples.values()))
        first, second = (
            [right for _, right in self._samples[side][:count]] for side in (before, after)
        )
        samples = [sample for sample in (*first, *second) if sample is not None]
        known = {
            metric
            for metric in LEAST_RIGHT_VALUES
            if all(metric in sample for sample in samples)
            if any(sample and sample.get(metric) is not None for sample in first)
        }
        before_is_right, after_is_right = (
            all(sample is not None and all(map(sample.get, known)) for sample in own)
            for own in (first, second)
        )
        return bool(known) and before_is_right and not after_is_right

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
        baseline, candidate = (mean_and_count(self.values[side][ERROR_RATE])[1] for side in SIDES)
        return baseline == candidate

    def sides(self) -> tuple[Metrics, Metrics]:
        """Return the values of baseline and candidate by metric; both must have results."""
        return self.values["baseline"], self.values["candidate"]


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """Return a hash of a result's reference data, without keys added by scoring; None if it has
    none.
    """
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(groups := reference[-1], list):
        reference[-1] = [
            [*map(_plain, group)] if isinstance(group, list) else group for group in groups
        ]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except (
        TypeError
    ):  # orjson cannot encode some values, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _plain(step: Any) -> Any:
    """Return a reference step as the reference set has it; of a query that was run, not what it
    returned.
    """
    if not isinstance(step, dict):
        return step
    added = _OF_EXECUTED if "executed_at" in step else KEYS_OF_EVALUATIONS
    return {key: value for key, value in step.items() if key not in added}


class Pair(NamedTuple):
    """The means of a question on both sides."""

    baseline: float
    candidate: float
    change: float


def pairs_of(ones: Sequence[float | ValueSum], others: Sequence[float | ValueSum]) -> list[Pair]:
    """Return the pairs of the values of questions, baseline and candidate."""
    baselines, candidates = ([mean_and_count(each)[0] for each in side] for side in (ones, others))
    return [*map(Pair, baselines, candidates, map(change_between, baselines, candidates))]


class Drop(NamedTuple):
    """How a metric changed, and of each side, how many of the `results` are `errors` or have no
    value.

    `changes` are those of each question. Errors count as 0 if it `fills` them, else they are left
    out. `lower_is_better` is the direction of the metric.
    """

    means: dict[str, float] | None
    changes: Sequence[float]
    errors: Sequence[int]
    missing: Sequence[int]
    results: Sequence[int]
    fills: bool
    lower_is_better: bool = False

    def lacking(self, metric: str) -> str:
        """How many results lack a value, and "; ", if their share is larger than in the
        baseline; else "".
        """
        (lost, more_lost), (of, more_of) = self.missing, self.results
        told = f"{more_lost} of {more_of} results lack {metric}, in the baseline {lost} of {of}; "
        return told if more_lost * of > lost * more_of else ""


class PairSums(NamedTuple):
    """Exact sums over pairs, in units of 2**-1074, and counts.

    Attributes:
        inside: number of pairs with both means from 0 to 1.
        halves: the histogram of (1 + change) / 2: from 0 to 1 for scores from 0 to 1.
    """

    pairs: int
    baseline: int
    candidate: int
    change: int
    rises: int
    falls: int
    inside: int
    halves: Histogram

    @classmethod
    def of(cls, pairs: Collection[Pair]) -> PairSums:
        """Return the sums over at least one pair."""
        baselines, candidates, changes = zip(*pairs, strict=True)
        halves = Histogram()
        halves.add([0.5 + change / 2 for change in changes])
        return cls(
            pairs=len(pairs),
            baseline=sum_floats(baselines),
            candidate=sum_floats(candidates),
            change=sum_floats(changes),
            rises=len([change for change in changes if change > 0]),
            falls=len([change for change in changes if change < 0]),
            inside=len(
                [0 for pair in pairs if 0 <= pair.baseline <= 1 and 0 <= pair.candidate <= 1]
            ),
            halves=halves,
        )

    def means(self) -> dict[str, float]:
        """Return the means of the baseline, of the candidate, and of their differences."""
        sums = {"baseline": self.baseline, "candidate": self.candidate, "difference": self.change}
        return {name: mean(units, self.pairs, integral=False) for name, units in sums.items()}

    def confidence(self, level: float) -> dict[str, float]:
        """Return the confidence sequence for the mean change of scores from 0 to 1."""
        weights = self.halves.weights()
        assert weights is not None  # noqa: S101  (there is at least one pair, of means from 0 to 1)
        low, high = confidence_sequence(weights, level=level)
        return {"level": level, "low": 2 * low - 1, "high": 2 * high - 1}


def paired(questions: Iterable[tuple[Metrics, Metrics]]) -> dict[str, list[Pair]]:
    """Return the pairs of the values of questions on both sides, by metric."""
    both: defaultdict[str, tuple[list[float | ValueSum], list[float | ValueSum]]]
    both = defaultdict(lambda: ([], []))
    for one, other in questions:
        for metric, values in one.items():
            if metric in other:
                baselines, candidates = both[metric]
                baselines.append(values)
                candidates.append(other[metric])
    return {metric: pairs_of(*values) for metric, values in both.items()}
