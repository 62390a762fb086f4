"""Repeats: how often some or all samples of a question are right, and how much its scores vary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.aggregates.column import Column
from graphrag_eval_async.aggregates.exact import ONE, mean, to_units
from graphrag_eval_async.aggregates.questions import QuestionValues, ValueSum, to_sum
from graphrag_eval_async.catalogue.conditions import OPERATORS
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import Placement
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.outcomes import Outcomes

MOST_SAMPLES = 100
"""The largest k of pass@k and pass^k."""


class SampleCounts(NamedTuple):
    """The samples of a question."""

    samples: int
    right: int


NO_SAMPLES = SampleCounts(samples=0, right=0)
"""The counts of a question before its first sample; they also stand for unknown questions."""


class Grounds(NamedTuple):
    """What decides whether results are right.

    Attributes:
        missing: the metrics of conditions that the agent left without a value, sorted by name. If
            another result has one of them, the metric applies, and results without it are wrong.
        have_values: whether the results have a value of a metric of conditions. Otherwise, nothing
            decides unless one of `missing` applies.
    """

    missing: tuple[str, ...]
    have_values: bool


class RightResults:
    """Which results of a group are right: those that meet all conditions.

    Attributes:
        by_grounds: by what decides, a value of each result: 1 if it is right as long as none of the
            missing metrics applies, otherwise 0.
    """

    def __init__(self, conditions: Collection[Condition]) -> None:
        self._conditions = conditions
        self.by_grounds: dict[Grounds, QuestionValues] = {}
        # The last result of `samples`, and the scores that it is for.
        self._cached_samples: Counter[SampleCounts] | None = None
        self._cached_scores: set[str] = set()

    def add(
        self,
        placement: Placement,
        columns: Sequence[tuple[str, Column]],
        outcomes: Outcomes,
        *,
        failed: bool,
    ) -> None:
        """Add results that have their metrics and outcomes in common.

        Those whose judge failed do not count.

        Args:
            placement: the questions of the results.
            columns: the values of each of their metrics, which may repeat.
            outcomes: their outcomes.
            failed: whether the agent failed.
        """
        self._cached_samples = None
        decided = []
        if not failed:
            decided = [
                (condition, column)
                for metric, column in columns
                for condition in self._conditions
                if condition.metric == metric
            ]
        undecided_metrics = {condition.metric for condition in self._conditions}
        undecided_metrics.difference_update(condition.metric for condition, _ in decided)

        causes = dict(outcomes)
        missing = undecided_metrics & causes.keys()
        if failed and not missing:
            missing = undecided_metrics
        if not decided and not missing:
            return
        if not failed and not CAUSED_BY_AGENT.issuperset(causes[metric] for metric in missing):
            return

        are_met = [
            map(OPERATORS[condition.operator], column.numbers, repeat(condition.bound))
            for condition, column in decided
        ]
        if not are_met:
            are_right = [False] * len(placement.places)
        elif len(are_met) == 1:  # This is frequent, and faster than the general case.
            are_right = list(are_met[0])
        else:
            are_right = [all(met) for met in zip(*are_met, strict=True)]
        grounds = Grounds(missing=tuple(sorted(missing)), have_values=bool(decided))
        self._values(grounds).add(placement, Column.of_flags(are_right))

    def merge(self, other: RightResults, placement: Placement) -> None:
        """Add the results of `other`, whose questions have the places of `placement` here."""
        self._cached_samples = None
        for grounds, rights in other.by_grounds.items():
            self._values(grounds).merge(rights, placement)

    def _values(self, grounds: Grounds) -> QuestionValues:
        """Return the values of results with these grounds; create them if needed."""
        return self.by_grounds.setdefault(grounds, QuestionValues())

    def samples(self, scores: set[str], unknown: int | None) -> Counter[SampleCounts]:
        """Return how many questions have these numbers of samples and of right ones.

        Args:
            scores: the metrics that results have.
            unknown: the place of results that do not name their question. If one counts, the only
                key is `NO_SAMPLES`.
        """
        if self._cached_samples is None or self._cached_scores != scores:
            self._cached_samples = self._count_samples(scores, unknown)
            self._cached_scores = scores
        return self._cached_samples

    def _count_samples(self, scores: set[str], unknown: int | None) -> Counter[SampleCounts]:
        """Compute what `samples` returns."""
        by_place: dict[int, SampleCounts] = {}
        for grounds, rights in self.by_grounds.items():
            are_wrong = not scores.isdisjoint(grounds.missing)
            if not are_wrong and not grounds.have_values:
                continue
            for place, values in rights.by_place():
                added = to_sum(values)
                before = by_place.get(place, NO_SAMPLES)
                right = before.right
                if not are_wrong:
                    right += added.units // ONE
                by_place[place] = SampleCounts(before.samples + added.count, right)
        if unknown in by_place:
            return Counter({NO_SAMPLES: 1})
        return Counter(by_place.values())


@dataclass(slots=True)
class _PassSums:
    """Sums over the questions with k samples or more, for one k; in units of 2**-1074."""

    some_right: int = 0  # Of the chance that one of k samples is right.
    all_right: int = 0  # Of the chance that all k samples are right.
    questions: int = 0


def pass_rates(questions: Mapping[SampleCounts, int]) -> dict[str, float]:
    """Return ``pass@k``, ``pass^k`` and ``questions@k`` by k; nothing if no question has two
    samples.

    pass@k is the chance that one of k samples is right, pass^k that all are: of n samples with c
    right ones, 1 - C(n - c, k) / C(n, k) and C(c, k) / C(n, k). They are means over the questions
    with n >= k, whose number is questions@k. `questions` has the number of questions by their
    samples.

    Source: Chen et al. (2021), "Evaluating Large Language Models Trained on Code", equation 1.
    """
    largest_k = min(max((counts.samples for counts in questions), default=0), MOST_SAMPLES)
    if largest_k < 2:
        return {}
    sums_by_k = {k: _PassSums() for k in range(1, largest_k + 1)}
    for (samples, right), times in questions.items():
        # The numbers of ways to draw k samples in order: any, only wrong ones, only right ones.
        # A quotient of two of them is that of the binomial coefficients.
        ways = 1
        wrong_ways = 1
        right_ways = 1
        for k in range(1, min(samples, largest_k) + 1):
            ways *= samples - k + 1
            wrong_ways *= samples - right - k + 1
            right_ways *= right - k + 1
            sums = sums_by_k[k]
            sums.some_right += times * to_units((ways - wrong_ways) / ways)
            sums.all_right += times * to_units(right_ways / ways)
            sums.questions += times

    rates = {}
    for k, sums in sums_by_k.items():
        rates[f"pass@{k}"] = mean(sums.some_right, sums.questions, integral=False)
        rates[f"pass^{k}"] = mean(sums.all_right, sums.questions, integral=False)
        rates[f"questions@{k}"] = sums.questions
    return rates


def variances(values: Iterable[float], questions: Iterable[float | ValueSum]) -> dict[str, float]:
    """Return the variances of a score `between` questions, and `within` one, between its samples.

    They are exact, unbiased estimates by analysis of variance; `between` may be below 0. Of N
    values of k questions, with n and the sum S of each, and T of all: `within` is
    (sum x² - sum S²/n) / (N - k), and `between` is ((sum S²/n - T²/N) / (k - 1) - within) / m with
    m = (N - sum n²/N) / (k - 1). Each is absent if it would divide by 0. Source: Searle, Casella
    and McCulloch (1992), "Variance Components", section 3.6.

    Args:
        values: all values.
        questions: the value of each question, or the sum of several.
    """
    number_of_values = 0
    number_of_questions = 0
    total = 0
    squared_counts = 0
    # S² is in units of 2**-2148. Its sum by n, since adding fractions is slow.
    squared_sums: Counter[int] = Counter()
    for question in questions:
        value_sum = to_sum(question)
        number_of_values += value_sum.count
        number_of_questions += 1
        total += value_sum.units
        squared_counts += value_sum.count**2
        squared_sums[value_sum.count] += value_sum.units**2

    # sum S²/n and sum x².
    sum_of_squared_sums = Fraction(0)
    for count, square in squared_sums.items():
        sum_of_squared_sums += Fraction(square, count)
    sum_of_squared_sums /= ONE**2
    squares = sum(times * to_units(value) ** 2 for value, times in Counter(values).items())
    sum_of_squares = Fraction(squares, ONE**2)

    variance: dict[str, float] = {}
    within = sum_of_squares - sum_of_squared_sums  # It is 0 without repeats.
    if number_of_values > number_of_questions:
        within /= number_of_values - number_of_questions
    if number_of_questions > 1:
        # Both are multiplied by k - 1.
        among_questions = sum_of_squared_sums - Fraction(total**2, number_of_values) / ONE**2
        m = number_of_values - Fraction(squared_counts, number_of_values)
        variance["between"] = float((among_questions - within * (number_of_questions - 1)) / m)
    if number_of_values > number_of_questions:
        variance["within"] = float(within)
    return variance
