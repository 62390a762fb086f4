"""Reads replies and vectors in responses of OpenAI-compatible servers.

Formats: https://platform.openai.com/docs/api-reference/chat/object and .../embeddings/object
"""

from __future__ import annotations

import re
from contextlib import suppress
from json import JSONDecodeError, JSONDecoder, dumps
from typing import TYPE_CHECKING, Any, TypeGuard

import orjson
from msgspec import DecodeError, Struct, json

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.failures import EXCERPT, MAX_BODY_VALUES
from graphrag_eval_async.judge.protocol import MAX_VALUES, check_size
from graphrag_eval_async.records.decoding import InvalidRecord, count_values, decode
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.judge.failures import Response

MAX_NUMBERS = 500_000
"""Maximum count of numbers in a reply with embeddings: the vectors of more than 100 texts."""

REASONED = re.compile(r"</(?:think|thinking|thought|reasoning)>")
REASONING = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
"""The end and the start of the reasoning before a reply."""

# Minimum length of secrets that are hidden in replies; shorter ones may occur by chance.
MIN_HIDDEN = 16
MAX_BRACES = 20  # Maximum opening braces at which an object is looked for in the text of a reply.


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, unless it has the same key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("ambiguous: an object has the same key twice")
    return found


DECODER = JSONDecoder(object_pairs_hook=_unique, strict=False)
"""Accepts line breaks and other control characters in texts."""

BRACE = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?|[{}]', re.DOTALL)
"""A brace, or a whole text, whose braces do not count."""

COMMA = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?|[\[{]\s*,)|,(?=\s*[}\]])', re.DOTALL)
"""The comma after the last item of a list or object; as a group, what is none: a text, or a
comma before.
"""


class Embedding(Struct):
    """One vector; its numbers are finite, since JSON has only finite numbers."""

    embedding: list[float]
    index: int | None = None


class Embeddings(Struct):
    """Vectors, in any order."""

    data: list[Embedding]
    usage: Any = None


def read_completion(
    response: Response, limit: str = "llm.generation.max_tokens"
) -> tuple[Any, TokenUsage | None, bool]:
    """Return the JSON value in a chat completion, the tokens used, and whether other text was
    removed.
    """
    fields = _object(response)
    usage = _usage(fields.get("usage"))
    match fields.get("choices"):
        case [{"message": {} as message} as choice, *_]:
            content, is_repaired = _content(message)
        case _:
            raise JudgeError(
                "invalid_reply", f"no choices: {response.excerpt}", reply="", usage=usage
            )
    reason = choice.get("finish_reason")
    is_reasoning = content is None or not content.strip()
    if is_reasoning:  # Some servers put the whole reply there.
        content = message.get("reasoning_content") or message.get("reasoning")
    text = response.scrub.hide(content, MIN_HIDDEN) if isinstance(content, str) else None
    if (refusal := message.get("refusal")) or reason == "content_filter":
        problem = response.scrub(str(refusal or "by the content filter"))
        raise JudgeError("refused", problem, reply=text, usage=usage)
    if reason == "length":
        problem = f"the reply was cut off; raise {limit}"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)
    try:
        check_size(text.encode())
        value, is_extracted = json_of(text)
        if is_reasoning and (is_extracted or reason != "stop" or not isinstance(value, dict)):
            raise ValueError(f"the reply has only reasoning; it ends with {text[-EXCERPT:]!r}")
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text, usage=usage) from None
    return value, usage, is_repaired or is_extracted or is_reasoning


