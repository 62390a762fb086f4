"""What is decided about two finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import compare
from tests.support.comparisons import compared, result, scored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.comparisons import Results

Values = dict[str, Any]


def row_of(baseline: Results, candidate: Results) -> dict[str, Any]:
    row: dict[str, Any] = compared(baseline, candidate)["overall"]["steps_score"]
    return row


scores = st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.9, 1.0, 1.0])
values = st.fixed_dictionaries(
    {"steps_score": scores, "answer_f1": scores, "elapsed_sec": st.floats(0, 9)}
)
questions = st.lists(st.tuples(values, values), min_size=1, max_size=30)


@given(questions, st.sampled_from([0.5, 0.8, 0.95]), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_verdict_p_and_interval_never_contradict_each_other(
    both: list[tuple[Values, Values]], level: float, loss: float
) -> None:
    one, other = (
        [result(f"q{i}", f"t{i % 2}", **each[side]) for i, each in enumerate(both)]
        for side in (0, 1)
    )
    for each in other[: int(loss * len(other))]:
        each["steps_score"] = 0.0
    found = compare(one, other, level=level)
    for group in (found["overall"], *found["per_template"].values()):
        for metric, row in group.items():
            interval = row.get("interval")
            if metric == "elapsed_sec":
                assert not {"p", "p_adjusted", "verdict"} & row.keys()
                assert interval is None or interval["level"] == level
                continue
            is_decided = row["verdict"] in ("better", "worse")
            assert (row["verdict"] == "no_change") == (row["ties"] == row["pairs"])
            assert is_decided == (row["p_adjusted"] < 1 - level)
            if interval is not None:
                assert is_decided == (interval["low"] > 0 or interval["high"] < 0)
                assert interval["low"] <= row["difference"] <= interval["high"]


@given(st.lists(st.sampled_from([-1.0, -0.3, 0.0, 0.0, 0.1, 0.4]), min_size=1, max_size=80))
@settings(max_examples=40, deadline=None)
def test_the_change_that_could_be_seen(changes: list[float]) -> None:
    """It is the one for which the formula of plans gives as many questions."""
    row = row_of(scored([0.5] * len(changes)), scored([0.5 + change for change in changes]))
    if len({*changes}) == 1:
        assert "detectable" not in row
    elif (seen := row["detectable"]) is not None:
        # The error rate, which does not change, takes no share of the error.
        alpha, beta = stats.norm.ppf(1 - 0.05 / 2), stats.norm.ppf(0.8)
        size = (alpha + beta) ** 2 * np.var(changes, ddof=1) / seen**2 + alpha**2 / 2
        if {*changes} <= {-1.0, 0.0}:
            size += 4 + 2 / np.var(changes, ddof=1)
        assert size == pytest.approx(len(changes))
    assert row.get("detectable") or len(changes) < 80 or len({*changes}) == 1


def test_verdicts_of_two_templates() -> None:
    """They share the error probability evenly; the error rate, which is 0, has no part in it."""
    baseline = scored([0.5] * 80, "a") + scored([0.5] * 12, "b")
    candidate = scored([1.0] * 80, "a") + scored([0.0] * 12, "b")
    snapshot = compared(baseline, candidate)
    overall = snapshot["overall"]
    a, b = snapshot["per_template"].values()
    assert overall["steps_score"]["verdict"] == "better"
    assert (a["steps_score"]["verdict"], b["steps_score"]["verdict"]) == ("better", "worse")
    assert b["steps_score"]["p"] == 2 * 0.5**12
    assert b["steps_score"]["p_adjusted"] == 4 * 0.5**12
    assert a["steps_score"]["p_adjusted"] == pytest.approx(4 * 0.5**80)
    assert a["steps_score"]["interval"]["level"] == pytest.approx(1 - 0.05 / 2)
    assert overall["steps_score"]["interval"]["level"] == pytest.approx(0.95)


def test_few_large_wins_outweigh_many_small_losses() -> None:
    snapshot = compared(scored([0.5] * 400), scored([0.49] * 300 + [1.0] * 100))
    for group in (snapshot["overall"], snapshot["per_template"]["t"]):
        row = group["steps_score"]
        assert (row["wins"], row["losses"], row["verdict"]) == (100, 300, "better")
        assert 0 < row["interval"]["low"] < row["difference"] < row["interval"]["high"]


def test_rare_losses_are_decided_if_there_are_enough() -> None:
    baseline, candidate = scored([1.0] * 100), scored([0.5] * 12 + [1.0] * 88)
    assert row_of(baseline, candidate)["verdict"] == "worse"
    assert row_of(candidate, baseline)["verdict"] == "better"
    assert row_of(baseline, scored([0.5] * 5 + [1.0] * 95))["verdict"] == "undecided"


def test_primary_metrics_are_decided() -> None:
    scores: dict[str, Any] = {"steps_score": 1.0, "answer_f1": 0.5, "tool_calls_f1": 0.0}
    one, other = (
        [result(f"{i}", elapsed_sec=sec if i else 0.0, **scores) for i in range(40)]
        for sec in (2.0, 2.1)
    )
    decided = {key for key, row in compared(one, other)["overall"].items() if "verdict" in row}
    assert decided == {"error_rate", "steps_score", "answer_f1"}
    chosen = compared(one, other, primary=["elapsed_sec", "total_tokens"])
    assert [key for key, row in chosen["overall"].items() if "verdict" in row] == ["elapsed_sec"]
    row = chosen["overall"]["elapsed_sec"]
    assert (row["losses"], row["verdict"], row["interval"]["level"]) == (39, "worse", 0.95)
    assert chosen["warnings"] == ["total_tokens: no question has it on both sides"]


# Values that are lost

STEPS: dict[str, Any] = {"reference_steps": [[{"name": "a"}]]}


def without_steps(results: Iterable[dict[str, Any]]) -> Results:
    return [{key: each[key] for key in each if key != "steps_score"} for each in results]


def lost_row(baseline: Results, candidate: Results) -> dict[str, Any]:
    row: dict[str, Any] = compared(baseline, candidate)["without_pair"]["steps_score"]
    return row


def test_values_that_are_lost() -> None:
    whole = scored([1.0] * 60, **STEPS)
    few = without_steps(whole[:5]) + whole[5:]
    lost = {"baseline": [f"t{i}" for i in range(5)], "candidate": []}
    assert lost_row(whole, few) == {**lost, "p": 2 * 0.5**5, "verdict": "undecided"}
    # All of them, too, as long as the steps were to be scored.
    assert lost_row(whole, without_steps(whole))["verdict"] == "worse"
    assert lost_row(without_steps(whole[:40]) + whole[40:], whole)["verdict"] == "better"
    # More samples have a value more often.
    assert lost_row(whole[:20] * 5, without_steps(whole[:19]) + whole[19:20])["p"] == 1.0


def test_a_judge_that_was_not_asked_lost_nothing() -> None:
    answers = {"reference_answer": "a", "actual_answer": "a"}
    judged = [each | {"answer_f1": 1.0, **answers} for each in scored([1.0] * 20)]
    plain = [each | answers for each in scored([1.0] * 20)]
    errors = [each | {"status": "error", "error": "no"} for each in plain[:2]]
    for candidate in (plain, errors + plain[2:]):
        row = compared(judged, candidate)["without_pair"]["answer_f1"]
        assert {*row} == {"baseline", "candidate"}
    for why in ({"answer_eval_error": "timeout: 60 s"}, {"actual_answer": None}):
        failed = [each | why for each in plain]
        row = compared(judged, failed)["without_pair"]["answer_f1"]
        assert (len(row["baseline"]), row["candidate"], row["verdict"]) == (20, [], "worse")
    # What answers take is no score.
    timed = [each | {"elapsed_sec": 1.0} for each in plain]
    seconds = compared(timed, plain[:19] + timed[19:])["without_pair"]["elapsed_sec"]
    assert {*seconds} == {"baseline", "candidate"}


def test_metrics_that_cannot_decide_take_no_share_of_the_error() -> None:
    """21 questions differ: 16 are worse, 5 better; no run has errors."""
    baseline = scored([1.0] * 16 + [0.0] * 5 + [1.0] * 79)
    candidate = scored([0.0] * 16 + [1.0] * 5 + [1.0] * 79)
    found = compared(baseline, candidate)["overall"]
    assert found["error_rate"]["verdict"] == "no_change"
    row = found["steps_score"]
    assert row["p"] == pytest.approx(0.0266, abs=1e-4)
    assert (row["p_adjusted"], row["verdict"]) == (row["p"], "worse")


def test_metrics_with_few_changes_take_no_share_of_the_error() -> None:
    """Five changes of one direction have p = 0.0625 at best, six 0.03125."""

    def rows(errors: int) -> dict[str, Any]:
        baseline = scored([1.0] * 100)
        candidate = scored([0.0] * 7 + [1.0] * 93)
        for index in range(errors):
            candidate[99 - index] = result(f"t{99 - index}", "t", status="error")
        found: dict[str, Any] = compared(baseline, candidate)["overall"]
        return found

    assert rows(errors=5)["steps_score"]["p_adjusted"] == 2 * 0.5**7
    # Six errors could be decided alone, but not with half of the error.
    assert rows(errors=6)["steps_score"]["p_adjusted"] == 2 * 2 * 0.5**7
    assert rows(errors=7)["steps_score"]["p_adjusted"] == 2 * 2 * 0.5**7


def test_equal_runs_have_no_change() -> None:
    results = scored([0.0, 0.5, 1.0])
    found = compared(results, results)
    rows = [*found["overall"].values(), *found["per_template"]["t"].values()]
    assert {row["verdict"] for row in rows} == {"no_change"}
