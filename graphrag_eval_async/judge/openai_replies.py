"""What an OpenAI-compatible server replies, read and checked.

The formats: https://platform.openai.com/docs/api-reference/chat/object and .../embeddings/object
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import DecodeError, Struct, json

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import TokenUsage
from graphrag_eval_async.records.decoding import InvalidRecord, decode

if TYPE_CHECKING:
    from graphrag_eval_async.judge.openai_errors import Scrubber

EXCERPT = 100
"""How many characters of a body that cannot be read are quoted."""


class Reply(NamedTuple):
    """A response with a status of success."""

    body: bytes
    content_type: str


class Embedding(Struct):
    """One vector; its numbers are finite, since JSON has no others."""

    embedding: list[float]
    index: int | None = None


class Embeddings(Struct):
    """Vectors, in any order."""

    data: list[Embedding]
    usage: Any = None


def read_completion(reply: Reply, scrub: Scrubber) -> tuple[Any, TokenUsage | None]:
    """The JSON value that a chat completion holds, and the tokens it used.

    Raises:
        JudgeError: there is none.
    """
    fields = _object(reply, scrub)
    usage = _usage(fields.get("usage"))
    match fields.get("choices"):
        case [{"message": {} as message} as choice, *_]:
            pass
        case _:
            problem = f"no choices: {_excerpt(reply, scrub)}"
            raise JudgeError("invalid_reply", problem, reply="", usage=usage)
    content, reason = message.get("content"), choice.get("finish_reason")
    text = scrub.content(content) if isinstance(content, str) else None
    if (refusal := message.get("refusal")) or reason == "content_filter":
        raise JudgeError("refused", scrub(str(refusal or "by the content filter")), reply=text, usage=usage)
    if reason == "length":
        problem = "the reply was cut off; raise llm.generation.max_tokens"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)
    try:
        return decode(text.encode()), usage
    except InvalidRecord as error:
        raise JudgeError(
            "invalid_reply", f"the content is not JSON: {error}", reply=text, usage=usage
        ) from None


def read_embeddings(reply: Reply, scrub: Scrubber, count: int) -> tuple[list[list[float]], TokenUsage | None]:
    """The vectors of as many texts, in their order, and the tokens used.

    Raises:
        JudgeError: they are not as many, or not all finite and of one length.
    """
    try:
        found = json.decode(reply.body, type=Embeddings)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        usage = _usage(_object(reply, scrub).get("usage"))
        raise JudgeError("invalid_reply", f"no embeddings: {error}", usage=usage) from None
    data, usage = found.data, _usage(found.usage)
    lengths = {len(item.embedding) for item in data}
    if len(data) != count or len(lengths) > 1 or 0 in lengths:
        problem = f"{len(data)} embeddings for {count} texts, of lengths {sorted(lengths)}"
        raise JudgeError("invalid_reply", problem, usage=usage)
    if any(item.index is not None for item in data):
        data.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in data] != list(range(count)):
            raise JudgeError(
                "invalid_reply", "the indexes of the embeddings are not those of the texts", usage=usage
            )
    return [item.embedding for item in data], usage


def _object(reply: Reply, scrub: Scrubber) -> dict[str, Any]:
    try:
        fields = decode(reply.body)
    except InvalidRecord:
        fields = None
    if not isinstance(fields, dict):
        problem = f"no JSON object ({scrub(reply.content_type) or 'no type'}): {_excerpt(reply, scrub)}"
        raise JudgeError("invalid_reply", problem)
    return fields


def _usage(usage: Any) -> TokenUsage | None:
    """The tokens used; None if the server does not say, or says nonsense."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens") or 0]
    usable = [count for count in counts if type(count) is int and 0 <= count < 2**53]
    return TokenUsage(*usable) if usable == counts else None


def _excerpt(reply: Reply, scrub: Scrubber) -> str:
    return scrub(reply.body.decode(errors="replace"), EXCERPT)
