"""Test an agent with pytest: one test for each question of a reference set.

pytest examples/test_agent.py
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async import Question, load_reference, run_evaluation_sync
from graphrag_eval_async.testing import assert_evaluation

REFERENCE = load_reference(Path(__file__).with_name("reference.yaml"))


async def toy_agent(question: Question) -> dict[str, Any]:
    """Stands for your agent: takes the last of the expected steps, and knows the answer."""
    steps = (question.reference_steps or [[]])[-1]
    return {
        "actual_answer": question.reference_answer,
        "actual_steps": [{**step, "status": "success"} for step in steps],
        "elapsed_sec": 0.1,
    }


@pytest.mark.parametrize("question", [*REFERENCE], ids=lambda question: question.id)
def test_agent(question: Question) -> None:
    response = asyncio.run(toy_agent(question))
    [result] = run_evaluation_sync(REFERENCE, {question.id: response}, missing="skip")
    assert_evaluation(result, steps_score=">= 0.8", failure="none", elapsed_sec="< 30")
