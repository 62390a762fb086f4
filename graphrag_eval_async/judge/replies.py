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
from graphrag_eval_async.judge.fields import all_fields, get_field
from graphrag_eval_async.judge.protocol import check_size
from graphrag_eval_async.judge.tokens import read_token_usage
from graphrag_eval_async.records.decoding import InvalidRecord, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.judge.scrubber import Scrubber
    from graphrag_eval_async.records.token_usage import TokenUsage

EXCERPT = 100
"""Maximum characters that are quoted of a reply that cannot be read."""

REASONING_END = re.compile(r"</(?:think|thinking|thought|reasoning)>")
REASONING_START = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")

MIN_HIDDEN = 16
"""Minimum length of secrets that are hidden in replies; shorter ones may occur by chance."""

MAX_BRACES = 20
"""Maximum opening braces at which an object is looked for in the text of a reply."""

BRACE_OR_STRING = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?|[{}]', re.DOTALL)
"""A brace, or a whole JSON string, whose braces do not count."""

TRAILING_COMMA = re.compile(r'(?P<kept>"(?>(?:[^"\\]|\\.)*)"?|[\[{]\s*,)|,(?=\s*[}\]])', re.DOTALL)
"""The comma after the last item of a list or object. The group `kept` holds what only looks like
one: a whole JSON string, or a comma before the first item.
"""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the keys and values of a JSON object as a dict.

    Raises:
        ValueError: the object has the same key twice.
    """
    json_object = dict(pairs)
    if len(json_object) < len(pairs):
        raise ValueError("ambiguous: an object has the same key twice")
    return json_object


DECODER = JSONDecoder(object_pairs_hook=_unique_keys, strict=False)
"""Accepts line breaks and other control characters in strings, and refuses repeated keys."""


class Completion(NamedTuple):
    """The reply in a chat completion."""

    value: Any
    """The decoded JSON."""
    usage: TokenUsage | None
    is_repaired: bool = False
    """Whether the JSON was taken out of other text, or was broken and repaired."""
    dialect: Dialect = Dialect()
    """How the request was written."""


class Content(NamedTuple):
    """The text of a message."""

    text: Any
    """The text; None or something else if the message has no text."""
    is_repaired: bool = False
    """Whether the text is not where it belongs: in parts, or in the field for reasoning."""
    is_reasoning: bool = False
    """Whether the text is in the field for reasoning."""


def check_object(reply: Any, scrub: Scrubber) -> None:
    """Check that a reply of the SDK, or of a client that wraps the SDK, is an object.

    Raises:
        JudgeError: the reply is another value. If the server sent an HTML page, for example, the
            SDK returns its text.
    """
    if reply is None or isinstance(reply, str | bytes | list | int | float):
        excerpt = scrub(str(reply), EXCERPT)
        raise JudgeError("invalid_reply", f"not a JSON object: {excerpt}")


def read_completion(reply: Any, scrub: Scrubber, limit_name: str) -> Completion:
    """Return the JSON value in a chat completion.

    Args:
        reply: the completion, as an object of the SDK or a mapping.
        scrub: hides secrets in quoted text.
        limit_name: the setting that limits the length of replies, such as
            "llm.generation.max_tokens".

    Raises:
        JudgeError: there is no JSON value. The error has the text of the reply and the tokens used.
    """
    usage = read_token_usage(get_field(reply, "usage"))
    choices = get_field(reply, "choices")
    message = None
    if choices and isinstance(choices, list):
        message = get_field(choices[0], "message")
    if message is None:
        excerpt = scrub(str(all_fields(reply)), EXCERPT)
        raise JudgeError("invalid_reply", f"no choices: {excerpt}", reply="", usage=usage)

    content = _read_content(message)
    text = None
    if isinstance(content.text, str):
        text = scrub.hide(content.text, MIN_HIDDEN)

    # Was the reply refused, cut off or empty?
    finish_reason = get_field(choices[0], "finish_reason")
    refusal = get_field(message, "refusal")
    if refusal or finish_reason == "content_filter":
        problem = scrub(str(refusal or "by the content filter"))
        raise JudgeError("refused", problem, reply=text, usage=usage)
    if finish_reason == "length":
        problem = f"the reply was cut off; raise {limit_name}"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)

    # Read the JSON. Reasoning only counts as the reply if it is nothing but one whole object.
    try:
        check_size(text.encode())
        value, is_extracted = extract_json(text)
        if content.is_reasoning:
            is_whole_reply = (
                finish_reason == "stop" and not is_extracted and isinstance(value, dict)
            )
            if not is_whole_reply:
                problem = f"the reply has only reasoning; it ends with {text[-EXCERPT:]!r}"
                raise ValueError(problem)
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text, usage=usage) from None
    return Completion(value, usage, is_repaired=content.is_repaired or is_extracted)


def _read_content(message: Any) -> Content:
    """Return the text of a message, wherever the server has put it.

    The text is the arguments of the only tool call; without such a call, the content, as a text or
    as a list of parts. If that is blank, it is the reasoning, where some servers put the reply.
    Parts and reasoning are marked as repaired, since a reply does not belong there.
    """
    arguments = _tool_arguments(message)
    parts = get_field(message, "content")
    if isinstance(arguments, str):
        content = Content(arguments)
    elif isinstance(parts, str):
        content = Content(parts)
    elif parts and isinstance(parts, list):
        content = Content(_join_parts(parts), is_repaired=True)
    else:
        content = Content(None)

    if isinstance(content.text, str) and content.text.strip():
        return content
    reasoning = get_field(message, "reasoning_content") or get_field(message, "reasoning")
    return Content(reasoning, is_repaired=True, is_reasoning=True)


def _tool_arguments(message: Any) -> Any:
    """Return the arguments of the only tool call in a message, as a JSON text.

    The result is None if there is no call, or several. Arguments of a wrong type are returned as
    they are.
    """
    tool_calls = get_field(message, "tool_calls")
    if not isinstance(tool_calls, list) or len(tool_calls) != 1:
        return None
    arguments = get_field(tool_calls[0], "function", "arguments")
    if isinstance(arguments, Mapping):
        # Some servers send an object instead of the JSON text of the object.
        return orjson.dumps(arguments).decode()
    return arguments


def _join_parts(parts: list[Any]) -> str | None:
    """Return the joined texts of the parts of a message; None if no part has a text."""
    texts = []
    for part in parts:
        match part:
            case {"type": "text" | "output_text", "text": str(text)}:
                texts.append(text)
    if not texts:
        return None
    return "".join(texts)


def extract_json(text: str) -> tuple[Any, bool]:
    """Return the JSON value in the text of a reply, and whether the text had to be repaired.

    These mistakes of models are repaired:

    - reasoning before the object, between ``<think>`` and ``</think>``
    - a Markdown fence around the object, or sentences before and after it
    - a comma after the last item of a list or an object
    - line breaks within a string

    Raises:
        ValueError: the text has no JSON value, or several.
    """
    try:
        value = decode(text.encode())
    except InvalidRecord as error:
        problem = error
    else:
        # A repeated key is lost in decoding, so its quotes are missing when the value is encoded
        # again. A quote that is written as \u0022 makes a difference, too, so `DECODER` decides:
        # it refuses repeated keys. Counting is fast, and most replies need nothing more.
        has_same_quotes = orjson.dumps(value).count(b'"') == text.count('"')
        if not has_same_quotes:
            DECODER.decode(text)
        return value, False

    answer = REASONING_END.split(text)[-1]
    if REASONING_START.match(answer):
        raise ValueError("the reply ends in the middle of its reasoning")
    objects = [*_find_objects(answer)]
    if len(objects) > 1:
        raise ValueError(f"ambiguous: the reply has {len(objects)} JSON objects")
    if not objects:
        raise ValueError(f"the content is not JSON: {problem}; it ends with {text[-EXCERPT:]!r}")
    return objects[0], True


def _find_objects(text: str) -> Iterator[Any]:
    """Yield the decoded JSON objects in a text, after removing commas after last items.

    An object inside other braces is skipped, since it may be a part of a broken object.

    Raises:
        ValueError: there are more than `MAX_BRACES` places where an object could begin.
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
        candidate = TRAILING_COMMA.sub(_keep_all_but_comma, text[start:end])
        with suppress(JSONDecodeError, RecursionError, InvalidRecord):
            value = DECODER.decode(candidate)
            # `decode` refuses values that results cannot hold, such as NaN.
            yield decode(dumps(value).encode())
        start = text.find("{", end)


