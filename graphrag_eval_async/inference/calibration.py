"""Compares the scores of a judge with labels of people, and corrects their mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.errors import UsageError, check_boolean
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.labels import (
    ALIASES,
    UNUSED,
    Label,
    Score,
    check_metric,
    no_score,
    read_label,
    score_of,
)
from graphrag_eval_async.inference.one_look import probability_below_upper_end, student_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MIN_LABELS = 100
"""The least number of labels with which the mean is corrected.

With fewer, the intervals are too short. With 100, intervals of 95% still contain the true mean in
at least 91% of simulated runs (`tests/inference/test_simulations.py`).
"""

POSITIVE = 0.5
"""The least score or label that counts as positive: the middle of the scale from 0 to 1."""

NOTES = [
    (
        "A score or label of 0.5 or more counts as positive in agreement, kappa, sensitivity, "
        "specificity."
    ),
    "The interval of a corrected mean is for one look at a finished run.",
]
NOT_RANDOM = (
    "the labels do not say that they were chosen at random; draw them with sample-for-labels, or "
    "declare it with --chosen-at-random"
)

ROUNDING_ERROR = 1e-24
"""The sum of squared deviations up to which labels count as equal.

Labels that do not vary still leave rounding errors of about 1e-16 in their deviations.
"""


class Pair(NamedTuple):
    """The judge's score of a result, and the mean of its labels."""

    score: Score
    label: float

    @property
    def judge_is_positive(self) -> bool:
        """Whether the judge's score is at least `POSITIVE`."""
        return self.score.value >= POSITIVE

    @property
    def people_are_positive(self) -> bool:
        """Whether the mean label is at least `POSITIVE`."""
        return self.label >= POSITIVE


class _MatchedLabels(NamedTuple):
    """The labels that are for exactly one score, and how many are not."""

    by_score: dict[Score, list[Label]]
    unused_by_reason: Counter[str]  # The reasons are keys of `UNUSED`.


