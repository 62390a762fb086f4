"""Servers that accept requests only in their own way, and wrap replies in theirs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.support.judge_server.faults import INVALID
from tests.support.judge_server.replies import Reply, Request, chat, completion, error, json_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tests.support.judge_server.faults import Maker

REFUSALS: Mapping[str, Reply] = {
    "by name": error(400, "Invalid 'response_format': this type is not supported.", type=INVALID),
    "400": error(400, "Bad request", type=INVALID),
    "422": json_reply({"detail": "unprocessable"}, status=422),
    "no endpoints": error(404, "No endpoints found that support response_format", code=404),
}
"""How servers refuse a format of replies."""


def format_of(body: Mapping[str, Any]) -> str:
    """The format that a request asks for."""
    match body:
        case {"response_format": {"type": "json_schema", "json_schema": {"strict": True}}}:
            return "json_schema"
        case {"response_format": {"type": "json_schema"}}:
            return "json_schema_loose"
        case {"response_format": {"type": "json_object"}}:
            return "json_object"
        case {"tools": [_]}:
            return "tool_call"
    return "text"


def knowing(formats: Collection[str], refusal: Reply, otherwise: Maker) -> Maker:
    """Refuses every other format."""
    return lambda request: otherwise(request) if format_of(request.body) in formats else refusal


def without(parameters: Collection[str], otherwise: Maker) -> Maker:
    """Refuses parameters by name, as the API of OpenAI does."""

    def script(request: Request) -> Reply:
        for name in parameters:
            if name in request.body:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                return error(400, text, type=INVALID, param=name, code="unsupported")
        return otherwise(request)

    return script


def limited_to(tokens: int, otherwise: Maker) -> Maker:
    """Refuses requests whose prompt and `max_tokens` together are too long, as vLLM does."""

    def script(request: Request) -> Reply:
        prompt = sum(len(message["content"]) for message in request.body["messages"]) // 4
        if prompt + request.body.get("max_tokens", 0) > tokens:
            text = (
                f"'max_tokens' is too large: this model's maximum context length is {tokens} tokens"
            )
            return error(400, text, type="BadRequestError", code=400)
        return otherwise(request)

    return script


def _message(reason: str = "stop", **message: Any) -> Reply:
    return chat([{"message": {"role": "assistant", **message}, "finish_reason": reason}])


def _tool_call(arguments: Any) -> Reply:
    calls = [{"id": "1", "type": "function", "function": {"name": "reply", "arguments": arguments}}]
    return _message("tool_calls", content=None, tool_calls=calls)


WRAPPINGS: Mapping[str, Callable[[str], Reply]] = {
    "fence": lambda text: completion(f"```json\n{text}\n```"),
    "reasoning": lambda text: completion(f'<think>Is it {{"a": 1}}? No.</think>\n{text}'),
    "prose": lambda text: completion(f"Here is the {{JSON}}: {text} Hope this helps."),
    "extra key": lambda text: completion(f'{{"extra": [1], {text[1:]}'),
    "trailing commas": lambda text: completion(re.sub(r"(?<=[^\[{])(\s*[}\]])", r" , \1", text)),
    "line breaks in texts": lambda text: completion(re.sub(r"(?<=\w) (?=\w)", "\n\t", text)),
    "reasoning_content": lambda text: _message(content=None, reasoning_content=f"\n{text}\n"),
    "parts": lambda text: _message(
        content=[{"type": "thinking", "thinking": "hm {}"}, {"type": "text", "text": text}]
    ),
    "tool call": _tool_call,
    "tool call with an object": lambda text: _tool_call(json.loads(text)),
}
"""How servers and models wrap a reply."""

AMBIGUOUS: Mapping[str, Callable[[str], Reply]] = {
    "twice": lambda text: completion(f"First: {text} Second: {text}"),
    "array": lambda text: completion(f"[{text}, {text}]"),
    "fence and more": lambda text: completion(f"```json\n{text}\n```\nNo, rather {text}"),
    "unfinished reasoning": lambda text: completion(
        f"<think>Draft: {text} But wait, is the second"
    ),
    "key twice": lambda text: completion(f"{text[:-1]}, {text[1:]}"),
}
"""Replies that may mean several things."""
