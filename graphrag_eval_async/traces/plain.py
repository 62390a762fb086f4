"""Convert objects of agent frameworks to plain JSON values, and read the texts and times in
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import orjson

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.records.line import repr_of
from graphrag_eval_async.records.outputs import decoded

MAX_DEPTH = 200
"""How deep a trace may nest; deeper parts are cut off as text."""

MAX_ATTRIBUTE_DEPTH = 100
"""How deep JSON text in an attribute of a span may nest; deeper text stays text."""

_LISTED_KEYS = 10
"""How many keys of an object an error message lists."""

_KEY_CHARACTERS = 50
"""How many characters of a key an error message shows."""

_REQUEST_KEYS = (
    "messages",
    "original_input",
    "request",
    "all_messages",
    "_state",
    "input",
    "events",
    "items",
)
"""Keys at which objects hold what a model or agent was asked, in order of preference."""

_ANSWER_KEYS = ("generated_items", "output", "response", "completion", "choices")
"""Keys at which objects hold what a model or agent answered, in order of preference."""

_MESSAGE_KEYS = {"role", "type", "parts"}
"""Keys of messages: an object with one of them is a message, and holds no history."""

_CONVERTING_METHODS = (
    "export",  # Traces and spans of the OpenAI Agents SDK.
    "model_dump",  # Models of Pydantic.
    "tolist",  # Arrays of NumPy.
    "isoformat",  # Dates and times.
)
"""Methods that convert an object of a framework to plain values, in order of preference."""


def load_history(value: Any) -> Any:
    """Return a history as plain JSON values, from objects of a framework or from JSON text.

    Raises:
        TraceError: text or bytes are not JSON.
    """
    if isinstance(value, bytes | bytearray | str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise TraceError(f"a trace that is text must be JSON: {error}") from None
    return as_json(value)


class OpenedHistory(NamedTuple):
    """The messages, items or events of a history, in order.

    Attributes:
        messages: the messages, items or events.
        holder_keys: the keys at which the object that holds the history has them; none if a list
            or a single message is the history.
        has_text_as_answer: whether that object has the answer as mere text. Then the last message
            is this text.
    """

    messages: list[Any]
    holder_keys: list[str]
    has_text_as_answer: bool = False


def open_history(value: Any) -> OpenedHistory:
    """Find the messages, items or events of a history.

    An object may hold a history in two halves: a request and an answer, either of which may be
    text. A value that holds no history is itself the only message.
    """
    streamed_messages = _messages_of_stream(value)
    if streamed_messages:
        return OpenedHistory(streamed_messages, [])
    if isinstance(value, list):
        return OpenedHistory(value, [])
    if not isinstance(value, dict):
        return OpenedHistory([value], [])

    request = _find_messages(value, _REQUEST_KEYS, _messages_in_half)
    answer = _find_messages(value, _ANSWER_KEYS, _messages_in_half)
    if request is None and answer is None and not _is_pair_of_texts(value):
        return OpenedHistory([value], [])

    # A half in which no messages were found may be text.
    if request is None:
        request = _find_messages(value, _REQUEST_KEYS, partial(_text_as_messages, role="user"))
    has_text_as_answer = False
    if answer is None:
        answer = _find_messages(value, _ANSWER_KEYS, partial(_text_as_messages, role="assistant"))
        has_text_as_answer = answer is not None
    opened = _join_halves(request, answer)
    return opened._replace(has_text_as_answer=has_text_as_answer)


def _join_halves(
    request: tuple[str, list[Any]] | None, answer: tuple[str, list[Any]] | None
) -> OpenedHistory:
    """Join the two halves of a history.

    Each half is a key and the messages at that key, or None if the half is missing.
    """
    messages: list[Any] = []
    holder_keys = []
    if request is not None:
        key, messages = request
        holder_keys.append(key)
    if answer is not None:
        key, answer_messages = answer
        holder_keys.append(key)
        # Some agents answer with the whole conversation, which begins with the request.
        repeats_request = answer_messages[: len(messages)] == messages
        if repeats_request:
            return OpenedHistory(answer_messages, holder_keys)
        messages = messages + answer_messages
    return OpenedHistory(messages, holder_keys)


def _is_pair_of_texts(holder: dict[str, Any]) -> bool:
    """Return whether an object has a question and an answer that are both text.

    A message, or an answer of an API, is no such pair, even if it has the same keys.
    """
    question = first_value(holder, *_REQUEST_KEYS)
    answer = first_value(holder, *_ANSWER_KEYS)
    if not isinstance(question, str) or not isinstance(answer, str):
        return False
    is_answer_of_api = "object" in holder  # OpenAI's APIs have this key.
    return not _has_message_key(holder) and not is_answer_of_api


def _find_messages(
    holder: dict[str, Any], keys: Iterable[str], read_half: Callable[[Any], list[Any]]
) -> tuple[str, list[Any]] | None:
    """Return the first of some keys at which an object has messages, and these messages.

    Args:
        holder: the object.
        keys: the keys to try, in order of preference.
        read_half: returns the messages in the value at a key; empty if there are none.

    Returns:
        None if there are no messages at any of the keys.
    """
    for key in keys:
        if holder.get(key):
            messages = read_half(holder[key])
            if messages:
                return key, messages
    return None


def _messages_of_stream(value: Any) -> list[Any]:
    """Return the messages in the chunks that LangGraph streams in the modes "updates" or "values".

    - A chunk of "updates" has, by the name of a node, what the node added to the state.
    - A chunk of "values" is the state so far.

    The result is empty if the value is something else.
    """
    if not isinstance(value, list):
        return []
    messages: list[Any] = []
    has_updates = False
    for chunk in value:
        mode, content = _mode_and_content(chunk)
        if mode not in (None, "updates", "values"):
            continue  # Other modes stream no whole messages.
        if not isinstance(content, dict) or _has_message_key(content):
            return []

        state_messages = list_at(content, "messages")
        may_be_state = mode is None and bool(state_messages)
        if may_be_state:
            # A state repeats the messages of the state before it, and never follows an update.
            repeats_messages = state_messages[: len(messages)] == messages
            if has_updates or not repeats_messages:
                return []
        if mode == "values" or may_be_state:
            messages = list(state_messages)
            continue

        # All other chunks are updates.
        changes = content.values()
        if not all(isinstance(change, dict | list | None) for change in changes):
            return []
        has_updates = True
        for change in changes:
            messages += _messages_in_change(change)
    return [message for message in messages if isinstance(message, dict)]


def _mode_and_content(chunk: Any) -> tuple[str | None, Any]:
    """Return the mode and the content of a chunk that LangGraph streams.

    If a stream has several modes, or subgraphs, its chunks are lists. They have the path of the
    subgraph, the mode, and the content, of which the first two may be missing. The mode is None if
    the chunk does not name it.
    """
    if not isinstance(chunk, list) or len(chunk) < 2:
        return None, chunk
    *path_and_mode, content = chunk
    modes = [part for part in path_and_mode if isinstance(part, str)]
    mode = modes[-1] if modes else None
    return mode, content


def _messages_in_change(change: Any) -> list[Any]:
    """Return the messages that a node of LangGraph added to the state in one update.

    `change` is an object with a message or a list of messages at ``messages``, a list of such
    objects, or None.
    """
    parts = change if isinstance(change, list) else [change]
    messages: list[Any] = []
    for part in parts:
        if not isinstance(part, dict):
            continue
        added = part.get("messages")
        if isinstance(added, list):
            messages += added
        elif added is not None:
            messages.append(added)
    return messages


def _has_message_key(value: dict[str, Any]) -> bool:
    """Return whether an object has a key that only messages have, such as ``role``."""
    return not _MESSAGE_KEYS.isdisjoint(value)


def decode_api_answer(value: Any) -> Any:
    """Decode the answer of an API of OpenAI from JSON text; return anything else unchanged.

    Such an answer is an object with the key ``object``.
    """
    if isinstance(value, str) and '"object"' in value:
        answer = decoded(value)
        if isinstance(answer, dict) and "object" in answer:
            return answer
    return value


def _messages_in_half(half: Any) -> list[Any]:
    """Return the messages, items or events in a request or an answer; empty if there are none."""
    half = decode_api_answer(half)
    if isinstance(half, list):
        return half
    if not isinstance(half, dict):
        return []
    for key in (*_REQUEST_KEYS, *_ANSWER_KEYS):
        messages = list_at(half, key)
        if messages:
            return messages
    has_inner_message = isinstance(half.get("message"), dict)  # Cohere and Ollama answer like this.
    if has_inner_message or _has_message_key(half):
        return [half]
    return []


def _text_as_messages(half: Any, role: str) -> list[Any]:
    """Return a request or an answer that is text as a list of one message with this role.

    The text may be the ``content`` of an object. The list is empty if there is no text.
    """
    content = decode_api_answer(half)
    if isinstance(content, dict) and not _has_message_key(content):
        content = content.get("content")
    text = visible_text(content)
    if not text:
        return []
    return [{"role": role, "content": text}]


def as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Convert a value to dicts, lists, strings, numbers, booleans and None.

    - Pydantic models get a key ``class`` with the name of their class, if they have no such key.
    - Exceptions become ``{"type": ..., "message": ...}``.
    - A value without a JSON form, or one that nests deeper than `depth`, becomes its `repr`.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth <= 0:
        return repr_of(value)
    depth -= 1
    if isinstance(value, Mapping):
        return {str(key): as_json(child, depth) for key, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(child, depth) for child in value]
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    return _object_as_json(value, depth)


def _object_as_json(value: Any, depth: int) -> Any:
    """Convert an object of a framework to a JSON value, as `as_json` does.

    It is converted by the first of its methods that works, by its fields if it is a dataclass, or
    to its `repr`.
    """
    if isinstance(value, type):
        return repr_of(value)  # The methods of a class need an instance.
    for method in _CONVERTING_METHODS:
        convert = getattr(value, method, None)
        if not callable(convert):
            continue
        with suppress(Exception):  # Methods of a foreign object may raise anything.
            converted = as_json(convert(), depth)
            if method == "model_dump" and isinstance(converted, dict):
                # The key tells an object of a framework from a line of a log that a user wrote.
                converted.setdefault("class", type(value).__name__)
            if converted is not None:
                return converted
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name), depth) for field in fields(value)}
    return repr_of(value)


def describe_keys(value: Any) -> str:
    """Return a phrase for an error: the keys of an object, or the type of any other value.

    A list is described by its first item.
    """
    if isinstance(value, list):
        if not value:
            return "an empty list"
        return f"a list, first of {describe_keys(value[0])}"
    if not isinstance(value, dict):
        return f"a {type(value).__name__}"
    if not value:
        return "no keys"
    keys = list(value)[:_LISTED_KEYS]
    quoted_keys = ", ".join(repr(str(key)[:_KEY_CHARACTERS]) for key in keys)
    return f"the keys {quoted_keys}"


def first_value(mapping: Mapping[str, Any], *keys: str) -> Any:
    """Return the value of the first of `keys` that has a value; None if none of them has."""
    for key in keys:
        value = mapping.get(key)
        if value is not None:
            return value
    return None


def dict_at(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key; an empty object if something else or nothing is there."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def list_at(mapping: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at a key; an empty list if something else or nothing is there."""
    value = mapping.get(key)
    return value if isinstance(value, list) else []


