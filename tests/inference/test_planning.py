"""Numbers of questions, against the formulas on plain arrays."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import UsageError, plan_questions


def results(scores: Any, **more: Any) -> list[dict[str, Any]]:
    """The results of some samples of each question."""
    return [
        {
            "template_id": "t",
            "question_id": f"q{i}",
            "status": "success",
            "steps_score": float(score),
            **more,
        }
        for i, own in enumerate(scores)
        for score in own
    ]


def variances(scores: Any) -> tuple[float, float]:
    """Between questions and within them, by analysis of variance of unequal groups."""
    values = [np.array(own) for own in scores]
    n, k = sum(map(len, values)), len(values)
    mean = sum(own.sum() for own in values) / n
    among = sum(len(own) * (own.mean() - mean) ** 2 for own in values) / (k - 1)
    if n == k:
        return float(among), 0.0
    within = sum(((own - own.mean()) ** 2).sum() for own in values) / (n - k)
    size = (n - sum(len(own) ** 2 for own in values) / n) / (k - 1)
    return float(max(0, (among - within) / size)), float(within)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=8))
def test_a_plan_from_one_run(scores: list[list[float]]) -> None:
    between, within = variances(scores)
    if between + within < 1e-6:
        return
    found = plan_questions(0.1, results(scores))
    assert found["sd"] == pytest.approx(sqrt(between + within))
    assert found["assumed_correlation"] == 0.5
    assert found["paired_sd"] == pytest.approx(sqrt(between + 2 * within))


def test_a_plan_from_two_runs() -> None:
    """The error rate has the other half of the error probability."""
    random = np.random.default_rng(8)
    questions = random.normal(0.6, 0.2, 300)

    def run(fall: float) -> Any:
        own = questions - fall + random.normal(0, 0.05, 300)
        return own[:, None] + random.normal(0, 0.15, (300, 3))

    one, other = run(0.0), run(0.05)
    found = plan_questions(0.05, results(one), results(other))
    (between, within), (between_too, within_too) = variances(one), variances(other)
    both = within + within_too
    change = float(np.var(other.mean(1) - one.mean(1), ddof=1)) - both / 3
    assert found["assumed_correlation"] is None
    assert found["paired_sd"] == pytest.approx(sqrt(change + both))
    alpha, beta = stats.norm.ppf(1 - 0.05 / 2 / 2), stats.norm.ppf(0.8)
    unpaired = between + between_too + both
    for kind, variance, part in (("paired", change + both, 2), ("unpaired", unpaired, 4)):
        assert found[kind] == ceil((alpha + beta) ** 2 * variance / 0.05**2 + alpha**2 / part)


def test_a_given_standard_deviation() -> None:
    found = plan_questions(0.1, sd=0.5)
    assert found["sd"] == 0.5
    assert (found["power"], found["paired"], found["unpaired"]) == (0.8, 241, 477)
    alone = plan_questions(0.1, sd=0.5, primary=["steps_score"])
    assert (alone["paired"], alone["unpaired"]) == (199, 394)
    assert (found["primary"], alone["primary"]) == (["error_rate", "steps_score"], ["steps_score"])


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
    assert plan_questions(0.5, sd=0.01, level=level, primary=["steps_score"])["paired"] == least
    assert 2.0 ** (1 - least) < 1 - level <= 2.0 ** (2 - least)