def _keep_all_but_comma(match: re.Match[str]) -> str:
    """Return the text to put in place of a match of `TRAILING_COMMA`.

    This is a space for a comma after a last item. Other matches, such as whole strings, are kept.
    """
    return match["kept"] or " "


def _end_of_object(text: str, start: int) -> int:
    """Return the index after the closing brace of the object that begins at `start`.

    If the object is not closed, the result is the length of the text.
    """
    depth = 0
    for token in BRACE_OR_STRING.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        if depth == 0:
            return token.end()
    return len(text)


def read_embeddings(reply: Any, scrub: Scrubber) -> tuple[list[Any], TokenUsage | None]:
    """Return the vectors in a reply, in the order of the texts, and the tokens used.

    The vectors themselves are not checked.

    Args:
        reply: what the SDK returned, as an object or a mapping.
        scrub: hides secrets in quoted text.

    Raises:
        JudgeError: there are no vectors, or their indexes do not match the texts.
    """
    usage = read_token_usage(get_field(reply, "usage"))
    data = get_field(reply, "data")
    if not isinstance(data, list):
        excerpt = scrub(str(all_fields(reply)), EXCERPT)
        raise JudgeError("invalid_reply", f"no embeddings: {excerpt}", usage=usage)

    vectors = [get_field(item, "embedding") for item in data]
    indexes: list[Any] = [get_field(item, "index") for item in data]
    if all(index is None for index in indexes):
        # Without indexes, the vectors are in the order of the texts.
        return vectors, usage

    are_integers = all(type(index) is int for index in indexes)
    if not are_integers or sorted(indexes) != [*range(len(data))]:
        problem = "the indexes of the embeddings do not match the texts"
        raise JudgeError("invalid_reply", problem, usage=usage)
    vectors_by_index = dict(zip(indexes, vectors, strict=True))
    return [vectors_by_index[index] for index in range(len(data))], usage
