"""Compares the scores of a judge with labels of people, and corrects their mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.errors import UsageError, check_boolean
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
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MIN_LABELS = 100
"""Labels from which on the mean is corrected: with fewer, the intervals are too short."""

POSITIVE = 0.5
"""Scores and labels count as positive from here on."""

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


class Pair(NamedTuple):
    """The judge's score of a result, and the mean of its labels."""

    score: Score
    label: float


class Calibration:
    """Compares the scores of one metric with labels. Add all labels before the first result."""

    def __init__(
        self, metric: str | None = None, *, level: float = 0.95, chosen_at_random: bool = False
    ) -> None:
        """See `calibrate`."""
        if metric is not None:
            check_metric(metric)
        check_level(level)
        check_boolean("chosen_at_random", chosen_at_random)
        self._level = level
        self._declared = chosen_at_random
        self._metric = metric and ALIASES.get(metric, metric)
        self._metrics: set[str] = set()
        self._labels: defaultdict[str, list[Label]] = defaultdict(list)
        self._empty = 0
        self._scores: defaultdict[str, list[Score]] = defaultdict(list)
        self._questions: set[str] = set()

    def add_label(self, label: Mapping[str, Any]) -> None:
        """Add a label."""
        read = read_label(label)
        if read.value is None:
            self._empty += 1
        else:
            self._labels[ALIASES.get(read.metric, read.metric)].append(read)

    def metric(self) -> str:
        """Return the metric."""
        known = sorted(self._labels)
        if not known:
            nulls = f", {self._empty} are null; fill in `value`" if self._empty else ""
            raise UsageError(f"labels: none has a value{nulls}")
        if self._metric is None and len(known) > 1:
            raise UsageError(
                f"labels: they are for {', '.join(known)}; give those of one, or name its `metric`"
            )
        self._metric = self._metric or known[0]
        if self._metric not in self._labels:
            raise UsageError(
                f"labels: none is for {self._metric}; {did_you_mean(self._metric, known)}"
            )
        return self._metric

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Add a result."""
        score = score_of(result, self.metric(), self._metrics)
        self._questions.add(str(result.get("question_id")))
        if score is not None:
            self._scores[score.question_id].append(score)

    def snapshot(self) -> dict[str, Any]:
        """Return the comparison; see `calibrate`."""
        metric = self.metric()
        if not self._scores:
            raise no_score(metric, self._metrics)
        labels, unused = self._matched()
        if not labels:
            told = ", ".join(f"{count} {UNUSED[why]}" for why, count in unused.items())
            raise UsageError(f"labels: none matches a result: {told}")
        pairs = _pairs(labels)
        scores = [score for own in self._scores.values() for score in own]
        drawn = all(label.mark is not None for own in labels.values() for label in own)
        reason = None if self._declared or drawn else NOT_RANDOM
        by_template: defaultdict[str, tuple[list[Pair], list[Score]]] = defaultdict(
            lambda: ([], [])
        )
        for pair in pairs:
            by_template[pair.score.template_id][0].append(pair)
        for score in scores:
            by_template[score.template_id][1].append(score)
        return {
            "metric": metric,
            "level": self._level,
            "overall": _row(pairs, scores, self._level, reason),
            "per_template": {
                template: _row(*by_template[template], self._level, reason)
                for template in sorted(by_template)
            },
            "people": _people(labels),
            "unused_labels": dict(unused),
            "warnings": _warnings(labels, len(scores)),
            "notes": NOTES,
        }

    def _matched(self) -> tuple[dict[Score, list[Label]], Counter[str]]:
        """Return the labels of each score, and how many are for no score or for several, by
        reason.
        """
        labels: defaultdict[Score, list[Label]] = defaultdict(list)
        unused: Counter[str] = Counter()
        for label in self._labels[self.metric()]:
            scores = self._scores.get(label.question_id, ())
            found = [score for score in scores if label.is_for(score)]
            if len(found) == 1:
                labels[found[0]].append(label)
            else:
                unused[label.why_unused(scores, self._questions)] += 1
        return labels, unused


def _pairs(labels: Mapping[Score, Iterable[Label]]) -> list[Pair]:
    return [
        Pair(score, fmean(label.value or 0.0 for label in own)) for score, own in labels.items()
    ]


def _people(labels: Mapping[Score, Sequence[Label]]) -> dict[str, Any]:
    """Return how far people agree on results with several labels."""
    agreement = Agreement()
    repeated = [own for own in labels.values() if len(own) > 1]
    for own in repeated:
        agreement.add({str(place): label.value or 0.0 for place, label in enumerate(own)})
    return {"items": len(repeated), "alpha": agreement.alpha}


def _warnings(labels: Mapping[Score, Iterable[Label]], results: int) -> list[str]:
    """Return why labelled results may not be the random sample that was drawn."""
    marks = {label.mark for own in labels.values() for label in own if label.mark is not None}
    told = []
    if marks and (without := max(mark.n for mark in marks) - len(labels)) > 0:
        told.append(
            f"{without} of the drawn results have no label; the others are a random sample only "
            "if people labelled them from the top and skipped none"
        )
    if other := sorted({mark.of for mark in marks} - {results}):
        told.append(
            f"the labels were drawn from {' and '.join(map(str, other))} results with a score, "
            f"and these are {results}; give the results that they were drawn from"
        )
    return told


def _row(
    pairs: Sequence[Pair], scores: Sequence[Score], level: float, reason: str | None
) -> dict[str, Any]:
    """Return what the labels of some results say; `reason` is why the mean cannot be corrected."""
    if reason is None and len(pairs) < MIN_LABELS:
        reason = (
            f"{len(pairs)} labels; an interval needs {MIN_LABELS} or more, else it is too short"
        )
    verdicts = [(pair.score.value >= POSITIVE, pair.label >= POSITIVE) for pair in pairs]
    counts, agreement = Counter(verdicts), Agreement()
    for score, label in verdicts:
        agreement.add({"judge": score, "people": label})
    right, wrong = (
        counts[True, True] + counts[False, True],
        counts[True, False] + counts[False, False],
    )
    corrected = (
        corrected_mean(estimate(pairs, scores), level) if reason is None else {"reason": reason}
    )
    return {
        "results": len(scores),
        "labels": len(pairs),
        "agreement": _share(counts[True, True] + counts[False, False], len(pairs)),
        "kappa": agreement.kappa,
        "sensitivity": _share(counts[True, True], right),
        "specificity": _share(counts[False, False], wrong),
        "bias": fmean(pair.score.value - pair.label for pair in pairs) if pairs else None,
        "mean_score": fmean(score.value for score in scores) if scores else None,
        "mean_label": fmean(pair.label for pair in pairs) if pairs else None,
        "corrected": corrected,
    }


def _share(count: int, of: int) -> float | None:
    return count / of if of else None


class Estimate(NamedTuple):
    """A corrected mean, how much the judge's scores count, and each question's part of its
    error.
    """

    mean: float
    weight: float
    deviations: Mapping[str, float]
    labelled: int  # Questions with a label.


def corrected_mean(found: Estimate, level: float) -> dict[str, Any]:
    """Return the mean that people would give all results, with Student's t interval, or why
    there is none.
    """
    corrected: dict[str, Any] = {"mean": min(1.0, max(0.0, found.mean)), "weight": found.weight}
    squares = fsum(each**2 for each in found.deviations.values())
    if found.labelled < 2 or squares <= 1e-24:
        return corrected | {"reason": "no interval, since the labels do not vary"}
    se = sqrt(found.labelled / (found.labelled - 1) * squares)
    margin = student_quantile(probability_below_upper_end(level), found.labelled - 1) * se
    low, high = max(0.0, found.mean - margin), min(1.0, found.mean + margin)
    interval = {"level": level, "low": low, "high": high, "kind": "one_look"}
    return corrected | {"se": se, "interval": interval}


def estimate(pairs: Sequence[Pair], scores: Sequence[Score]) -> Estimate:
    """Return the mean that people would give all results, by PPI++.

    With f the scores and Y the labels, it is λ * (mean of f where there is no label) + (mean of Y -
    λ * f where there is one), with λ = Cov(Y, f) / ((1 + n / N) * Var(f)) from 0 to 1, n labels,
    and N results without one. Source: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient
    Prediction-Powered Inference". N leaves the labelled results out, since the two means must not
    share any. The variance is clustered by question.

    Args:
        pairs: labelled results, chosen at random from `scores`; at least two.
        scores: all results.
    """
    labelled = {pair.score for pair in pairs}
    rest = [score for score in scores if score not in labelled]
    n, others = len(pairs), len(rest)
    weight = _weight(pairs, scores) if rest else 0.0
    mean_rest = fmean(score.value for score in rest) if rest else 0.0
    mean_rectifier = fmean(pair.label - weight * pair.score.value for pair in pairs)
    deviations: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        rectifier = pair.label - weight * pair.score.value
        deviations[pair.score.question_id].append((rectifier - mean_rectifier) / n)
    for score in rest:
        deviations[score.question_id].append(weight * (score.value - mean_rest) / others)
    questions = len({pair.score.question_id for pair in pairs})
    sums = {question: fsum(values) for question, values in deviations.items()}
    return Estimate(weight * mean_rest + mean_rectifier, weight, sums, questions)


def _weight(pairs: Sequence[Pair], scores: Sequence[Score]) -> float:
    """Return λ, for fewer labels than results."""
    mean_f, own = fmean(score.value for score in scores), fmean(pair.score.value for pair in pairs)
    variance = fsum((score.value - mean_f) ** 2 for score in scores) / (len(scores) - 1)
    if not variance:
        return 0.0
    mean_y, n = fmean(pair.label for pair in pairs), len(pairs)
    covariance = fsum((pair.label - mean_y) * (pair.score.value - own) for pair in pairs) / (n - 1)
    return min(1.0, max(0.0, covariance / ((1 + n / (len(scores) - n)) * variance)))
