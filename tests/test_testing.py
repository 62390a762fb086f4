from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async import UsageError, load_reference, run_evaluation_sync
from graphrag_eval_async.testing import assert_evaluation

ROOT = Path(__file__).parents[1]
RIGHT, PARTLY, *_, FAILED, SETTINGS = RESULTS = run_evaluation_sync(
    ROOT / "examples" / "reference.yaml", ROOT / "examples" / "responses.jsonl"
)
JUDGED = RIGHT | {
    "answer_f1": 0.4,
    "brevity": None,
    "judge": {"outputs": ["brevity", "tone"]},
    "faithfulness_error": "budget: used up",
}
SKIPPED, *_ = run_evaluation_sync(
    [{"template_id": "t", "questions": [{"id": "q", "question_text": "?"}]}],
    [{"question_id": "q", "actual_answer": "x"}],
    metrics={"brevity": lambda *_: None},
)


def told(result: Any, **expected: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_evaluation(result, **expected)
    return str(caught.value)


def test_the_page_shows_the_message() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    [shown] = re.findall(r"```text\nAssertionError: (.*?)\n```", page, re.DOTALL)
    script, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "run_agent"}
    exec(script.replace(r"urn:film:mon-oncle\n", ""), names)  # noqa: S102
    films = load_reference(ROOT / "graphrag_eval_async/cli/films/reference.yaml")
    [question] = [each for each in films if each.id == "films-of-tati"]
    response = asyncio.run(names["agent"](question))
    [result] = run_evaluation_sync(films, {question.id: response}, missing="skip")
    begin, end = shown.split("...\n")
    message = told(result, steps_score=">= 0.8", failure="none")
    assert message.startswith(begin)
    assert message.endswith(end)


def test_conditions_that_hold() -> None:
    for value in (">= 0.25", "<0.3", 0.25, pytest.approx(0.2501, abs=0.01), lambda x: x < 0.5):
        assert_evaluation(
            PARTLY, steps_score=value, failure="missed_retrieval", answer_f1=None, error=None
        )
    assert_evaluation(SKIPPED, brevity=None)
    assert_evaluation(JUDGED | {"tone": True}, tone=True, brevity=None, sample=1, answer_f1="< 0.5")


@pytest.mark.parametrize(
    ("result", "expected", "message"),
    [
        pytest.param(PARTLY, {"steps_score": "> 0.25"}, "0.25, expected > 0.25", id="too low"),
        pytest.param(
            PARTLY, {"steps_score": "=> 1"}, "0.25, expected '=> 1'", id="misspelt operator"
        ),
        pytest.param(
            PARTLY,
            {"steps_score": (0.5).__lt__},
            "0.25, for which __lt__ is not true",
            id="function",
        ),
        pytest.param(RIGHT, {"failure": ">= 1"}, "'none', expected >= 1", id="text"),
        pytest.param(
            RIGHT,
            {"answer_f1": bool},
            "has no value (not configured, or nothing to compare or judge), for",
            id="no value of a function",
        ),
        pytest.param(
            JUDGED,
            {"faithfulness": 1},
            "has no value (budget: used up), expected 1",
            id="budget spent",
        ),
        pytest.param(
            SKIPPED, {"brevity": ">= 0.5"}, "has no value (skipped), expected >= 0.5", id="skipped"
        ),
        pytest.param(
            SKIPPED, {"brevity_words": 1}, "has no value (skipped), expected 1", id="skipped part"
        ),
        pytest.param(
            FAILED,
            {"brevity": 1},
            "has no value (TimeoutError: the agent gave no answer within 60 s)",
            id="failed agent",
        ),
        pytest.param(
            FAILED,
            {"steps_score": 1},
            "has no value (TimeoutError: the agent gave no answer within 60 s)",
            id="steps of a failed agent",
        ),
    ],
)
def test_conditions_that_do_not_hold(result: Any, expected: dict[str, Any], message: str) -> None:
    [key] = expected
    assert f"\n  {key}: {message}" in told(result, **expected)