def seconds_between(starts: Iterable[Any], ends: Iterable[Any]) -> float | None:
    """Return the seconds from the first start to the last end, never below 0.

    Times that cannot be read are ignored. The result is None if no start or no end can be read.
    """
    start_seconds = _readable_times(starts)
    end_seconds = _readable_times(ends)
    if not start_seconds or not end_seconds:
        return None
    return max(0.0, max(end_seconds) - min(start_seconds))


def _readable_times(values: Iterable[Any]) -> list[float]:
    """Return times in seconds since 1970; times that cannot be read are left out."""
    times = [_seconds_since_1970(value) for value in values]
    return [time for time in times if time is not None]


def _seconds_since_1970(value: Any) -> float | None:
    """Return a time in seconds since 1970; None if it cannot be read.

    `value` is a number of such seconds, or ISO 8601 text. Text without a time zone is in UTC.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(value)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.timestamp()
    return None


def text_of(value: Any) -> str:
    """Return the output of a tool as text.

    - Text stays as it is.
    - None becomes empty text.
    - A list becomes the texts of its blocks, joined by newlines, if all of them have text.
    - Anything else becomes JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value:
        texts = [block_text(block) for block in value]
        present_texts = [text for text in texts if text is not None]
        if len(present_texts) == len(value):
            return "\n".join(present_texts)
    return json_of(value)


