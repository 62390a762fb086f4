"""Messages of any framework: who speaks, what is said, which tools are called and what they
returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.outputs import unwrapped
from graphrag_eval_async.traces.frameworks import layout_of_message_in_span
from graphrag_eval_async.traces.plain import (
    block_text,
    dict_at,
    first,
    json_of,
    said,
    structure,
    text_of,
)
from graphrag_eval_async.traces.trace import Call, Trace, call_of

if TYPE_CHECKING:
    from graphrag_eval_async.traces.spans import Span

_ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "AIMessage", "AIMessageChunk", "model", "response"), "assistant"
    ),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
    **dict.fromkeys(("system", "SystemMessage", "developer", "remove", "RemoveMessage"), "system"),
    **dict.fromkeys(("chat", "ChatMessage"), "system"),
    "request": "request",
}
_OPENAI = ("openai", "responses", "agents")  # There, results of tools have no images.

_OF_CLIENT = frozenset({"tool_call", "tool_use", "tool-call", "function_call", "custom_tool_call"})
_CALLS = _OF_CLIENT | {"server_tool_use", "mcp_tool_use", "server_tool_call", "builtin-tool-call"}
_TEXTS = frozenset({"text", "input_text", "output_text", "user-prompt"})
_RESULTS = ("tool_result", "tool_call_response", "tool-return", "_call_output")
_KINDS = ("type", "part_kind")
_IDS = ("call_id", "tool_call_id", "tool_use_id", "id")
_ARGS = ("arguments", "input", "args", "server_tool_call")
_OUTPUTS = ("response", "result", "server_tool_call_response", "output", "content")
_OF_HOSTED = ("results", "outputs", "output", "result")
_OF_MESSAGES = {"role", "parts", "lc"}
_NOT_ARGS = {"id", "type", "status", "call_id", "error", *_OF_HOSTED}

_GIVEN_AND_MADE = [
    (role, (f"gen_ai.{way}.messages", f"gen_ai.{old}"), (f"llm.{way}_messages.", f"gen_ai.{old}."))
    for role, way, old in (("user", "input", "prompt"), ("assistant", "output", "completion"))
]
_OF_ADK = [
    ("user", ("gcp.vertex.agent.llm_request",), ()),
    ("assistant", ("gcp.vertex.agent.llm_response",), ()),
]
_HISTORIES = ("pydantic_ai.all_messages", "all_messages_events", "events")
_EVENTS = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_EVENTS["gen_ai.choice"] = "assistant"

# Where they are, the role that they have by default, and the messages.
Messages = list[tuple[str, str, Any]]


def is_message(value: dict[str, Any]) -> bool:
    """Return whether an item of a history is a message, with or without an envelope."""
    kind = value.get("type")
    if not _OF_MESSAGES.isdisjoint(value) or (isinstance(kind, str) and kind in _ROLES):
        return True
    return isinstance(value.get("message"), dict)


def opened_message(value: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the envelope of LangChain or of a choice."""
    if "role" in value:
        return value
    for key in ("data", "kwargs", "message"):
        inner = value.get(key)
        if isinstance(inner, dict):
            kind = value.get("type")
            class_path = value.get("id")
            if isinstance(class_path, list) and class_path:
                kind = class_path[-1]
            return {"type": kind} | inner
    return value


def role_of(message: dict[str, Any], default: str = "") -> str:
    """Return the role of a message without an envelope, as `_ROLES` has it."""
    for key in ("type", "role", "kind"):
        role = message.get(key)
        if isinstance(role, str) and (role in _ROLES or key == "role"):
            return _ROLES.get(role, role)
    return _ROLES.get(default, default)


@dataclass(slots=True)
class _Content:
    """What the content of a message has.

    Attributes:
        text: what is said after the last call or result.
        calls: calls and results.
        has_waiting_call: whether it has a call whose result the client is to send.
        has_other_block: whether it has a block that is neither text nor call, such as an image.
    """

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    has_waiting_call: bool = False
    has_other_block: bool = False


