from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config.model import RagasAnswerCorrectnessConfig
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.ragas_answer_correctness import ragas_answer_correctness
from tests.conftest import settle
from tests.metrics.ragas_support import (
    AnswerCorrectness,
    Script,
    ScriptedLLM,
    ScriptedMetricJudge,
    WaitingMetricJudge,
    outcome,
)

pytestmark = pytest.mark.ragas

NAME = "ragas_answer_correctness"
QUESTION = "When and where was Einstein born?"
REFERENCE = "Einstein was born in 1879 in Germany."
ANSWER = "Einstein was born in Spain in 1879."
CASE = Case(QUESTION, reference_answer=REFERENCE, actual_answer=ANSWER)

STATEMENTS = {
    ANSWER: ["Einstein was born in 1879", "Einstein was born in Spain"],
    REFERENCE: ["Einstein was born in 1879", "Einstein was born in Germany"],
}
CLASSES = {
    "TP": ["Einstein was born in 1879"],
    "FP": ["Einstein was born in Spain"],
    "FN": ["Einstein was born in Germany"],
}
VECTORS = {ANSWER: [3.0, 4.0], REFERENCE: [4.0, 3.0]}  # Their cosine is 0.96.


def script(
    statements: dict[str, list[str]] = STATEMENTS,
    classes: dict[str, list[str]] = CLASSES,
    vectors: dict[str, list[float]] = VECTORS,
) -> Script:
    def reply(title: str, data: dict[str, Any], _repeat: int) -> Any:
        if title == "StatementGeneratorOutput":
            return {"statements": statements[data["answer"]]}
        assert data["answer"] == statements[ANSWER]
        assert data["ground_truth"] == statements[REFERENCE]
        return {
            name: [{"statement": text, "reason": ""} for text in texts] for name, texts in classes.items()
        }

    return Script(reply, vectors.__getitem__)


def metric(**config: Any) -> Any:
    return ragas_answer_correctness(RagasAnswerCorrectnessConfig(**config))


async def test_the_published_example() -> None:
    assert await outcome(metric(), CASE, script()) == {
        NAME: pytest.approx(0.75 * 0.5 + 0.25 * 0.96),
        f"{NAME}_tp": 1,
        f"{NAME}_fp": 1,
        f"{NAME}_fn": 1,
        f"{NAME}_similarity": pytest.approx(0.96),
    }
    keys = await outcome(metric(weights=(0.4, 0.6)), CASE, script())
    assert keys[NAME] == pytest.approx(0.4 * 0.5 + 0.6 * 0.96)


counts = st.integers(0, 4)
weights = st.tuples(st.floats(0, 10), st.floats(0, 10)).filter(any)
vectors = st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=3)


@given(
    st.tuples(counts, counts, counts),
    st.tuples(counts, counts),
    weights | st.just((1.0, 0.0)) | st.just((0.0, 1.0)),
    st.floats(0, 5),
    st.tuples(vectors, vectors),
)
def test_agrees_with_ragas(
    sizes: tuple[int, int, int],
    found: tuple[int, int],
    weights: tuple[float, float],
    beta: float,
    pair: tuple[list[float], list[float]],
) -> None:
    scripted = script(
        {ANSWER: ["a"] * found[0], REFERENCE: ["r"] * found[1]},
        {name: ["s"] * size for name, size in zip(("TP", "FP", "FN"), sizes, strict=True)},
        {ANSWER: pair[0], REFERENCE: pair[1]},
    )
    judge = ScriptedLLM(scripted)
    theirs = AnswerCorrectness(llm=judge, embeddings=judge, weights=list(weights), beta=beta)
    value = asyncio.run(theirs.ascore(QUESTION, ANSWER, REFERENCE)).value
    keys = asyncio.run(outcome(metric(weights=weights, beta=beta), CASE, scripted))
    if all(found) and any(sizes):
        assert keys[NAME] == pytest.approx(value, abs=1e-9)
        assert [keys[f"{NAME}_{name}"] for name in ("tp", "fp", "fn")] == list(sizes)
        assert (f"{NAME}_similarity" in keys) == (weights[1] != 0)
        if beta == 1:
            tp, fp, fn = sizes
            f1 = tp / (tp + 0.5 * (fp + fn))
            similarity = keys.get(f"{NAME}_similarity", 0)
            assert keys[NAME] == pytest.approx((weights[0] * f1 + weights[1] * similarity) / sum(weights))
    else:  # For ragas, nothing to compare is all right.
        perfect = AnswerCorrectness(llm=judge, embeddings=judge, weights=list(weights))
        similarity = asyncio.run(perfect._calculate_similarity(ANSWER, REFERENCE)) if weights[1] else 0
        assert value == pytest.approx((weights[0] + weights[1] * similarity) / sum(weights), abs=1e-9)
        if found[1] and not found[0]:  # Such as a refusal.
            assert keys[NAME] == 0
        else:
            assert keys.keys() == {f"{NAME}_error"}
            assert keys[f"{NAME}_error"].startswith("invalid_reply: ")


