"""Verdicts, p and intervals of finished comparisons together, by simulation and against plain sums."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import compare, plan_questions
from graphrag_eval_async.inference.one_look import change_interval
from tests.inference.test_comparison import compared, result
from tests.support.cases import each

if TYPE_CHECKING:
    from tests.inference.test_comparison import Results

Values = dict[str, Any]


def run_of(values: Values) -> Results:
    """Results with the values of each metric, question by question."""
    metrics = {name: np.asarray(own).tolist() for name, own in values.items()}
    return [
        result(f"q{i}", **dict(zip(metrics, own, strict=True)))
        for i, own in enumerate(zip(*metrics.values(), strict=True))
    ]


# Intervals


def augmented(changes: list[float], alpha: float) -> tuple[float, float]:
    more = [*changes, 1.0, -1.0]
    found = stats.ttest_1samp(more, 0).confidence_interval(1 - alpha)
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
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if transformed(middle) > target else (low, middle)
        return low

    t = stats.t.ppf(1 - alpha / 2, n - 1)
    return solved(t), solved(-t)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=60), st.sampled_from([0.05, 0.01]))
def test_changes_of_whole_answers(changes: list[float], alpha: float) -> None:
    low, high = augmented(changes, alpha)
    mean = float(np.mean(changes))
    expected = min(low, mean), max(high, mean)
    assert change_interval(changes, 1 - alpha, bounded=True) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(-99, 99), min_size=3, max_size=40), st.sampled_from([0.05, 0.01]))
@settings(deadline=None)
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


def coverage(draw: Any, true: float, runs: int, seed: int) -> float:
    numbers = np.random.default_rng(seed)
    covered = 0
    for _ in range(runs):
        found = change_interval(draw(numbers).tolist(), 0.95, bounded=True)
        covered += found is not None and found[0] <= true <= found[1]
    return covered / runs


@each("n", [20, 30, 50])
def test_intervals_cover_where_changes_go_one_way(n: int) -> None:
    """An agent that loses one question in ten, and wins none."""

    def draw(numbers: np.random.Generator) -> Any:
        return numbers.choice([-1.0, 0.0], n, p=[0.1, 0.9])

    assert coverage(draw, -0.1, 1000, seed=n) >= 0.94


# All of a comparison

scores = st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.9, 1.0, 1.0])
values = st.fixed_dictionaries({"steps_score": scores, "answer_f1": scores, "elapsed_sec": st.floats(0, 9)})
questions = st.lists(st.tuples(values, values), min_size=1, max_size=30)


@given(questions, st.sampled_from([0.5, 0.8, 0.95]), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_verdict_p_and_interval_never_contradict_each_other(
    both: list[tuple[Values, Values]], level: float, loss: float
) -> None:
    one, other = (
        [result(f"q{i}", f"t{i % 2}", **each[side]) for i, each in enumerate(both)] for side in (0, 1)
    )
    for each_ in other[: int(loss * len(other))]:
        each_["steps_score"] = 0.0
    found = compare(one, other, level=level)
    for group in (found["overall"], *found["per_template"].values()):
        for metric, row in group.items():
            interval = row.get("interval")
            if metric == "elapsed_sec":
                assert not {"p", "p_adjusted", "verdict"} & row.keys()
                assert interval is None or interval["level"] == level
                continue
            is_decided = row["verdict"] != "undecided"
            assert is_decided == (row["p_adjusted"] < 1 - level)
            if interval is not None:
                assert is_decided == (interval["low"] > 0 or interval["high"] < 0)
                assert interval["low"] <= row["difference"] <= interval["high"]


def agent(numbers: np.random.Generator, n: int) -> tuple[Values, Values]:
    """A run, and one in which steps are right 10 % less often, answers are better, and errors are as rare."""
    steps, drop = numbers.random(n) < 0.8, numbers.random(n) < 0.125
    answers, gain = numbers.beta(4, 2, n), numbers.exponential(0.05, n)
    return (
        {"steps_score": steps * 1.0, "answer_f1": answers * 0.5, "elapsed_sec": answers + 1},
        {
            "steps_score": (steps & ~drop) * 1.0,
            "answer_f1": answers * 0.5 + gain,
            "elapsed_sec": answers + 1 + numbers.random(n),
        },
    )


def test_all_intervals_of_primary_metrics_hold_together() -> None:
    true = {"error_rate": 0.0, "steps_score": -0.1, "answer_f1": 0.05}
    numbers, runs, missed = np.random.default_rng(3), 150, 0
    for _ in range(runs):
        one, other = agent(numbers, 40)
        overall = compared(run_of(one), run_of(other))["overall"]
        missed += any(
            not overall[metric]["interval"]["low"] <= change <= overall[metric]["interval"]["high"]
            for metric, change in true.items()
        )
    assert missed <= 0.05 * runs


def test_the_headline_is_of_primary_metrics() -> None:
    numbers = np.random.default_rng(4)
    one, other = agent(numbers, 200)
    one["query_similarity"], other["query_similarity"] = np.zeros(200), np.ones(200)
    overall = compared(run_of(one), run_of(other))["overall"]
    assert {metric for metric, row in overall.items() if "verdict" in row} == {
        *("error_rate", "steps_score", "answer_f1")
    }
    chosen = compared(run_of(one), run_of(other), primary=["elapsed_sec", "tokens"])
    assert [metric for metric, row in chosen["overall"].items() if "verdict" in row] == ["elapsed_sec"]
    assert chosen["overall"]["elapsed_sec"]["verdict"] == "worse"
    assert chosen["overall"]["elapsed_sec"]["interval"]["level"] == 0.95
    assert chosen["warnings"] == ["tokens: no question has it on both sides"]


def test_a_plan_keeps_its_promise() -> None:
    """Power of the whole comparison: metrics that are not primary take nothing from it."""
    numbers, runs = np.random.default_rng(5), 150

    def pair(n: int, fall: float) -> tuple[Results, Results]:
        base = numbers.random(n)
        one, other = ((numbers.random(n) < 0.2 + 0.6 * base - by) * 1.0 for by in (0.0, fall))
        more = {"elapsed_sec": base, "total_tokens": base, "query_similarity": base}
        return run_of({"steps_score": one, **more}), run_of({"steps_score": other, **more})

    found = plan_questions(0.15, *pair(4000, 0.15))
    assert found["primary"] == ["error_rate", "steps_score"]
    row = found["rows"][0]
    assert (row["power"], row["repeats"]) == (0.8, 1)
    noticed = sum(
        compared(*pair(row["paired"], 0.15))["overall"]["steps_score"]["verdict"] == "worse"
        for _ in range(runs)
    )
    assert noticed / runs == pytest.approx(0.8, abs=0.08)
