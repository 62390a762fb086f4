"""Streams without a reference set."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, evaluate_stream
from tests.judge.support import ScriptedJudge

QUESTION = "How many lines are there?"
STEP = {
    "name": "retrieval",
    "id": "a",
    "status": "success",
    "output": [{"id": 1, "text": "two lines"}],
}
CLAIMS = {"claims": [{"claim": "Two.", "reason": "so", "supported": True}]}


async def results_of(*responses: dict[str, Any], **options: Any) -> Any:
    stream = evaluate_stream(None, responses, **options)
    return [result async for result in stream], stream


async def test_a_response_names_its_own_question() -> None:
    (first, second), stream = await results_of(
        {"question": QUESTION, "actual_answer": "Two.", "total_tokens": 5, "extra": 1},
        {"question_text": "Why?", "template_id": "other", "question_id": "q", "status": "error"},
    )
    assert first == {
        "template_id": "all",
        "question_id": sha256(QUESTION.encode()).hexdigest(),
        "question_text": QUESTION,
        "status": "success",
        "actual_answer": "Two.",
        "steps_score": None,
        "failure": None,
        "total_tokens": 5,
        "sample": 1,
        "metadata": {"extra": 1},
    }
    assert [second[key] for key in ("template_id", "question_id", "status")] == [
        "other",
        "q",
        "error",
    ]
    assert stream.missing == []
    assert stream.aggregates.snapshot()["micro"]["total_tokens"]["mean"] == 5


async def test_a_response_without_a_usable_question_is_rejected() -> None:
    question = {"question": "?"}
    unusable: list[dict[str, Any]] = [{}, {"question_id": "q"}, {"question": " "}, {"question": 5}]
    unusable += [
        question | {"template": 1},
        question | {"question_id": ["q"]},
        question | {"template": ""},
    ]
    with pytest.warns(UserWarning, match="7 responses were rejected: invalid_field"):
        found, stream = await results_of(*unusable)
    assert found == []
    for reject in stream.rejects:
        assert str(reject).partition("invalid_field: ")[2].startswith(("question", "template"))


async def test_metrics_that_need_no_reference_are_judged() -> None:
    judge = ScriptedJudge(lambda _: CLAIMS)
    custom = {
        "inputs": ["reference_answer"],
        "instructions": "Compare.",
        "outputs": {"same": "1 if so"},
    }
    config: dict[str, Any] = {
        "faithfulness": {},
        "answer_correctness": {},
        "retrieval_context": {"mode": "joint"},
        "custom_evaluations": [custom | {"name": "own"}],
        "steps": {"check_queries": True},
    }
    response = {"question": QUESTION, "actual_answer": "Two.", "actual_steps": [STEP]}
    idle = "answer_correctness, retrieval_context, own, steps.check_queries"
    with pytest.warns(
        GraphragEvalWarning, match=f"without a reference set, these do nothing: {idle}$"
    ):
        (result,), stream = await results_of(response, config=config, judge=judge)
    assert result["faithfulness"] == 1
    assert (result["steps_score"], result["failure"]) == (None, None)
    assert stream.usage.outcomes == {"ok": 1, "skipped": 2}
    assert stream.aggregates.snapshot()["micro"]["faithfulness"]["mean"] == 1
