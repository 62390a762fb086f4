"""How a structured reply is requested, and what a server says that refuses a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.judge.openai_response import FILTERED, NO_MODEL, NO_QUOTA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.openai_response import Response
    from graphrag_eval_async.judge.protocol import Message

FORMATS = {
    "json_schema": "strict JSON Schema",
    "json_schema_loose": "JSON Schema that is not strict",
    "tool_call": "a tool call",
    "json_object": "JSON, with the layout in words",
    "text": "text, with the layout in words",
}
"""How a structured reply can be requested: the best first, with its description."""

LADDER = [*FORMATS]

FORMAT_WORDS = re.compile(
    rb"response_format|json_schema|json_object|structured.?output|tool|function|requested.parameters"
)
TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
TOO_LONG_WORDS = re.compile(rb"context.(length|window|size)|prompt is too long|too many (input )?tokens")


def body_of(kind: str, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a request that asks for a reply that fits a schema, in one of `FORMATS`."""
    title = schema["title"]
    if kind in {"json_schema", "json_schema_loose"}:
        described = {"name": title, "schema": schema}
        if kind == "json_schema":
            described = {"name": title, "strict": True, "schema": schema}
        wanted = {"type": "json_schema", "json_schema": described}
        return {"messages": messages, "response_format": wanted}
    if kind == "tool_call":
        return {
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": title, "parameters": schema}}],
            "tool_choice": {"type": "function", "function": {"name": title}},
        }
    wanted = {"response_format": {"type": "json_object"}} if kind == "json_object" else {}
    return {"messages": with_layout(messages, schema)} | wanted


def with_layout(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Return a conversation that also says how the reply must be laid out.

    The layout joins an existing message: not every model knows system messages, or two of them.
    """
    text = f"Reply with a JSON object that fits this JSON Schema:\n{orjson.dumps(schema).decode()}"
    first, *others = messages
    content = (
        f"{text}\n\n{first['content']}" if first["role"] == "system" else f"{first['content']}\n\n{text}"
    )
    return [{**first, "content": content}, *others]


def refuses_format(response: Response) -> bool | None:
    """Whether a server refuses the format of a reply; None if it may, without saying so."""
    status = response.status
    if response.codes & (FILTERED | NO_QUOTA | NO_MODEL):
        return False
    if (400 <= status < 500 or status in {500, 501}) and FORMAT_WORDS.search(response.body.lower()):
        return True
    return None if status in {400, 422, 500, 501} else False


def is_too_long(response: Response) -> bool:
    """Whether a server refuses a request for its length."""
    if response.status not in {400, 413, 422}:
        return False
    return bool(response.codes & TOO_LONG) or TOO_LONG_WORDS.search(response.body.lower()) is not None