async def test_both_answers_are_embedded_in_one_call() -> None:
    asking = ScriptedMetricJudge(script())
    assert NAME in await outcome(metric(), CASE, asking)
    assert asking.embedded == [[ANSWER, REFERENCE]]


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, 1.0), (0.50001, 0.0), (0.0, 1.0), (1.0, 0.0)])
async def test_a_threshold_makes_it_binary(threshold: float, expected: float) -> None:
    keys = await outcome(metric(weights=(1.0, 0.0), threshold=threshold), CASE, script())
    assert keys[NAME] == expected
    assert keys.keys() == {NAME, f"{NAME}_tp", f"{NAME}_fp", f"{NAME}_fn"}


async def test_without_the_similarity_nothing_is_embedded() -> None:
    asking = ScriptedMetricJudge(script())
    assert (await outcome(metric(weights=(1, 0), beta=1), CASE, asking))[NAME] == 0.5
    assert not asking.embedded


async def test_a_reference_without_statements_is_an_error() -> None:
    asking = ScriptedMetricJudge(script(STATEMENTS | {REFERENCE: []}))
    keys = await outcome(metric(), CASE, asking)
    assert keys == {f"{NAME}_error": "invalid_reply: the judge found no statement in the reference answer"}
    assert [title for title, *_ in asking.asked] == ["StatementGeneratorOutput"] * 2


async def test_an_answer_without_statements_scores_0() -> None:
    asking = ScriptedMetricJudge(script(STATEMENTS | {ANSWER: []}))
    keys = await outcome(metric(), CASE, asking)
    assert (keys[NAME], keys[f"{NAME}_fn"]) == (0.0, len(STATEMENTS[REFERENCE]))
    assert [title for title, *_ in asking.asked] == ["StatementGeneratorOutput"] * 2


@pytest.mark.parametrize("answer", ["", " \n"])
async def test_an_empty_answer_scores_0(answer: str) -> None:
    asking = ScriptedMetricJudge(script())
    keys = await outcome(metric(), CASE._replace(actual_answer=answer), asking)
    counts = {"tp": 0, "fp": 0, "fn": len(STATEMENTS[REFERENCE])}
    assert keys == {NAME: 0.0, **{f"{NAME}_{name}": count for name, count in counts.items()}}
    assert [data["answer"] for _, data, _ in asking.asked] == [REFERENCE]
    assert not asking.embedded


async def test_statements_and_similarity_are_asked_at_the_same_time() -> None:
    asking = WaitingMetricJudge(script())
    task = asyncio.create_task(outcome(metric(), CASE, asking))
    await settle()
    assert sorted(asking.waiting) == ["StatementGeneratorOutput", "StatementGeneratorOutput", "embed"]
    asking.open.set()
    assert NAME in await task
    assert asking.waiting[3:] == ["ClassificationWithReason"]


@pytest.mark.parametrize("answers", [(None, "a"), ("a", None), ("", "a")])
def test_skipped_without_an_answer(answers: tuple[str | None, str | None]) -> None:
    case = CASE._replace(reference_answer=answers[0], actual_answer=answers[1])
    [evaluation] = metric().tasks(case)
    assert evaluation == (NAME, None, f"{NAME}_error", f"{NAME}_cost", None, ())


def test_what_changes_the_score_is_part_of_the_prompts() -> None:
    assert metric().prompts == [
        "ragas 0.4.3 StatementGeneratorPrompt, CorrectnessClassifierPrompt",
        "weights (0.75, 0.25), beta 1.0, threshold None",
    ]
