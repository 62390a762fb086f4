"""Metrics in joint mode, which need no ragas and share calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.config.model import RetrievalAnswerConfig, RetrievalContextConfig
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.dry import fitting
from graphrag_eval_async.metrics import ragas_bridge
from graphrag_eval_async.metrics.retrieval import can_share
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judged.support import response, templates
from tests.metrics.support import read_blocks

JOINT = {"mode": "joint"}
RAGAS = "ragas_answer_correctness"

ALL: dict[str, Any] = {
    "answer_correctness": {},
    "answer_relevance": JOINT,
    "retrieval_answer": JOINT,
    "retrieval_context": JOINT,
    "ragas_answer_correctness": JOINT,
    "faithfulness": {},
    "context_relevance": {},
}

CLAIMS: dict[str, Any] = {
    "reference_claims": ["one", "two"],
    "actual_claims": ["one", "three", "four"],
    "reason": "",
    "matches": [{"reference": 0, "actual": 0}],
}
QUESTIONS = {"questions": ["what?", " ", "which?"], "noncommittal": False}
VECTORS = {"riddle 0": [1.0, 0.0], "what?": [0.6, 0.8], "which?": [-1.0, 0.0]}
ANSWERS = {"given answer 0": [3.0, 4.0], "known answer 0": [4.0, 3.0]}  # Their cosine is 0.96.


def for_both(answer: set[int], texts: set[int], statements: list[list[int]] | None = None) -> dict[str, Any]:
    """A verdict on two documents: which are useful, and which support statements of the reference texts."""
    documents = [
        {"id": i, "reason": "", "useful_for_answer": i in answer, "useful_for_texts": i in texts}
        for i in (1, 2)
    ]
    parts = [[[1]], [[], [], [2]] if statements is None else statements]
    found = [[{"statement": "s", "documents": ids} for ids in part] for part in parts]
    return {"documents": documents, "answer_statements": found[0], "texts_statements": found[1]}


class Judge:
    """Replies by the title of the schema with each of its `replies` in turn, else with what fits."""

    model = "scripted"

    def __init__(self, **replies: list[Any]) -> None:
        self.replies = replies
        self.asked: list[str] = []
        self.blocks: list[dict[str, str]] = []
        self.embedded: list[list[str]] = []

    async def complete(self, messages: Any, schema: Any) -> tuple[Any, TokenUsage]:
        self.asked.append(schema["title"])
        self.blocks.append(read_blocks(messages[1]["content"]))
        reply = [*self.replies.get(schema["title"], [])]
        found = reply[0] if reply else fitting(schema, schema, [1, 2])
        self.replies[schema["title"]] = reply[1:] or reply
        return found, TokenUsage(100, 10)

    async def embed(self, texts: Any) -> tuple[Any, TokenUsage]:
        self.embedded.append(texts)
        return [(VECTORS | ANSWERS).get(text, [1.0, 1.0]) for text in texts], TokenUsage(10)


PRICES = [f"{kind}_usd_per_million" for kind in ("input", "output", "embedding")]


async def judged(judge: Any, metrics: dict[str, Any], **more: Any) -> tuple[dict[str, Any], Any]:
    config = {"llm": {"pricing": dict.fromkeys(PRICES, 1.0)}, **metrics}
    stream = evaluate_stream(templates(1, 2), [response(0, 2, **more)], config=config, judge=judge)
    (result,) = [result async for result in stream]
    return result, stream


async def test_all_metrics_take_five_completions_and_two_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragas_bridge, "find_spec", lambda _: None)
    judge = Judge(AnswerClaims=[CLAIMS], GuessedQuestions=[QUESTIONS], RetrievedForBoth=[for_both({1}, {2})])
    result, stream = await judged(judge, ALL)
    assert sorted(judge.asked) == [
        "AnswerClaims",
        "FaithfulnessClaims",
        "GuessedQuestions",
        "RatedDocuments",
        "RetrievedForBoth",
    ]
    assert sorted(judge.embedded) == [[*ANSWERS], [*VECTORS]]
    assert stream.usage.outcomes == {"ok": 7, "skipped": 0}
    assert (stream.usage.calls, stream.usage.shared_calls) == (7, 2)
    assert result["answer_f1"] == pytest.approx(0.4)
    assert [result[f"{RAGAS}_{name}"] for name in ("tp", "fp", "fn")] == [1, 2, 1]
    assert result[RAGAS] == pytest.approx(0.75 * 0.4 + 0.25 * 0.96)
    assert result["answer_relevance"] == pytest.approx((0.6 - 1) / 2)
    step = result["actual_steps"][0]
    assert (step["retrieval_answer_recall"], step["retrieval_context_recall"]) == (1, pytest.approx(1 / 3))
    ranks = [step[f"retrieval_{name}_precision"] for name in ("answer", "context")]
    assert sorted(ranks) == [0.5, 1]  # Of two documents, each is useful for one.
    assert step["retrieval_context_cost"] == 0
    spent = sum(each for part in (result, step) for key, each in part.items() if key.endswith("_cost"))
    spent -= sum(step.get(f"retrieval_{name}_f1_cost", 0) for name in ("answer", "context"))
    assert spent == pytest.approx(stream.usage.dollars)


@pytest.mark.parametrize(
    "context", [JOINT | {"seed": 5}, JOINT | {"judges": ["other"]}, {"mode": "ragas"}, None], ids=str
)
def test_retrieval_metrics_that_ask_otherwise_share_nothing(context: Any) -> None:
    section = None if context is None else RetrievalContextConfig(**context)
    assert can_share(RetrievalAnswerConfig(mode="joint"), RetrievalContextConfig(mode="joint"))
    assert not can_share(RetrievalAnswerConfig(mode="joint"), section)
    assert not can_share(None, section)


async def test_a_step_that_matches_no_reference_is_judged_by_the_answer_alone() -> None:
    steps = response(0, 2)["actual_steps"]
    other = steps[0] | {"id": "c", "output": '[{"id": "x", "text": "one"}, {"id": "y", "text": "two"}]'}
    judge = Judge()
    metrics = {"retrieval_answer": JOINT, "retrieval_context": JOINT}
    result, _ = await judged(judge, metrics, actual_steps=[other, *steps])
    assert sorted(judge.asked) == ["RetrievedDocuments", "RetrievedForBoth"]
    blocks = [*map(sorted, judge.blocks)]
    assert ["documents", "question", "reference"] in blocks
    assert ["documents", "question", "reference_answer", "reference_texts"] in blocks
    scored = [[key for key in step if key.endswith("_recall")] for step in result["actual_steps"]]
    assert sorted(map(len, scored)) == [0, 1, 2]


@pytest.mark.parametrize("reply", [for_both({1}, {2}, [[3]]), for_both({1}, {2}) | {"documents": []}])
async def test_a_reply_with_a_problem_in_either_part_is_asked_for_once_more(reply: Any) -> None:
    judge = Judge(RetrievedForBoth=[reply, for_both({1}, {2})])
    result, _ = await judged(judge, {"retrieval_answer": JOINT, "retrieval_context": JOINT})
    assert len(judge.asked) == 2
    assert result["actual_steps"][0]["retrieval_answer_recall"] == 1
    judge = Judge(RetrievedForBoth=[reply])
    result, _ = await judged(judge, {"retrieval_answer": JOINT, "retrieval_context": JOINT})
    errors = {result["actual_steps"][0][f"retrieval_{name}_error"] for name in ("answer", "context")}
    assert len(errors) == 1
    assert errors.pop().startswith("invalid_reply: ")


async def test_a_part_without_statements_fails_alone() -> None:
    judge = Judge(RetrievedForBoth=[for_both({1}, {2}, [])])
    result, _ = await judged(judge, {"retrieval_answer": JOINT, "retrieval_context": JOINT})
    step = result["actual_steps"][0]
    assert step["retrieval_answer_recall"] == 1
    assert step["retrieval_context_error"] == "invalid_reply: the judge found no statement in the reference"


async def test_another_prompt_of_answer_correctness_is_another_call() -> None:
    judge = Judge(AnswerClaims=[CLAIMS])
    metrics = ALL | {"answer_correctness": {"prompt": "Compare {reference_answer} and {actual_answer}."}}
    result, _ = await judged(judge, {name: metrics[name] for name in ("answer_correctness", RAGAS)})
    assert judge.asked == ["AnswerClaims", "AnswerClaims"]
    assert result[f"{RAGAS}_fp"] == 2


@pytest.mark.parametrize("turns", [0, 1, 100])
async def test_a_failure_is_shared_too_however_soon_it_comes(turns: int) -> None:
    class Refusing(Judge):
        async def complete(self, messages: Any, schema: Any) -> tuple[Any, TokenUsage]:
            await super().complete(messages, schema)
            for _ in range(turns):
                await asyncio.sleep(0)
            raise JudgeError("refused", "no")

    judge = Refusing()
    result, stream = await judged(judge, {"answer_correctness": {}, RAGAS: JOINT})
    assert result["answer_eval_error"] == result[f"{RAGAS}_error"] == "refused: no"
    assert judge.asked == ["AnswerClaims"]
    assert stream.usage.shared_calls == 1


@pytest.mark.parametrize("answer", ["I don't know.", " "])
async def test_a_refusal_scores_0(answer: str) -> None:
    judge = Judge(AnswerClaims=[CLAIMS | {"actual_claims": [], "matches": []}])
    result, _ = await judged(judge, {RAGAS: JOINT}, actual_answer=answer)
    assert [result[key] for key in (RAGAS, f"{RAGAS}_tp", f"{RAGAS}_fn")] == [0, 0, 2]
    assert (f"{RAGAS}_similarity" in result) == bool(answer.strip())


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"questions": ["what?"], "noncommittal": True}, 0.0),
        ({"questions": [], "noncommittal": True}, 0.0),
        ({"questions": ["what?"], "noncommittal": False}, 0.6),
        ({"questions": [" ", "what?", "what?", "which?"], "noncommittal": False}, 0.6),  # More than two.
        ({"questions": [" "], "noncommittal": False}, None),
    ],
)
async def test_the_relevance_of_an_answer(reply: dict[str, Any], expected: float | None) -> None:
    judge = Judge(GuessedQuestions=[reply])
    result, _ = await judged(judge, {"answer_relevance": JOINT | {"strictness": 2}})
    assert result.get("answer_relevance") == (None if expected is None else pytest.approx(expected))
    assert ("answer_relevance_error" in result) == (expected is None)
    assert ("answer_relevance_reason" in result) == reply["noncommittal"]
    assert judge.blocks == [{"answer": "given answer 0"}]
