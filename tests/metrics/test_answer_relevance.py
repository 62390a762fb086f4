from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config.model import AnswerRelevanceConfig
from graphrag_eval_async.metrics.answer_relevance import answer_relevance
from graphrag_eval_async.metrics.metric import Case
from tests.conftest import settle
from tests.metrics.ragas_support import (
    AnswerRelevancy,
    Script,
    ScriptedLLM,
    ScriptedMetricJudge,
    WaitingMetricJudge,
    fixed,
    outcome,
)

pytestmark = pytest.mark.ragas

CASE = Case("Where?", actual_answer="There.")


def metric(strictness: int = 3) -> Any:
    return answer_relevance(AnswerRelevanceConfig(strictness=strictness))


def generated(*replies: tuple[str, int]) -> Script:
    outputs = [{"question": question, "noncommittal": flag} for question, flag in replies]
    return fixed(AnswerRelevanceOutput=outputs)


vectors = st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=3)
QUESTIONS = ["", "a", "b", "c", "Where?"]
replies = st.tuples(st.sampled_from(QUESTIONS), st.integers(0, 1))


@given(st.lists(replies, min_size=1, max_size=5), st.fixed_dictionaries(dict.fromkeys(QUESTIONS, vectors)))
def test_agrees_with_ragas(replies: list[tuple[str, int]], table: dict[str, list[float]]) -> None:
    script = generated(*replies)._replace(vector=table.__getitem__)
    judge = ScriptedLLM(script)
    theirs = asyncio.run(
        AnswerRelevancy(llm=judge, embeddings=judge, strictness=len(replies)).ascore("Where?", "There.")
    ).value
    ours = asyncio.run(outcome(metric(len(replies)), CASE, script))
    flags = [flag for question, flag in replies if question]
    if not flags:
        assert theirs == 0
        assert ours.keys() == {"answer_relevance_error"}
        assert ours["answer_relevance_error"].startswith("invalid_reply: ")
        return
    assert ours["answer_relevance"] == pytest.approx(theirs, abs=1e-9)
    assert ("answer_relevance_reason" in ours) == all(flags)


async def test_one_embedding_call_for_all_questions() -> None:
    asking = ScriptedMetricJudge(generated(("Where is it?", 0), (" ", 1), ("Which place?", 1)))
    keys = await outcome(metric(), CASE, asking)
    assert keys.keys() == {"answer_relevance"}
    assert asking.embedded == [["Where?", "Where is it?", "Which place?"]]
    assert sorted(asking.asked, key=lambda call: call[2]) == [
        ("AnswerRelevanceOutput", {"response": "There."}, repeat) for repeat in range(3)
    ]
    assert [[message["role"] for message in messages] for messages in asking.messages] == [["user"]] * 3


async def test_a_noncommittal_answer_needs_no_embedding() -> None:
    asking = ScriptedMetricJudge(generated(("a", 1), ("", 0), ("c", 1)))
    keys = await outcome(metric(), CASE, asking)
    assert keys["answer_relevance"] == 0.0
    assert "noncommittal" in keys["answer_relevance_reason"]
    assert not asking.embedded


async def test_a_similarity_may_be_negative() -> None:
    script = generated(("a", 0))._replace(vector={"Where?": [1, 0], "a": [-1, 0]}.__getitem__)
    assert await outcome(metric(1), CASE, script) == {"answer_relevance": -1.0}


@pytest.mark.parametrize("flag", [2, -1, None, "maybe", 0.5, math.nan, 10**400])
async def test_a_flag_that_is_not_binary_is_an_invalid_reply(flag: Any) -> None:
    keys = await outcome(metric(), CASE, generated(("a", 0), ("b", flag), ("c", 0)))
    assert keys.keys() == {"answer_relevance_error"}
    assert keys["answer_relevance_error"].startswith("invalid_reply: noncommittal: ")


async def test_all_questions_are_generated_at_the_same_time() -> None:
    asking = WaitingMetricJudge(generated(*[("a", 0)] * 7))
    task = asyncio.create_task(outcome(metric(7), CASE, asking))
    await settle()
    assert asking.waiting == ["AnswerRelevanceOutput"] * 7
    asking.open.set()
    assert (await task).keys() == {"answer_relevance"}


@pytest.mark.parametrize(
    "case",
    [
        Case("Where?"),
        Case("Where?", actual_answer=""),
        Case("Where?", actual_answer=" \n"),
        Case("", actual_answer="There."),
        Case("Where?", reference_answer="There."),
    ],
)
def test_skipped_without_question_or_answer(case: Case) -> None:
    [evaluation] = metric().tasks(case)
    assert evaluation.call is None
    assert evaluation.metric == "answer_relevance"


def test_what_it_says_of_itself() -> None:
    [evaluation] = metric().tasks(CASE)
    assert evaluation[2:] == ("answer_relevance_error", "answer_relevance_cost", None, ())
    assert metric().name == "answer_relevance"
    assert metric().prompts == ["ragas 0.4.3 AnswerRelevancePrompt", "strictness 3"]


async def test_a_text_that_json_cannot_hold() -> None:
    keys = await outcome(metric(), CASE._replace(actual_answer="\ud800"), generated(*[("a", 0)] * 3))
    assert keys["answer_relevance_error"].startswith("invalid_request: ")