class Calibration:
    """Compares the scores of one metric with labels. Add all labels before the first result."""

    def __init__(
        self, metric: str | None = None, *, level: float = 0.95, chosen_at_random: bool = False
    ) -> None:
        """Start without labels and results.

        Args:
            metric: name of the metric; not needed if all labels are for the same one.
            level: confidence level of intervals.
            chosen_at_random: whether the caller declares that the labelled results were chosen at
                random. Otherwise, each label must have the mark of `sample-for-labels`.

        Raises:
            UsageError: an argument has an invalid value.
        """
        if metric is not None:
            check_metric(metric)
        check_level(level)
        check_boolean("chosen_at_random", chosen_at_random)
        self._level = level
        self._chosen_at_random = chosen_at_random
        self._declared_metric: str | None = None
        if metric is not None:
            self._declared_metric = ALIASES.get(metric, metric)

        self._labels_by_metric: defaultdict[str, list[Label]] = defaultdict(list)
        self._labels_without_value = 0
        self._scores_by_question: defaultdict[str, list[Score]] = defaultdict(list)
        # The questions of all results, also of results without a score.
        self._question_ids: set[str] = set()
        self._metrics_in_results: set[str] = set()

    def add_label(self, label: Mapping[str, Any]) -> None:
        """Add the label that a person gave a result; a label without a value is only counted.

        Raises:
            AggregationError: `label` is not a valid label.
        """
        parsed = read_label(label)
        if parsed.value is None:
            self._labels_without_value += 1
            return
        metric = ALIASES.get(parsed.metric, parsed.metric)
        self._labels_by_metric[metric].append(parsed)

    def metric(self) -> str:
        """Return the metric to compare: the declared one, or the only metric that labels are for.

        Raises:
            UsageError: no label has a value, no label is for the declared metric, or no metric is
                declared and the labels are for several.
        """
        labelled_metrics = sorted(self._labels_by_metric)
        if not labelled_metrics:
            message = "labels: none has a value"
            if self._labels_without_value:
                message += f", {self._labels_without_value} are null; fill in `value`"
            raise UsageError(message)

        if self._declared_metric is None:
            if len(labelled_metrics) > 1:
                raise UsageError(
                    f"labels: they are for {', '.join(labelled_metrics)}; "
                    "give those of one, or name its `metric`"
                )
            return labelled_metrics[0]

        if self._declared_metric not in labelled_metrics:
            hint = did_you_mean(self._declared_metric, labelled_metrics)
            raise UsageError(f"labels: none is for {self._declared_metric}; {hint}")
        return self._declared_metric

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Add a result, with or without a score of the metric.

        Raises:
            UsageError: the labels do not say which metric to compare; see `metric`.
        """
        # `score_of` also adds the names of all scores of the result to `_metrics_in_results`.
        score = score_of(result, self.metric(), self._metrics_in_results)
        self._question_ids.add(str(result.get("question_id")))
        if score is not None:
            self._scores_by_question[score.question_id].append(score)

    def snapshot(self) -> dict[str, Any]:
        """Compare judge and people, and estimate the mean that people would give all results.

        The result has the keys that `graphrag_eval_async.calibrate` describes, except `rejected`.

        Raises:
            UsageError: no result has the metric, or no label is for a result.
        """
        metric = self.metric()
        if not self._scores_by_question:
            raise no_score(metric, self._metrics_in_results)
        matched = self._match_labels()
        if not matched.by_score:
            reasons = ", ".join(
                f"{count} {UNUSED[reason]}" for reason, count in matched.unused_by_reason.items()
            )
            raise UsageError(f"labels: none matches a result: {reasons}")

        pairs = _pairs(matched.by_score)
        scores = [score for scores in self._scores_by_question.values() for score in scores]
        pairs_by_template: defaultdict[str, list[Pair]] = defaultdict(list)
        for pair in pairs:
            pairs_by_template[pair.score.template_id].append(pair)
        scores_by_template: defaultdict[str, list[Score]] = defaultdict(list)
        for score in scores:
            scores_by_template[score.template_id].append(score)

        why_not_random = self._why_not_random(matched.by_score)
        rows_by_template = {
            template: _row(
                pairs=pairs_by_template[template],
                scores=scores_by_template[template],
                level=self._level,
                why_not_random=why_not_random,
            )
            for template in sorted(scores_by_template)
        }
        return {
            "metric": metric,
            "level": self._level,
            "overall": _row(
                pairs=pairs, scores=scores, level=self._level, why_not_random=why_not_random
            ),
            "per_template": rows_by_template,
            "people": _agreement_of_people(matched.by_score),
            "unused_labels": dict(matched.unused_by_reason),
            "warnings": _sample_warnings(matched.by_score, scored_results=len(scores)),
            "notes": NOTES,
        }

    def _why_not_random(self, labels_by_score: Mapping[Score, Iterable[Label]]) -> str | None:
        """Return why labelled results are not known to be chosen at random; None if they are."""
        if self._chosen_at_random:
            return None
        for labels in labels_by_score.values():
            if any(label.mark is None for label in labels):
                return NOT_RANDOM
        return None

    def _match_labels(self) -> _MatchedLabels:
        """Assign each label of the metric to the score that it is for.

        A label that is not for exactly one score is counted by the reason why.
        """
        labels_by_score: defaultdict[Score, list[Label]] = defaultdict(list)
        unused_by_reason: Counter[str] = Counter()
        for label in self._labels_by_metric[self.metric()]:
            scores_of_question = self._scores_by_question.get(label.question_id, [])
            matching_scores = [score for score in scores_of_question if label.is_for(score)]
            if len(matching_scores) == 1:
                labels_by_score[matching_scores[0]].append(label)
            else:
                reason = label.why_unused(scores_of_question, self._question_ids)
                unused_by_reason[reason] += 1
        return _MatchedLabels(labels_by_score, unused_by_reason)


def _pairs(labels_by_score: Mapping[Score, Iterable[Label]]) -> list[Pair]:
    """Pair each score with the mean of its labels."""
    return [Pair(score, fmean(_values(labels))) for score, labels in labels_by_score.items()]


def _values(labels: Iterable[Label]) -> list[float]:
    """Return the values of labels, all of which have one; `Calibration` keeps no others."""
    return [label.value for label in labels if label.value is not None]


def _agreement_of_people(labels_by_score: Mapping[Score, Sequence[Label]]) -> dict[str, Any]:
    """Return how far people agree with each other on the results that have several labels.

    Returns:
        a dict with `items`, the number of these results, and `alpha`, Krippendorff's alpha; None if
        it is undefined.
    """
    agreement = Agreement()
    items = 0
    for labels in labels_by_score.values():
        if len(labels) < 2:
            continue
        items += 1
        # Labels do not name the people who gave them, so numbers stand for people. This is no
        # loss: alpha does not depend on who gave which label.
        agreement.add({str(place): value for place, value in enumerate(_values(labels))})
    return {"items": items, "alpha": agreement.alpha}


def _sample_warnings(
    labels_by_score: Mapping[Score, Iterable[Label]], *, scored_results: int
) -> list[str]:
    """Return warnings that the labelled results may not be the random sample that was drawn.

    Args:
        labels_by_score: the labels of each labelled result.
        scored_results: number of results with a score, whether they have a label or not.
    """
    marks = {
        label.mark
        for labels in labels_by_score.values()
        for label in labels
        if label.mark is not None
    }
    if not marks:
        return []

    warnings = []
    # A draw contains all smaller draws with the same seed, so the largest draw has all results that
    # were drawn.
    unlabelled = max(mark.n for mark in marks) - len(labels_by_score)
    if unlabelled > 0:
        warnings.append(
            f"{unlabelled} of the drawn results have no label; the others are a random sample only "
            "if people labelled them from the top and skipped none"
        )
    other_totals = sorted({mark.of for mark in marks} - {scored_results})
    if other_totals:
        totals = " and ".join(str(total) for total in other_totals)
        warnings.append(
            f"the labels were drawn from {totals} results with a score, and these are "
            f"{scored_results}; give the results that they were drawn from"
        )
    return warnings


def _row(
    *, pairs: Sequence[Pair], scores: Sequence[Score], level: float, why_not_random: str | None
) -> dict[str, Any]:
    """Compare judge and people on all results, or on those of a template.

    Args:
        pairs: the results with a label.
        scores: the results with a score.
        level: confidence level of intervals.
        why_not_random: why the labelled results are not known to be a random sample; then the mean
            is not corrected. None if they are a random sample.
    """
    agreement = Agreement()
    for pair in pairs:
        agreement.add({"judge": pair.judge_is_positive, "people": pair.people_are_positive})

    positives = [pair for pair in pairs if pair.people_are_positive]
    negatives = [pair for pair in pairs if not pair.people_are_positive]
    true_positives = sum(pair.judge_is_positive for pair in positives)
    true_negatives = sum(not pair.judge_is_positive for pair in negatives)

    if why_not_random is not None:
        corrected: dict[str, Any] = {"reason": why_not_random}
    elif len(pairs) < MIN_LABELS:
        too_few = f"{len(pairs)} labels; an interval needs {MIN_LABELS} or more"
        corrected = {"reason": f"{too_few}, else it is too short"}
    else:
        corrected = corrected_mean(estimate(pairs, scores), level)

    return {
        "results": len(scores),
        "labels": len(pairs),
        "agreement": _share(true_positives + true_negatives, len(pairs)),
        "kappa": agreement.kappa,
        "sensitivity": _share(true_positives, len(positives)),
        "specificity": _share(true_negatives, len(negatives)),
        "bias": _mean([pair.score.value - pair.label for pair in pairs]),
        "mean_score": _mean([score.value for score in scores]),
        "mean_label": _mean([pair.label for pair in pairs]),
        "corrected": corrected,
    }


def _share(count: int, total: int) -> float | None:
    """Return `count` as a share of `total`, or None of a total of 0."""
    if total == 0:
        return None
    return count / total


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of `values`, or None if there are none."""
    if not values:
        return None
    return fmean(values)


