from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphrag_eval_async.config import RetrievalAnswerConfig, RetrievalContextConfig
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.retrieval import add_f1, retrieval_answer, retrieval_context
from tests.conftest import settle
from tests.metrics.ragas_support import (
    ContextPrecision,
    ContextRecall,
    Script,
    ScriptedLLM,
    ScriptedMetricJudge,
    WaitingMetricJudge,
    fixed,
    outcome,
)
from tests.metrics.support import ScriptedMetricJudge as OneReply
from tests.metrics.support import evaluate, read_blocks

pytestmark = pytest.mark.ragas

ANSWER = retrieval_answer(RetrievalAnswerConfig())
CONTEXT = retrieval_context(RetrievalContextConfig())


def step(*texts: str | None, name: str = "retrieval", status: str = "success", **more: Any) -> dict[str, Any]:
    documents = [{"id": index, "text": text} for index, text in enumerate(texts)]
    return {"name": name, "status": status, "output": json.dumps(documents), **more}


def case(*steps: dict[str, Any], **more: Any) -> Case:
    return Case("Why?", **{"reference_answer": "Because.", "actual_steps": steps, **more})


def judge(verdicts: dict[str, int], attributed: list[int]) -> Script:
    """One that finds texts useful, and the statements of the reference attributable, as told."""

    def reply(title: str, data: dict[str, Any], _repeat: int) -> Any:
        if title == "ContextPrecisionOutput":
            return {"reason": "So.", "verdict": verdicts[data["context"]]}
        rows = [
            {"statement": f"S{i}.", "reason": f"R{i}.", "attributed": flag}
            for i, flag in enumerate(attributed)
        ]
        return {"classifications": rows}

    return Script(reply)


flags = st.integers(0, 1)
corpus = st.fixed_dictionaries(dict.fromkeys("abcdef", flags))


@given(corpus, st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8), st.lists(flags, max_size=6))
def test_agrees_with_ragas(verdicts: dict[str, int], texts: list[str], attributed: list[int]) -> None:
    script = judge(verdicts, attributed)
    llm = ScriptedLLM(script)
    inputs: dict[str, Any] = {"user_input": "Why?", "retrieved_contexts": texts, "reference": "Because."}
    recall = asyncio.run(ContextRecall(llm=llm).ascore(**inputs)).value
    precision = asyncio.run(ContextPrecision(llm=llm).ascore(**inputs)).value
    keys = asyncio.run(outcome(ANSWER, case(step(*texts)), script))
    assert keys["retrieval_answer_precision"] == pytest.approx(precision, abs=1e-9)
    if attributed:
        assert keys["retrieval_answer_recall"] == pytest.approx(recall, abs=1e-9)
    else:
        assert math.isnan(recall)
        assert keys["retrieval_answer_recall_error"].startswith("invalid_reply: ")
    context = case(step(*texts), matches={0: step("Because.")}, reference_answer=None)
    other = asyncio.run(outcome(CONTEXT, context, script))
    assert other == {
        key.replace("answer", "context"): value for key, value in keys.items() if not key.endswith("_reason")
    }


@given(st.lists(flags, min_size=1, max_size=30))
def test_precision_of_perfect_and_of_useless_texts(verdicts: list[int]) -> None:
    texts = [f"text {index}" for index in range(len(verdicts))]
    script = judge(dict(zip(texts, verdicts, strict=True)), [1])
    keys = asyncio.run(outcome(ANSWER, case(step(*texts)), script))
    precision = keys["retrieval_answer_precision"]
    assert (precision == 1.0) == (verdicts == sorted(verdicts, reverse=True) and any(verdicts))
    assert (precision == 0.0) == (not any(verdicts))
    assert 0 <= precision <= 1


async def test_what_the_judge_is_asked() -> None:
    asking = ScriptedMetricJudge(judge({"one": 1, "two": 0}, [1, 0]))
    matched = case(step("one", " ", None, "two"), matches={0: step("gold", "\n", "silver")})
    keys = await outcome(CONTEXT, matched, asking)
    reference = "gold\nsilver"
    assert asking.asked == [
        ("ContextRecallOutput", {"question": "Why?", "context": "one\ntwo", "answer": reference}, 0),
        ("ContextPrecisionOutput", {"question": "Why?", "context": "one", "answer": reference}, 0),
        ("ContextPrecisionOutput", {"question": "Why?", "context": "two", "answer": reference}, 0),
    ]
    assert keys == {"retrieval_context_recall": 0.5, "retrieval_context_precision": 1.0}  # At rank 1.


