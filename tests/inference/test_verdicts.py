"""What is decided about two finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.inference.comparison import RunningComparison
from tests.inference.test_comparison import compared, result, scored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.inference.test_comparison import Results


def row_of(baseline: Results, candidate: Results) -> dict[str, Any]:
    row: dict[str, Any] = compared(baseline, candidate)["overall"]["steps_score"]
    return row


def test_few_large_wins_outweigh_many_small_losses() -> None:
    snapshot = compared(scored([0.5] * 400), scored([0.49] * 300 + [1.0] * 100))
    for group in (snapshot["overall"], snapshot["per_template"]["t"]):
        row = group["steps_score"]
        assert (row["wins"], row["losses"], row["verdict"]) == (100, 300, "better")
        assert 0 < row["interval"]["low"] < row["difference"] < row["interval"]["high"]
    resource = compared(
        [result(f"{i}", elapsed_sec=2.0) for i in range(40)],
        [result(f"{i}", elapsed_sec=2.1 if i else 0.1) for i in range(40)],
        primary=["elapsed_sec"],
    )["overall"]["elapsed_sec"]
    assert (resource["losses"], resource["verdict"]) == (39, "undecided")


def test_one_look_sees_what_many_do_not() -> None:
    baseline, candidate = scored([1.0] * 100), scored([0.5] * 12 + [1.0] * 88)
    comparison = RunningComparison()
    for one, other in zip(baseline, candidate, strict=True):
        comparison.add_baseline(one)
        comparison.add(other)
    assert comparison.live_rows()["overall"]["steps_score"]["verdict"] == "undecided"
    assert comparison.snapshot()["overall"]["steps_score"]["verdict"] == "worse"
    assert row_of(candidate, baseline)["verdict"] == "better"
    assert row_of(baseline, scored([0.5] * 5 + [1.0] * 95))["verdict"] == "undecided"


def test_rows_of_templates_share_the_error_evenly() -> None:
    baseline, candidate = (scored([value] * 9, "t") + scored([0.5] * 9, "u") for value in (1.0, 0.0))
    for group in compared(baseline, candidate)["per_template"].values():
        for row in group.values():
            assert row["p_adjusted"] == min(1.0, 4 * row["p"])  # Two templates and two primary metrics.
            assert row["interval"]["level"] == pytest.approx(1 - 0.05 / 4)
    verdicts = [
        group["steps_score"]["verdict"] for group in compared(baseline, candidate)["per_template"].values()
    ]
    assert verdicts == ["worse", "undecided"]


# Values that are lost

STEPS: dict[str, Any] = {"reference_steps": [[{"name": "a"}]]}


def without_steps(results: Iterable[dict[str, Any]]) -> Results:
    return [{key: each[key] for key in each if key != "steps_score"} for each in results]


def lost_row(baseline: Results, candidate: Results) -> dict[str, Any]:
    row: dict[str, Any] = compared(baseline, candidate)["without_pair"]["steps_score"]
    return row


def test_values_that_are_lost() -> None:
    whole = scored([1.0] * 60, **STEPS)
    some = without_steps(whole[:40]) + whole[40:]
    row = lost_row(whole, some)
    assert (len(row["baseline"]), row["candidate"], row["verdict"]) == (40, [], "worse")
    assert row["p"] == 2 * 0.5**40
    assert lost_row(some, whole)["verdict"] == "better"
    few = without_steps(whole[:5]) + whole[5:]
    assert lost_row(whole, few) == {
        "baseline": [f"t{i}" for i in range(5)],
        "candidate": [],
        "p": 2 * 0.5**5,
        "verdict": "undecided",
    }
    # All of them, too, as long as the steps were to be scored.
    assert lost_row(whole, without_steps(whole))["verdict"] == "worse"


def test_a_judge_that_was_not_asked_lost_nothing() -> None:
    answers = {"reference_answer": "a", "actual_answer": "a"}
    judged = [each | {"answer_f1": 1.0, **answers} for each in scored([1.0] * 20)]
    plain = [each | answers for each in scored([1.0] * 20)]
    errors = [each | {"status": "error", "error": "no"} for each in plain[:2]]
    for candidate in (plain, errors + plain[2:]):
        row = compared(judged, candidate)["without_pair"]["answer_f1"]
        assert {*row} == {"baseline", "candidate"}
    failed = [each | {"answer_eval_error": "timeout: 60 s"} for each in plain]
    assert compared(judged, failed)["without_pair"]["answer_f1"]["verdict"] == "worse"
    # What answers take is no score.
    timed = [each | {"elapsed_sec": 1.0} for each in plain]
    seconds = compared(timed, plain[:19] + timed[19:])["without_pair"]["elapsed_sec"]
    assert {*seconds} == {"baseline", "candidate"}


def test_more_samples_have_a_value_more_often() -> None:
    whole = scored([1.0] * 20, **STEPS)
    assert lost_row(whole * 5, without_steps(whole[:19]) + whole[19:])["p"] == 1.0


# Chance


def test_a_candidate_without_any_answer_has_lost_its_scores() -> None:
    common: dict[str, Any] = {"reference_answer": "so", "steps_score": 1.0}
    baseline = [result(f"q{i}", actual_answer="so", answer_f1=1.0, **common) for i in range(20)]
    candidate = [result(f"q{i}", **common) for i in range(20)]
    lost = compared(baseline, candidate)["without_pair"]["answer_f1"]
    assert (len(lost["baseline"]), lost["candidate"], lost["verdict"]) == (20, [], "worse")


# The sign test


# Dixon and Mood (1946), table 1: the most of the rarer sign at which a difference is significant.
