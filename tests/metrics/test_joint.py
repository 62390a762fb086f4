"""Metrics in joint mode, which need no ragas and share calls."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.catalogue.judged import RetrievalAnswerConfig, RetrievalContextConfig
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.retrieval import retrieval_answer, retrieval_context
from tests.judged.support import response, templates
from tests.metrics.support import Judge, ScriptedMetricJudge, applies, evaluate

JOINT = {"mode": "joint"}
BOTH = {"retrieval_answer": JOINT, "retrieval_context": JOINT}
RAGAS = "ragas_answer_correctness"
METRICS = (
    "answer_correctness",
    "answer_relevance",
    *BOTH,
    RAGAS,
    "faithfulness",
    "context_relevance",
)
ALL: dict[str, Any] = {name: {} if name == "answer_correctness" else JOINT for name in METRICS}

CLAIMS: dict[str, Any] = {
    "reference_claims": ["one", "two"],
    "actual_claims": ["one", "three", "four"],
    "reason": "",
    "matches": [{"reference": 0, "actual": 0}],
}
QUESTIONS = {"questions": ["what?", " ", "which?"], "noncommittal": False}
VECTORS = {"riddle 0": [1.0, 0.0], "what?": [0.6, 0.8], "which?": [-1.0, 0.0]}
ANSWERS = {"given answer 0": [3.0, 4.0], "known answer 0": [4.0, 3.0]}  # Their cosine is 0.96.


def for_both(
    answer: set[int], texts: set[int], statements: list[list[int]] | None = None
) -> dict[str, Any]:
    """A verdict on two documents: which are useful, and which support statements of the
    reference texts.
    """
    documents = [
        {"id": i, "reason": "", "useful_for_answer": i in answer, "useful_for_texts": i in texts}
        for i in (1, 2)
    ]
    parts = [[[1]], [[], [], [2]] if statements is None else statements]
    found = [[{"statement": "s", "documents": ids} for ids in part] for part in parts]
    return {"documents": documents, "answer_statements": found[0], "texts_statements": found[1]}


PRICES = [f"{kind}_usd_per_million" for kind in ("input", "output", "embedding")]


async def judged(judge: Any, metrics: dict[str, Any], **more: Any) -> tuple[dict[str, Any], Any]:
    config = {"llm": {"pricing": dict.fromkeys(PRICES, 1.0)}, **metrics}
    stream = evaluate_stream(templates(1, 2), [response(0, 2, **more)], config=config, judge=judge)
    (result,) = [result async for result in stream]
    return result, stream


async def test_all_metrics_take_five_completions_and_two_embeddings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ragas", None)  # Whether or not it is installed.
    judge = Judge(
        AnswerClaims=CLAIMS, GuessedQuestions=QUESTIONS, RetrievedForBoth=for_both({1}, {2})
    )
    judge.vectors = VECTORS | ANSWERS
    result, stream = await judged(judge, ALL)
    titles = ["FaithfulnessClaims", "GuessedQuestions", "RatedDocuments", "RetrievedForBoth"]
    assert sorted(judge.asked) == ["AnswerClaims", *titles]
    assert sorted(judge.embedded) == [[*ANSWERS], [*VECTORS]]
    assert stream.usage.outcomes == {"ok": 7, "skipped": 0}
    assert (stream.usage.calls, stream.usage.shared_calls) == (7, 2)
    assert result["answer_f1"] == pytest.approx(0.4)
    assert [result[f"{RAGAS}_{name}"] for name in ("tp", "fp", "fn")] == [1, 2, 1]
    assert result[RAGAS] == pytest.approx(0.75 * 0.4 + 0.25 * 0.96)
    assert result["answer_relevance"] == pytest.approx((0.6 - 1) / 2)
    step = result["actual_steps"][0]
    assert (step["retrieval_answer_recall"], step["retrieval_context_recall"]) == (
        1,
        pytest.approx(1 / 3),
    )
    for name in BOTH:
        recall, precision = step[f"{name}_recall"], step[f"{name}_precision"]
        assert precision in {0.5, 1}  # Of two documents, each is useful for one.
        assert step[f"{name}_f1"] == pytest.approx(2 * recall * precision / (recall + precision))
    assert step["retrieval_context_cost"] == 0
    spent = sum(
        each for part in (result, step) for key, each in part.items() if key.endswith("_cost")
    )
    assert spent == pytest.approx(stream.usage.dollars)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(for_both({1}, {2}, [[3]]), id="unknown document"),
        pytest.param(for_both({1}, {2}) | {"documents": []}, id="no documents"),
    ],
)
async def test_a_reply_with_a_problem_in_either_part_is_asked_for_once_more(reply: Any) -> None:
    judge = Judge(RetrievedForBoth=[reply, for_both({1}, {2}, [])])
    result, _ = await judged(judge, BOTH)
    assert len(judge.asked) == 2
    step = result["actual_steps"][0]
    assert step["retrieval_answer_recall"] == 1
    assert (
        step["retrieval_context_error"]
        == "invalid_reply: the judge found no statement in the reference"
    )
    result, _ = await judged(Judge(RetrievedForBoth=[reply]), BOTH)
    errors = {result["actual_steps"][0][f"{name}_error"] for name in BOTH}
    assert [error.partition(": ")[0] for error in errors] == ["invalid_reply"]


async def test_a_failure_is_shared_too() -> None:
    judge = Judge(replies=JudgeError("refused", "no"))
    result, stream = await judged(judge, {"answer_correctness": {}, RAGAS: JOINT})
    assert result["answer_eval_error"] == result[f"{RAGAS}_error"] == "refused: no"
    assert (judge.asked, stream.usage.shared_calls) == (["AnswerClaims"], 1)


@pytest.mark.parametrize(
    "answer", [pytest.param("I don't know.", id="refusal"), pytest.param(" ", id="blank")]
)
async def test_a_refusal_scores_0(answer: str) -> None:
    judge = Judge(AnswerClaims=CLAIMS | {"actual_claims": [], "matches": []})
    result, _ = await judged(judge, {RAGAS: JOINT}, actual_answer=answer)
    assert [result[key] for key in (RAGAS, f"{RAGAS}_tp", f"{RAGAS}_fn")] == [0, 0, 2]
    assert (f"{RAGAS}_similarity" in result) == bool(answer.strip())


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        pytest.param(["what?"], 0.6, id="one question"),
        pytest.param([" ", "what?", "what?", "which?"], 0.6, id="repeated questions"),
        pytest.param([" "], None, id="blank question"),
    ],  # At most two count.
)
async def test_the_relevance_of_an_answer(questions: list[str], expected: float | None) -> None:
    judge = Judge(GuessedQuestions={"questions": questions, "noncommittal": False})
    judge.vectors = VECTORS
    metrics = {"answer_relevance": JOINT | {"strictness": 2}}
    result, _ = await judged(judge, metrics)
    assert result.get("answer_relevance") == (None if expected is None else pytest.approx(expected))
    assert ("answer_relevance_error" in result) == (expected is None)
    assert judge.blocks == [{"answer": "given answer 0"}]
    evasive = Judge(GuessedQuestions={"questions": questions, "noncommittal": True})
    result, _ = await judged(evasive, metrics)
    assert (result["answer_relevance"], "answer_relevance_reason" in result) == (0.0, True)


def answer_metric(seed: int = 0) -> Any:
    return retrieval_answer(RetrievalAnswerConfig(mode="joint", seed=seed))


CONTEXT = retrieval_context(RetrievalContextConfig(mode="joint"))


def step(*texts: str | None, **more: Any) -> dict[str, Any]:
    documents = [{"id": index, "text": text} for index, text in enumerate(texts)]
    return {"name": "retrieval", "status": "success", "output": json.dumps(documents), **more}


def case(*steps: dict[str, Any], **more: Any) -> Case:
    return Case("Why?", **{"reference_answer": "Because.", "actual_steps": steps, **more})


def verdict(
    useful: set[str], statements: list[list[int]], blocks: dict[str, str]
) -> dict[str, Any]:
    shown = json.loads(blocks["documents"])
    return {
        "documents": [
            {"id": each["id"], "reason": "", "useful": each["text"] in useful} for each in shown
        ],
        "statements": [
            {"statement": f"S{i}.", "documents": ids} for i, ids in enumerate(statements)
        ],
    }


texts_of_step = st.lists(st.sampled_from(["a", "b", "c", "d", " ", None]), min_size=1, max_size=8)


@given(st.sets(st.sampled_from("abcd")), texts_of_step.filter(lambda texts: {*texts} & {*"abcd"}))
async def test_joint_scores_are_those_of_the_ranks(
    useful: set[str], texts: list[str | None]
) -> None:
    asking = ScriptedMetricJudge(partial(verdict, useful, [[], [1]]))
    keys = await evaluate(answer_metric(), asking, case(step(*texts)))
    flags = [text in useful for text in texts]
    hits = [sum(flags[: rank + 1]) / (rank + 1) for rank, flag in enumerate(flags) if flag]
    assert keys["retrieval_answer_precision"] == pytest.approx(
        sum(hits) / len(hits) if hits else 0.0
    )
    assert keys["retrieval_answer_recall"] == 0.5
    assert keys["retrieval_answer_recall_reason"] == "- S0.\n+ S1."


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("[]", id="no documents"),
        pytest.param('[{"text": ""}]', id="empty text"),
        pytest.param('[{"id": 1}, {"text": null}, {"text": " "}]', id="no text"),
    ],
)
async def test_nothing_retrieved_scores_0_without_a_call(output: Any) -> None:
    keys = await evaluate(answer_metric(), ScriptedMetricJudge(), case(step(output=output)))
    assert keys == {
        "retrieval_answer_recall": 0.0,
        "retrieval_answer_precision": 0.0,
        "retrieval_answer_recall_reason": "no text was retrieved",
    }


def test_skipped_where_texts_or_the_reference_are_not_known() -> None:
    for output in ("x", '["a"]', '[{"id": 1}]'):
        unknown = step(output=output)
        assert applies(answer_metric(), case(unknown)) == [False]
        assert applies(CONTEXT, case(step("a"), matches={0: unknown})) == [False]
    others = [step("a", name="sparql_query"), step("a", status="error")]
    assert applies(answer_metric(), case(*others)) == applies(CONTEXT, case(step("a"))) == []