class Estimate(NamedTuple):
    """The mean that people would give all results, and what its standard error is made of.

    Attributes:
        mean: the estimated mean.
        weight: how much the judge's scores count beside labels, from 0 to 1.
        deviations: by question, what it adds to the error of the mean.
        labelled: number of questions with a label.
    """

    mean: float
    weight: float
    deviations: Mapping[str, float]
    labelled: int


def corrected_mean(estimated: Estimate, level: float) -> dict[str, Any]:
    """Return an estimated mean with its standard error and its confidence interval, for JSON.

    Returns:
        a dict with `mean` and `weight`, and with either `se` and `interval`, which is Student's t
        interval, or the `reason` why there is no interval.
    """
    corrected: dict[str, Any] = {
        # An estimate may be slightly outside the range of scores and labels.
        "mean": min(1.0, max(0.0, estimated.mean)),
        "weight": estimated.weight,
    }
    squares = fsum(deviation**2 for deviation in estimated.deviations.values())
    if estimated.labelled < 2 or squares <= ROUNDING_ERROR:
        corrected["reason"] = "no interval, since the labels do not vary"
        return corrected

    degrees_of_freedom = estimated.labelled - 1
    # Deviations are from means of the same sample, which makes their squares too small.
    standard_error = sqrt(estimated.labelled / degrees_of_freedom * squares)
    t = student_quantile(probability_below_upper_end(level), degrees_of_freedom)
    margin = t * standard_error
    corrected["se"] = standard_error
    corrected["interval"] = {
        "level": level,
        "low": max(0.0, estimated.mean - margin),
        "high": min(1.0, estimated.mean + margin),
        "kind": "one_look",
    }
    return corrected


