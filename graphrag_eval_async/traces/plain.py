"""Convert objects of agent frameworks to plain JSON values, and read the texts and times in
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.records.line import repr_of
from graphrag_eval_async.records.outputs import decoded

MAX_DEPTH = 200  # How deep a trace may nest; deeper parts are cut off as text.
# How deep JSON text in an attribute of a span may nest; deeper text stays text.
MAX_ATTRIBUTE_DEPTH = 100


def history_of(value: Any) -> Any:
    """A history as plain JSON values: of objects, or of JSON text."""
    if isinstance(value, bytes | bytearray | str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise TraceError(f"a trace that is text must be JSON: {error}") from None
    return as_json(value)


_GIVEN = (
    "messages",
    "original_input",
    "request",
    "all_messages",
    "_state",
    "input",
    "events",
    "items",
)
_MADE = ("generated_items", "output", "response", "completion", "choices")


_OF_MESSAGES = {"role", "type", "parts"}
"""Keys of messages: an object with one of them holds no history, but is a part of one."""


def opened(value: Any) -> tuple[list[Any], list[str]]:
    """Return the messages, items or events of a history, and the keys of its holder that have them.

    The object that holds a history may have two halves: what was asked for, and what came back.
    Each may be text.
    """
    messages = _messages_of_updates(value)
    if messages:
        return messages, []
    if isinstance(value, list):
        return value, []
    if not isinstance(value, dict):
        return [value], []

    asked = _find_items(value, _GIVEN, _items_of)
    answered = _find_items(value, _MADE, _items_of)
    if asked is None and answered is None and not _is_pair_of_texts(value):
        return [value], []
    if asked is None:
        asked = _find_items(value, _GIVEN, partial(_text_as_items, role="user"))
    if answered is None:
        answered = _find_items(value, _MADE, partial(_text_as_items, role="assistant"))

    items: list[Any] = []
    keys = []
    if asked is not None:
        key, items = asked
        keys.append(key)
    if answered is not None:
        key, answer_items = answered
        keys.append(key)
        repeats_the_question = answer_items[: len(items)] == items
        items = answer_items if repeats_the_question else items + answer_items
    return items, keys


def _is_pair_of_texts(holder: dict[str, Any]) -> bool:
    """Return whether an object has a question and an answer as text, and is nothing else."""
    asked = first(holder, *_GIVEN)
    answered = first(holder, *_MADE)
    if not isinstance(asked, str) or not isinstance(answered, str):
        return False
    return (_OF_MESSAGES | {"object"}).isdisjoint(holder)


def _find_items(
    holder: dict[str, Any], keys: Iterable[str], read: Callable[[Any], list[Any]]
) -> tuple[str, list[Any]] | None:
    """Return the first key of an object whose value has items, and these; None if none has."""
    for key in keys:
        if holder.get(key):
            items = read(holder[key])
            if items:
                return key, items
    return None


def _messages_of_updates(value: Any) -> list[Any]:
    """Return the messages in what a graph of LangGraph streams with the mode "updates".

    Each chunk is an object from the name of a node to what it added to the state. With several
    modes, or subgraphs, chunks are lists that end with this object; the last of the mode "values"
    has all messages. The list is empty if the value is something else.
    """
    if not isinstance(value, list):
        return []
    messages: list[Any] = []
    for chunk in value:
        update = chunk
        if isinstance(chunk, list) and len(chunk) > 1:
            update = chunk[-1]
        if not isinstance(update, dict) or not _OF_MESSAGES.isdisjoint(update):
            return []
        if isinstance(chunk, list) and "values" in chunk:
            messages = list(list_at(update, "messages"))
            continue
        for change in update.values():
            if not isinstance(change, dict | list | None):
                return []
            parts = change if isinstance(change, list) else [change]
            for part in parts:
                added = part.get("messages") if isinstance(part, dict) else None
                messages += added if isinstance(added, list) else [added]
    return [message for message in messages if isinstance(message, dict)]


def whole_answer(value: Any) -> Any:
    """Return an answer of an API, decoded if it is JSON text; all else as it is."""
    if isinstance(value, str) and '"object"' in value:
        answer = decoded(value)
        if isinstance(answer, dict) and "object" in answer:
            return answer
    return value


def _items_of(half: Any) -> list[Any]:
    """Return the messages, items or events in one half of a history; none if it has none."""
    half = whole_answer(half)
    if isinstance(half, list):
        return half
    if not isinstance(half, dict):
        return []
    for key in (*_GIVEN, *_MADE):
        items = list_at(half, key)
        if items:
            return items
    if _OF_MESSAGES.isdisjoint(half):
        return []
    return [half]


def _text_as_items(half: Any, role: str) -> list[Any]:
    """Return a half that is text, or has nothing but a `content`, as a list of one message."""
    content = whole_answer(half)
    if isinstance(content, dict) and _OF_MESSAGES.isdisjoint(content):
        content = content.get("content")
    text = said(content)
    if not text:
        return []
    return [{"role": role, "content": text}]


def as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A value of dicts, lists, strings, numbers, booleans and None.

    Pydantic models get a key ``class`` with the name of their class if they have none. Exceptions
    become ``{"type", "message"}``; what has no JSON form, its `repr`.
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
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    methods = () if isinstance(value, type) else ("export", "model_dump", "tolist", "isoformat")
    for method in methods:
        convert = getattr(value, method, None)
        with suppress(Exception):  # Whatever a method of a foreign object raises.
            plain = as_json(convert(), depth) if callable(convert) else None
            if method == "model_dump" and isinstance(plain, dict):
                plain.setdefault("class", type(value).__name__)
            if plain is not None:
                return plain
    if methods and is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name), depth) for field in fields(value)}
    return repr_of(value)


def shown(value: Any) -> str:
    """What a value has, for an error: the keys of an object, or of the first in a list."""
    if isinstance(value, list):
        return f"a list, first of {shown(value[0])}" if value else "an empty list"
    if not isinstance(value, dict):
        return f"a {type(value).__name__}"
    return (
        f"the keys {', '.join(repr(str(key)[:50]) for key in list(value)[:10])}"
        if value
        else "no keys"
    )


def first(value: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first key that has one; None if none has."""
    for key in keys:
        if (found := value.get(key)) is not None:
            return found
    return None