def read_message(
    message: dict[str, Any], trace: Trace, default_role: str = "", *, is_new: bool = False
) -> None:
    """Add what a message without an envelope says, calls and returns to a trace.

    Args:
        message: the message.
        trace: what is read is added to it.
        default_role: role of a message that has none.
        is_new: whether a span tells of the making of its calls, not of passing them on.
    """
    role = role_of(message, default_role)
    content = message.get("content")
    parts = message.get("parts")
    if role == "user" and parts is None and content and isinstance(content, str):
        trace.ask(content)  # Most messages of users are like this.
        return

    if isinstance(parts, list) and parts:
        content = parts
    read = _read_calls_and_text(message | {"content": content}, role, trace)
    is_image_of_tool = read.has_other_block and _ends_with_result_of_openai(trace)
    for call in read.calls:
        call.is_new = is_new
        trace.part(call)

    if role in ("request", ""):
        role = _role_of_request(role, content)
    if role == "user":
        # Texts and images beside results, or right after them, are what a tool shows.
        is_asked = not read.calls and not is_image_of_tool
        if is_asked and (read.text or trace.format != "otlp"):
            trace.ask(read.text)
    elif role == "assistant" and read.text and not read.has_waiting_call:
        trace.answer = read.text
    elif role not in _ROLES:
        name = role or text_of(message.get("type")) or "none"
        trace.problem(f"a message of the unknown role {name}")


def _read_calls_and_text(message: dict[str, Any], role: str, trace: Trace) -> _Content:
    """Return the calls, results and text of a message whose parts, if it has any, are its content.

    What cannot be read becomes a problem of the trace.
    """
    content = message["content"]
    has_parts = message.get("parts") is not None
    if "tool_call_id" in message or (role == "tool" and not has_parts):
        result = _result_of(message, message.get("tool_call_id"), output_of(message))
        read = _Content(calls=[result])
    else:
        if content is None:
            content = message.get("refusal")
        read = _read_content(content, trace, is_parts=has_parts)
    if role == "assistant" or "tool_calls" in message:
        _add_calls_beside(message, read, trace)
    return read


def _ends_with_result_of_openai(trace: Trace) -> bool:
    """Return whether the last that a trace has is a result in a format of OpenAI.

    Results have no images there: an image is shown by the next message of the user.
    """
    if trace.format not in _OPENAI or trace.answer is not None or not trace.calls:
        return False
    return trace.calls[-1].ended


def _role_of_request(role: str, content: Any) -> str:
    """Return who sent a request of Pydantic AI, which also sends what the user did not say."""
    blocks = content if isinstance(content, list) else []
    for block in blocks:
        if isinstance(block, dict) and block.get("part_kind") == "user-prompt":
            return "user"
    if role:
        return "system"
    return ""


def _read_content(content: Any, trace: Trace, *, is_parts: bool) -> _Content:
    """Return what a content has; what cannot be read becomes a problem of the trace."""
    if not isinstance(content, list):
        whole_text = said(content)
        if not whole_text and content not in (None, ""):
            trace.problem(f"a content that is neither text nor a list: {text_of(content)}")
        return _Content(whole_text)

    read = _Content()
    texts: list[str] = []
    for block in content:
        if not isinstance(block, dict):
            if isinstance(block, str) and not is_parts:
                texts.append(block)
            else:
                trace.problem(f"a part of a message that is no object: {json_of(block)}")
            continue

        call = part_of(block)
        text = block_text(block)
        if call is not None:
            read.calls.append(call)
            if not call.ended and first(block, *_KINDS) in _OF_CLIENT:
                read.has_waiting_call = True
            texts.clear()  # What comes before a call is not the answer.
        elif text is not None:
            texts.append(text)
        elif "part_kind" not in block:
            read.has_other_block = True
    read.text = "\n".join(filter(None, texts))
    return read


def _add_calls_beside(message: dict[str, Any], read: _Content, trace: Trace) -> None:
    """Add the calls beside the content of a message, which some formats repeat in the content."""
    calls = _calls_beside(message, trace)
    ids = {call.id for call in calls}
    others = [call for call in read.calls if call.ended or call.id not in ids]
    read.calls = others + calls
    if calls:
        read.has_waiting_call = True