async def test_the_reasons_say_of_which_statement_they_are() -> None:
    keys = await outcome(ANSWER, case(step("a")), judge({"a": 0}, [1, 0]))
    assert keys == {
        "retrieval_answer_recall": 0.5,
        "retrieval_answer_recall_reason": "+ S0. (R0.)\n- S1. (R1.)",
        "retrieval_answer_precision": 0.0,
    }


def test_evaluations_of_each_retrieval_step_that_succeeded() -> None:
    steps = [
        step("a", name="sparql_query"),
        step("a"),
        step("a", status="error"),
        {"name": "retrieval", "error": "no"},
        step("b"),
    ]
    found = ANSWER.tasks(case(*steps))
    assert [(each.metric, each.step, each.error_key, each.cost_key, each.nulls) for each in found] == [
        ("retrieval_answer", index, f"retrieval_answer_{key}_error", f"retrieval_answer_{key}_cost", ())
        for index in (1, 4)
        for key in ("recall", "precision")
    ]
    assert all(each.call for each in found)
    matched = CONTEXT.tasks(case(*steps, matches={0: step("x"), 4: step("y")}))
    assert [(each.step, each.error_key) for each in matched] == [
        (4, "retrieval_context_recall_error"),
        (4, "retrieval_context_precision_error"),
    ]
    assert not CONTEXT.tasks(case(*steps))
    assert not ANSWER.tasks(Case("Why?", reference_answer="Because."))


@pytest.mark.parametrize(
    "output", ["x", None, '[{"id": 1}]', '["a"]', '[{"text": 1}]', '[{"id": 1}, {"id": 2}]']
)
def test_skipped_where_texts_are_not_known(output: Any) -> None:
    unknown = step("a", output=output)
    for found in [
        ANSWER.tasks(case(unknown)),
        CONTEXT.tasks(case(unknown, matches={0: step("a")})),
        CONTEXT.tasks(case(step("a"), matches={0: unknown})),
        CONTEXT.tasks(case(step("a"), matches={0: step()})),
    ]:
        assert [each.call for each in found] == [None, None]


@pytest.mark.parametrize("output", ["[]", '[{"text": ""}]', '[{"id": 1}, {"text": null}, {"text": " "}]'])
async def test_nothing_retrieved_scores_0_without_a_call(output: Any) -> None:
    empty = step(output=output)
    scores = {"retrieval_answer_recall": 0.0, "retrieval_answer_precision": 0.0}
    reason = {"retrieval_answer_recall_reason": "no text was retrieved"}
    asking = Script(lambda *_: None)  # No reply fits.
    for metric in (ANSWER, joint()):
        keys = await outcome(metric, case(empty), asking)
        assert keys == scores | reason
    keys = await outcome(CONTEXT, case(empty, matches={0: step("a")}), asking)
    assert keys == {"retrieval_context_recall": 0.0, "retrieval_context_precision": 0.0}


@pytest.mark.parametrize("reference", [None, "", " \n"])
def test_skipped_without_a_reference_answer(reference: str | None) -> None:
    found = ANSWER.tasks(case(step("a"), reference_answer=reference))
    assert [each.call for each in found] == [None, None]


@pytest.mark.parametrize("verdict", [2, -1, 0.5, None, "yes", math.inf])
async def test_a_verdict_that_is_not_binary_is_an_invalid_reply(verdict: Any) -> None:
    row = {"statement": "S.", "reason": "R.", "attributed": verdict}
    good = row | {"attributed": 1}
    script = fixed(
        ContextPrecisionOutput={"reason": "So.", "verdict": verdict},
        ContextRecallOutput={"classifications": [good, row]},
    )
    keys = await outcome(ANSWER, case(step("a")), script)
    assert keys.keys() == {"retrieval_answer_recall_error", "retrieval_answer_precision_error"}
    for key, message in keys.items():
        assert message.startswith("invalid_reply: ")
        assert ("verdict: " if "precision" in key else "attributed: ") in message


async def test_all_texts_are_judged_at_the_same_time() -> None:
    texts = [f"text {index}" for index in range(9)]
    asking = WaitingMetricJudge(judge(dict.fromkeys(texts, 1), [1]))
    _, precision = ANSWER.tasks(case(step(*texts)))
    assert precision.call
    task = asyncio.ensure_future(precision.call(asking))
    await settle()
    assert asking.waiting == ["ContextPrecisionOutput"] * 9
    asking.open.set()
    assert await task == {"retrieval_answer_precision": 1.0}


