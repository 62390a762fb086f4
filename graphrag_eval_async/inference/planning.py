"""How many questions a comparison needs to see a change of a given size."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, filterfalse
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.exact import sum_numbers
from graphrag_eval_async.aggregates.questions import ValueSum
from graphrag_eval_async.aggregates.repeats import variances
from graphrag_eval_async.catalogue.metrics import BOUNDED_METRICS, ERROR_RATE, is_metric, is_primary
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.power import POWER, questions_needed
from graphrag_eval_async.inference.verdicts import check_known, position
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation

CORRELATION = 0.5
"""Assumed correlation of the scores of a question in two runs, if only one is known."""

ROUNDING = 1e-12
"""A variance of changes below this share of the variance of the scores is rounding."""


class Variances(NamedTuple):
    """How a score of one run varies.

    Attributes:
        between: the variance between questions.
        within: the variance between samples of a question.
    """

    between: float
    within: float

    @property
    def total(self) -> float:
        """The variance of one sample of one question."""
        return self.between + self.within


class Spread:
    """The values of one metric in one run, by question.

    Attributes:
        metrics: the metrics that the results have.
        fractions: those that are outputs of custom evaluations, from 0 to 1 by definition.
        missing: number of results without a value.
        values: the value of each sample, by question; of several retrieval steps, their mean.
    """

    def __init__(self, metric: str) -> None:
        """Create a spread of `metric` without results."""
        self.metrics: set[str] = set()
        self.fractions: set[str] = set()
        self.missing = 0
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self._metric = metric

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Add a result, unless it is pending: then its complete version follows."""
        observed = observe(result)
        if observed.pending is not None:
            return
        self.metrics.update(observed.metrics)
        self.fractions.update(observed.fractions)
        if self._metric == ERROR_RATE:
            values = [float(observed.failed)]
        else:
            values = [value for metric, value in observed.values if metric == self._metric]
        # A metric of retrieval steps has several values in a result.
        if values:
            self.values[str(observed.question_id)].append(fmean(values))
        else:
            self.missing += 1

    def variances(self) -> Variances:
        """Return estimates of the variances between and within questions, at least 0.

        If no question was repeated, the variance within questions is 0.

        Raises:
            UsageError: there are fewer than two questions with a value.
        """
        values_by_question = [*self.values.values()]
        questions = len(values_by_question)
        if questions < 2:
            message = (
                f"{self._metric}: needs results of two questions or more with a value, got "
                f"{questions}"
            )
            if self.metrics and questions == 0:
                message += f"; {did_you_mean(self._metric, sorted(self.metrics))}"
            raise UsageError(message)
        sums = [
            ValueSum(exact_sum=sum_numbers(values), count=len(values))
            for values in values_by_question
        ]
        estimates = variances(chain.from_iterable(values_by_question), sums)
        # An unbiased estimate may be below 0, which a variance cannot be.
        return Variances(max(0.0, estimates["between"]), estimates.get("within") or 0.0)

    @property
    def is_whole(self) -> bool:
        """Whether each question has one value, which is 0 or 1."""
        return all(values in ([0.0], [1.0]) for values in self.values.values())


class _VariancesToPlanFor(NamedTuple):
    """The variances that decide how many questions are needed.

    Attributes:
        paired: of the change of a question that both runs have.
        unpaired: the sum of the variances of a question in two runs with other questions.
    """

    paired: float
    unpaired: float


