"""The worst answers at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async.reports.worst_answers import WorstAnswers


def answer(question: str, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A result."""
    base = {"template_id": "t", "question_id": question, "sample": 1, "status": "success"}
    return {**base, "steps_score": score, **more}


def error(question: str, text: str = "TimeoutError: 60 s") -> dict[str, Any]:
    """A result that is an error of the agent."""
    return answer(question, None) | {"status": "error", "error": text, "failure": "agent_error"}


def shown(*results: dict[str, Any], width: int = 200) -> list[str]:
    worst = WorstAnswers()
    for result in results:
        worst.add(result)
    return worst.lines(width)


def questions(lines: list[str]) -> list[str]:
    return [line.removeprefix("- ").partition(":")[0] for line in lines if line.startswith("- ")]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param([], [], id="no results"),
        pytest.param([answer("a"), answer("b")], [], id="all right"),
        pytest.param([answer("a", None)], [], id="no score"),
        pytest.param([answer("a", 0.0, pending=["answer_f1"])], [], id="pending"),
        pytest.param([answer("a", 0.5), answer("b", 0.2)], ["b", "a"], id="lowest first"),
        pytest.param(
            [answer("a", 1.0, answer_match=0.0), answer("b", 0.8)], ["a", "b"], id="mean of scores"
        ),
        pytest.param(
            [answer(f"q{i}", i / 10) for i in range(10)], ["q0", "q1", "q2"], id="three of ten"
        ),
        pytest.param(
            [answer(f"q{i}", 0.0) for i in range(10)], ["q0", "q1", "q2"], id="first of equals"
        ),
        pytest.param([answer("a", 0.1), error("b")], ["b", "a"], id="errors first"),
        pytest.param(
            [
                *[error(f"e{i}") for i in range(9)],
                answer("a", 0.2, failure="missing_rows"),
                answer("b", 0.1, failure="empty_result"),
            ],
            ["e0", "b", "a"],
            id="one reason does not hide others",
        ),
    ],
)
def test_which_answers_are_the_worst(results: list[dict[str, Any]], expected: list[str]) -> None:
    assert questions(shown(*results)) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(
            answer("a", 0.25, question_text="Which films?"), "- a: Which films?", id="question"
        ),
        pytest.param(answer("a", 0.25), "  steps_score 0.25", id="score"),
        pytest.param(
            answer("a", 0.0, failure="missing_rows", failure_detail="2 of 3\nx"),
            "  steps_score 0; missing_rows: 2 of 3",
            id="reason with detail",
        ),
        pytest.param(
            answer("a", 0.0, failure="missing_rows"),
            "  steps_score 0; missing_rows: mostly missing rows",
            id="reason in words",
        ),
        pytest.param(error("a"), "  agent_error", id="error"),
        pytest.param(
            error("a") | {"reference_answer": "Mon Oncle"},
            "  expected Mon Oncle; got an error: TimeoutError: 60 s",
            id="error instead of an answer",
        ),
        pytest.param(
            answer(
                "a",
                0.0,
                failure="wrong_answer",
                reference_answer="Grace Hopper",
                actual_answer="Donald Knuth",
            ),
            "  expected Grace Hopper; got Donald Knuth",
            id="answer",
        ),
    ],
)
def test_an_answer_has_its_question_and_reason(result: dict[str, Any], expected: str) -> None:
    assert expected in shown(result)


def test_foreign_text_is_escaped_and_folded() -> None:
    evil = "\x1b[2J" * 100 + " word" * 200
    result = answer(evil, 0.0, failure=evil, failure_detail=evil, question_text=evil)
    lines = shown(result, error(evil, evil), width=60)
    assert all(line.isprintable() and len(line) <= 60 for line in lines)
    assert len(lines) < 50
