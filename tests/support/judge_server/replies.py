"""What the server reads, and replies that are as they should be."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.judge.dry import fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DIMENSIONS = 16
USED = (100, 20)
"""Tokens of the prompt and of the completion."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `attempt` counts those with the same body before it."""

    path: str
    query: str
    head: bytes
    raw: bytes
    body: Any  # None unless it is a JSON object.
    number: int
    attempt: int
    time: float

    @property
    def headers(self) -> dict[str, str]:
        """By name in lower case."""
        pairs = (line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def is_chat(self) -> bool:
        return self.path.endswith("/chat/completions")


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response, whatever it says, and how it comes.

    Attributes:
        usage: tokens of the prompt and of the completion, as the body tells them.
        latency: in seconds, in place of the server's.
        how: "never"; "reset" before the first byte; "cut" after half of the body.
        once: it comes when this is true, or after `WAIT_SECONDS`: it is for the test to check it.
    """

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    usage: tuple[int, int] | None = None
    latency: float | None = None
    how: str = ""
    once: Callable[[], bool] | None = None

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        return (
            f"HTTP/1.1 {self.status} Status\r\n{more}"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n\r\n"
        ).encode("latin-1")


NEVER = Reply(how="never")


def reply_to(request: Request) -> Reply:
    """A sensible reply to a request of either kind; the script of a server that has no other."""
    if not request.is_chat:
        return embeddings(map(vector, request.body["input"]), usage=len(request.raw) // 4)
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema")
    return completion(fitting(schema, schema) if schema else {}, usage=(len(request.raw) // 4, 20))


def json_reply(value: Any, *, status: int = 200, **more: Any) -> Reply:
    """Any JSON."""
    return Reply(orjson.dumps(value), status, **more)


def completion(
    content: Any,
    *,
    usage: tuple[int, int] | None = USED,
    finish_reason: str = "stop",
    refusal: str | None = None,
) -> Reply:
    """A chat completion; `content` is JSON unless it is a text or None already."""
    if not isinstance(content, str | None):
        content = orjson.dumps(content).decode()
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return chat([{"index": 0, "message": message, "finish_reason": finish_reason}], usage=usage)


def chat(choices: Any, *, usage: tuple[int, int] | None = USED) -> Reply:
    """A chat completion of any choices; without usage, it does not tell what it used."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "scripted",
        "choices": choices,
    }
    if usage is not None:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return json_reply(body, usage=usage)


def embeddings(vectors: Any, *, usage: int = 10, indexes: Sequence[int] | None = None) -> Reply:
    """A list of embeddings; `indexes` stand in it in place of 0, 1, ..."""
    vectors = list(vectors)
    pairs = zip(range(len(vectors)) if indexes is None else indexes, vectors, strict=True)
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in pairs]
    used = {"prompt_tokens": usage, "total_tokens": usage}
    body = {"object": "list", "model": "scripted", "data": data, "usage": used}
    return json_reply(body, usage=(usage, 0))


def error(
    status: int,
    message: str,
    *,
    code: Any = None,
    type: str | None = None,  # noqa: A002
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An error as OpenAI words it."""
    body = {"error": {"message": message, "type": type, "param": param, "code": code}}
    return json_reply(body, status=status, headers=tuple((headers or {}).items()))


def vector(text: str) -> list[float]:
    """A vector of length 1 that depends on the text only."""
    values = [
        each + 0.5 for each in array("h", hashlib.shake_128(text.encode()).digest(2 * DIMENSIONS))
    ]
    length = hypot(*values)
    return [value / length for value in values]