def test_the_step_that_differs() -> None:
    message = told(PARTLY, steps_score=1)
    assert "reference step retrieval: 1 of 2 documents found (the first of 2 steps" in message
    assert "    missing http://example.org/doc/2: Transformer Bergheim T2" in message
    assert "reference step operator_lookup: different\n  expected:\n    Nordnett\n" in told(
        SETTINGS, steps_score=1
    )
    assert "actual_answer: '\\x1b[2J'" in told(RIGHT | {"actual_answer": "\x1b[2J"}, steps_score=0)
    assert "reference step" not in told(FAILED, steps_score=1) + told(RIGHT, steps_score=0)


def test_an_agent_error() -> None:
    lines = told(FAILED, failure="none").splitlines()
    assert lines[1].startswith("  failure: 'agent_error', expected 'none'")
    assert lines[2].startswith("failure: agent_error: the agent failed")
    assert lines[3:4] == ["error: TimeoutError: the agent gave no answer within 60 s"]


def test_order_and_answers_without_a_judge() -> None:
    steps = [{"name": name, "output": name, "status": "success"} for name in "ab"]
    expected = [{"name": name, "output": name} for name in "ab"]
    question: dict[str, Any] = {
        "id": "q",
        "question_text": "?",
        "reference_answer": "5",
        "match": "number",
    }
    question["reference_steps"] = [{"order": "strict", "steps": expected}]
    given = [("6", steps), ("6", steps[::-1]), ("5", steps[::-1])]
    responses = [
        {"question_id": "q", "actual_answer": one, "actual_steps": each} for one, each in given
    ]
    right, wrong, lucky = run_evaluation_sync(
        [{"template_id": "t", "questions": [question]}], responses
    )
    assert lucky["failure"] == "wrong_steps_right_answer"
    assert "out of order" in lucky["failure_detail"]
    assert "reference step b: in another order\n" in told(lucky, failure="none")
    assert "reference step b: in another order\n" in told(wrong, failure="none")
    message = told(right, failure="none")
    assert "failure: right_steps_wrong_answer: right steps, but a wrong answer\n" in message
    assert "answer_match_reason: number: has 6" in message


def test_shortened_and_with_differences() -> None:
    def table(count: int) -> str:
        return "x\n" + "".join(f"{i} {'long ' * 100}\n" for i in range(count))

    step = {"name": "sparql_query", "output": table(30), "output_media_type": "text/csv"}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    response = {
        "question_id": "q",
        "actual_steps": [{**step, "status": "success", "output": table(29)}],
    }
    [result] = run_evaluation_sync([{"template_id": "t", "questions": [question]}], [response])
    message = told(result, failure="none")
    assert "\n  differences:\n    missing row: x = 29 long" in message
    assert "\n    ... 21 more lines\n" in message
    assert max(map(len, message.split("\n"))) < 200


@pytest.mark.parametrize(
    ("result", "expected", "message"),
    [
        pytest.param(
            RIGHT,
            {"steps_scor": 1},
            "steps_scor: not a key of results; did you mean steps_score?",
            id="misspelt key",
        ),
        pytest.param(
            JUDGED,
            {"ton": 1},
            "ton: not a key of results; did you mean tone?",
            id="misspelt evaluation",
        ),
        pytest.param(
            RIGHT,
            {"steps_score": ">= 80"},
            "steps_score: is from 0 to 1, not 80; for 80%, write 0.8",
            id="percent",
        ),
        pytest.param(
            SKIPPED,
            {"brevty": 1},
            "brevty: not a key of results; did you mean brevity?",
            id="misspelt metric in code",
        ),
        pytest.param(
            {"template_id": "t"},
            {"error": None},
            "assert_evaluation: expected a result and conditions",
            id="no result",
        ),
        pytest.param(
            RIGHT, {}, "assert_evaluation: expected a result and conditions", id="no conditions"
        ),
        pytest.param(
            RESULTS,
            {"failure": "none"},
            "assert_evaluation: expected a result and conditions",
            id="list of results",
        ),
    ],
)
def test_mistakes(result: Any, expected: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        assert_evaluation(result, **expected)
