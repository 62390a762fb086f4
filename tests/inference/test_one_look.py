"""Intervals for one look at means and at changes, against scipy."""

from __future__ import annotations

from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import RunningAggregates, UsageError, compute_aggregates
from graphrag_eval_async.inference.one_look import change_interval, student_quantile

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
    found: dict[str, Any] = compute_aggregates(results(scores, metric), detail=True)["micro"][
        metric
    ]
    return found


# Means


@pytest.mark.parametrize("df", [1, 2, 3, 19, 50, 200, 201, 10**6])
@pytest.mark.parametrize("p", [0.6, 0.975, 0.9995])
def test_student_quantiles(p: float, df: int) -> None:
    assert student_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.2, 0.9, 0.5, 0.75, 0.4, 0.6], id="fractions"),
        pytest.param([1, 1, 0.5, 1, 1, 1, 1], id="mostly 1"),
        pytest.param([0.5, 0.5001], id="two values"),
        pytest.param([0, 0, 1, 0.2], id="mostly 0"),
    ],
)
def test_scores_from_0_to_1_have_the_score_interval(values: list[float]) -> None:
    """Its ends are the means that are as far away as their own standard error, times t, allows."""
    found = shown([value] for value in values)
    mean, se, interval = fmean(values), stats.sem(values), found["interval"]
    t = stats.t.ppf(0.975, len(values) - 1)
    size = mean * (1 - mean) / se**2
    for end in (interval["low"], interval["high"]):
        assert abs(mean - end) == pytest.approx(t * (end * (1 - end) / size) ** 0.5)
    assert 0 <= interval["low"] < mean < interval["high"] <= 1


@pytest.mark.parametrize("heads", [0, 3, 7, 8])
def test_coins_have_the_interval_of_wilson(heads: int) -> None:
    """With repeats that all agree, each question is one coin."""
    expected = stats.binomtest(heads, 8).proportion_ci(0.95, "wilson")
    for repeats in (1, 40):
        interval = shown([[float(i < heads)] * repeats for i in range(8)])["interval"]
        assert (interval["low"], interval["high"]) == pytest.approx(
            (expected.low, expected.high), abs=1e-12
        )


def test_other_scores_have_the_t_interval_clustered_by_question() -> None:
    scores = [[0.9, 0.9, 0.5, 0.9], [0.0, -0.25, 0.0, 0.0], [0.5, 0.5, 0.75, 0.5]]
    found, means = shown(scores, "answer_relevance"), [fmean(own) for own in scores]
    low, high = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert found["se"] == pytest.approx(stats.sem(means))
    assert found["interval"] == {
        "level": 0.95,
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "mean": pytest.approx(fmean(means)),
        "kind": "one_look",
        "questions": 3,
    }
    uneven = shown([[1.0, 1.0, 1.0], [0.0]])
    assert (uneven["mean"], uneven["mean_of_questions"]) == (0.75, 0.5)


def test_no_interval_where_nothing_is_known() -> None:
    assert not {"interval", "se"} & shown([[1.0, 0.5, 0.5]]).keys()
    # Values that agree: their spread is not known, and the interval is the one that is always
    # valid.
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
    for wrong in ({"interval": "both"}, {"level": 1.0}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))}: expected"):
            kind(**wrong)


# Changes


def augmented(changes: list[float], alpha: float) -> tuple[float, float]:
    found = stats.ttest_1samp([*changes, 1.0, -1.0], 0).confidence_interval(1 - alpha)
    return max(found.low, -1.0), min(found.high, 1.0)


def hall(changes: list[float], alpha: float) -> tuple[float, float]:
    """The ends between which the transformed mean is not refuted, found by bisection."""
    n, mean, sd = len(changes), float(np.mean(changes)), float(np.std(changes, ddof=1))
    skew = float(np.mean((np.array(changes) - mean) ** 3)) / sd**3

    def transformed(end: float) -> float:
        w = (mean - end) / sd
        return float(sqrt(n) * (w + skew / 3 * w**2 + skew**2 / 27 * w**3 + skew / (6 * n)))

    def solved(target: float) -> float:
        low, high = mean - 1e3, mean + 1e3
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if transformed(middle) > target else (low, middle)
        return low

    t = stats.t.ppf(1 - alpha / 2, n - 1)
    return solved(t), solved(-t)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=60),
    st.sampled_from([0.05, 0.01]),
)
def test_changes_of_whole_answers(changes: list[float], alpha: float) -> None:
    low, high = augmented(changes, alpha)
    mean = float(np.mean(changes))
    expected = min(low, mean), max(high, mean)
    assert change_interval(changes, 1 - alpha, bounded=True) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-99, 99), min_size=3, max_size=40), st.sampled_from([0.05, 0.01]))
def test_changes_of_partial_credit(hundredths: list[int], alpha: float) -> None:
    changes = [each / 100 for each in hundredths]
    for bounded, least, most in ((True, -1.0, 1.0), (False, -np.inf, np.inf)):
        found = change_interval(changes, 1 - alpha, bounded=bounded)
        if len({*changes}) == 1:
            assert found is None or bounded
            continue
        low, high = hall(changes, alpha)
        mean = float(np.mean(changes))
        expected = max(min(low, mean), least), min(max(high, mean), most)
        assert found == pytest.approx(expected, abs=1e-6)
