"""The histories that spans of models and agents carry, of whichever convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.messages import opened_message, read_message, role_of
from graphrag_eval_async.traces.plain import dict_at, json_of, structure
from graphrag_eval_async.traces.trace import Trace

if TYPE_CHECKING:
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

Messages = list[tuple[str, str, Any]]  # Where they are, the role that they have by default, and the messages.


def histories_of(span: Span) -> list[Trace]:
    """The histories that a span carries."""
    attributes = span.attributes
    told: list[Messages] = [_given_and_made(attributes)]
    for key in _HISTORIES:
        value = structure(attributes.get(key))
        listed = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
        if value is not None and (key != "events" or any("event.name" in each for each in listed)):
            told.append([(key, "", value)])
    flat = [(prefix, role) for role, _, prefixes in _GIVEN_AND_MADE for prefix in prefixes]
    told.append([(prefix, role, found) for prefix, role in flat if (found := indexed(attributes, prefix))])
    events: Messages = []
    for name, about in span.events:
        if name in _EVENTS:
            body = structure(about.get("gen_ai.event.content"))
            events.append((name, "", {"event.name": name, **(body if isinstance(body, dict) else about)}))
        else:
            events += _given_and_made(about)
    return [_read(messages) for messages in (*told, events) if messages]


def _given_and_made(attributes: dict[str, Any]) -> Messages:
    found = [(key, role, attributes.get(key)) for role, keys, _ in _GIVEN_AND_MADE for key in keys]
    return [(key, role, structure(value)) for key, role, value in found if value is not None]


def _read(messages: Messages) -> Trace:
    history = Trace("otlp", "all")
    for key, role, value in messages:
        if isinstance(value, dict):
            value = value["messages"] if isinstance(value.get("messages"), list) else [value]
        if not isinstance(value, list):
            history.problem(f"{key}: no list of messages, perhaps cut: {json_of(value)}")
            continue
        for each in value:
            if isinstance(each, dict):
                _read_message(each, role, history)
            else:
                history.problem(f"a message that is no object: {json_of(each)}")
    return history


def _read_message(value: dict[str, Any], role: str, history: Trace) -> None:
    """One message, whose lists and objects may be JSON text."""
    event, is_new = value.get("event.name"), role == "assistant"
    if not isinstance(value.get("parts"), list):
        if isinstance(event, str):
            role, is_new = _EVENTS.get(event, role), event == "gen_ai.choice"
        inner = structure(value.get("message"))  # Of a choice, or of OpenInference.
        value = {"content": inner, **value} if isinstance(inner, str) else value
        value = {**(inner if isinstance(inner, dict) else value)}
        for key in {"parts", "tool_calls", "function_call", "content"} & value.keys():
            if key != "content" or role_of(value, role) != "tool":
                found = structure(value[key])
                value[key] = found if key != "content" or isinstance(found, list) else value[key]
        if "content" not in value and isinstance(blocks := value.get("contents"), list):
            texts = [dict_at(each, "message_content") for each in blocks if isinstance(each, dict)]
            value["content"] = [{"type": "text", **text} for text in texts]
        if event == "gen_ai.tool.message":
            value.setdefault("tool_call_id", value.get("id"))
        if (name := value.get("function_call_name")) is not None:
            value["function_call"] = {"name": name, "arguments": value.get("function_call_arguments_json")}
    read_message(opened_message(value), history, role, is_new=is_new)


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
