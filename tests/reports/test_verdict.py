"""What a report says first, and what moved from the baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphrag_eval_async.reports.markdown import render_markdown
from graphrag_eval_async.reports.movement import changed_questions, moved_templates
from graphrag_eval_async.reports.summary import CheckedGate
from graphrag_eval_async.reports.verdict import verdict_on, warnings_of
from tests.support.summaries import failed, result, summary_of

RIGHT = [result(f"q{i}") for i in range(20)]
WRONG = [result(f"q{i}", 0.0) for i in range(20)]
HELD = CheckedGate("g", True, "g held")
FAILED = CheckedGate("h", False, "h failed")


@pytest.mark.parametrize(
    ("results", "baseline", "gates", "tone", "title"),
    [
        pytest.param(RIGHT, None, [], "neutral", "20 of 20 questions passed", id="all passed"),
        pytest.param(
            [*RIGHT[:2], failed("q2"), result("q3", None)],
            None,
            [],
            "neutral",
            "2 of 4 questions passed, 1 did not, 1 not decided",
            id="outcomes",
        ),
        pytest.param(
            [RIGHT[0], failed("q1"), result("q2", None, execution_error="not_run: no such port")],
            None,
            [],
            "neutral",
            "1 of 3 questions passed, 1 did not, 1 not decided",
            id="a query that could not be run",
        ),
        pytest.param([], None, [], "neutral", "No question has a result", id="no results"),
        pytest.param([result("q", None)], None, [], "neutral", "Nothing is scored", id="no scores"),
        pytest.param(RIGHT, None, [HELD], "good", "1 gate held", id="gates held"),
        pytest.param(RIGHT, None, [HELD, FAILED], "bad", "1 of 2 gates failed", id="a gate failed"),
        pytest.param(WRONG, RIGHT, [], "bad", "Worse than the baseline", id="worse"),
        pytest.param(RIGHT, WRONG, [], "good", "Better than the baseline", id="better"),
        pytest.param(
            WRONG, RIGHT, [HELD], "bad", "1 gate held; worse than the baseline", id="held but worse"
        ),
        pytest.param(
            RIGHT, RIGHT, [], "neutral", "No difference from the baseline", id="no difference"
        ),
        pytest.param(
            [each | {"elapsed_sec": 2.0} for each in RIGHT],
            [each | {"elapsed_sec": 1.0} for each in RIGHT],
            [],
            "neutral",
            "No difference from the baseline",
            id="other seconds",
        ),
        pytest.param(
            RIGHT[1:],
            RIGHT,
            [],
            "neutral",
            "No difference from the baseline; 1 question of the baseline missing",
            id="a question is missing",
        ),
        pytest.param(
            [*WRONG[:1], *RIGHT[1:]],
            RIGHT,
            [],
            "neutral",
            "No clear change from the baseline",
            id="undecided",
        ),
    ],
)
def test_titles(
    results: list[Any],
    baseline: list[Any] | None,
    gates: list[CheckedGate],
    tone: str,
    title: str,
) -> None:
    verdict = verdict_on(summary_of(results, baseline, gates=gates))
    assert (verdict.tone, verdict.title) == (tone, title)


def test_scores_say_what_they_are_over_and_how_they_changed() -> None:
    results = [result("a", 0.5), result("b", 1.0), failed("c")]
    score = verdict_on(summary_of(results)).scores[0]
    over = "over 2 of 3 questions, without errors"
    assert (score.mean, score.over, score.change) == ("0.750", over, "")
    score = verdict_on(summary_of(results, [result("a"), result("b")])).scores[0]
    assert score.change == "-0.25 from 1.000"
    # The mean is over all questions, the change over those that both runs have.
    score = verdict_on(summary_of(results, [result("a")])).scores[0]
    assert score.change == "-0.5 from 1.000 over 1 shared question"


def test_questions_that_could_not_be_scored_are_not_among_the_worst() -> None:
    lacking = result("q2", None, execution_error="not_run: no such port")
    summary = summary_of([RIGHT[0], result("q1", 0.0), lacking])
    assert [question.question_id for question in summary.worst] == ["q1"]
    assert "1 of 1 that did not pass" in render_markdown(summary)


def test_a_report_has_one_number_of_questions() -> None:
    lacking = result("q2", None, execution_error="not_run: no such port")
    summary = replace(summary_of([*RIGHT[:2], lacking]), asked=5)
    in_markdown = render_markdown(summary)
    assert in_markdown.count("over 2 of 5 questions") == 2
    assert "of 3 questions" not in in_markdown.replace("3 questions passed", "")


def test_counts_are_said_once() -> None:
    results = [result("a"), failed("b"), failed("c")]
    sentences = verdict_on(summary_of(results, gates=[HELD], rejected={"too_long": 2})).sentences
    assert sentences == [
        "1 of 3 questions passed, 2 did not.",
        "3 results, 2 of them errors of the agent.",
        "2 rejected lines.",
    ]


def test_the_lowest_template_is_named() -> None:
    results = [result("a"), result("b", 0.25, template_id="low"), result("c", template_id="high")]
    assert (
        "Lowest template: low with steps_score 0.250." in verdict_on(summary_of(results)).sentences
    )
    assert not any("Lowest" in text for text in verdict_on(summary_of(RIGHT)).sentences)


def test_the_first_error_of_each_metric_is_a_warning() -> None:
    results = [result(name, answer_eval_error=f"timeout: {name}") for name in ("a", "b")]
    assert [*warnings_of(summary_of(results))] == ["the first answer_eval_error: a: timeout: a"]


def test_templates_come_most_fallen_first_and_the_error_rate_only_if_it_moved() -> None:
    def run(**scores: float) -> list[dict[str, Any]]:
        return [result(name, score, template_id=name) for name, score in scores.items()]

    comparison = summary_of(
        run(up=1.0, same=1.0, down=0.5, far=0.0), run(up=0.5, same=1.0, down=1.0, far=1.0)
    ).comparison
    assert comparison is not None
    table = moved_templates(comparison)
    assert [[row[0], row[1], row[3], row[4]] for row in table.rows] == [
        ["far", "steps_score", "1.000", "0.000"],
        ["down", "steps_score", "1.000", "0.500"],
        ["same", "steps_score", "1.000", "1.000"],
        ["up", "steps_score", "0.500", "1.000"],
        ["all questions", "steps_score", "0.875", "0.625"],
    ]
    assert table.totals == 1
    assert changed_questions(comparison) == {
        "far": "steps_score 1 -> 0",
        "down": "steps_score 1 -> 0.5",
        "up": "now right",
    }


def test_errors_stand_beside_the_scores_that_leave_them_out() -> None:
    results = [*RIGHT[:15], *(failed(f"q{i}") for i in range(15, 20))]
    score, error_rate = verdict_on(summary_of(results, RIGHT)).scores
    assert score.over.endswith("without errors")
    assert error_rate.in_words == "error_rate 0.250 in 5 of 20 results; +0.25 from 0.000."
    assert error_rate.tone == "bad"


def test_a_run_without_errors_has_no_error_rate_beside_its_scores() -> None:
    [score] = verdict_on(summary_of(RIGHT)).scores
    assert "errors" not in score.over
