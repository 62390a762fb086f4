"""Judges that do not keep to the protocol: an error of the metric, and the stream goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import JudgeError, UsageError, evaluate_stream
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judged.support import METRICS, PRICING, REPLIES, collect, response, templates
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


async def judged(judge: Any) -> tuple[dict[str, Any], Any]:
    settings = {"llm": {"pricing": PRICING}, **METRICS}
    async with evaluate_stream(templates(1), [response(0)], config=settings, judge=judge) as stream:
        (result,) = (await collect(stream)).values()
    return {**result, **result["actual_steps"][0]}, stream.usage


@pytest.mark.parametrize("score", [None, {1, 2}, b"{}", {1: 2}, object(), math.nan, 10**400, "\ud800"])
@without_waiting
async def test_replies_that_are_no_json(score: Any) -> None:
    reply = {"custom_score": score, "custom_reason": ""}
    result, usage = await judged(Judge(lambda title: reply if title == "custom" else REPLIES[title]))
    assert result["custom_error"].startswith("invalid_reply: ")
    assert result["custom_score"] is None
    assert usage.outcomes == {"ok": 7, "invalid_reply": 1, "skipped": 0}
    assert result["custom_cost"] == pytest.approx(2 * 0.0003)


@pytest.mark.parametrize("vectors", [None, ["12", "3"], [[10**400]] * 2, [None, None], {"data": []}, [[[1]]]])
@without_waiting
async def test_vectors_that_are_none(vectors: Any) -> None:
    result, usage = await judged(Judge(vectors=lambda _: vectors))
    for metric in ("answer_relevance", "ragas_answer_correctness"):
        assert result[f"{metric}_error"].startswith("invalid_reply: ")
        assert metric not in result
    assert usage.outcomes == {"ok": 6, "invalid_reply": 2, "skipped": 0}


@pytest.mark.parametrize("usage", [None, 5, (), {"input_tokens": 5}, ("5", "5"), (-1, 5), (math.nan, 0)])
@without_waiting
async def test_tokens_that_are_none(usage: Any) -> None:
    result, counts = await judged(Judge(usage=usage))
    assert counts.outcomes == {"ok": 8, "skipped": 0}
    assert counts.unmetered == counts.attempts == 12
    assert not [key for key in result if key.endswith("_cost")]


@pytest.mark.parametrize("kind", ["refused", "timeout"])
@without_waiting
async def test_what_a_failure_without_a_reply_cost_is_not_known(kind: Any) -> None:
    def fail(_: object) -> Any:
        raise JudgeError(kind, "no")

    result, usage = await judged(Judge(fail, fail))
    assert usage.outcomes == {kind: 8, "skipped": 0}
    assert not [key for key in result if key.endswith("_cost")]


@pytest.mark.parametrize("judge", ["x", object(), print])
def test_what_is_no_judge(judge: Any) -> None:
    with pytest.raises(UsageError, match="judge: expected an object with a method complete"):
        evaluate_stream(templates(1), [], judge=judge)