def estimate(pairs: Sequence[Pair], scores: Sequence[Score]) -> Estimate:
    """Estimate the mean that people would give all results, by prediction-powered inference.

    The method is PPI++. With f the scores, Y the labels and λ the weight, the estimate is

        λ * (mean of f, without labelled results) + (mean of Y - λ * f, of labelled results)

    The two means must not share any results. The variance is clustered by question.

    Source: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient Prediction-Powered Inference".

    Args:
        pairs: the labelled results, chosen at random from `scores`; at least two.
        scores: all results.
    """
    # `Score` objects are hashed by identity, so equal scores of two results are two elements.
    labelled_scores = {pair.score for pair in pairs}
    unlabelled_scores = [score for score in scores if score not in labelled_scores]
    if unlabelled_scores:
        weight = _power_tuned_weight(pairs, scores)
        mean_unlabelled_score = fmean(score.value for score in unlabelled_scores)
    else:
        # People labelled all results, so the mean of their labels needs no scores.
        weight = 0.0
        mean_unlabelled_score = 0.0

    # What a label says beyond the weighted score: Y - λ * f.
    rectifiers = [pair.label - weight * pair.score.value for pair in pairs]
    mean_rectifier = fmean(rectifiers)

    deviations_by_question: defaultdict[str, list[float]] = defaultdict(list)
    for pair, rectifier in zip(pairs, rectifiers, strict=True):
        deviation = (rectifier - mean_rectifier) / len(pairs)
        deviations_by_question[pair.score.question_id].append(deviation)
    for score in unlabelled_scores:
        deviation = weight * (score.value - mean_unlabelled_score) / len(unlabelled_scores)
        deviations_by_question[score.question_id].append(deviation)

    return Estimate(
        mean=weight * mean_unlabelled_score + mean_rectifier,
        weight=weight,
        deviations={
            question: fsum(deviations) for question, deviations in deviations_by_question.items()
        },
        labelled=len({pair.score.question_id for pair in pairs}),
    )


def _power_tuned_weight(pairs: Sequence[Pair], scores: Sequence[Score]) -> float:
    """Return how much the judge's scores count beside labels, from 0 (not at all) to 1.

    It is the weight λ of PPI++ that makes the variance of the estimated mean smallest:
    Cov(Y, f) / ((1 + n / N) * Var(f)). Here f are the scores and Y the labels; n results have a
    label, and N results have no label.

    Args:
        pairs: the labelled results; at least two, and fewer than `scores`.
        scores: all results.
    """
    mean_score = fmean(score.value for score in scores)
    squares = fsum((score.value - mean_score) ** 2 for score in scores)
    variance = squares / (len(scores) - 1)
    if variance == 0:
        # Equal scores say nothing about the differences between results.
        return 0.0

    labelled = len(pairs)
    mean_label = fmean(pair.label for pair in pairs)
    mean_labelled_score = fmean(pair.score.value for pair in pairs)
    products = fsum(
        (pair.label - mean_label) * (pair.score.value - mean_labelled_score) for pair in pairs
    )
    covariance = products / (labelled - 1)
    unlabelled = len(scores) - labelled
    weight = covariance / ((1 + labelled / unlabelled) * variance)
    return min(1.0, max(0.0, weight))
