"""What a comparison says in words: its headline, and why it is a regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compare
from graphrag_eval_async.reports.comparison_words import greatest_losses, headline, regressions

if TYPE_CHECKING:
    from collections.abc import Mapping

    Results = list[dict[str, Any]]

COUNTS = {"lines": 20, "stations": 20, "trips": 20}


def run_of(right: Mapping[str, int], **more: Any) -> Results:
    """Results of `COUNTS` questions by template, of which so many are right."""
    return [
        {
            "template_id": template,
            "question_id": f"{template}-{i}",
            "status": "success",
            "steps_score": float(i < right[template]),
            **more,
        }
        for template in right
        for i in range(COUNTS[template])
    ]


BASELINE = run_of({"lines": 18, "stations": 12, "trips": 12})
LINES_FELL = run_of({"lines": 6, "stations": 12, "trips": 12})
LINES_FELL_OTHERS_ROSE = run_of({"lines": 6, "stations": 18, "trips": 18})
ALL_FELL = run_of({"lines": 8, "stations": 2, "trips": 2})
ONE_FELL = run_of({"lines": 17, "stations": 12, "trips": 12})
SWAPPED = run_of({"lines": 17, "stations": 12, "trips": 13})


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(
            LINES_FELL,
            (
                "Worse: steps_score 0.7 -> 0.5, -0.2 (most in lines 0.9 -> 0.3, -0.6). "
                "12 regressions, 0 improvements."
            ),
            id="one template fell",
        ),
        pytest.param(
            LINES_FELL_OTHERS_ROSE,
            "Worse: steps_score of lines 0.9 -> 0.3, -0.6. 12 regressions, 12 improvements.",
            id="others rose",
        ),
        pytest.param(
            ALL_FELL,
            "Worse: steps_score 0.7 -> 0.2, -0.5. 30 regressions, 0 improvements.",
            id="all fell",
        ),
        pytest.param(
            ONE_FELL,
            (
                "Undecided, may be due to chance: steps_score 0.7 -> 0.6833, -0.017. "
                "1 regression, 0 improvements."
            ),
            id="one question fell",
        ),
        pytest.param(
            SWAPPED,
            (
                "Undecided, may be due to chance: steps_score 0.7 -> 0.7, 0. "
                "1 regression, 1 improvement."
            ),
            id="swapped",
        ),
        pytest.param(
            BASELINE,
            "No difference: 60 questions with the same values in both runs.",
            id="no difference",
        ),
        pytest.param(
            [result | {"elapsed_sec": 2.0} for result in BASELINE],
            "No difference: 60 questions with the same values in both runs.",
            id="other times",
        ),
    ],
)
def test_the_headline_says_what_moved_and_how_far(candidate: Results, expected: str) -> None:
    assert headline(compare(BASELINE, candidate)) == expected


def test_an_undecided_metric_with_the_same_mean_is_not_named() -> None:
    before = [result | {"answer_f1": float(i % 2)} for i, result in enumerate(BASELINE)]
    after = [result | {"answer_f1": float(i % 2)} for i, result in enumerate(ONE_FELL)]
    after[0]["answer_f1"], after[1]["answer_f1"] = 1.0, 0.0
    told = headline(compare(before, after))
    assert told.startswith("Undecided, may be due to chance: steps_score 0.7 -> 0.6833, -0.017. ")


def test_a_constant_metric_takes_no_share_of_the_error_budget() -> None:
    """16 questions are worse and 5 better; `error_rate` and `answer_f1` never change."""
    scores = [1.0] * 70 + [0.0] * 30
    changed_scores = [0.0] * 16 + [1.0] * 59 + [0.0] * 25

    def results(values: list[float]) -> Results:
        return [
            {
                "template_id": "t",
                "question_id": f"q{i}",
                "status": "success",
                "steps_score": value,
                "answer_f1": 0.5,
            }
            for i, value in enumerate(values)
        ]

    comparison = compare(results(scores), results(changed_scores))
    assert headline(comparison).startswith("Worse: steps_score 0.7 -> 0.59, -0.11.")
    told = "5 questions better, 16 worse, 79 equal, p = 0.027"
    assert regressions(comparison) == [f"steps_score is worse: 0.7 -> 0.59, -0.11; {told}"]


def test_a_regression_of_one_template_is_told_once() -> None:
    [reason] = regressions(compare(BASELINE, LINES_FELL))
    assert reason.startswith("steps_score is worse: 0.7 -> 0.5, -0.2; ")
    assert reason.endswith(", all in lines")


def test_a_fallen_template_is_a_regression_even_if_the_mean_is_the_same() -> None:
    [reason] = regressions(compare(BASELINE, LINES_FELL_OTHERS_ROSE))
    assert reason.startswith("lines:steps_score is worse: 0.9 -> 0.3, -0.6; 0 questions better")


def test_a_question_that_got_worse_is_listed_once() -> None:
    before = [result | {"answer_f1": 0.9, "answer_precision": 0.8} for result in BASELINE]
    after = [
        result | {"answer_f1": 0.9 * result["steps_score"], "answer_precision": 0.7}
        for result in LINES_FELL
    ]
    losses = greatest_losses(compare(before, after), 100)
    questions = [row["question_id"] for _, row in losses]
    assert len(questions) == len(set(questions)) == 60
    metric, row = losses[0]
    assert (metric, row["difference"]) == ("steps_score", -1)
    assert row["further_metrics"] == ["answer_f1", "answer_precision"]
    assert len(greatest_losses(compare(before, after), 7)) == 7
