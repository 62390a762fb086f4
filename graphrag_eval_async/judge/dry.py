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
    """A `Judge` that sends nothing: it replies with small made-up values and estimates tokens."""

    async def complete(self, messages: Sequence[Message], schema: Schema) -> tuple[Any, TokenUsage]:
        """Return a made-up value that fits the schema, and an estimate of the tokens.

        The input tokens are estimated from the messages and the schema; the output tokens are
        `ASSUMED_OUTPUT_TOKENS`. A list of objects with an "id" has one object for each document in
        the messages.
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
    """Return a small made-up value that fits a JSON Schema.

    Args:
        schema: the schema of the value, a part of `root`.
        root: the whole schema, in which references are looked up.
        document_ids: the ids for lists of objects with an "id", which have one object for each of
            these ids. Any other list has at most one item.
    """
    if "$ref" in schema:
        # A reference is a path from the root, such as "#/$defs/Claim".
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
            # Lists of numbers are lists of ids, and 0 may be the id of nothing.
            return []
        return [item]
    return VALUES_BY_TYPE[schema["type"]]
