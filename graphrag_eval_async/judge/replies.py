"""Reads replies and vectors in what the package openai returns.

Servers do not keep to its types: whatever is missing or of another shape is an error with words.
Formats: https://platform.openai.com/docs/api-reference/chat/object and .../embeddings/object
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from json import JSONDecodeError, JSONDecoder, dumps
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.dialect import Dialect
from graphrag_eval_async.judge.members import member, members
from graphrag_eval_async.judge.protocol import check_size
from graphrag_eval_async.judge.tokens import token_usage
from graphrag_eval_async.records.decoding import InvalidRecord, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.judge.scrubber import Scrubber
    from graphrag_eval_async.records.token_usage import TokenUsage

EXCERPT = 100
"""Maximum characters that are quoted of a reply that cannot be read."""

REASONED = re.compile(r"</(?:think|thinking|thought|reasoning)>")
REASONING = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
"""The end and the start of the reasoning before a reply."""

MIN_HIDDEN = 16
"""Minimum length of secrets that are hidden in replies; shorter ones may occur by chance."""

MAX_BRACES = 20
"""Maximum opening braces at which an object is looked for in the text of a reply."""

BRACE = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?|[{}]', re.DOTALL)
"""A brace, or a whole text, whose braces do not count."""

COMMA = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?|[\[{]\s*,)|,(?=\s*[}\]])', re.DOTALL)
"""The comma after the last item of a list or object. A group holds what is none: a text, or a
comma before the first item.
"""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, unless it has the same key twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("ambiguous: an object has the same key twice")
    return members


DECODER = JSONDecoder(object_pairs_hook=_unique, strict=False)
"""Accepts line breaks and other control characters in texts."""


class Completion(NamedTuple):
    """The reply in a chat completion."""

    value: Any
    """The decoded JSON."""
    usage: TokenUsage | None
    is_repaired: bool = False
    """Whether other text was removed, or broken JSON mended."""
    dialect: Dialect = Dialect()
    """How the request was written."""


class Content(NamedTuple):
    """The text of a message."""

    text: Any
    """The text; None or something else if the message has no text."""
    is_repaired: bool = False
    """Whether it was in parts, or where reasoning belongs."""
    is_reasoning: bool = False
    """Whether it stands where reasoning belongs."""


def check_object(reply: Any, scrub: Scrubber) -> None:
    """Check that what the SDK, or a client that wraps it, returned is an object.

    Raises:
        JudgeError: it is not; the SDK returns a text for HTML.
    """
    if reply is None or isinstance(reply, str | bytes | list | int | float):
        excerpt = scrub(str(reply), EXCERPT)
        raise JudgeError("invalid_reply", f"not a JSON object: {excerpt}")


def read_completion(reply: Any, scrub: Scrubber, limit: str) -> Completion:
    """Return the JSON value in a chat completion.

    Args:
        reply: the completion, as an object of the SDK or a mapping.
        scrub: hides secrets in what is quoted.
        limit: the setting that limits the length of replies, such as "llm.generation.max_tokens".

    Raises:
        JudgeError: there is no JSON value; with the text of the reply and the tokens used.
    """
    usage = token_usage(member(reply, "usage"))
    choices = member(reply, "choices")
    choice = choices[0] if choices and isinstance(choices, list) else None
    message = member(choice, "message")
    if message is None:
        excerpt = scrub(str(members(reply)), EXCERPT)
        raise JudgeError("invalid_reply", f"no choices: {excerpt}", reply="", usage=usage)

    content = _content(message)
    text = content.text if isinstance(content.text, str) else None
    if text is not None:
        text = scrub.hide(text, MIN_HIDDEN)

    reason = member(choice, "finish_reason")
    refusal = member(message, "refusal")
    if refusal or reason == "content_filter":
        problem = scrub(str(refusal or "by the content filter"))
        raise JudgeError("refused", problem, reply=text, usage=usage)
    if reason == "length":
        problem = f"the reply was cut off; raise {limit}"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)

    try:
        check_size(text.encode())
        value, is_extracted = json_of(text)
        is_whole = not is_extracted and reason == "stop" and isinstance(value, dict)
        if content.is_reasoning and not is_whole:
            raise ValueError(f"the reply has only reasoning; it ends with {text[-EXCERPT:]!r}")
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text, usage=usage) from None
    return Completion(value, usage, is_repaired=content.is_repaired or is_extracted)


def _content(message: Any) -> Content:
    """Return the text of a message; the arguments of a tool call are a text."""
    tool_calls = member(message, "tool_calls")
    arguments = None
    if isinstance(tool_calls, list) and len(tool_calls) == 1:
        arguments = member(tool_calls[0], "function", "arguments")
    if isinstance(arguments, Mapping):
        arguments = orjson.dumps(arguments).decode()

    parts = member(message, "content")
    if isinstance(arguments, str):
        content = Content(arguments)
    elif isinstance(parts, str):
        content = Content(parts)
    elif parts and isinstance(parts, list):
        content = Content(_join_parts(parts), is_repaired=True)
    else:
        content = Content(None)
    if not isinstance(content.text, str) or not content.text.strip():
        # Some servers put the whole reply where reasoning belongs.
        reasoning = member(message, "reasoning_content") or member(message, "reasoning")
        return Content(reasoning, is_repaired=True, is_reasoning=True)
    return content


def _join_parts(parts: list[Any]) -> str | None:
    """Return the texts in the parts of a message; None without any."""
    texts = []
    for part in parts:
        match part:
            case {"type": "text" | "output_text", "text": str(text)}:
                texts.append(text)
    return "".join(texts) if texts else None


def json_of(text: str) -> tuple[Any, bool]:
    """Return the JSON value in the text of a reply, and whether other text had to be removed.

    Models put reasoning between ``<think>`` and ``</think>`` before an object, a Markdown fence
    around it, or sentences before and after it. They end a list or an object with a comma, or break
    lines within a text.

    Raises:
        ValueError: there is no value, or there are several.
    """
    try:
        value = decode(text.encode())
    except InvalidRecord as error:
        problem = error
    else:
        # If quotes are fewer, one was escaped, or a key was given twice, which is an error.
        if text.count('"') != orjson.dumps(value).count(b'"'):
            DECODER.decode(text)
        return value, False

    answer = REASONED.split(text)[-1]
    if REASONING.match(answer):
        raise ValueError("the reply ends in the middle of its reasoning")
    objects = [*_objects_in(answer)]
    if len(objects) > 1:
        raise ValueError(f"ambiguous: the reply has {len(objects)} JSON objects")
    if not objects:
        raise ValueError(f"the content is not JSON: {problem}; it ends with {text[-EXCERPT:]!r}")
    return objects[0], True


def _objects_in(text: str) -> Iterator[Any]:
    """Yield the JSON objects in a text, but for those within other braces, which may be a part of
    a broken object.
    """
    braces = 0
    start = text.find("{")
    while start >= 0:
        braces += 1
        if braces > MAX_BRACES:
            raise ValueError(
                f"ambiguous: the reply has more than {MAX_BRACES} braces outside of objects"
            )
        end = _end_of_object(text, start)
        without_commas = COMMA.sub(lambda comma: comma[1] or " ", text[start:end])
        with suppress(JSONDecodeError, RecursionError, InvalidRecord):
            value = DECODER.decode(without_commas)
            yield decode(dumps(value).encode())
        start = text.find("{", end)


def _end_of_object(text: str, start: int) -> int:
    """Return where the object ends that begins with the brace at `start`; the end of the text if
    it is not closed.
    """
    depth = 0
    for token in BRACE.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        if depth == 0:
            return token.end()
    return len(text)


def read_embeddings(reply: Any, scrub: Scrubber) -> tuple[list[Any], TokenUsage | None]:
    """Return the vectors in the order of the texts, not checked further, and the tokens used."""
    usage = token_usage(member(reply, "usage"))
    data = member(reply, "data")
    if not isinstance(data, list):
        excerpt = scrub(str(members(reply)), EXCERPT)
        raise JudgeError("invalid_reply", f"no embeddings: {excerpt}", usage=usage)

    indexes: list[Any] = [member(item, "index") for item in data]
    vectors = [member(item, "embedding") for item in data]
    if all(index is None for index in indexes):
        return vectors, usage
    if not all(type(index) is int for index in indexes) or {*indexes} != {*range(len(data))}:
        problem = "the indexes of the embeddings do not match the texts"
        raise JudgeError("invalid_reply", problem, usage=usage)
    by_index = dict(zip(indexes, vectors, strict=True))
    return [by_index[index] for index in range(len(data))], usage
