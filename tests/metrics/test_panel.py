"""Several judges for a metric."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

import pytest

from graphrag_eval_async import (
    ConfigError,
    JudgeError,
    JudgeUnavailable,
    UsageError,
    evaluate_agent,
    evaluate_stream,
)
from graphrag_eval_async.config import load_config
from tests.metrics.support import Judge, claims

MODEL = {"provider": "openai", "model": "m", "api_key": "k"}
PRICES = {"input_usd_per_million": 1.0, "output_usd_per_million": 10.0}
CUSTOM = {"name": "tone", "inputs": ["actual_answer"], "instructions": "Judge the tone."}
STEP = {
    "name": "retrieval",
    "status": "success",
    "output": '[{"id": "d", "text": "Sofia is a city."}]',
}
RESPONSE = {"question_id": "q", "actual_answer": "Sofia.", "actual_steps": [STEP]}
QUESTION = {"id": "q", "question_text": "Which city?", "reference_answer": "Sofia"}
REFERENCE = [{"template_id": "t", "questions": [QUESTION]}]


def settings(metrics: dict[str, Any], *, names: str = "abc", **limits: Any) -> dict[str, Any]:
    judges = {name: MODEL | {"model": f"model-{name}", "pricing": PRICES} for name in names}
    return {"llm": {"judges": judges, "limits": {"max_failed_calls": None, **limits}}, **metrics}


async def judged(
    metrics: dict[str, Any], *judges: Judge, **options: Any
) -> tuple[dict[str, Any], Any]:
    own: Any = dict(zip("abc", judges, strict=False))
    stream = evaluate_stream(REFERENCE, [RESPONSE], config=settings(metrics), judge=own, **options)
    async with stream:
        (result,) = [result async for result in stream]
    return result, stream


async def test_scores_are_means_and_each_judge_is_shown() -> None:
    judges = [Judge(f"m{i}", claims(2, 1, matching)) for i, matching in enumerate([1, 0])]
    result, stream = await judged({"answer_correctness": {"judges": ["a", "b"]}}, *judges)
    f1 = 2 / 3
    assert result["answer_recall"] == 0.25
    assert result["answer_precision"] == 0.5
    assert result["answer_f1"] == pytest.approx(f1 / 2)
    assert result["answer_correctness_disagreement"] == 1
    assert result["answer_correctness_reason"] == "a: 1 match\nb: 0 match"
    assert result["answer_correctness_cost"] == pytest.approx(0.004)
    by = result["answer_correctness_by"]
    assert [own["answer_f1"] for own in by.values()] == [pytest.approx(f1), 0]
    assert [own["answer_matching_claims_count"] for own in by.values()] == [1, 0]
    assert [own["answer_correctness_cost"] for own in by.values()] == [pytest.approx(0.002)] * 2
    assert "answer_matching_claims_count" not in result
    assert result["judge"]["judges"] == {"a": "m0", "b": "m1"}
    assert +stream.usage.outcomes == {"ok": 1}
    assert (stream.usage.calls, stream.usage.dollars) == (2, pytest.approx(0.004))
    agreement = stream.aggregates.snapshot()["agreement"]["answer_recall"]
    assert agreement == {
        "judges": {"a": 0.5, "b": 0.0},
        "krippendorff_alpha": 0.0,
        "cohen_kappa": 0.0,
    }


@pytest.mark.parametrize("vote", ["mean", "majority"])
async def test_votes(vote: str) -> None:
    for values in ([1, 0, 0], [1, 0], [0.2, 0.9, 1], ["good", "bad", "bad"], ["bad", "good"]):
        names = [*"abc"][: len(values)]
        section = CUSTOM | {"judges": names, "vote": vote, "outputs": {"score": "good or bad"}}
        judges = [Judge("m", {"tone": {"score": value}}) for value in values]
        result, _ = await judged({"custom_evaluations": [section]}, *judges)
        if "bad" in values:
            expected: Any = ("bad", 1)
        else:
            numbers = [float(value) for value in values]
            average = fmean(numbers) if vote == "mean" else median(numbers)
            expected = pytest.approx(average), pytest.approx(max(numbers) - min(numbers))
        assert (result["score"], result["tone_disagreement"]) == expected
        assert [own["score"] for own in result["tone_by"].values()] == values


async def test_a_metric_fails_if_one_judge_fails() -> None:
    failing = Judge("m", JudgeError("refused", "no"))
    judges = [Judge("m", claims(1, 1, 1)), failing]
    result, stream = await judged({"answer_correctness": {"judges": ["a", "b"]}}, *judges)
    assert result["answer_eval_error"] == "refused: judge b: no"
    assert "answer_recall" not in result
    assert result["answer_correctness_by"]["a"]["answer_recall"] == 1
    assert result["answer_correctness_by"]["b"] == {"answer_eval_error": "refused: no"}
    assert +stream.usage.outcomes == {"refused": 1}
    assert "agreement" not in stream.aggregates.snapshot()
    judges[1].replies = JudgeUnavailable("wrong key")
    with pytest.raises(JudgeUnavailable, match="wrong key"):
        await judged({"answer_correctness": {"judges": ["a", "b"]}}, *judges)


async def test_the_budget_is_that_of_all_judges() -> None:
    judges: Any = {name: Judge("m", claims(1, 1, 1)) for name in "ab"}
    config = settings(
        {"answer_correctness": {"judges": ["a", "b"]}}, budget_usd=0.003, max_concurrency=1
    )
    responses = [RESPONSE | {"actual_answer": str(i)} for i in range(10)]
    async with evaluate_stream(REFERENCE, responses, config=config, judge=judges) as stream:
        results = [result async for result in stream]
    assert stream.usage is not None
    # A call of the other judge may be in flight.
    assert 0.0039 < (stream.usage.dollars or 0) < 0.0061
    assert sum("budget: " in result.get("answer_eval_error", "") for result in results) == 9


async def test_mistakes() -> None:
    for names, problem in (
        (["d"], "'d' is none of llm.judges; known"),
        (["a", "a"], "names a judge twice"),
    ):
        with pytest.raises(ConfigError, match=problem):
            load_config(settings({"answer_correctness": {"judges": names}}))
    with pytest.raises(UsageError, match="none is named 'b'"):
        await judged({"answer_correctness": {"judges": ["a", "b"]}}, Judge("m", {}))


@pytest.mark.parametrize("function", [evaluate_stream, evaluate_agent])
def test_rejudge_says_what_to_use_instead(function: Any) -> None:
    with pytest.raises(
        UsageError, match="rejudge= is gone; give the metric two `judges` with the same"
    ):
        function(REFERENCE, [RESPONSE], rejudge=2)