def json_of(value: Any) -> str:
    """Return a value as JSON text, or its `repr` if it has no JSON form.

    A value has no JSON form if it nests too deep, or if it has an integer of more than 64 bits.
    """
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return repr(as_json(value, MAX_ATTRIBUTE_DEPTH))


def decode_object_or_list(value: Any) -> Any:
    """Decode JSON text of an object or a list; return any other value as the same object.

    Text that nests deeper than `MAX_ATTRIBUTE_DEPTH` is also returned unchanged.
    """
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        with suppress(orjson.JSONDecodeError, UnicodeEncodeError):
            structure = orjson.loads(value)
            if not nests_deeper(structure, MAX_ATTRIBUTE_DEPTH):
                return structure
    return value


def visible_text(content: Any) -> str:
    """Return the text of a message, without its calls, thoughts and images.

    `content` is text, a block, or a list of texts and blocks. Texts in a list are joined by
    newlines.
    """
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    texts = []
    for block in blocks:
        text = block if isinstance(block, str) else block_text(block)
        if text:
            texts.append(text)
    return "\n".join(texts)


def block_text(block: Any) -> str | None:
    """Return the text of a block in a message's content; None if the block has no text."""
    if not isinstance(block, dict):
        return None
    kind = first_value(block, "type", "part_kind")
    if kind == "user-prompt":  # Pydantic AI
        return visible_text(block.get("content"))
    if kind == "document" and isinstance(block.get("document"), dict):  # Cohere
        data = block["document"].get("data")
        return data if isinstance(data, str) else json_of(data)

    if kind == "resource":  # MCP
        text_holder = dict_at(block, "resource")
    elif kind in ("text", "input_text", "output_text", "refusal"):
        text_holder = block
    else:
        return None
    text = first_value(text_holder, "text", "refusal", "content")
    return text if isinstance(text, str) else None
