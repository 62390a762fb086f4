"""Repeats: how often some or all samples of a question are right, and how much its scores vary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.aggregates.column import Column
from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE, mean, to_fixed_point
from graphrag_eval_async.aggregates.questions import QuestionValues, ValueSum, to_sum
from graphrag_eval_async.catalogue.conditions import OPERATORS
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionIndices
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.outcomes import Outcomes

MOST_SAMPLES = 100
"""The largest k of pass@k and pass^k."""


class SampleCounts(NamedTuple):
    """The number of samples of a question, and how many of them are right."""

    samples: int
    right: int


NO_SAMPLES = SampleCounts(samples=0, right=0)
"""The counts of a question before its first sample. They also stand for results without a question.
"""


class Grounds(NamedTuple):
    """What decides whether a result is right, besides whether its values meet the conditions.

    A metric applies to a group if any result has a value of it. A result is wrong if the agent left
    a metric that applies without a value.

    Attributes:
        missing: the metrics of conditions that the agent left without a value, sorted by name.
        have_values: whether the result has a value of at least one metric of the conditions. A
            result without values is not counted unless a metric of `missing` applies.
    """

    missing: tuple[str, ...]
    have_values: bool


class RightResults:
    """Counts, for each question of a group, the results that are right and those that are wrong.

    A result is right if it meets all conditions, such as a least F1 score. Whether a metric without
    a value makes a result wrong depends on later results, so results are kept apart by their
    `Grounds` until `samples` is called.

    Attributes:
        by_grounds: for each result, 1 if the values that it has meet the conditions, otherwise 0;
            one `QuestionValues` for each kind of `Grounds`.
    """

    def __init__(self, conditions: Collection[Condition]) -> None:
        self._conditions = conditions
        self.by_grounds: dict[Grounds, QuestionValues] = {}
        # What the last call of `samples` returned, and the metrics that it was called with.
        self._cached_samples: Counter[SampleCounts] | None = None
        self._cached_metrics: set[str] = set()

    def add(
        self,
        question_indices: QuestionIndices,
        columns: Sequence[tuple[str, Column]],
        outcomes: Outcomes,
        *,
        failed: bool,
    ) -> None:
        """Add a batch of results that have the same metrics and outcomes.

        If a judge failed, the results are not counted, since nobody knows whether they are right.

        Args:
            question_indices: the question of each result.
            columns: each metric with its values in the results. A metric repeats if the results
                have several retrieval steps.
            outcomes: the metrics without a value, with the cause, the same for all results.
            failed: whether the results are errors of the agent.
        """
        self._cached_samples = None

        # The conditions whose metric has a value, and the metrics that have none.
        conditions_with_values = []
        if not failed:
            conditions_with_values = [
                (condition, column)
                for metric, column in columns
                for condition in self._conditions
                if condition.metric == metric
            ]
        metrics_without_values = {condition.metric for condition in self._conditions}
        for condition, _ in conditions_with_values:
            metrics_without_values.discard(condition.metric)

        # A metric without an outcome does not apply to these results.
        causes = dict(outcomes)
        missing = metrics_without_values & causes.keys()
        if failed and not missing:
            missing = metrics_without_values
        if not conditions_with_values and not missing:
            return
        if not failed:
            judge_failed = any(causes[metric] not in CAUSED_BY_AGENT for metric in missing)
            if judge_failed:
                return

        # For each condition, whether each result meets it.
        are_met = [
            map(OPERATORS[condition.operator], column.numbers, repeat(condition.bound))
            for condition, column in conditions_with_values
        ]
        if not are_met:
            are_right = [False] * len(question_indices.indices)
        elif len(are_met) == 1:  # This is frequent, and faster than the general case.
            are_right = list(are_met[0])
        else:
            are_right = [all(met) for met in zip(*are_met, strict=True)]
        grounds = Grounds(missing=tuple(sorted(missing)), have_values=bool(conditions_with_values))
        self._values_with(grounds).add(question_indices, Column.of_flags(are_right))

    def merge(self, other: RightResults, question_indices: QuestionIndices) -> None:
        """Add the results of another group.

        Args:
            other: the results to add.
            question_indices: for each question index of the other group, the index of the same
                question in this group.
        """
        self._cached_samples = None
        for grounds, values in other.by_grounds.items():
            self._values_with(grounds).merge(values, question_indices)

    def _values_with(self, grounds: Grounds) -> QuestionValues:
        """Return the values of results with these grounds; add an empty one if there is none."""
        return self.by_grounds.setdefault(grounds, QuestionValues())

    def samples(self, metrics: set[str], unnamed_question: int | None) -> Counter[SampleCounts]:
        """Count the questions by their number of samples and of right samples.

        The counts are cached until results are added.

        Args:
            metrics: the metrics that apply. A result is wrong if the agent left one of them without
                a value.
            unnamed_question: the index that stands for the question of results that do not name
                theirs; None if there are no such results.

        Returns:
            the number of questions for each `SampleCounts`; only `NO_SAMPLES` as a key if a result
            that counts does not name its question.
        """
        if self._cached_samples is None or self._cached_metrics != metrics:
            self._cached_samples = self._count_samples(metrics, unnamed_question)
            self._cached_metrics = metrics
        return self._cached_samples

    def _count_samples(
        self, metrics: set[str], unnamed_question: int | None
    ) -> Counter[SampleCounts]:
        """Compute what `samples` returns, without its cache."""
        counts_by_question: dict[int, SampleCounts] = {}
        for grounds, question_values in self.by_grounds.items():
            lacks_applying_metric = not metrics.isdisjoint(grounds.missing)
            if not lacks_applying_metric and not grounds.have_values:
                # No metric says whether these results are right.
                continue
            for question, values in question_values.by_question():
                # Each value is 1 for a right result, so their sum is the number of right ones.
                added = to_sum(values)
                before = counts_by_question.get(question, NO_SAMPLES)
                right = before.right
                if not lacks_applying_metric:
                    right += added.exact_sum // FIXED_POINT_ONE
                samples = before.samples + added.count
                counts_by_question[question] = SampleCounts(samples=samples, right=right)
        if unnamed_question in counts_by_question:
            return Counter({NO_SAMPLES: 1})
        return Counter(counts_by_question.values())


@dataclass(slots=True)
class _PassSums:
    """Sums over the questions that have at least k samples, for one k.

    Attributes:
        some_right: the sum of the chances that one of k samples is right, as a multiple of
            2**-1074.
        all_right: the sum of the chances that all k samples are right, as a multiple of 2**-1074.
        questions: the number of questions.
    """

    some_right: int = 0
    all_right: int = 0
    questions: int = 0


def pass_rates(questions: Mapping[SampleCounts, int]) -> dict[str, float]:
    """Return ``pass@k``, ``pass^k`` and ``questions@k`` for each k from 1.

    ``pass@k`` is the chance that at least one of k samples is right. ``pass^k`` is the chance that
    all of them are. For a question with n samples, c of them right, the unbiased estimates are
    1 - C(n - c, k) / C(n, k) and C(c, k) / C(n, k). Both are averaged over the questions with at
    least k samples, whose number is ``questions@k``.

    Source: Chen et al. (2021), "Evaluating Large Language Models Trained on Code", equation 1.

    Args:
        questions: the number of questions with these counts of samples.

    Returns:
        an empty dict if no question has two samples.
    """
    largest_k = min(max((counts.samples for counts in questions), default=0), MOST_SAMPLES)
    if largest_k < 2:
        return {}
    sums_by_k = {k: _PassSums() for k in range(1, largest_k + 1)}
    for (samples, right), times in questions.items():
        # In how many ways one can draw k samples in order: any samples, only wrong ones, or only
        # right ones. The quotient of two such numbers equals that of the binomial coefficients.
        ways = 1
        wrong_ways = 1
        right_ways = 1
        for k in range(1, min(samples, largest_k) + 1):
            ways *= samples - k + 1
            wrong_ways *= samples - right - k + 1
            right_ways *= right - k + 1
            sums = sums_by_k[k]
            sums.some_right += times * to_fixed_point((ways - wrong_ways) / ways)
            sums.all_right += times * to_fixed_point(right_ways / ways)
            sums.questions += times

    rates = {}
    for k, sums in sums_by_k.items():
        rates[f"pass@{k}"] = mean(sums.some_right, sums.questions, integral=False)
        rates[f"pass^{k}"] = mean(sums.all_right, sums.questions, integral=False)
        rates[f"questions@{k}"] = sums.questions
    return rates


def variances(values: Iterable[float], questions: Iterable[float | ValueSum]) -> dict[str, float]:
    """Estimate how much a score varies between questions and within a question.

    The estimates are unbiased, by analysis of variance. They are computed exactly and rounded at
    the end. There are N values of k questions. A question has n values with the sum S; the sum of
    all values is T. Then:

        within = (sum x² - sum S²/n) / (N - k)
        between = ((sum S²/n - T²/N) / (k - 1) - within) / m, with m = (N - sum n²/N) / (k - 1)

    Source: Searle, Casella and McCulloch (1992), "Variance Components", section 3.6.

    Args:
        values: all values.
        questions: for each question, its value or the sum of its values.

    Returns:
        `between`, which may be negative, and `within`. Each is absent if its divisor would be 0.
    """
    number_of_values = 0
    number_of_questions = 0
    total = 0
    squared_counts = 0
    # The sum of S² for each n, as a multiple of 2**-2148. Adding up fractions S²/n would be slow.
    squared_sums: Counter[int] = Counter()
    for question in questions:
        value_sum = to_sum(question)
        number_of_values += value_sum.count
        number_of_questions += 1
        total += value_sum.exact_sum
        squared_counts += value_sum.count**2
        squared_sums[value_sum.count] += value_sum.exact_sum**2

    # sum S²/n
    sum_of_squared_sums = Fraction(0)
    for count, square in squared_sums.items():
        sum_of_squared_sums += Fraction(square, count)
    sum_of_squared_sums /= FIXED_POINT_ONE**2
    # sum x²
    squares = sum(times * to_fixed_point(value) ** 2 for value, times in Counter(values).items())
    sum_of_squares = Fraction(squares, FIXED_POINT_ONE**2)

    has_repeats = number_of_values > number_of_questions
    within = sum_of_squares - sum_of_squared_sums  # It is 0 without repeats.
    if has_repeats:
        within /= number_of_values - number_of_questions

    estimates: dict[str, float] = {}
    if number_of_questions > 1:
        # The numerator and the denominator of `between`, both multiplied by k - 1.
        squared_total = Fraction(total**2, number_of_values) / FIXED_POINT_ONE**2
        numerator = sum_of_squared_sums - squared_total - within * (number_of_questions - 1)
        denominator = number_of_values - Fraction(squared_counts, number_of_values)
        estimates["between"] = float(numerator / denominator)
    if has_repeats:
        estimates["within"] = float(within)
    return estimates
