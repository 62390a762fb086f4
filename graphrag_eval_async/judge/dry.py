"""A judge that asks nobody, to find out how many calls a run would take, and about how many tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.judge.pricing import estimate_prompt, estimate_tokens
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from graphrag_eval_async.judge.protocol import Message

ASSUMED_OUTPUT_TOKENS = 250
"""Of each reply: some sentences as JSON. A model that reasons before it replies may use far more."""

SCALARS = {"string": "text", "number": 0, "integer": 0, "boolean": False, "null": None}

Schema: TypeAlias = Mapping[str, Any]


class DryJudge:
    """A `Judge` that replies at once: something small that fits the schema, and an estimate of the tokens."""

    async def complete(self, messages: Sequence[Message], schema: Schema) -> tuple[Any, TokenUsage]:
        """A reply; its input is the messages and the schema, its output `ASSUMED_OUTPUT_TOKENS`."""
        usage = TokenUsage(estimate_prompt(messages, schema), ASSUMED_OUTPUT_TOKENS)
        return fitting(schema, schema), usage

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        """One and the same unit vector for each text."""
        return [[1.0] for _ in texts], TokenUsage(sum(map(estimate_tokens, texts)))


def fitting(schema: Schema, root: Schema) -> Any:
    """A small value that fits a schema of a metric: of several possibilities the first, of a list one item.

    Args:
        schema: a part of `root`.
        root: the whole, within which references point.
    """
    if "$ref" in schema:
        return fitting(reduce(getitem, schema["$ref"].split("/")[1:], root), root)
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0], root)
    if schema["type"] == "object":
        return {name: fitting(part, root) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [fitting(schema["items"], root)]
    return SCALARS[schema["type"]]