def _calls_beside(message: dict[str, Any], trace: Trace) -> list[Call]:
    """Return the calls that stand beside the content of a message."""
    calls: list[Any] = []
    for key in ("tool_calls", "invalid_tool_calls"):
        listed = structure(message.get(key))
        if isinstance(listed, list):
            calls += listed
        elif listed:
            trace.problem(f"calls that are no list: {text_of(listed)}")
    if message.get("function_call"):
        calls.append({"function": message["function_call"]})

    provider_calls = dict_at(message, "additional_kwargs").get("tool_calls")
    if not calls and provider_calls:
        return _calls_beside({"tool_calls": provider_calls}, trace)

    for call in calls:
        if not isinstance(call, dict):
            trace.problem(f"a call that is no object: {json_of(call)}")
    return [_call_beside(call) for call in calls if isinstance(call, dict)]


def _call_beside(value: dict[str, Any]) -> Call:
    """Return the call that an object beside the content of a message is."""
    call = dict_at(value, "tool_call") or value
    custom = dict_at(call, "custom")
    if custom:
        return call_of(custom.get("name"), call.get("id"), {"input": custom.get("input")})
    call = call | dict_at(call, "function")
    return call_of(call.get("name"), call.get("id"), first(call, "arguments", "args"))


def part_of(block: dict[str, Any]) -> Call | None:
    """Return the call or result that a block of a message or an item of OpenAI is, or None."""
    kind = block.get("type") or first(block, *_KINDS)
    if not isinstance(kind, str) or kind in _TEXTS:
        return None

    name = first(block, "name", "tool_name")
    if kind in _CALLS:
        args = first(block, *_ARGS)
        if kind == "custom_tool_call":
            args = {"input": block.get("input")}
        return call_of(name, first(block, *_IDS), args)

    is_retry = kind == "retry-prompt" and name is not None
    if kind.endswith(_RESULTS) or is_retry:
        return _result_of(block, first(block, *_IDS), first(block, *_OUTPUTS))
    if kind.endswith("_call"):
        return _hosted(block, kind)
    return None


def _hosted(item: dict[str, Any], kind: str) -> Call:
    """Return the call of a tool that the server runs, such as file search, with its result."""
    name = item.get("name")
    args = item.get("arguments")
    if kind != "mcp_call":
        name = kind.removesuffix("_call")
        args = {
            key: value for key, value in item.items() if value is not None and key not in _NOT_ARGS
        }
    call = call_of(name, first(item, "call_id", "id"), args or {})

    output = first(item, *_OF_HOSTED)
    error = item.get("error")
    status = item.get("status")
    if isinstance(error, dict):
        error = error.get("content") or error.get("message") or error
    # Calls of the user's own computer or shell have their results in items of their own.
    is_waiting = "call_id" in item or status == "in_progress"
    has_result = error is not None or output is not None or status == "failed"
    if has_result or not is_waiting:
        has_failed = error is not None or status in ("failed", "incomplete")
        call.end(output if error is None else error, has_failed)
    return call


_FAILURES_BY_STATUS = {"success": False, "error": True, "failed": True}


def _result_of(value: dict[str, Any], key: Any, output: Any) -> Call:
    """Return a result.

    Args:
        value: the block or message. A mark, a status, an outcome, or an error code in place of the
            output says whether the call failed.
        key: id of the call.
        output: what the tool returned.
    """
    failed: bool | None
    if value.get("part_kind") == "retry-prompt":
        failed = True
    elif isinstance(value.get("is_error"), bool):
        failed = value["is_error"]
    elif isinstance(value.get("outcome"), str):
        failed = value["outcome"] != "success"
    else:
        failed = _FAILURES_BY_STATUS.get(str(value.get("status")))

    # Of tools that run on servers of Anthropic.
    if isinstance(output, dict) and output.get("error_code") is not None:
        output = output["error_code"]
        failed = True
    return call_of(first(value, "name", "tool_name"), key).end(output, failed)


