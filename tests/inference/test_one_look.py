"""Intervals for one look, against scipy, and how often they cover the mean over new questions."""

from __future__ import annotations

from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from graphrag_eval_async import RunningAggregates, UsageError, compute_aggregates
from graphrag_eval_async.aggregates.questions import clusters
from graphrag_eval_async.inference.one_look import one_look, student_quantile, wilson
from tests.support.cases import each

Z = NormalDist().inv_cdf(0.975)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def results(scores: Iterable[Sequence[float]], metric: str = "steps_score") -> list[dict[str, Any]]:
    """The results of some samples of each question."""
    return [
        {"template_id": "t", "question_id": f"q{i}", "sample": sample, metric: score}
        for i, own in enumerate(scores)
        for sample, score in enumerate(own, 1)
    ]


def shown(scores: Iterable[Sequence[float]], metric: str = "steps_score") -> dict[str, Any]:
    found: dict[str, Any] = compute_aggregates(results(scores, metric), detail=True)["micro"][metric]
    return found


@each("df", [1, 2, 3, 4, 9, 19, 50, 199, 200, 201, 1000, 10**6])
@each("p", [0.6, 0.9, 0.975, 0.9995])
def test_student_quantiles(p: float, df: int) -> None:
    assert student_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)


@each(("successes", "n"), [(0, 5), (5, 5), (3, 10), (99, 100), (1, 2)])
@each("level", [0.8, 0.95, 0.999])
def test_wilson(successes: int, n: int, level: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(level, "wilson")
    z = stats.norm.ppf((1 + level) / 2)
    assert wilson(successes / n, n, z) == pytest.approx((expected.low, expected.high), abs=1e-12)


@each("values", [[0.2, 0.9, 0.5, 0.75, 0.4, 0.6], [1, 1, 0.5, 1, 1, 1, 1], [0.5, 0.5001], [0, 0, 1, 0.2]])
def test_scores_from_0_to_1_have_the_score_interval(values: list[float]) -> None:
    """Its ends are the means that are as far away as their own standard error, times t, allows."""
    found = shown([value] for value in values)
    mean, se, interval = fmean(values), stats.sem(values), found["interval"]
    t = stats.t.ppf(0.975, len(values) - 1)
    size = mean * (1 - mean) / se**2
    for end in (interval["low"], interval["high"]):
        assert abs(mean - end) == pytest.approx(t * (end * (1 - end) / size) ** 0.5)
    assert 0 <= interval["low"] < mean < interval["high"] <= 1


def test_other_scores_have_the_t_interval() -> None:
    values = [0.2, 0.9, -0.5, 0.75, 0.4, 0.6]
    found = shown([[value] for value in values], "answer_relevance")
    test = stats.ttest_1samp(values, 0)
    low, high = test.confidence_interval(0.95)
    assert found["se"] == pytest.approx(stats.sem(values))
    assert found["interval"] == {
        "level": 0.95,
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "mean": pytest.approx(fmean(values)),
        "kind": "one_look",
        "questions": 6,
    }
    assert found["mean_of_questions"] == found["mean"]


def test_coins_without_repeats_have_the_interval_of_wilson() -> None:
    found = shown([value] for value in [1, 1, 0.0, 1, 1.0, 1, 1, 1])
    interval = found["interval"]
    assert (interval["low"], interval["high"]) == wilson(7 / 8, 8, Z)
    assert shown([[1.0]] * 8)["interval"]["high"] == 1.0
    # With repeats that all agree, each question is one coin.
    assert shown([[1.0] * 40] * 6)["interval"]["low"] == wilson(1, 6, Z)[0]


def test_samples_are_clustered_by_question() -> None:
    scores = [[1.0, 1.0, 0.5, 1.0], [0.0, 0.25, 0.0, 0.0], [0.5, 0.5, 0.75, 0.5]]
    found = shown(scores, "answer_relevance")
    test = stats.ttest_1samp([fmean(own) for own in scores], 0)
    low, high = test.confidence_interval(0.95)
    assert found["interval"]["low"] == pytest.approx(low)
    assert found["interval"]["high"] == pytest.approx(high)
    assert found["interval"]["questions"] == 3
    uneven = shown([[1.0, 1.0, 1.0], [0.0]])
    assert (uneven["mean"], uneven["mean_of_questions"]) == (0.75, 0.5)


def test_no_interval_where_nothing_is_known() -> None:
    assert "interval" not in shown([[1.0, 0.5, 0.5]])
    assert "se" not in shown([[1.0, 0.5, 0.5]])
    # Values that agree: their spread is not known, and the interval is the one that is always valid.
    alike = shown([[0.5]] * 20)
    assert alike["se"] == 0
    assert alike["interval"]["kind"] == "anytime"
    assert alike["interval"]["low"] < 0.5 < alike["interval"]["high"]


def test_kinds() -> None:
    some = results([[0.2], [0.9], [0.5]])
    aggregates = RunningAggregates()
    for one in some:
        aggregates.add(one)

    def kind(**options: Any) -> str:
        snapshot = aggregates.snapshot(detail=True, **options)
        return str(snapshot["micro"]["steps_score"]["interval"]["kind"])

    assert (kind(), kind(interval="one_look")) == ("anytime", "one_look")
    aggregates.finish()
    assert (kind(), kind(interval="anytime")) == ("one_look", "anytime")
    aggregates.add(some[0] | {"question_id": "more"})
    assert kind() == "anytime"
    with pytest.raises(UsageError, match="interval: expected"):
        aggregates.snapshot(detail=True, interval="both")  # type: ignore[arg-type]


def covered(draws: Iterable[list[Sequence[float]]], mean: float) -> float:
    """The share of runs whose interval contains the mean over new questions."""
    right = []
    for scores in draws:
        means = [*map(fmean, scores)]
        ends = one_look(clusters(means, fmean(means)), 0.95, bounded=True)
        right.append(ends is not None and ends[0] <= mean <= ends[1])
    return fmean(right)


def test_questions_weigh_the_same_however_many_samples_they_have() -> None:
    """Questions have 1 to 9 samples, and those with more are better: the mean over questions is covered."""
    random_ = np.random.default_rng(5)

    def draw() -> list[Sequence[float]]:
        sizes = random_.integers(1, 10, 30)
        return [(random_.random(size) < 0.4 + 0.05 * size).astype(float).tolist() for size in sizes]

    assert 0.9 <= covered((draw() for _ in range(600)), 0.65) <= 0.98
