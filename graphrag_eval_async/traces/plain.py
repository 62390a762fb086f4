"""Objects of agent frameworks as plain JSON values, by what they can do; and the texts and times in these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.line import repr_of
from graphrag_eval_async.records.outputs import decoded, unwrapped

MAX_DEPTH = 200
"""How deep a trace may nest; deeper parts are cut off as text."""


def history_of(value: Any) -> Any:
    """A history as plain JSON values: of objects, or of JSON text."""
    if isinstance(value, bytes | bytearray | str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise TraceError(f"a trace that is text must be JSON: {error}") from None
    return as_json(value)


_HALVES = (
    ("messages", "original_input", "request", "all_messages", "_state", "store", "input", "events", "items"),
    ("generated_items", "output", "response", "completion", "choices"),
)
_OF_MESSAGES = {"role", "type", "parts"}


def halves(history: Any) -> list[str | None]:
    """The two keys of an object with what was asked for and what came back; one may be absent, or text."""
    found = history if isinstance(history, dict) else {}
    lists = [next((key for key in keys if _items(found.get(key))), None) for keys in _HALVES]
    texts = [next((key for key in keys if text_in(found.get(key)) is not None), None) for keys in _HALVES]
    return [one or other for one, other in zip(lists, texts, strict=True)] if any(lists) else lists


def text_in(half: Any) -> str | None:
    """What a half says that is text, or has nothing but a `content`; None if it is something else."""
    half = whole_answer(half)
    if isinstance(half, dict) and not _OF_MESSAGES & half.keys():
        return said(half.get("content")) or None
    return half if isinstance(half, str) else None


def whole_answer(value: Any) -> Any:
    """An answer of an API, decoded if it is JSON text; all else as it is."""
    answer = decoded(value) if isinstance(value, str) and '"object"' in value else None
    return answer if isinstance(answer, dict) and "object" in answer else value


def _items(value: Any) -> list[Any]:
    value = whole_answer(value)
    if isinstance(value, dict):
        found = [each for keys in _HALVES for key in keys if isinstance(each := value.get(key), list)]
        return found[0] if found else [value] if _OF_MESSAGES & value.keys() else []
    return value if isinstance(value, list) else []


def list_of(history: Any) -> list[Any]:
    """The list of messages, items or events: itself, or what an object has under its `halves`, in order."""
    if isinstance(history, list):
        return history
    found: list[Any] = []
    for key in halves(history):
        items = _items(history[key]) if key is not None else []
        # What came back may repeat what was asked for.
        found = items if items[: len(found)] == found else found + items
    return found or [history]


def as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A value of dicts, lists, strings, numbers, booleans and None.

    Pydantic models get a key ``class`` with the name of their class if they have none: a few formats tell
    their events by that alone. Exceptions become ``{"type", "message"}``; what has no JSON form, its `repr`.
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
    if isinstance(value, type):
        return repr_of(value)
    for method in ("export", "model_dump", "tolist", "isoformat"):
        convert = getattr(value, method, None)
        if callable(convert):
            try:
                plain = as_json(convert(), depth)
            except Exception:  # noqa: BLE001, S112  (whatever a method of a foreign object raises)
                continue
            if method == "model_dump" and isinstance(plain, dict):
                plain.setdefault("class", type(value).__name__)
            return plain
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name), depth) for field in fields(value)}
    return repr_of(value)


def shown(value: Any) -> str:
    """What a value has, for an error: the keys of an object, or of the first in a list."""
    if isinstance(value, list):
        return f"a list, first of {shown(value[0])}" if value else "an empty list"
    if isinstance(value, dict):
        return (
            f"the keys {', '.join(repr(str(key)[:50]) for key in list(value)[:10])}" if value else "no keys"
        )
    return f"a {type(value).__name__}"


def seconds_between(starts: Iterable[Any], ends: Iterable[Any]) -> float | None:
    """Seconds from the first start to the last end, as far as they are known."""
    begun = [seconds for value in starts if (seconds := _seconds(value)) is not None]
    ended = [seconds for value in ends if (seconds := _seconds(value)) is not None]
    return max(0.0, max(ended) - min(begun)) if begun and ended else None


def _seconds(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 text, or of a number of seconds; None if it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def text_of(value: Any) -> str:
    """What a tool returned as text: text as it is, the texts of blocks, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(block, dict) for block in value):
        texts = [block_text(block) for block in value]
        if None not in texts:
            return "\n".join(text for text in texts if text is not None)
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def message_of_command(value: Any) -> Any:
    """The message of a tool in the `Command` of LangGraph that it returned; anything else as it is."""
    update = value.get("update") if isinstance(value, dict) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            inner = message.get("kwargs", message.get("data"))
            if "tool_call_id" in (inner if isinstance(inner, dict) else message):
                return message
    return value


def output_of(message: dict[str, Any]) -> Any:
    """What a tool of LangChain returned: the content, or the artifact if only that has rows."""
    content, artifact = message.get("content"), message.get("artifact")
    is_better = _has_rows(artifact) and not _has_rows(content)
    return documents_of(artifact) if is_better else content


def _has_rows(value: Any) -> bool:
    """Whether a value is results of SPARQL or a list of objects, in whichever form they are read."""
    value = unwrapped(text_of(value) if isinstance(value, list) else value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, dict) for each in value)
    return isinstance(value, dict) and "head" in value


def documents_of(output: Any) -> Any:
    """Documents of LangChain as `retrieval` steps have them, with `id` and `text`; all else as it is."""
    listed = output if isinstance(output, list) else []
    documents = [each.get("kwargs", each) for each in listed if isinstance(each, dict)]
    found = [
        {"id": each.get("id"), "text": each["page_content"], "metadata": each.get("metadata")}
        for each in documents
        if isinstance(each, dict) and "page_content" in each
    ]
    return found if found and len(found) == len(listed) else output


def said(content: Any) -> str:
    """What a message says: text, or the blocks of it that are text, without calls, thoughts and images."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (block if isinstance(block, str) else block_text(block) for block in content)
    return "\n".join(text for text in texts if text)


def block_text(block: Any) -> str | None:
    """The text of a block of content; None if it is of another kind."""
    if not isinstance(block, dict):
        return None
    kind = block.get("type", block.get("block_type"))
    if kind == "resource" and isinstance(block.get("resource"), dict):  # Of MCP.
        kind, block = "text", block["resource"]
    if kind in ("text", "input_text", "output_text", "refusal"):
        text = block.get("text", block.get("refusal", block.get("content")))
        return text if isinstance(text, str) else None
    return None
