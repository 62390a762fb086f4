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
"""The keys of a result that hold its question's reference data."""

KEYS_OF_EXECUTED_STEPS = (*KEYS_OF_EVALUATIONS, "output", "output_media_type")
"""The keys that an evaluation adds to a reference step whose query it ran."""

Metrics: TypeAlias = "dict[str, float | ValueSum]"
"""The values of a question on one side, by metric: one value, or several as their exact sum and
number.
"""

Rightness: TypeAlias = "dict[str, bool | None]"
"""Whether a result is right, by metric of `LEAST_RIGHT_VALUES`; None if the agent left it
without a value.
"""


def change_between(baseline: float, candidate: float) -> float:
    """Return the change from a baseline to a candidate.

    It is 0.0 if the two differ only by rounding, and never infinite.
    """
    if isclose(baseline, candidate):
        return 0.0
    change = candidate - baseline
    if isfinite(change):
        return change
    # The change is too large for a double: return the largest one.
    return copysign(float_info.max, change)


class QuestionTags(NamedTuple):
    """The tags of a question. Of several results, those that are greatest in order count.

    Attributes:
        of_candidate: whether they are those of a candidate's result, which come before others.
        tags: the tags.
    """

    of_candidate: bool = False
    tags: Tags = ()


class Question:
    """The values of one question on the two sides.

    Attributes:
        values: values by side and metric, for sides with complete results.
        pending: sides that have only incomplete results.
        tags: the tags of the question.
        differs: whether the results have different reference data.
        valueless: number of results without a value of a metric that applies, by side, metric, and
            whether the result is an error.
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
        """Create a question without results on either side."""
        self.values: dict[Side, Metrics] = {}
        self.pending: tuple[Side, ...] = ()
        self.differs = False
        self.valueless = Counter[tuple[Side, str, bool]]()
        self.tags = QuestionTags()
        # For each side, the number of each sample and by which metrics it is right; None if the
        # sample is an error.
        self._samples: dict[Side, list[tuple[int, Rightness | None]]] = {}
        self._templates: dict[Side, str] = {}
        self._reference: int | None = None

    def add(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        """Add the values of one complete result.

        Args:
            side: the run to which the result belongs.
            template: the template of its question.
            values: its metrics and their values; a metric may repeat.
            reference: the hash of its reference data; None if it has no reference data.
        """
        values_of_side = self.values.setdefault(side, {})
        for metric, value in values:
            if metric in values_of_side:
                values_of_side[metric] = plus(values_of_side[metric], value)
            else:
                values_of_side[metric] = value
        # If the results disagree, the first template in alphabetical order counts, so that the
        # order of results does not matter.
        self._templates[side] = min(template, self._templates.get(side, template))
        if side in self.pending:
            self.pending = tuple(pending for pending in self.pending if pending != side)
        if self._reference is None:
            self._reference = reference
        elif reference is not None and reference != self._reference:
            self.differs = True

    def add_sample(self, side: Side, observed: Evaluation) -> None:
        """Add whether a sample is right by each metric; a sample without a number is the first.

        - A metric with a value is right if the value is large enough.
        - A metric that has no value because of the agent, which gave no answer for example, is not
          right; None stands for it.
        - A metric that has no value for another reason, such as an error of its judge, is left out.
        """
        # None stands for a sample that is an error.
        rightness: Rightness | None = None
        if not observed.failed:
            rightness = {}
            for metric, kind in observed.outcomes:
                if metric in LEAST_RIGHT_VALUES and kind in CAUSED_BY_AGENT:
                    rightness[metric] = None
            for metric, value in observed.values:
                if metric in LEAST_RIGHT_VALUES:
                    rightness[metric] = value >= LEAST_RIGHT_VALUES[metric]
        # The samples of a side are sorted by number, in whatever order results arrive.
        number = observed.sample if type(observed.sample) is int else 1
        insort(self._samples.setdefault(side, []), (number, rightness), key=itemgetter(0))

    def became_wrong(self, before: Side, after: Side) -> bool:
        """Return whether the question is right on the side `before` and not on the side `after`.

        A question is right if its first samples are all right by all metrics of
        `_metrics_to_judge`. The same number of samples counts on both sides: the more samples there
        are, the less often all of them are right.
        """
        count = min(map(len, self._samples.values()))
        samples_before = [rightness for _, rightness in self._samples[before][:count]]
        samples_after = [rightness for _, rightness in self._samples[after][:count]]
        metrics = _metrics_to_judge(samples_before, samples_after)
        if not metrics:
            return False
        return _are_right(samples_before, metrics) and not _are_right(samples_after, metrics)

    def expect(self, side: Side) -> None:
        """Record that a complete result is still to come."""
        if side not in self.values and side not in self.pending:
            self.pending += (side,)

    @property
    def template(self) -> str:
        """The template in the baseline, else in the candidate; of several, the first by name."""
        if "baseline" in self._templates:
            return self._templates["baseline"]
        return self._templates["candidate"]

    @property
    def is_shared(self) -> bool:
        """Whether both sides have complete results."""
        return len(self.values) == len(SIDES)

    @property
    def only_in(self) -> Side | None:
        """The only side that has the question; None if the other has even an incomplete result."""
        if len(self.values) == 1 and not self.pending:
            return next(iter(self.values))
        return None

    @property
    def is_even(self) -> bool:
        """Whether both sides have the same number of results."""
        return self.count_results("baseline") == self.count_results("candidate")

    def count_results(self, side: Side) -> int:
        """Return the number of complete results of a side, which has some."""
        _, count = mean_and_count(self.values[side][ERROR_RATE])
        return count

    def sides(self) -> tuple[Metrics, Metrics]:
        """Return the values of baseline and candidate by metric; both must have results."""
        return self.values["baseline"], self.values["candidate"]


def _metrics_to_judge(
    samples_before: Sequence[Rightness | None], samples_after: Sequence[Rightness | None]
) -> list[str]:
    """Return the metrics by which a question of two runs is right or wrong.

    Such a metric is known of all samples of both runs that are no errors, and the earlier run has
    at least one value of it. A sample is None if it is an error.
    """
    samples = [sample for sample in (*samples_before, *samples_after) if sample is not None]
    metrics = []
    for metric in LEAST_RIGHT_VALUES:
        is_known = all(metric in sample for sample in samples)
        has_value = any(
            sample is not None and sample.get(metric) is not None for sample in samples_before
        )
        if is_known and has_value:
            metrics.append(metric)
    return metrics


def _are_right(samples: Iterable[Rightness | None], metrics: Collection[str]) -> bool:
    """Return whether all samples are right by all metrics; one that is None is an error."""
    return all(
        sample is not None and all(sample.get(metric) for metric in metrics) for sample in samples
    )


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """Return a hash of the reference data in a result; None if the result has no reference data.

    The keys that scoring adds to reference steps do not count.
    """
    question_text, answer, groups = (result.get(key) for key in REFERENCE_KEYS)
    if question_text is None and answer is None and groups is None:
        return None
    if isinstance(groups, list):
        groups = [_group_as_in_reference_set(group) for group in groups]
    reference = [question_text, answer, groups]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:
        # orjson cannot encode some values, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _group_as_in_reference_set(group: Any) -> Any:
    """Return a group of reference steps without the keys that an evaluation adds."""
    if not isinstance(group, list):
        return group  # Another program may have written anything.
    return [_step_as_in_reference_set(step) for step in group]


def _step_as_in_reference_set(step: Any) -> Any:
    """Return a reference step without the keys that an evaluation adds."""
    if not isinstance(step, dict):
        return step
    # The evaluation also added the output of a query that it executed.
    added = KEYS_OF_EXECUTED_STEPS if "executed_at" in step else KEYS_OF_EVALUATIONS
    return {key: value for key, value in step.items() if key not in added}


class Pair(NamedTuple):
    """The means of a question on both sides."""

    baseline: float
    candidate: float
    change: float


def pairs_of(
    baselines: Iterable[float | ValueSum], candidates: Iterable[float | ValueSum]
) -> list[Pair]:
    """Return the pairs of the values of questions in two runs, which are in the same order."""
    pairs = []
    for baseline_values, candidate_values in zip(baselines, candidates, strict=True):
        baseline, _ = mean_and_count(baseline_values)
        candidate, _ = mean_and_count(candidate_values)
        pairs.append(Pair(baseline, candidate, change_between(baseline, candidate)))
    return pairs


class SideCounts(NamedTuple):
    """How many results of a run a metric may apply to, and why some lack it.

    Attributes:
        results: number of results of the questions that both runs have.
        errors: how many of them are errors.
        missing: how many others have no value.
    """

    results: int
    errors: int
    missing: int


class Drop(NamedTuple):
    """How a metric changed between two runs, if errors count.

    Attributes:
        means: the means of both runs and their difference; None if no question has the metric on
            both sides.
        changes: the change of each question that has it on both sides.
        baseline: the counts of the baseline.
        candidate: the counts of the candidate.
        errors_are_zeros: whether an error counts as 0; otherwise it is left out.
        lower_is_better: the direction of the metric.
    """

    means: dict[str, float] | None
    changes: Sequence[float]
    baseline: SideCounts
    candidate: SideCounts
    errors_are_zeros: bool
    lower_is_better: bool = False

    def lacking(self, metric: str) -> str:
        """Return in words how many results lack the metric, if more do than in the baseline.

        Shares of results are compared. If the share is not larger, the text is "".
        """
        candidate = self.candidate
        baseline = self.baseline
        if candidate.missing * baseline.results <= baseline.missing * candidate.results:
            return ""
        return (
            f"{candidate.missing} of {candidate.results} results lack {metric}, in the baseline "
            f"{baseline.missing} of {baseline.results}"
        )


class PairSums(NamedTuple):
    """Exact sums over pairs, in units of 2**-1074, and counts.

    Attributes:
        pairs: number of pairs.
        baseline: sum of the means of the baseline.
        candidate: sum of the means of the candidate.
        change: sum of the changes.
        rises: number of pairs whose mean rose.
        falls: number of pairs whose mean fell.
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
        changes = [pair.change for pair in pairs]
        # A histogram takes values from 0 to 1, and changes are from -1 to 1.
        halves = Histogram()
        halves.add([0.5 + change / 2 for change in changes])
        return cls(
            pairs=len(pairs),
            baseline=sum_floats([pair.baseline for pair in pairs]),
            candidate=sum_floats([pair.candidate for pair in pairs]),
            change=sum_floats(changes),
            rises=sum(change > 0 for change in changes),
            falls=sum(change < 0 for change in changes),
            inside=sum(0 <= pair.baseline <= 1 and 0 <= pair.candidate <= 1 for pair in pairs),
            halves=halves,
        )

    def means(self) -> dict[str, float]:
        """Return the means of the baseline, of the candidate, and of their differences."""
        sums = {"baseline": self.baseline, "candidate": self.candidate, "difference": self.change}
        return {name: mean(units, self.pairs, integral=False) for name, units in sums.items()}

    def confidence(self, level: float) -> dict[str, float]:
        """Return the confidence sequence for the mean change of scores from 0 to 1."""
        # `halves` has the changes, mapped from [-1, 1] to [0, 1].
        weights = self.halves.weights()
        assert weights is not None  # noqa: S101  (there is at least one pair, of means from 0 to 1)
        low, high = confidence_sequence(weights, level=level)
        return {"level": level, "low": 2 * low - 1, "high": 2 * high - 1}


def paired(questions: Iterable[tuple[Metrics, Metrics]]) -> dict[str, list[Pair]]:
    """Return the pairs of values of questions, by metric.

    Each question gives a pair for each metric that it has on both sides.

    Args:
        questions: for each question, the values in the baseline and in the candidate, by metric.
    """
    baselines: defaultdict[str, list[float | ValueSum]] = defaultdict(list)
    candidates: defaultdict[str, list[float | ValueSum]] = defaultdict(list)
    for baseline_values, candidate_values in questions:
        for metric, values in baseline_values.items():
            if metric in candidate_values:
                baselines[metric].append(values)
                candidates[metric].append(candidate_values[metric])
    return {metric: pairs_of(baselines[metric], candidates[metric]) for metric in baselines}