def tool_message(value: Any) -> dict[str, Any] | None:
    """Return the message of a tool that a tool of LangChain returned, also in a `Command`."""
    candidates = [value]
    if isinstance(value, dict) and isinstance(value.get("update"), dict):
        messages = value["update"].get("messages")
        if isinstance(messages, list):
            candidates = messages
    for candidate in candidates:
        if isinstance(candidate, dict):
            message = opened_message(candidate)
            if "tool_call_id" in message:
                return message
    return None


def output_of(message: dict[str, Any]) -> Any:
    """Return the output of a tool of LangChain: the artifact if only that has rows."""
    content = message.get("content")
    artifact = message.get("artifact")
    if artifact is not None and _has_rows(artifact) and not _has_rows(content):
        return documents_of(artifact)
    return content


def _has_rows(value: Any) -> bool:
    """Return whether a value is results of SPARQL or a list of objects, in any form."""
    if isinstance(value, list):
        value = text_of(value)
    rows = unwrapped(value)
    if isinstance(rows, list):
        return bool(rows) and all(isinstance(row, dict) for row in rows)
    return isinstance(rows, dict) and "head" in rows


def documents_of(output: Any) -> Any:
    """Return documents of LangChain as `retrieval` steps have them; all else as it is."""
    if not isinstance(output, list) or not output:
        return output
    documents = []
    for value in output:
        document = value
        if isinstance(value, dict):
            document = dict_at(value, "kwargs") or value
        if not isinstance(document, dict) or "page_content" not in document:
            return output
        documents.append(
            {
                "id": document.get("id"),
                "text": document["page_content"],
                "metadata": document.get("metadata"),
            }
        )
    return documents


def histories_of(span: Span) -> list[Trace]:
    """Return the histories that the attributes and events of a span have."""
    attributes = span.attributes
    sources = [_inputs_and_outputs(attributes), _messages_of_ai_sdk(attributes)]
    if span.kind == "model":
        sources.append(_messages_of_mlflow(attributes))
    for key in _HISTORIES:
        value = structure(attributes.get(key))
        if value is not None and (key != "events" or _has_event_names(value)):
            sources.append([(key, "", value)])
    sources.append(_indexed_messages(attributes))
    if span.kind != "tool":  # Strands writes arguments and result of a tool as events, too.
        sources.append(_messages_of_events(span))
    return [_history(messages) for messages in sources if messages]


def _has_event_names(value: Any) -> bool:
    """Return whether any object in a list is an event of a message."""
    events = value if isinstance(value, list) else []
    return any(isinstance(event, dict) and "event.name" in event for event in events)


def _indexed_messages(attributes: dict[str, Any]) -> Messages:
    """Return the messages in attributes that have an index, such as ``gen_ai.prompt.0.role``."""
    messages: Messages = []
    for role, _, prefixes in _GIVEN_AND_MADE:
        for prefix in prefixes:
            values = indexed(attributes, prefix)
            if values:
                messages.append((prefix, role, values))
    return messages


def _messages_of_events(span: Span) -> Messages:
    """Return the messages in the events of a span."""
    messages: Messages = []
    for name, attributes in span.events:
        if name not in _EVENTS:
            messages += _inputs_and_outputs(attributes)
            continue
        body = structure(attributes.get("gen_ai.event.content"))
        if not isinstance(body, dict):
            body = attributes
        messages.append((name, "", {"event.name": name, **body}))
    return messages


def _inputs_and_outputs(attributes: dict[str, Any]) -> Messages:
    """Return the messages in attributes that hold all inputs or outputs of a model."""
    messages: Messages = []
    for role, keys, _ in (*_GIVEN_AND_MADE, *_OF_ADK):
        for key in keys:
            value = attributes.get(key)
            # ADK writes empty objects into spans that are not of models.
            if value not in (None, "{}"):
                messages.append((key, role, structure(value)))
    return messages