def dict_at(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object at a key; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def list_at(value: Mapping[str, Any], key: str) -> list[Any]:
    """The list at a key; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def seconds_between(starts: Iterable[Any], ends: Iterable[Any]) -> float | None:
    """Seconds from the first start to the last end, as far as they are known."""
    begun = [seconds for value in starts if (seconds := _seconds(value)) is not None]
    ended = [seconds for value in ends if (seconds := _seconds(value)) is not None]
    return max(0.0, max(ended) - min(begun)) if begun and ended else None


def _seconds(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 text, or of a number of seconds; None if it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    return None


def text_of(value: Any) -> str:
    """What a tool returned as text: text as it is, the texts of blocks, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value:
        texts = [text for block in value if (text := block_text(block)) is not None]
        if len(texts) == len(value):
            return "\n".join(texts)
    return json_of(value)


def json_of(value: Any) -> str:
    """A value as JSON text; as Python shows it where it nests too deep or has too large an
    integer.
    """
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return repr(as_json(value, MAX_ATTRIBUTE_DEPTH))


def structure(value: Any) -> Any:
    """An object or list for its JSON text; anything else, and what nests too deep, as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        with suppress(orjson.JSONDecodeError, UnicodeEncodeError):
            found = orjson.loads(value)
            return value if nests_deeper(found, MAX_ATTRIBUTE_DEPTH) else found
    return value


def said(content: Any) -> str:
    """What a message says: text, or the blocks of it that are text, without calls, thoughts and
    images.
    """
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    texts = (block if isinstance(block, str) else block_text(block) for block in blocks)
    return "\n".join(text for text in texts if text)


def block_text(block: Any) -> str | None:
    """The text of a block of content; None if it is of another kind."""
    if not isinstance(block, dict):
        return None
    kind = first(block, "type", "part_kind")
    if kind == "resource" and isinstance(block.get("resource"), dict):  # Of MCP.
        kind, block = "text", block["resource"]
    if kind == "user-prompt":
        return said(block.get("content"))
    if kind == "document" and isinstance(block.get("document"), dict):  # Of Cohere.
        data = block["document"].get("data")
        return data if isinstance(data, str) else json_of(data)
    if kind in ("text", "input_text", "output_text", "refusal"):
        text = first(block, "text", "refusal", "content")
        return text if isinstance(text, str) else None
    return None
