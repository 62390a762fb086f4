"""The messages that spans of models and agents carry, of whichever convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.messages import Message, Problem, message_of, opened_message, role_of
from graphrag_eval_async.traces.plain import dict_at, json_of, structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.traces.spans import Span

_GIVEN_AND_MADE = (
    ("user", ("gen_ai.input.messages", "gen_ai.prompt"), ("llm.input_messages.", "gen_ai.prompt.")),
    (
        "assistant",
        ("gen_ai.output.messages", "gen_ai.completion"),
        ("llm.output_messages.", "gen_ai.completion."),
    ),
)
_HISTORIES = ("pydantic_ai.all_messages", "all_messages_events", "events")
_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def histories_of(span: Span, problem: Problem) -> Iterator[list[Message]]:
    """The histories that a span carries, each from its first message to the last."""
    attributes = span.attributes
    yield _history(attributes, problem)
    for key in _HISTORIES:
        if (value := structure(attributes.get(key))) is not None and (key != "events" or _are_events(value)):
            yield [_message(each, "", problem) for each in _list(value, key, problem)]
    yield [
        _message(each, role if role == "assistant" else "", problem, is_new=role == "assistant")
        for role, _, prefixes in _GIVEN_AND_MADE
        for prefix in prefixes
        for each in indexed(attributes, prefix)
    ]
    told = []
    for name, about in span.events:
        if name in _EVENTS:
            body = structure(about.get("gen_ai.event.content"))
            body = body if isinstance(body, dict) else about
            told.append(_message({"event.name": name, **body}, "", problem))
        else:
            told += _history(about, problem)
    yield told


def _history(attributes: dict[str, Any], problem: Problem) -> list[Message]:
    return [
        _message(each, role, problem, is_new=role == "assistant")
        for role, keys, _ in _GIVEN_AND_MADE
        for key in keys
        if (value := attributes.get(key)) is not None
        for each in _list(structure(value), key, problem)
    ]


def _are_events(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) and "event.name" in each for each in value)


def _list(value: Any, key: str, problem: Problem) -> list[Any]:
    if isinstance(value, dict):
        return value["messages"] if isinstance(value.get("messages"), list) else [value]
    if not isinstance(value, list):
        problem(f"{key}: no list of messages, perhaps cut: {json_of(value)}")
        return []
    return value


def _message(value: Any, role: str, problem: Problem, *, is_new: bool = False) -> Message:
    """One message, whose lists and objects may be JSON text."""
    if not isinstance(value, dict):
        problem(f"a message that is no object: {json_of(value)}")
        return Message(role)
    event = value.get("event.name")
    if isinstance(event, str):
        role = _EVENTS.get(event, role)
    if "message" in value:  # Of a choice, or of OpenInference.
        inner = structure(value["message"])
        value = opened_message({**value, "message": inner})
        value = {"content": inner, **value} if isinstance(inner, str) else value
    value = {**value, **{key: structure(value[key]) for key in _STRUCTURES & value.keys()}}
    if isinstance(content := structure(value.get("content")), list) and role_of(value, role) != "tool":
        value["content"] = content
    if "contents" in value and "content" not in value:  # Of OpenInference.
        blocks = [dict_at(each, "message_content") for each in value["contents"] if isinstance(each, dict)]
        value["content"] = [{"type": "text", **block} for block in blocks]
    if event == "gen_ai.tool.message" and "tool_call_id" not in value:
        value["tool_call_id"] = value.get("id")
    if (name := value.get("function_call_name")) is not None:
        value["function_call"] = {"name": name, "arguments": value.get("function_call_arguments_json")}
    message = message_of(value, problem, role)
    message.is_new = is_new or event == "gen_ai.choice"
    return message


_STRUCTURES = {"parts", "tool_calls", "function_call"}


def indexed(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """What attributes such as `prefix` ``0.message.role`` hold: ``[{"message": {"role": ...}}]``."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            *path, last = key[len(prefix) :].split(".", 7)
            here: Any = root
            for part in path:
                here = here.setdefault(part, {}) if isinstance(here, dict) else None
            if path and isinstance(here, dict):
                here.setdefault(last, value)
    found = _with_lists({key: each for key, each in root.items() if _is_index(key)})
    return found if isinstance(found, list) else []


def _with_lists(value: Any) -> Any:
    """Objects whose keys are all indices as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(map(_is_index, value)):
        return [_with_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _with_lists(each) for key, each in value.items()}


def _is_index(key: str) -> bool:
    return key.isdecimal() and key.isascii() and len(key) < 10