def _messages_of_ai_sdk(attributes: dict[str, Any]) -> Messages:
    """Return the messages in the attributes that Vercel's AI SDK writes."""
    messages: Messages = []
    prompt = structure(first(attributes, "ai.prompt.messages", "ai.prompt"))
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), str):
        prompt = [{"role": "user", "content": prompt["prompt"]}]
    if prompt is not None:
        messages.append(("ai.prompt", "user", prompt))

    calls = structure(attributes.get("ai.response.toolCalls"))
    content: Any = attributes.get("ai.response.text")
    if isinstance(calls, list) and calls:
        content = [{"type": "tool-call", **call} for call in calls if isinstance(call, dict)]
    if content:
        answer = {"role": "assistant", "content": content}
        messages.append(("ai.response", "assistant", [answer]))
    return messages


def _messages_of_mlflow(attributes: dict[str, Any]) -> Messages:
    """Return the messages in what MLflow records of a call to a model."""
    inputs = structure(attributes.get("mlflow.spanInputs"))
    outputs = structure(attributes.get("mlflow.spanOutputs"))
    messages: Messages = []
    if isinstance(inputs, dict) and isinstance(inputs.get("messages"), list):
        messages.append(("mlflow.spanInputs", "user", inputs["messages"]))
    if isinstance(outputs, dict):
        answers = outputs["choices"] if isinstance(outputs.get("choices"), list) else [outputs]
        messages.append(("mlflow.spanOutputs", "assistant", answers))
    return messages


def _history(messages: Messages) -> Trace:
    """Return the history that messages of a span make."""
    history = Trace("otlp", "all")
    for key, role, value in messages:
        listed = value
        if isinstance(value, dict):
            listed = first(value, "messages", "contents")
            if not isinstance(listed, list):
                listed = [value]
        if not isinstance(listed, list):
            history.problem(f"{key}: no list of messages, perhaps cut: {json_of(listed)}")
            continue
        for message in listed:
            if isinstance(message, dict):
                _read_message_of_span(message, role, history)
            else:
                history.problem(f"a message that is no object: {json_of(message)}")
    return history


def _read_message_of_span(value: dict[str, Any], role: str, history: Trace) -> None:
    """Add one message, whose lists and objects may be JSON text, to a history."""
    is_new = role == "assistant"
    event = value.get("event.name")
    if isinstance(value.get("parts"), list):
        message = opened_message(value)
    else:
        if isinstance(event, str):
            role = _EVENTS.get(event, role)
            is_new = event == "gen_ai.choice"
        message = opened_message(_decoded_message(value, role))

    layout = layout_of_message_in_span(message)
    if layout is None:
        read_message(message, history, role, is_new=is_new)
        return
    try:
        layout.read_message({"role": role, **message}, history)
    except TraceError as error:
        history.problem(str(error))


def _decoded_message(value: dict[str, Any], role: str) -> dict[str, Any]:
    """Return a message of a span with what `read_message` reads at the usual keys, decoded."""
    inner = structure(value.get("message"))  # Of a choice, or of OpenInference.
    if isinstance(inner, dict):
        message = dict(inner)
    elif isinstance(inner, str | list):
        message = {"content": inner, **value}
        if isinstance(inner, list):
            del message["message"]
    else:
        message = dict(value)

    for key in ("parts", "tool_calls", "function_call"):
        if key in message:
            message[key] = structure(message[key])
    # What a tool returned stays as it is.
    if "content" in message and role_of(message, role) != "tool":
        content = structure(message["content"])
        if isinstance(content, list):
            message["content"] = content

    _rename_keys_of_openinference(message)
    if value.get("event.name") == "gen_ai.tool.message":
        message.setdefault("tool_call_id", message.get("id"))
    message.pop("tool.result", None)  # Of Strands, which repeats it in the next message.
    return message


def _rename_keys_of_openinference(message: dict[str, Any]) -> None:
    """Put the blocks and the old kind of call of a message where `read_message` reads them."""
    blocks = message.get("contents")
    if "content" not in message and isinstance(blocks, list):
        texts = [dict_at(block, "message_content") for block in blocks if isinstance(block, dict)]
        message["content"] = [{"type": "text", **text} for text in texts]
    if message.get("function_call_name") is not None:
        message["function_call"] = {
            "name": message["function_call_name"],
            "arguments": message.get("function_call_arguments_json"),
        }


def indexed(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """What attributes such as `prefix` ``0.message.role`` hold: ``[{"message": {"role":
    ...}}]``.
    """
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
