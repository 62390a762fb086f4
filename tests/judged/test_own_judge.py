"""Judges that do not keep to the protocol: an error of the metric, and the stream goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JudgeError, UsageError, evaluate_stream
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judged.support import METRICS, PRICING, REPLIES, response, templates
from tests.support.virtual_time import without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.ragas


USAGE = TokenUsage(100, 20)


@dataclass
class Judge:
    """Replies sensibly, but for what a test has it do."""

    reply: Callable[[str], Any] = REPLIES.__getitem__
    vectors: Callable[[int], Any] = lambda count: [[1.0, 2.0]] * count
    usage: Any = USAGE

    async def complete(self, _: Any, schema: Any) -> Any:
        return self.reply(schema["title"]), self.usage

    async def embed(self, texts: Any) -> Any:
        return self.vectors(len(texts)), self.usage


async def judged(judge: Any, **outcomes: int) -> tuple[dict[str, Any], Any]:
    """The result of a response whose metrics have these outcomes, and the usage."""
    settings = {"llm": {"pricing": PRICING}, **METRICS}
    async with evaluate_stream(templates(1), [response(0)], config=settings, judge=judge) as stream:
        [result] = [result async for result in stream]
    assert stream.usage.outcomes == {"skipped": 0, **outcomes}
    return {**result, **result["actual_steps"][0]}, stream.usage


@without_waiting
async def test_replies_that_are_no_json() -> None:
    for score in (None, {1, 2}, {1: 2}, object(), math.nan, 10**400, "\ud800"):
        replies = REPLIES | {"custom": {"custom_score": score, "custom_reason": ""}}
        result, _ = await judged(Judge(replies.__getitem__), ok=7, invalid_reply=1)
        assert result["custom_error"].startswith("invalid_reply: ")
        assert result["custom_score"] is None
        assert result["custom_cost"] == pytest.approx(2 * 0.0003)


@without_waiting
async def test_vectors_that_are_none() -> None:
    wrong: list[Any] = [None, ["12", "3"], [[10**400]] * 2, [None, None], {"data": []}, [[[1]]], [[0.0]] * 2]
    for vectors in wrong:
        result, _ = await judged(Judge(vectors=[None, vectors, vectors].__getitem__), ok=6, invalid_reply=2)
        for metric in ("answer_relevance", "ragas_answer_correctness"):
            assert result[f"{metric}_error"].startswith("invalid_reply: ")
            assert metric not in result


@without_waiting
async def test_tokens_that_are_none() -> None:
    for used in (None, 5, (), {"input_tokens": 5}, ("5", "5"), (-1, 5), (math.nan, 0)):
        result, usage = await judged(Judge(usage=used), ok=8)
        assert usage.unmetered == usage.attempts == 12
        assert not [key for key in result if key.endswith("_cost")]


@without_waiting
async def test_what_a_failure_without_a_reply_cost_is_not_known() -> None:
    def fail(_: object) -> Any:
        raise JudgeError("refused", "no")

    result, _ = await judged(Judge(fail, fail), refused=8)
    assert not [key for key in result if key.endswith("_cost")]


def test_what_is_no_judge() -> None:
    judge: Any = print
    with pytest.raises(UsageError, match="judge: expected an object with a method complete"):
        evaluate_stream(templates(1), [], judge=judge)