def plan(
    detect: float,
    runs: Sequence[Spread],
    *,
    metric: str,
    sd: float | None = None,
    level: float = 0.95,
    primary: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return how many questions a comparison of two runs needs to detect a change.

    Args:
        detect: the change of the mean that is to be detected, above 0.
        runs: the values in one run, or in two runs of the same questions; none if `sd` is given.
        metric: the metric whose values `runs` have.
        sd: standard deviation of the metric over questions, if there are no runs.
        level: confidence level of the comparison.
        primary: the metrics that the comparison decides; see `is_primary` for the default.

    Returns:
        a dict with the keys that `plan_questions` describes.

    Raises:
        UsageError: an argument has an invalid value, or the runs have too few values, or values
            that do not vary.
    """
    _check_arguments(detect, runs, metric=metric, sd=sd, level=level)
    if sd is not None:
        variances_of_runs = [Variances(between=sd * sd, within=0.0)]
    else:
        variances_of_runs = [run.variances() for run in runs]
    planned_for = _variances_to_plan_for(runs, variances_of_runs, metric=metric)

    # Each of the metrics that the comparison decides gets an even share of the error.
    family = _metrics_that_share_the_error(runs, metric, primary)
    shared_level = 1 - (1 - level) / len(family)
    are_whole = bool(runs) and all(run.is_whole for run in runs)
    fractions = {name for run in runs for name in run.fractions}
    return {
        "metric": metric,
        "detect": detect,
        "level": level,
        "power": POWER,
        "paired": questions_needed(
            planned_for.paired, detect, shared_level, paired=True, whole=are_whole
        ),
        "unpaired": questions_needed(planned_for.unpaired, detect, shared_level, paired=False),
        "primary": sorted(family, key=position),
        "has_verdict": is_primary(metric, primary, fractions),
        "questions": [len(run.values) for run in runs],
        "missing": [run.missing for run in runs],
        "sd": sqrt(fmean(variances_of_run.total for variances_of_run in variances_of_runs)),
        "paired_sd": sqrt(planned_for.paired),
        "assumed_correlation": None if len(runs) == 2 else CORRELATION,
    }


def _check_arguments(
    detect: float, runs: Sequence[Spread], *, metric: str, sd: float | None, level: float
) -> None:
    """Raise a `UsageError` if arguments of `plan` are wrong, or do not go together."""
    check_level(level)
    _check_positive("detect", detect)
    if metric in BOUNDED_METRICS and detect >= 1:
        raise UsageError(f"expected a difference below 1 to detect, since {metric} is from 0 to 1")
    has_runs = len(runs) > 0
    has_sd = sd is not None
    if has_runs == has_sd or len(runs) > 2:
        raise UsageError(
            "plan: needs one or two RESULTS, or a standard deviation (--sd, or sd=X), and not both"
        )
    if has_sd:
        _check_positive("sd", sd)


def _variances_to_plan_for(
    runs: Sequence[Spread], variances_of_runs: Sequence[Variances], *, metric: str
) -> _VariancesToPlanFor:
    """Return the variances that decide how many questions are needed.

    Args:
        runs: the runs; none, one or two.
        variances_of_runs: the variances of each run, or assumed ones if there are no runs.
        metric: the metric, for messages.

    Raises:
        UsageError: the variances are 0, so that nothing can be planned.
    """
    # One run stands for both.
    baseline = variances_of_runs[0]
    candidate = variances_of_runs[-1]
    if len(runs) == 2:
        variance_of_change = _variance_of_true_change(runs)
    else:
        # The true scores of a question in two runs are assumed to correlate.
        variance_of_change = (1 - CORRELATION) * (baseline.between + candidate.between)
    paired = variance_of_change + baseline.within + candidate.within
    unpaired = baseline.total + candidate.total
    if not unpaired:
        raise UsageError(
            f"{metric}: all values agree, so nothing can be planned; --sd or sd=X sets another"
        )
    if paired <= ROUNDING * unpaired:
        raise UsageError(
            f"{metric}: every question changes by the same amount between the two runs, so paired "
            "numbers cannot be planned; give results of one run, or of two that differ"
        )
    return _VariancesToPlanFor(paired=paired, unpaired=unpaired)


def _metrics_that_share_the_error(
    runs: Sequence[Spread], metric: str, primary: Collection[str] | None
) -> set[str]:
    """Return the metrics that share the error budget: those that the comparison decides.

    They are the primary metrics and, whether primary or not, `metric`.

    Args:
        runs: the runs whose metrics are known; the comparison decides metrics that all have.
        metric: the metric that is planned for.
        primary: the names of primary metrics; see `is_primary` for the default.

    Raises:
        UsageError: no result has one of the primary metrics.
    """
    fractions = {name for run in runs for name in run.fractions}
    candidates = set(primary or ())
    if runs:
        known_metrics = {ERROR_RATE}.union(*(run.metrics for run in runs))
        check_known("primary", filterfalse(is_metric, primary or ()), known_metrics)
        candidates = set.intersection(*[run.metrics for run in runs])
    candidates.add(ERROR_RATE)
    return {name for name in candidates if is_primary(name, primary, fractions)} | {metric}


def _variance_of_true_change(runs: Sequence[Spread]) -> float:
    """Return the variance of the true changes of questions, from one run to the other.

    The means of samples also vary by chance. The variance due to that is subtracted.

    Args:
        runs: two runs.

    Raises:
        UsageError: they share fewer than two questions with a value.
    """
    baseline, candidate = runs
    shared = sorted(baseline.values.keys() & candidate.values.keys())
    if len(shared) < 2:
        raise UsageError(
            f"the two runs share {len(shared)} questions with a value; paired needs two or more"
        )
    changes = [fmean(candidate.values[name]) - fmean(baseline.values[name]) for name in shared]
    mean = fmean(changes)
    variance = fsum((change - mean) ** 2 for change in changes) / (len(changes) - 1)
    # The mean of n samples has a part 1 / n of the variance of a single sample.
    for run in runs:
        share_of_samples = fmean(1 / len(run.values[name]) for name in shared)
        variance -= run.variances().within * share_of_samples
    return max(0.0, variance)


def _check_positive(name: str, value: object) -> None:
    """Raise a `UsageError` unless `value` is a number above 0 whose square is finite."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e300:
        raise UsageError(f"{name}: expected a number above 0, got {describe(value)}")
