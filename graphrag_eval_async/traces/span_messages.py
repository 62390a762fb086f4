"""The messages that spans of models and agents carry, of whichever convention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.calls import Call
from graphrag_eval_async.traces.plain import text_of
from graphrag_eval_async.traces.spans import shown, structure, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.traces.spans import Span


@dataclass
class Message:
    """One message of a history.

    Attributes:
        new: whether the span is about its making, rather than passes it on.
    """

    role: str
    text: str = ""
    new: bool = False
    calls: list[Call] = field(default_factory=list)
    results: list[Call] = field(default_factory=list)

    @property
    def asks(self) -> bool:
        """Whether the user says something, rather than a tool."""
        return self.role in {"user", "human"} and bool(self.text) and not self.results

    @property
    def answers(self) -> bool:
        """Whether the agent says something, and calls nothing."""
        return self.role in {"assistant", "model", "ai"} and bool(self.text) and not self.calls


_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion")
_HISTORIES = ("pydantic_ai.all_messages", "all_messages_events", "events")
_INDEXED_INPUTS = ("llm.input_messages.", "gen_ai.prompt.")
_INDEXED_OUTPUTS = ("llm.output_messages.", "gen_ai.completion.")
_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def histories_of(span: Span, problems: list[str]) -> Iterator[list[Message]]:
    """The histories that a span carries, each from its first message to the last."""
    yield _history(span.attributes, problems)
    for key in _HISTORIES:
        if (value := span.attributes.get(key)) is not None and (key != "events" or _are_events(value)):
            yield [_message(each, "", problems) for each in _list(value, key, problems)]
    indexed = [(prefix, "") for prefix in _INDEXED_INPUTS]
    indexed += [(prefix, "assistant") for prefix in _INDEXED_OUTPUTS]
    yield [
        _indexed_message(flat, role, new=bool(role))
        for prefix, role in indexed
        for flat in indexed_values(span.attributes, prefix)
    ]
    told = []
    for name, attributes in span.events:
        if name in _EVENTS:
            body = structure(attributes.get("gen_ai.event.content"))
            body = body if isinstance(body, dict) else attributes
            told.append(_message({"event.name": name, **body}, "", problems))
        else:
            told += _history(attributes, problems)
    yield told


def _history(attributes: dict[str, Any], problems: list[str]) -> list[Message]:
    found = []
    for keys, role in ((_INPUTS, "user"), (_OUTPUTS, "assistant")):
        for key in keys:
            if (value := attributes.get(key)) is not None:
                messages = [_message(each, role, problems) for each in _list(value, key, problems)]
                for message in messages:
                    message.new = keys is _OUTPUTS
                found += messages
    return found


def _are_events(value: Any) -> bool:
    value = structure(value)
    return isinstance(value, list) and any(isinstance(each, dict) and "event.name" in each for each in value)


def _list(value: Any, key: str, problems: list[str]) -> list[Any]:
    value = structure(value)
    if isinstance(value, dict):
        value = value["messages"] if isinstance(value.get("messages"), list) else [value]
    if isinstance(value, list):
        return value
    problems.append(f"{key}: no list of messages, perhaps cut: {shown(value)}")
    return []


def _message(value: Any, role: str, problems: list[str]) -> Message:
    if not isinstance(value, dict):
        problems.append(f"a message that is no object: {shown(value)}")
        return Message(role)
    event = value.get("event.name")
    role = _EVENTS.get(event, role) if isinstance(event, str) else role
    inner = structure(value.get("message"))  # Of a choice.
    if isinstance(inner, dict):
        value = inner
    elif isinstance(inner, str) and "content" not in value:
        value = {**value, "content": inner}
    message = Message(text_or_none(value.get("role")) or role, new=event == "gen_ai.choice")
    is_result = "tool_call_id" in value or event == "gen_ai.tool.message" or message.role == "tool"
    if isinstance(parts := structure(value.get("parts")), list):
        _read_parts(parts, message, problems)
    elif is_result:
        id = value.get("tool_call_id", value.get("id"))  # noqa: A001  (as formats name it)
        message.results.append(_returned(id, value.get("name"), value.get("content")))
    elif isinstance(content := structure(value.get("content")), list):
        _read_parts(content, message, problems)
    elif content is not None:
        message.text = text_of(value["content"])
    _read_calls(value, message, problems)
    return message


def _read_calls(value: dict[str, Any], message: Message, problems: list[str]) -> None:
    calls = structure(value.get("tool_calls"))
    old = structure(value.get("function_call"))
    calls = calls if isinstance(calls, list) else [] if calls is None else [calls]
    for call in [*calls, *([] if old is None else [old])]:
        if isinstance(call, dict):
            function = call.get("function")
            function = function if isinstance(function, dict) else call
            args = function.get("arguments", function.get("args"))
            message.calls.append(_called(call.get("id"), function.get("name"), args))
        else:
            problems.append(f"a call that is no object: {shown(call)}")


def _read_parts(parts: list[Any], message: Message, problems: list[str]) -> None:
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            texts += _read_part(part, message)
        else:
            problems.append(f"a part of a message that is none: {shown(part)}")
    message.text = "\n".join(texts)


def _read_part(part: dict[str, Any], message: Message) -> list[str]:
    kind = part.get("type")
    name = part.get("name")
    if kind in ("tool_call", "tool_use"):
        args = part.get("arguments", part.get("input", part.get("args")))
        message.calls.append(_called(part.get("id"), name, args))
    elif kind == "server_tool_call":
        message.calls.append(_called(part.get("id"), name, part.get("server_tool_call")))
    elif kind in ("tool_call_response", "server_tool_call_response", "tool_result"):
        keys = ("response", "result", "server_tool_call_response", "content")
        output = next((part[key] for key in keys if part.get(key) is not None), None)
        message.results.append(_returned(part.get("id", part.get("tool_use_id")), name, output))
    elif kind == "text":
        text = part.get("content", part.get("text"))
        return [] if text is None else [text_of(text)]
    return []


def indexed_values(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """What attributes such as `prefix` ``0.message.role`` hold, by index: ``{"message.role": ...}``."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            number, _, rest = key[len(prefix) :].partition(".")
            if number.isdecimal() and number.isascii() and len(number) < 10 and rest:
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def _indexed_message(flat: dict[str, Any], role: str, *, new: bool) -> Message:
    flat = {key.removeprefix("message."): value for key, value in flat.items()}
    message = Message(text_or_none(flat.get("role")) or role, new=new)
    blocks = indexed_values(flat, "contents.")
    texts = [block["message_content.text"] for block in blocks if "message_content.text" in block]
    content = flat.get("content", "\n".join(map(text_of, texts)))
    if flat.get("tool_call_id") is not None or message.role == "tool":
        message.results.append(_returned(flat.get("tool_call_id"), flat.get("name"), content))
    else:
        message.text = text_of(content)
    for call in indexed_values(flat, "tool_calls."):
        told = {key.removeprefix("tool_call.").removeprefix("function."): call[key] for key in call}
        message.calls.append(_called(told.get("id"), told.get("name"), told.get("arguments")))
    if (old := flat.get("function_call_name")) is not None:
        message.calls.append(_called(None, old, flat.get("function_call_arguments_json")))
    return message


def _called(id: Any, name: Any, args: Any) -> Call:  # noqa: A002  (as formats name it)
    return Call(text_or_none(name), text_or_none(id) or None, structure(args))


def _returned(id: Any, name: Any, output: Any) -> Call:  # noqa: A002  (as formats name it)
    return Call(text_or_none(name), text_or_none(id) or None, output=output)