@pytest.mark.parametrize(
    ("keys", "added"),
    [
        (
            {"m_recall": 0.5, "m_recall_cost": 0.5, "m_precision": 1.0, "m_precision_cost": 0.25},
            {"m_f1": 2 / 3, "m_f1_cost": 0.75},
        ),
        ({"m_recall": 0.0, "m_precision": 0.0}, {"m_f1": 0.0}),
        (
            {"m_recall": 0.5, "m_recall_cost": 0.0, "m_precision_error": "x", "m_precision_cost": 0.0},
            {"m_f1_cost": 0.0},
        ),
        ({"m_recall_cost": 1.0}, {}),
        ({}, {}),
    ],
)
def test_f1_and_its_cost(keys: dict[str, Any], added: dict[str, Any]) -> None:
    after = dict(keys)
    add_f1(after, "m")
    assert [*after.items()] == [*keys.items(), *added.items()]


def test_what_they_say_of_themselves() -> None:
    for metric in (ANSWER, CONTEXT):
        assert metric.prompts == ["ragas 0.4.3 ContextRecallPrompt, ContextPrecisionPrompt"]
    assert [ANSWER.name, CONTEXT.name] == ["retrieval_answer", "retrieval_context"]


# All documents in one call


def joint(seed: int = 0) -> Any:
    return retrieval_answer(RetrievalAnswerConfig(mode="joint", seed=seed))


def verdict(useful: set[int], statements: list[list[int]], count: int) -> dict[str, Any]:
    return {
        "documents": [{"id": i, "reason": "So.", "useful": i in useful} for i in range(1, count + 1)],
        "statements": [{"statement": f"S{i}.", "documents": ids} for i, ids in enumerate(statements)],
    }


def shown_to(asking: OneReply) -> list[dict[str, Any]]:
    blocks = read_blocks(asking.messages[0][1]["content"])
    documents: list[dict[str, Any]] = json.loads(blocks["documents"])
    return documents


@given(corpus, st.lists(st.sampled_from(["a", "b", "c", "d", " ", None]), min_size=1, max_size=8))
def test_joint_scores_are_those_of_the_ranks(verdicts: dict[str, int], texts: list[str | None]) -> None:
    known = [text for text in texts if text and text.strip()]
    assume(known)

    class Asking(OneReply):
        async def ask(self, prompt: Any, form: Any, *, repeat: int = 0) -> Any:
            assert repeat == 0
            self.messages.append(prompt())
            useful = {each["id"] for each in shown_to(self) if verdicts[each["text"]]}
            return form.read(verdict(useful, [[], [1]], len(known)))

    keys = asyncio.run(evaluate(joint(), Asking(), case(step(*texts))))
    flags = [bool(text and text.strip() and verdicts[text]) for text in texts]
    hits = [sum(flags[: rank + 1]) / (rank + 1) for rank, flag in enumerate(flags) if flag]
    assert keys["retrieval_answer_precision"] == pytest.approx(sum(hits) / len(hits) if hits else 0.0)
    assert keys["retrieval_answer_recall"] == 0.5
    assert keys["retrieval_answer_recall_reason"] == "- S0.\n+ S1."


async def test_documents_are_shown_in_an_order_that_depends_on_the_seed() -> None:
    orders = set()
    for seed in (0, 0, 1, 2, 3):
        asking = OneReply(verdict(set(), [[]], 5))
        await evaluate(joint(seed), asking, case(step(*"abcde")))
        assert [each["id"] for each in shown_to(asking)] == [1, 2, 3, 4, 5]
        orders.add("".join(each["text"] for each in shown_to(asking)))
    assert 1 < len(orders) < 5


@pytest.mark.parametrize(
    "reply",
    [
        verdict(set(), [[]], 1),
        verdict(set(), [[]], 3),
        verdict(set(), [[0]], 2),
        verdict(set(), [[3]], 2),
        {"documents": verdict(set(), [], 2)["documents"] * 2, "statements": []},
    ],
)
async def test_a_joint_reply_about_other_documents_is_asked_for_once_more(reply: Any) -> None:
    asking = OneReply(reply, verdict({1, 2}, [[1]], 2))
    keys = await evaluate(joint(), asking, case(step("a", "b")))
    assert keys["retrieval_answer_recall"] == 1
    assert len(asking.corrections) == 1


def test_a_joint_call_is_one_task_with_one_error() -> None:
    (task,) = joint().tasks(case(step("a", "b")))
    assert (task.error_key, task.cost_key) == ("retrieval_answer_error", "retrieval_answer_cost")
