"""Replies that are as they should be, and the parts of others."""

from __future__ import annotations

import hashlib
import json
from array import array
from math import hypot
from typing import TYPE_CHECKING, Any

import orjson

from tests.judge_server.messages import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.judge_server.messages import Request

DIMENSIONS = 16
SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 0,
    "number": 0.5,
    "boolean": True,
    "null": None,
}


def reply_to(request: Request) -> Reply:
    """A sensible reply to a request of either kind; the script of a server that has no other."""
    if request.method != "POST":
        return error(405, "use POST")
    if request.path.endswith("/chat/completions"):
        return completion(sample(_schema(request.body)), usage=(len(request.raw) // 4, 20))
    if request.path.endswith("/embeddings"):
        given = request.body["input"]
        texts = [given] if isinstance(given, str) else given
        return embeddings(map(vector, texts), usage=len(request.raw) // 4)
    return error(404, f"Invalid URL (POST {request.path})", type="invalid_request_error")


def json_reply(
    value: Any, *, status: int = 200, headers: tuple[tuple[str, str], ...] = (), **more: Any
) -> Reply:
    """Any JSON."""
    return Reply(orjson.dumps(value), status, headers, **more)


def completion(
    content: Any,
    *,
    usage: tuple[int, int] | None = (100, 20),
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    latency: float | None = None,
) -> Reply:
    """A chat completion; `content` is JSON unless it is a text or None already."""
    if not isinstance(content, str | None):
        content = orjson.dumps(content).decode()
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return chat([choice], usage=usage, latency=latency)


def chat(choices: Any, *, usage: tuple[int, int] | None = (100, 20), latency: float | None = None) -> Reply:
    """A chat completion of any choices; without usage, it does not tell what it used."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": choices,
    }
    if usage is not None:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
        body["usage"] = counts
    return json_reply(body, usage=usage, latency=latency)


def embeddings(
    vectors: Any,
    *,
    usage: int | None = 10,
    indexes: Sequence[int] | None = None,
    latency: float | None = None,
) -> Reply:
    """A list of embeddings; `indexes` stand in it in place of 0, 1, ..."""
    vectors = list(vectors)
    indexes = range(len(vectors)) if indexes is None else indexes
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in zip(indexes, vectors, strict=True)
    ]
    body: dict[str, Any] = {"object": "list", "model": "scripted", "data": data}
    if usage is None:
        return json_reply(body, latency=latency)
    body["usage"] = {"prompt_tokens": usage, "total_tokens": usage}
    return json_reply(body, usage=(usage, 0), latency=latency)


def error(
    status: int,
    message: str,
    *,
    code: Any = None,
    type: str | None = None,  # noqa: A002
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An error as OpenAI words it."""
    body = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return json_reply(body, status=status, headers=tuple((headers or {}).items()))


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector of length 1 that depends on the text only."""
    digest = hashlib.shake_128(text.encode()).digest(2 * dimensions)
    values = [value + 0.5 for value in array("h", digest)]
    length = hypot(*values)
    return [value / length for value in values]


def sample(schema: Any, definitions: Mapping[str, Any] | None = None) -> Any:
    """A value that fits a JSON schema: one item in each array, 0 for a whole number."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    match schema:
        case {"$ref": str(reference)}:
            return sample(definitions[reference.rpartition("/")[2]], definitions)
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]} | {"allOf": [first, *_]}:
            return sample(first, definitions)
        case {"properties": dict(properties)}:
            return {name: sample(value, definitions) for name, value in properties.items()}
        case {"type": "array", **more}:
            return [sample(more.get("items", {}), definitions)]
        case {"type": [str(kind), *_]} | {"type": str(kind)}:
            return SAMPLES.get(kind, {})
    return {}


def _schema(body: Any) -> Any:
    """The schema of the reply, or where JSON is asked for without one, what a system message says."""
    match body.get("response_format"):
        case {"json_schema": {"schema": schema}}:
            return schema
        case {"type": "json_object"}:
            system = [message["content"] for message in body["messages"] if message["role"] == "system"]
            return next(filter(None, map(_first_object, system)), {})
    return {}


def _first_object(text: str) -> Any:
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None