def _content(message: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return the text of a message, and whether it was in parts. The arguments of a tool call
    are a text.
    """
    match message:
        case {"tool_calls": [{"function": {"arguments": str(text)}}]}:
            return text, False
        case {"tool_calls": [{"function": {"arguments": {} as value}}]}:
            return orjson.dumps(value).decode(), False
        case {"content": str(text)}:
            return text, False
        case {"content": [_, *_] as parts}:
            dicts = [part for part in parts if isinstance(part, dict)]
            found = [
                part.get("text") for part in dicts if part.get("type") in {"text", "output_text"}
            ]
            texts = [text for text in found if isinstance(text, str)]
            return ("".join(texts) if texts else None), True
    return None, False


def json_of(text: str) -> tuple[Any, bool]:
    """Return the JSON value in the text of a reply, and whether other text had to be removed.

    Models put reasoning between ``<think>`` and ``</think>`` before an object, a Markdown fence
    around it, or sentences before and after it. They end a list or an object with a comma, or break
    lines within a text.
    """
    try:
        value = decode(text.encode())
    except InvalidRecord as error:
        problem = error
    else:
        # A key is missing, or a quote was escaped.
        if text.count('"') != orjson.dumps(value).count(b'"'):
            DECODER.decode(text)
        return value, False
    answer = REASONED.split(text)[-1]
    if REASONING.match(answer):
        raise ValueError("the reply ends in the middle of its reasoning")
    found = [*_objects(answer)]
    if len(found) > 1:
        raise ValueError(f"ambiguous: the reply has {len(found)} JSON objects")
    if not found:
        raise ValueError(f"the content is not JSON: {problem}; it ends with {text[-EXCERPT:]!r}")
    return found[0], True


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON objects in a text. What stands within other braces may be a part of a
    broken object.
    """
    start, tries = text.find("{"), 0
    while start >= 0:
        tries += 1
        if tries > MAX_BRACES:
            raise ValueError(
                f"ambiguous: the reply has more than {MAX_BRACES} braces outside of objects"
            )
        depth, end = 0, len(text)
        for found in BRACE.finditer(text, start):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth:
                end = found.end()
                break
        with suppress(JSONDecodeError, RecursionError, InvalidRecord):
            value = DECODER.decode(COMMA.sub(lambda found: found[1] or " ", text[start:end]))
            yield decode(dumps(value).encode())
        start = text.find("{", end)


def read_embeddings(response: Response) -> tuple[list[list[float]], TokenUsage | None]:
    """Return the vectors in the order of the texts, and the tokens used."""
    arrays, numbers = (
        response.body.count(b"[") + response.body.count(b"{"),
        response.body.count(b","),
    )
    if arrays > MAX_VALUES or numbers > MAX_NUMBERS:
        problem = (
            f"no embeddings: more than {MAX_VALUES} arrays and objects, or {MAX_NUMBERS} numbers"
        )
        raise JudgeError("invalid_reply", problem, reply="")
    try:
        found = json.decode(response.body, type=Embeddings)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        usage = _usage(_object(response).get("usage"))
        raise JudgeError("invalid_reply", f"no embeddings: {error}", usage=usage) from None
    data, usage = found.data, _usage(found.usage)
    if any(item.index is not None for item in data):
        data.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in data] != list(range(len(data))):
            problem = "the indexes of the embeddings do not match the texts"
            raise JudgeError("invalid_reply", problem, usage=usage)
    return [item.embedding for item in data], usage


def _object(response: Response) -> dict[str, Any]:
    fields = response.json
    if fields is None and (count := count_values(response.body)) > MAX_BODY_VALUES:
        problem = f"the body has {count} values, more than {MAX_BODY_VALUES}"
        raise JudgeError("invalid_reply", f"{problem}: {response.excerpt}", reply="")
    if not isinstance(fields, dict):
        kind = response.scrub(response.headers.get("content-type", "")) or "no type"
        raise JudgeError("invalid_reply", f"not a JSON object ({kind}): {response.excerpt}")
    return fields


def _usage(usage: Any) -> TokenUsage | None:
    """Return the tokens used; None if the server gives no valid counts.

    Some servers leave reasoning out of the completion, but not out of the total.
    """
    if not isinstance(usage, dict):
        return None
    prompt, completion, cached = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0, 0
    if not _is_count(prompt) or not _is_count(completion):
        return None
    match usage:
        case {"completion_tokens_details": {"reasoning_tokens": reasoning}} if _is_count(reasoning):
            if usage.get("total_tokens") == prompt + completion + reasoning:
                completion += reasoning
    match usage:
        case {"prompt_tokens_details": {"cached_tokens": number}} if _is_count(number):
            cached = min(number, prompt)
    return TokenUsage(prompt, completion, cached)


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**53
