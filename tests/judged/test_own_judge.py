"""Judges that do not keep to the protocol: an error of the metric, and the stream goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from graphrag_eval_async import JudgeError, UsageError, evaluate_stream
from tests.judged.support import METRICS, REPLIES, response, templates
from tests.support.virtual_time import without_waiting

VECTORS = ["answer_relevance", "ragas_answer_correctness"]
WRONG_SCORES: list[Any] = [None, {1, 2}, {1: 2}, object(), math.nan, 10**400, "\ud800"]
WRONG_VECTORS: list[Any] = [
    ["12", "3"],
    [[10**400]] * 2,
    [None] * 2,
    {"data": []},
    [[[1]]] * 2,
    [[0.0]] * 2,
]
WRONG_USAGE: list[Any] = [None, 5, (), {"input_tokens": 5}, ("5", "5"), (-1, 5), (math.nan, 0)]


@dataclass
class Judge:
    """Replies sensibly, but for what a test has it do."""

    score: Any = 0.5
    vectors: Any = field(default_factory=lambda: [[1.0, 2.0]] * 2)
    usage: Any = (100, 20)
    error: JudgeError | None = None

    async def complete(self, _: Any, schema: Any) -> Any:
        if self.error is not None:
            raise self.error
        replies = REPLIES | {"custom": {"custom_score": self.score, "custom_reason": ""}}
        return replies[schema["title"]], self.usage

    async def embed(self, _: Any) -> Any:
        return self.vectors, self.usage


CASES: list[tuple[Judge, str, list[str]]] = [
    *((Judge(score=score), "invalid_reply", ["custom"]) for score in WRONG_SCORES),
    *((Judge(vectors=vectors), "invalid_reply", VECTORS) for vectors in WRONG_VECTORS),
    *((Judge(usage=usage), "", []) for usage in WRONG_USAGE),
    (Judge(error=JudgeError("refused", "no")), "refused", ["custom", *VECTORS]),
]
"""What judges do, the kind of error, and the metrics that then have no value."""


@pytest.mark.ragas
@without_waiting
async def test_what_becomes_of_replies_that_are_none() -> None:
    for judge, kind, failed in CASES:
        async with evaluate_stream(
            templates(1), [response(0)], config=METRICS, judge=judge
        ) as stream:
            [result] = [result async for result in stream]
        for metric in ("custom", *VECTORS):
            value = result.get("custom_score" if metric == "custom" else metric)
            assert (value is None) == (metric in failed), judge
            assert result.get(f"{metric}_error", "").startswith(
                f"{kind}: " if metric in failed else ""
            )
        is_metered = judge.usage == (100, 20)
        assert (stream.usage.unmetered == 0) == (is_metered or judge.error is not None)


def test_what_is_no_judge() -> None:
    judge: Any = print
    with pytest.raises(UsageError, match="judge: expected an object with a method complete"):
        evaluate_stream(templates(1), [], judge=judge)
