"""A judge that sends nothing, to estimate the calls and tokens of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.judge.tokens import estimate_prompt, estimate_tokens
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from graphrag_eval_async.judge.protocol import Message

ASSUMED_OUTPUT_TOKENS = 250
"""Assumed length of a reply: a few sentences as JSON. Reasoning models may use far more."""

_ID = re.compile(r'\{"id":(\d+),')

SCALARS = {"string": "text", "number": 0, "integer": 0, "boolean": False, "null": None}

Schema: TypeAlias = Mapping[str, Any]


class DryJudge:
    """A `Judge` that replies at once with a small value that fits the schema, and estimates
    tokens.
    """

    async def complete(self, messages: Sequence[Message], schema: Schema) -> tuple[Any, TokenUsage]:
        """Return a reply; input tokens count messages and schema, output is
        `ASSUMED_OUTPUT_TOKENS`.
        """
        usage = TokenUsage(estimate_prompt(messages, schema), ASSUMED_OUTPUT_TOKENS)
        # Documents are numbered; a quote within a text is escaped.
        ids = [int(number) for message in messages for number in _ID.findall(message["content"])]
        return fitting(schema, schema, ids), usage

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        """Return the same unit vector for each text."""
        return [[1.0] for _ in texts], TokenUsage(sum(map(estimate_tokens, texts)))


def fitting(schema: Schema, root: Schema, ids: Sequence[int] = ()) -> Any:
    """Return a small value that fits a part of the schema `root`: one item per list, or one for
    each id.
    """
    if "$ref" in schema:
        return fitting(reduce(getitem, schema["$ref"].split("/")[1:], root), root, ids)
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0], root, ids)
    if schema["type"] == "object":
        return {name: fitting(part, root, ids) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        item = fitting(schema["items"], root, ids)
        if isinstance(item, dict) and "id" in item:
            return [item | {"id": number} for number in ids]
        return [item] if item != 0 else []  # Numbers are ids of something.
    return SCALARS[schema["type"]]
