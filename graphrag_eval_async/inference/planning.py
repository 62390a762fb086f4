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
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.power import POWER, questions_needed
from graphrag_eval_async.inference.verdicts import check_known, position
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation

CORRELATION = 0.5
"""Assumed correlation of the scores of a question in two runs, if only one is known."""

ROUNDING = 1e-12
"""A variance of changes below this share of the variance of the scores is rounding."""


class Variances(NamedTuple):
    """Variance of one score of one run: between questions, and between samples of a question."""

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
    """

    def __init__(self, metric: str) -> None:
        self.metrics: set[str] = set()
        self.fractions: set[str] = set()
        self.missing = 0
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self._metric = metric

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Add a result."""
        seen = observe(result)
        if seen.pending is not None:
            return
        self.metrics.update(seen.metrics)
        self.fractions.update(seen.fractions)
        own = [value for name, value in seen.values if name == self._metric]
        if self._metric == ERROR_RATE:
            own = [float(seen.failed)]
        if own:
            self.values[str(seen.question_id)].append(fmean(own))
        else:
            self.missing += 1

    def variances(self) -> Variances:
        """Return the estimates of `variances`, at least 0; without samples to tell, 0 within
        questions.

        Raises:
            UsageError: there are fewer than two questions with a value.
        """
        groups = [*self.values.values()]
        if (k := len(groups)) < 2:
            known = (
                f"; {did_you_mean(self._metric, sorted(self.metrics))}"
                if self.metrics and not k
                else ""
            )
            raise UsageError(
                f"{self._metric}: needs results of two questions or more with a value, got "
                f"{k}{known}"
            )
        sums = [ValueSum(exact_sum=sum_numbers(values), count=len(values)) for values in groups]
        found = variances(chain.from_iterable(groups), sums)
        return Variances(max(0.0, found["between"]), found.get("within") or 0.0)


def plan(
    detect: float,
    runs: Sequence[Spread],
    *,
    metric: str,
    sd: float | None = None,
    level: float = 0.95,
    primary: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return how many questions are needed; see `plan_questions`."""
    check_level(level)
    _check_positive("detect", detect)
    if metric in BOUNDED_METRICS and detect >= 1:
        raise UsageError(f"expected a difference below 1 to detect, since {metric} is from 0 to 1")
    if (sd is None) == (not runs) or len(runs) > 2:
        raise UsageError(
            "plan: needs one or two RESULTS, or a standard deviation (--sd, or sd=X), and not both"
        )
    if sd is not None:
        _check_positive("sd", sd)
    known = [Variances(sd * sd, 0.0)] if sd is not None else [run.variances() for run in runs]
    baseline, candidate = known[0], known[-1]
    if len(runs) == 2:
        of_change = _change_variance(runs)
    else:
        of_change = (1 - CORRELATION) * (baseline.between + candidate.between)
    paired = of_change + baseline.within + candidate.within
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
    if runs:
        known_metrics = {ERROR_RATE}.union(*(run.metrics for run in runs))
        check_known("primary", filterfalse(is_metric, primary or ()), known_metrics)
    fractions = {name for run in runs for name in run.fractions}
    shared = set.intersection(*[run.metrics for run in runs]) if runs else {*(primary or ())}
    family = {name for name in shared | {ERROR_RATE} if is_primary(name, primary, fractions)} | {
        metric
    }
    own_level = 1 - (1 - level) / len(family)
    whole = bool(runs) and all(own in ([0.0], [1.0]) for run in runs for own in run.values.values())
    return {
        "metric": metric,
        "detect": detect,
        "level": level,
        "power": POWER,
        "paired": questions_needed(paired, detect, own_level, paired=True, whole=whole),
        "unpaired": questions_needed(unpaired, detect, own_level, paired=False),
        "primary": sorted(family, key=position),
        "has_verdict": is_primary(metric, primary, fractions),
        "questions": [len(run.values) for run in runs],
        "missing": [run.missing for run in runs],
        "sd": sqrt(fmean(each.total for each in known)),
        "paired_sd": sqrt(paired),
        "assumed_correlation": None if len(runs) == 2 else CORRELATION,
    }


def _change_variance(runs: Sequence[Spread]) -> float:
    """Return the variance of the change between questions, without that of their samples."""
    one, other = (run.values for run in runs)
    shared = sorted(one.keys() & other.keys())
    if len(shared) < 2:
        raise UsageError(
            f"the two runs share {len(shared)} questions with a value; paired needs two or more"
        )
    changes = [fmean(other[name]) - fmean(one[name]) for name in shared]
    mean = fmean(changes)
    variance = fsum((change - mean) ** 2 for change in changes) / (len(changes) - 1)
    for run in runs:
        variance -= run.variances().within * fmean(1 / len(run.values[name]) for name in shared)
    return max(0.0, variance)


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e300:
        raise UsageError(f"{name}: expected a number above 0, got {describe(value)}")
