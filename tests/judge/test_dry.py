from __future__ import annotations

import math
from typing import Any

import msgspec

from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS, DryJudge, fitting
from graphrag_eval_async.judge.protocol import Judge, format_of
from graphrag_eval_async.judge.usage import estimate_prompt
from graphrag_eval_async.records.token_usage import TokenUsage


class Leaf(msgspec.Struct):
    verdict: int
    share: float
    kind: str | None
    yes: bool
    either: int | str


class Tree(msgspec.Struct):
    leaves: list[Leaf]
    none: None


def test_a_reply_can_be_read() -> None:
    form = format_of(Tree)
    expected = Tree([Leaf(verdict=0, share=0.0, kind="text", yes=False, either=0)], None)
    assert form.read(fitting(form.schema, form.schema)) == expected


async def test_usage_is_estimated() -> None:
    judge = DryJudge()
    assert isinstance(judge, Judge)
    schema: dict[str, Any] = {"type": "null"}
    messages = [{"role": "system", "content": "x" * 40}, {"role": "user", "content": "y" * 8}]
    usage = TokenUsage(estimate_prompt(messages, schema), ASSUMED_OUTPUT_TOKENS)
    assert await judge.complete(messages, schema) == (None, usage)


async def test_embeddings_are_unit_vectors() -> None:
    vectors, usage = await DryJudge().embed(["", "x" * 8, "x"])
    assert [math.hypot(*vector) for vector in vectors] == [1.0, 1.0, 1.0]
    assert usage == TokenUsage(3, 0)
    assert await DryJudge().embed([]) == ([], TokenUsage(0))
