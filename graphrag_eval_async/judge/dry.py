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

DOCUMENT_ID = re.compile(r'\{"id":(\d+),')
"""The number of a document in a message; a quote within a text is escaped."""

VALUES_BY_TYPE = {"string": "text", "number": 0, "integer": 0, "boolean": False, "null": None}
"""A value of each type of a schema that has no parts."""

Schema: TypeAlias = Mapping[str, Any]


class DryJudge:
    """A `Judge` that replies at once with a small value that fits the schema, and estimates
    tokens.
    """

    async def complete(self, messages: Sequence[Message], schema: Schema) -> tuple[Any, TokenUsage]:
        """Return a value that fits the schema, and an estimate of the tokens.

        The input tokens are those of the messages and the schema; the output tokens are
        `ASSUMED_OUTPUT_TOKENS`. Lists of objects with an "id" get the ids of the documents that
        the messages hold.
        """
        usage = TokenUsage(estimate_prompt(messages, schema), ASSUMED_OUTPUT_TOKENS)
        document_ids: list[int] = []
        for message in messages:
            document_ids += map(int, DOCUMENT_ID.findall(message["content"]))
        return fitting(schema, schema, document_ids), usage

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        """Return the same unit vector for each text."""
        vectors = [[1.0] for _ in texts]
        return vectors, TokenUsage(sum(map(estimate_tokens, texts)))


def fitting(schema: Schema, root: Schema, document_ids: Sequence[int] = ()) -> Any:
    """Return a small value that fits a schema.

    Args:
        schema: the schema, a part of `root`.
        root: the whole schema, to which references point.
        document_ids: a list of objects with an "id" has one for each of these; another list has one
            item.
    """
    if "$ref" in schema:
        # Such as "#/$defs/Claim".
        path = schema["$ref"].split("/")[1:]
        target = reduce(getitem, path, root)
        return fitting(target, root, document_ids)
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0], root, document_ids)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]

    if schema["type"] == "object":
        properties = schema["properties"]
        return {name: fitting(part, root, document_ids) for name, part in properties.items()}
    if schema["type"] == "array":
        item = fitting(schema["items"], root, document_ids)
        if isinstance(item, dict) and "id" in item:
            return [{**item, "id": number} for number in document_ids]
        if item == 0:
            # Numbers in lists are ids, and there may be nothing with this one.
            return []
        return [item]
    return VALUES_BY_TYPE[schema["type"]]
