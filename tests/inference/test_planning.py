"""Numbers of questions: against simulated comparisons, and variances against plain sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import UsageError, plan_questions
from graphrag_eval_async.inference.planning import Spread, questions_needed


def results(scores: Any, **more: Any) -> list[dict[str, Any]]:
    """The results of some samples of each question."""
    return [
        {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": float(score), **more}
        for i, own in enumerate(scores)
        for score in own
    ]


def spread_of(scores: Any) -> Spread:
    spread = Spread("steps_score")
    for result in results(scores):
        spread.add(result)
    return spread


@pytest.mark.parametrize("power", [0.8, 0.95])
@pytest.mark.parametrize(("paired", "sd", "detect"), [(True, 0.2, 0.1), (False, 0.3, 0.1), (True, 0.5, 0.4)])
def test_planned_questions_have_the_promised_power(
    power: float, paired: bool, sd: float, detect: float
) -> None:
    random, runs = np.random.default_rng(7), 4000
    n = questions_needed((1 if paired else 2) * sd**2, detect, power, 0.95, paired=paired)
    if paired:
        p = stats.ttest_1samp(random.normal(-detect, sd, (runs, n)), 0, axis=1).pvalue
    else:
        one, other = (random.normal(mean, sd, (runs, n)) for mean in (0, -detect))
        p = stats.ttest_ind(one, other, axis=1).pvalue
    assert power - 0.02 <= float((p < 0.05).mean()) <= power + 0.04  # Whole questions are a bit more.


def test_repeats_and_two_runs() -> None:
    """A simulated agent and one that is worse: the plan from one comparison holds in others."""
    random = np.random.default_rng(8)

    def run(n: int, repeats: int, seed: int, fall: float) -> Any:
        questions = np.random.default_rng(seed).normal(0.6, 0.2, n)
        own = questions - fall + random.normal(0, 0.05, n)
        return own[:, None] + random.normal(0, 0.15, (n, repeats))

    found = plan_questions(0.05, results(run(3000, 3, 1, 0.0)), results(run(3000, 3, 1, 0.05)))
    assert found["assumed_correlation"] is None
    assert found["within_sd"] == pytest.approx(0.15, rel=0.05)
    assert found["sd"] == pytest.approx(math.sqrt(0.2**2 + 0.05**2 + 0.15**2), rel=0.05)
    for row in found["rows"]:
        if row["power"] != 0.8 or row["repeats"] > 3:
            continue
        n, repeats, noticed = row["paired"], row["repeats"], 0
        for seed in range(400):
            one, other = (run(n, repeats, 100 + seed, fall).mean(1) for fall in (0.0, 0.05))
            noticed += stats.ttest_rel(one, other).pvalue < 0.05 / 2  # The error rate has the other half.
        assert noticed / 400 == pytest.approx(0.8, abs=0.07)
    by_repeats = [row["paired"] for row in found["rows"] if row["power"] == 0.8]
    assert by_repeats == sorted(by_repeats, reverse=True)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=8))
def test_variances_of_unequal_samples(scores: list[list[float]]) -> None:
    found = spread_of(scores).variances()
    values = [np.array(own) for own in scores]
    n, k = sum(map(len, values)), len(values)
    mean = sum(own.sum() for own in values) / n
    among = sum(len(own) * (own.mean() - mean) ** 2 for own in values) / (k - 1)
    if n == k:
        assert found.within is None
        assert found.between == pytest.approx(among, abs=1e-12)
        return
    within = sum(((own - own.mean()) ** 2).sum() for own in values) / (n - k)
    size = (n - sum(len(own) ** 2 for own in values) / n) / (k - 1)
    assert found.within == pytest.approx(within, abs=1e-12)
    assert found.between == pytest.approx(max(0, (among - within) / size), abs=1e-12)


def test_a_given_standard_deviation() -> None:
    found = plan_questions(0.1, sd=0.5)
    assert found["sd"] == 0.5
    assert [row["repeats"] for row in found["rows"]] == [1, 1]
    assert found["rows"][0] == {"power": 0.8, "repeats": 1, "paired": 241, "unpaired": 477}
    alone = plan_questions(0.1, sd=0.5, primary=["steps_score"])
    assert alone["rows"][0] == {"power": 0.8, "repeats": 1, "paired": 199, "unpaired": 394}
    assert (found["primary"], alone["primary"]) == (["error_rate", "steps_score"], ["steps_score"])
    assert found["assumed_correlation"] == 0.5


def test_results_without_a_value_are_counted() -> None:
    some = results([[0.0], [1.0], [0.5]])
    failed = {"template_id": "t", "question_id": "q9", "status": "error"}
    found = plan_questions(0.1, [*some, failed])
    assert (found["questions"], found["missing"]) == ([3], [1])
    rate = plan_questions(0.1, [*some, failed], metric="error_rate")
    assert (rate["questions"], rate["missing"]) == ([4], [0])


@pytest.mark.parametrize("fall", [0.0, 0.1])
def test_the_same_change_of_every_question_plans_nothing(fall: float) -> None:
    scores = np.array([[0.2], [0.7], [0.9], [0.4]])
    with pytest.raises(UsageError, match="every question changes by the same amount"):
        plan_questions(0.05, results(scores), results(scores - fall))


@pytest.mark.parametrize(("level", "least"), [(0.9, 5), (0.95, 6), (0.99, 8)])
def test_no_fewer_questions_than_can_decide(level: float, least: int) -> None:
    """The smallest p of a sign-flip test of n changes is 2 ** (1 - n)."""
    rows = plan_questions(0.5, sd=0.01, level=level, primary=["steps_score"])["rows"]
    assert {row["paired"] for row in rows} == {least}
    assert 2.0 ** (1 - least) < 1 - level <= 2.0 ** (2 - least)
