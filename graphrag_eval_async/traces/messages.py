"""Messages of any framework: who speaks, what is said, which tools are called and what they
returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.outputs import unwrapped
from graphrag_eval_async.traces.frameworks import layout_of_message_in_span
from graphrag_eval_async.traces.plain import (
    block_text,
    decode_object_or_list,
    dict_at,
    first_value,
    json_of,
    text_of,
    visible_text,
)
from graphrag_eval_async.traces.trace import Call, Trace, find_unanswered, make_call

if TYPE_CHECKING:
    from collections.abc import Iterable

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
"""Who speaks in a message, by its role, kind or class: user, assistant, tool, system, or
"request" for the messages of Pydantic AI that may be of several.
"""

_OPENAI_FORMATS = ("openai", "responses", "agents")
"""Formats in which results of tools have no images."""

_CLIENT_CALL_KINDS = frozenset(
    {"tool_call", "tool_use", "tool-call", "function_call", "custom_tool_call"}
)
"""Kinds of blocks with a call whose result the client sends."""

_CALL_KINDS = _CLIENT_CALL_KINDS | {
    "server_tool_use",
    "mcp_tool_use",
    "server_tool_call",
    "builtin-tool-call",
}
"""Kinds of blocks with a call."""

_TEXT_KINDS = frozenset({"text", "input_text", "output_text", "user-prompt"})
"""Kinds of blocks of text."""

_RESULT_KIND_ENDINGS = ("tool_result", "tool_call_response", "tool-return", "_call_output")
"""How kinds of blocks with a result end."""

_KIND_KEYS = ("type", "part_kind")
_ID_KEYS = ("call_id", "tool_call_id", "tool_use_id", "id")
_ARGUMENT_KEYS = ("arguments", "input", "args", "server_tool_call")
_OUTPUT_KEYS = ("response", "result", "server_tool_call_response", "output", "content")
"""Keys of a block at which its kind, the id of a call, its arguments, or a result may stand."""

_HOSTED_OUTPUT_KEYS = ("results", "outputs", "output", "result")
"""Keys of an item of OpenAI at which a tool that ran on its server has its result."""

_NO_ARGUMENT_KEYS = {"id", "type", "status", "call_id", "error", *_HOSTED_OUTPUT_KEYS}
"""Keys of such an item that are no arguments of its call."""

_MESSAGE_KEYS = {"role", "parts", "lc"}
"""Keys of which a message has at least one; ``lc`` is that of LangChain."""

_FAILURES_BY_STATUS = {"success": False, "error": True, "failed": True}
"""Whether a call failed, by the status of its result."""

_HISTORY_ATTRIBUTES = ("pydantic_ai.all_messages", "all_messages_events", "events")
"""Attributes of spans in which Pydantic AI writes whole histories."""

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""Roles of the messages in events of spans, by name of the event."""


class _ModelAttributes(NamedTuple):
    """Attributes of spans that hold the input or output of a model.

    Attributes:
        role: role of messages there that have none.
        keys: attributes with all messages as JSON.
        prefixes: how attributes begin that have one field of one message each.
    """

    role: str
    keys: tuple[str, ...]
    prefixes: tuple[str, ...] = ()


_GENERAL_ATTRIBUTES = (
    _ModelAttributes(
        role="user",
        keys=("gen_ai.input.messages", "gen_ai.prompt"),
        prefixes=("llm.input_messages.", "gen_ai.prompt."),
    ),
    _ModelAttributes(
        role="assistant",
        keys=("gen_ai.output.messages", "gen_ai.completion"),
        prefixes=("llm.output_messages.", "gen_ai.completion."),
    ),
)
"""Attributes of the GenAI conventions, OpenInference and Traceloop."""

_ADK_ATTRIBUTES = (
    _ModelAttributes(role="user", keys=("gcp.vertex.agent.llm_request",)),
    _ModelAttributes(role="assistant", keys=("gcp.vertex.agent.llm_response",)),
)
"""Attributes of Google ADK."""


class SpanMessages(NamedTuple):
    """Messages in one attribute or event of a span.

    Attributes:
        source: name of the attribute or event, for problems.
        default_role: role of messages that have none; empty if that is not known.
        value: a list of messages, an object that holds it, or one message.
    """

    source: str
    default_role: str
    value: Any


def is_message(value: dict[str, Any]) -> bool:
    """Return whether an item of a history is a message, with or without an envelope around it."""
    if not _MESSAGE_KEYS.isdisjoint(value):
        return True
    kind = value.get("type")
    if isinstance(kind, str) and kind in _ROLES:
        return True
    return isinstance(value.get("message"), dict)  # The object is an envelope.


def unwrap_message(value: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the object that LangChain, or a choice of a completion, wraps it in.

    A message without such an envelope is returned unchanged.
    """
    if "role" in value:
        return value
    for key in ("data", "kwargs", "message"):
        message = value.get(key)
        if isinstance(message, dict):
            kind = value.get("type")
            class_path = value.get("id")
            if isinstance(class_path, list) and class_path:
                # LangChain serialises the class of a message, which tells its role, as the id.
                kind = class_path[-1]
            return {"type": kind} | message
    return value


def role_of(message: dict[str, Any], default: str = "") -> str:
    """Return the role of a message, in the same words for all formats.

    The words are user, assistant, tool, system and request. An unknown role is returned as it is.

    Args:
        message: a message without an envelope.
        default: the role if the message has none.
    """
    for key in ("type", "role", "kind"):
        role = message.get(key)
        if not isinstance(role, str):
            continue
        # The type or kind of a message may be something else than a role.
        if role in _ROLES or key == "role":
            return _ROLES.get(role, role)
    return _ROLES.get(default, default)


@dataclass(slots=True)
class _Content:
    """What was read from the content of a message.

    Attributes:
        text: the text after the last call or result.
        calls: the calls and results.
        has_waiting_call: whether the client is to send the result of one of the calls.
        has_other_block: whether a block is neither text nor a call, such as an image.
    """

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    has_waiting_call: bool = False
    has_other_block: bool = False


def read_message(
    message: dict[str, Any], trace: Trace, default_role: str = "", *, is_made: bool = False
) -> None:
    """Add the question or answer, the calls and the results in a message to a trace.

    Args:
        message: a message without an envelope.
        trace: the trace, which also gets problems with the message.
        default_role: role of a message that has none.
        is_made: whether the message was made in this trace, so that its calls were, too.
    """
    role = role_of(message, default_role)
    body = message.get("content")
    parts = message.get("parts")
    if role == "user" and parts is None and body and isinstance(body, str):
        trace.start_turn(body)  # Most messages of users are like this.
        return

    if isinstance(parts, list) and parts:
        body = parts
    content = _read_calls_and_text(message | {"content": body}, role, trace)
    for call in content.calls:
        call.is_made_in_trace = is_made
        trace.add_part(call)

    if role in ("request", ""):
        role = _role_of_request(role, body)
    if role == "user":
        _add_question(content, trace)
    elif role == "assistant":
        if content.text and not content.has_waiting_call:
            trace.answer = content.text
    elif role not in _ROLES:
        name = role or text_of(message.get("type")) or "none"
        trace.add_problem(f"a message of the unknown role {name}")


def _add_question(content: _Content, trace: Trace) -> None:
    """Start a turn with the text of a user's message, unless the message shows a tool's output.

    The message shows such output in two cases: if it has results; or if it has an image and follows
    a result in a format of OpenAI, whose results have no images.
    """
    if content.calls:
        return
    if content.has_other_block and _ends_with_result_of_openai(trace):
        return
    # In spans, a message without text asks nothing.
    if content.text or trace.format != "otlp":
        trace.start_turn(content.text)


def _read_calls_and_text(message: dict[str, Any], role: str, trace: Trace) -> _Content:
    """Return the calls, results and text of a message, in its content and beside its content.

    Args:
        message: the message. If it has ``parts``, these are also at ``content``.
        role: the message's role.
        trace: gets a problem for each part that cannot be read.
    """
    body = message["content"]
    has_parts = message.get("parts") is not None
    has_call_id = message.get("tool_call_id") is not None  # MLflow writes None in any message.
    if has_call_id or (role == "tool" and not has_parts):
        output = rows_or_content(message)
        result = _make_result(message, call_id=message.get("tool_call_id"), output=output)
        content = _Content(calls=[result])
    else:
        if body is None:
            body = message.get("refusal")
        content = _read_content(body, trace, is_parts=has_parts)
    if role == "assistant" or "tool_calls" in message:
        _add_calls_beside_content(message, content, trace)
    return content


def _ends_with_result_of_openai(trace: Trace) -> bool:
    """Return whether a trace is in a format of OpenAI, and its last part is a result.

    Results have no images in these formats. So an image that a tool returned is in the next message
    of the user.
    """
    if trace.format not in _OPENAI_FORMATS or trace.answer is not None or not trace.calls:
        return False
    return trace.calls[-1].has_result


def _role_of_request(role: str, content: Any) -> str:
    """Return the role of a message of Pydantic AI that is a request, or has no role.

    The role is "user" if the message has a part with a prompt of the user. Otherwise it is "system"
    for a request, and empty for a message without a role.

    Args:
        role: "request", or empty.
        content: the parts of the message.
    """
    blocks = content if isinstance(content, list) else []
    for block in blocks:
        if isinstance(block, dict) and block.get("part_kind") == "user-prompt":
            return "user"
    is_request = role != ""
    if is_request:
        return "system"
    return ""


def _read_content(body: Any, trace: Trace, *, is_parts: bool) -> _Content:
    """Return the calls, results and text in the content of a message.

    Args:
        body: text, a block, or a list of texts and blocks.
        trace: gets a problem for each part that cannot be read.
        is_parts: whether the list is the ``parts`` of a message, in which no item is a bare text.
    """
    if not isinstance(body, list):
        whole_text = visible_text(body)
        if not whole_text and body not in (None, ""):
            trace.add_problem(f"a content that is neither text nor a list: {text_of(body)}")
        return _Content(whole_text)

    content = _Content()
    client_calls: list[Call] = []  # Calls whose results the client sends.
    texts: list[str] = []
    for block in body:
        if isinstance(block, str) and not is_parts:
            texts.append(block)
            continue
        if not isinstance(block, dict):
            trace.add_problem(f"a part of a message that is no object: {json_of(block)}")
            continue

        call = call_in_block(block)
        text = block_text(block)
        if call is not None:
            content.calls.append(call)
            if first_value(block, *_KIND_KEYS) in _CLIENT_CALL_KINDS:
                client_calls.append(call)
            texts.clear()  # What comes before a call is not the answer.
        elif text is not None:
            texts.append(text)
        elif "part_kind" not in block:  # Other parts of Pydantic AI, such as thoughts, are ignored.
            content.has_other_block = True
    unanswered_calls = set(find_unanswered(content.calls))
    content.has_waiting_call = not unanswered_calls.isdisjoint(client_calls)
    content.text = "\n".join(text for text in texts if text)
    return content


def _add_calls_beside_content(message: dict[str, Any], content: _Content, trace: Trace) -> None:
    """Add the calls that a message has beside its content to `content`.

    Some formats repeat these calls in the content. Then the call in the content is removed.
    """
    calls_beside = _calls_beside_content(message, trace)
    ids = {call.id for call in calls_beside}
    other_calls = [call for call in content.calls if call.has_result or call.id not in ids]
    content.calls = other_calls + calls_beside
    if calls_beside:
        content.has_waiting_call = True


def _calls_beside_content(message: dict[str, Any], trace: Trace) -> list[Call]:
    """Return the calls that stand beside the content of a message, such as at ``tool_calls``.

    A value that is no list of calls, and an item that is no call, are noted as problems of the
    trace.
    """
    values: list[Any] = []
    for key in ("tool_calls", "invalid_tool_calls"):
        calls = decode_object_or_list(message.get(key))
        if isinstance(calls, list):
            values += calls
        elif calls:
            trace.add_problem(f"calls that are no list: {text_of(calls)}")
    if message.get("function_call"):
        values.append({"function": message["function_call"]})

    # LangChain also keeps the calls as the model's provider wrote them. They are only needed if
    # LangChain itself lists none.
    provider_calls = dict_at(message, "additional_kwargs").get("tool_calls")
    if not values and provider_calls:
        return _calls_beside_content({"tool_calls": provider_calls}, trace)

    for value in values:
        if not isinstance(value, dict):
            trace.add_problem(f"a call that is no object: {json_of(value)}")
    return [_read_call(value) for value in values if isinstance(value, dict)]


def _read_call(value: dict[str, Any]) -> Call:
    """Return the call in an object of the list ``tool_calls`` of a message."""
    call = dict_at(value, "tool_call") or value  # OpenInference wraps each call.
    custom = dict_at(call, "custom")
    if custom:
        args = {"input": custom.get("input")}  # The input of a custom tool is text.
        return make_call(custom.get("name"), call.get("id"), args)

    call_and_function = call | dict_at(call, "function")
    name = call_and_function.get("name")
    args = first_value(call_and_function, "arguments", "args")
    return make_call(name, call_and_function.get("id"), args)


def call_in_block(block: dict[str, Any]) -> Call | None:
    """Return the call or result in a block of a message, or in an item of OpenAI.

    None if the block holds something else, such as text.
    """
    kind = first_value(block, *_KIND_KEYS)
    if not isinstance(kind, str) or kind in _TEXT_KINDS:
        return None

    name = first_value(block, "name", "tool_name")
    if kind in _CALL_KINDS:
        args = first_value(block, *_ARGUMENT_KEYS)
        if kind == "custom_tool_call":
            args = {"input": block.get("input")}  # The input of a custom tool is text.
        return make_call(name, first_value(block, *_ID_KEYS), args)

    # Pydantic AI asks a model to try again. If the request names a tool, a call of it has failed;
    # otherwise, the answer was invalid.
    is_failed_call = kind == "retry-prompt" and name is not None
    if kind.endswith(_RESULT_KIND_ENDINGS) or is_failed_call:
        call_id = first_value(block, *_ID_KEYS)
        output = first_value(block, *_OUTPUT_KEYS)
        return _make_result(block, call_id=call_id, output=output)
    if kind.endswith("_call"):
        return _read_hosted_call(block, kind)
    return None


def _read_hosted_call(item: dict[str, Any], kind: str) -> Call:
    """Return the call of a tool that ran on a server of OpenAI, such as file search.

    The item also has the result, unless the tool is still running, or runs on the user's computer.

    Args:
        item: an item of the Responses API.
        kind: the item's type, such as "file_search_call".
    """
    name = item.get("name")
    args = item.get("arguments")
    if kind != "mcp_call":
        # All fields without another meaning are arguments.
        name = kind.removesuffix("_call")
        args = {
            key: value
            for key, value in item.items()
            if value is not None and key not in _NO_ARGUMENT_KEYS
        }
    call = make_call(name, first_value(item, "call_id", "id"), args or {})

    output = first_value(item, *_HOSTED_OUTPUT_KEYS)
    error = item.get("error")
    status = item.get("status")
    if isinstance(error, dict):
        error = error.get("content") or error.get("message") or error

    # Calls of a tool on the user's computer have a call_id, and their results are in other items.
    is_waiting = "call_id" in item or status == "in_progress"
    tells_result = error is not None or output is not None or status == "failed"
    if tells_result or not is_waiting:
        has_failed = error is not None or status in ("failed", "incomplete")
        call.set_result(output if error is None else error, has_failed)
    return call


def _make_result(value: dict[str, Any], *, call_id: Any, output: Any) -> Call:
    """Return the result of a call, without its arguments.

    Args:
        value: the block or message that holds the result. A mark, an outcome or a status in it
            may say whether the call failed.
        call_id: id of the call.
        output: what the tool returned; an error code in it says that the call failed.
    """
    failed: bool | None
    if value.get("part_kind") == "retry-prompt":
        failed = True
    elif isinstance(value.get("is_error"), bool):
        failed = value["is_error"]
    elif isinstance(value.get("tool_call_error"), bool):  # Agno
        failed = value["tool_call_error"]
    elif isinstance(value.get("outcome"), str):
        failed = value["outcome"] != "success"
    else:
        # None if there is no status, or an unknown one.
        failed = _FAILURES_BY_STATUS.get(str(value.get("status")))

    # Tools that run on servers of Anthropic return an error code.
    if isinstance(output, dict) and output.get("error_code") is not None:
        output = output["error_code"]
        failed = True
    name = first_value(value, "name", "tool_name")
    return make_call(name, call_id).set_result(output, failed)


def find_tool_message(value: Any) -> dict[str, Any] | None:
    """Return the message in the output of a tool of LangChain; None if there is no message.

    The output is the message itself, or a `Command` with the message in its update.
    """
    candidates = [value]
    if isinstance(value, dict) and isinstance(value.get("update"), dict):
        messages = value["update"].get("messages")
        if isinstance(messages, list):
            candidates = messages
    for candidate in candidates:
        if isinstance(candidate, dict):
            message = unwrap_message(candidate)
            if "tool_call_id" in message:
                return message
    return None


def rows_or_content(message: dict[str, Any]) -> Any:
    """Return the output of a tool from its message: the content, or LangChain's artifact.

    The artifact is the output only if it has rows of a table, and the content has no rows.
    """
    content = message.get("content")
    artifact = message.get("artifact")
    if artifact is not None and _has_rows(artifact) and not _has_rows(content):
        return convert_documents(artifact)
    return content


def _has_rows(value: Any) -> bool:
    """Return whether a value, or its JSON text, is results of SPARQL or a list of objects."""
    if isinstance(value, list):
        value = text_of(value)  # The JSON may be the text of the blocks in the list.
    rows = unwrapped(value)
    if isinstance(rows, list):
        return bool(rows) and all(isinstance(row, dict) for row in rows)
    return isinstance(rows, dict) and "head" in rows


def convert_documents(output: Any) -> Any:
    """Convert a list of documents of LangChain to objects with id, text and metadata.

    Such objects are the output of `retrieval` steps. Any other output is returned unchanged.
    """
    if not isinstance(output, list) or not output:
        return output
    documents = []
    for value in output:
        document = value
        if isinstance(value, dict):
            document = dict_at(value, "kwargs") or value  # Serialised documents have an envelope.
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


def read_histories(span: Span) -> list[Trace]:
    """Return the histories in the attributes and events of a span, each read as a trace."""
    attributes = span.attributes
    messages_by_source = [
        _messages_of_attributes(attributes, (*_GENERAL_ATTRIBUTES, *_ADK_ATTRIBUTES)),
        _messages_of_ai_sdk(attributes),
    ]
    if span.kind == "model":
        messages_by_source.append(_messages_of_mlflow(attributes))
    for key in _HISTORY_ATTRIBUTES:
        value = decode_object_or_list(attributes.get(key))
        if value is None:
            continue
        if key == "events" and not _has_message_events(value):
            continue  # Other libraries may use this general name for something else.
        messages_by_source.append([SpanMessages(key, "", value)])
    messages_by_source.append(_messages_of_indexed_attributes(attributes))
    if span.kind != "tool":
        # Events in the span of a tool are no messages: Strands writes arguments and result there.
        messages_by_source.append(_messages_of_events(span))
    return [_read_history(messages) for messages in messages_by_source if messages]


_QUESTION_KEYS = ("question", "query", "input", "inputs")
"""Keys of the text of the question in the input of an agent, in order of preference."""

_ANSWER_KEYS = ("answer", "output", "outputs", "result", "response")
"""Keys of the text of the answer in the output of an agent, in order of preference."""

_MAX_WRAPPERS = 4
"""In how many objects and lists, one in another, the input or output of an agent may be."""


def question_in_input(value: Any) -> str | None:
    """Return the question in the input of a graph or agent, as a span has it; None if it has none.

    The question is the last message of the user at ``messages``, or the text at one of the keys
    `_QUESTION_KEYS`. The input may be wrapped in an object with one of these keys, as Traceloop
    does, or be the only argument of a function.
    """
    state = _find_state(value, _QUESTION_KEYS)
    if state is None:
        return None
    return _history_of_state(state).question or _text_at(state, _QUESTION_KEYS)


def answer_in_output(value: Any) -> str | None:
    """Return the answer in the output of a graph or agent, as a span has it; None if it has none.

    The answer is the last message of the agent at ``messages``, or the text at one of the keys
    `_ANSWER_KEYS`. The output may be wrapped in an object with one of these keys.
    """
    state = _find_state(value, _ANSWER_KEYS)
    if state is None:
        return None
    return _history_of_state(state).answer or _text_at(state, _ANSWER_KEYS)


def _find_state(value: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the object in a value that has messages, or text at one of some keys.

    The value is the object, or wraps it in others. None if there is no such object.
    """
    wrapper_keys = (*keys, "state", "args", "kwargs")
    for _ in range(_MAX_WRAPPERS):
        value = decode_object_or_list(value)
        if isinstance(value, list) and len(value) == 1:
            [value] = value
            continue
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("messages"), list) or _text_at(value, keys) is not None:
            return value
        value = first_value(value, *wrapper_keys)
    return None


def _text_at(state: dict[str, Any], keys: Iterable[str]) -> str | None:
    """Return the text at the first of some keys of an object that has text; None if none has."""
    for key in keys:
        text = state.get(key)
        # Text that is JSON of an object or list is a value in another wrapper.
        if isinstance(text, str) and text and decode_object_or_list(text) is text:
            return text
    return None


def _history_of_state(state: dict[str, Any]) -> Trace:
    """Return the history in the messages of the state of a graph; it is empty without messages.

    LangGraph also accepts a message as a list of a role and a text.
    """
    messages: list[Any] = []
    listed_messages = state.get("messages")
    if isinstance(listed_messages, list):
        for message in listed_messages:
            if isinstance(message, list) and len(message) == 2:
                role, content = message
                messages.append({"role": role, "content": content})
            else:
                messages.append(message)
    return _read_history([SpanMessages("messages", "", messages)])


def _has_message_events(value: Any) -> bool:
    """Return whether a value is a list with an object that has the key ``event.name``.

    Messages that Pydantic AI writes as events have this key.
    """
    events = value if isinstance(value, list) else []
    return any(isinstance(event, dict) and "event.name" in event for event in events)


def _messages_of_attributes(
    attributes: dict[str, Any], model_attributes: Iterable[_ModelAttributes]
) -> list[SpanMessages]:
    """Return the messages in attributes that hold all inputs or outputs of a model as JSON.

    Args:
        attributes: the attributes of a span or an event.
        model_attributes: names of the attributes with inputs, and of those with outputs.
    """
    messages: list[SpanMessages] = []
    for inputs_or_outputs in model_attributes:
        role = inputs_or_outputs.role
        for key in inputs_or_outputs.keys:
            value = attributes.get(key)
            # ADK writes empty objects into spans that are not of models.
            if value not in (None, "{}"):
                messages.append(SpanMessages(key, role, decode_object_or_list(value)))
    return messages


def _messages_of_indexed_attributes(attributes: dict[str, Any]) -> list[SpanMessages]:
    """Return the messages in attributes with an index, such as ``gen_ai.prompt.0.role``."""
    messages: list[SpanMessages] = []
    for inputs_or_outputs in _GENERAL_ATTRIBUTES:
        for prefix in inputs_or_outputs.prefixes:
            values = collect_indexed(attributes, prefix)
            if values:
                messages.append(SpanMessages(prefix, inputs_or_outputs.role, values))
    return messages


def _messages_of_events(span: Span) -> list[SpanMessages]:
    """Return the messages in the events of a span.

    An event whose name is in `_EVENT_ROLES` is one message. Other events may have all inputs or
    outputs of a model in their attributes.
    """
    messages: list[SpanMessages] = []
    for name, attributes in span.events:
        if name not in _EVENT_ROLES:
            all_attributes = (*_GENERAL_ATTRIBUTES, *_ADK_ATTRIBUTES)
            messages += _messages_of_attributes(attributes, all_attributes)
            continue
        message = decode_object_or_list(attributes.get("gen_ai.event.content"))
        if not isinstance(message, dict):
            message = attributes
        messages.append(SpanMessages(name, "", {"event.name": name, **message}))
    return messages


def _messages_of_ai_sdk(attributes: dict[str, Any]) -> list[SpanMessages]:
    """Return the messages in the prompt and the response that Vercel's AI SDK writes."""
    messages: list[SpanMessages] = []
    prompt = decode_object_or_list(first_value(attributes, "ai.prompt.messages", "ai.prompt"))
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), str):
        prompt = [{"role": "user", "content": prompt["prompt"]}]
    if prompt is not None:
        messages.append(SpanMessages("ai.prompt", "user", prompt))

    calls = decode_object_or_list(attributes.get("ai.response.toolCalls"))
    content: Any = attributes.get("ai.response.text")
    if isinstance(calls, list) and calls:
        # Text beside calls is not the answer.
        content = [{"type": "tool-call", **call} for call in calls if isinstance(call, dict)]
    if content:
        response = [{"role": "assistant", "content": content}]
        messages.append(SpanMessages("ai.response", "assistant", response))
    return messages


def _messages_of_mlflow(attributes: dict[str, Any]) -> list[SpanMessages]:
    """Return the messages in the inputs and outputs of a model that MLflow records."""
    messages: list[SpanMessages] = []
    inputs = decode_object_or_list(attributes.get("mlflow.spanInputs"))
    if isinstance(inputs, dict) and isinstance(inputs.get("messages"), list):
        messages.append(SpanMessages("mlflow.spanInputs", "user", inputs["messages"]))

    outputs = decode_object_or_list(attributes.get("mlflow.spanOutputs"))
    if isinstance(outputs, dict):
        choices = outputs.get("choices")
        answers = choices if isinstance(choices, list) else [outputs]
        messages.append(SpanMessages("mlflow.spanOutputs", "assistant", answers))
    return messages


def _read_history(messages: Iterable[SpanMessages]) -> Trace:
    """Read the messages of a span, in order, into a new trace, and return the trace.

    Messages that cannot be read are noted as problems of the trace.
    """
    history = Trace("otlp", "all")
    for source, default_role, value in messages:
        listed_messages = value
        if isinstance(value, dict):
            listed_messages = first_value(value, "messages", "contents")
            if not isinstance(listed_messages, list):
                listed_messages = [value]  # The object is itself the only message.
        if not isinstance(listed_messages, list):
            cut_text = json_of(listed_messages)
            history.add_problem(f"{source}: no list of messages, perhaps cut: {cut_text}")
            continue

        for message in listed_messages:
            if isinstance(message, dict):
                _read_message_of_span(message, default_role, history)
            else:
                history.add_problem(f"a message that is no object: {json_of(message)}")
    return history


def _read_message_of_span(value: dict[str, Any], default_role: str, history: Trace) -> None:
    """Add one message of a span to a history.

    Args:
        value: the message. Lists and objects in it may be JSON text.
        default_role: role of a message that has none. If it is "assistant", the message is output
            of the span, and so its calls were made in this trace.
        history: the history, which also gets problems with the message.
    """
    role = default_role
    is_made = default_role == "assistant"
    event_name = value.get("event.name")
    if isinstance(value.get("parts"), list):
        message = unwrap_message(value)
    else:
        if isinstance(event_name, str):
            role = _EVENT_ROLES.get(event_name, default_role)
            is_made = event_name == "gen_ai.choice"
        message = unwrap_message(_decoded_message(value, role))

    layout = layout_of_message_in_span(message)
    if layout is None:
        read_message(message, history, role, is_made=is_made)
        return
    try:
        layout.read_message({"role": role, **message}, history)
    except TraceError as error:
        history.add_problem(str(error))


def _decoded_message(value: dict[str, Any], default_role: str) -> dict[str, Any]:
    """Return a copy of a message of a span, in the form that `read_message` reads.

    JSON text in it is decoded. Fields of OpenInference and of events are stored at the usual keys.
    """
    message = _copy_inner_message(value)
    for key in ("parts", "tool_calls", "function_call"):
        if key in message:
            message[key] = decode_object_or_list(message[key])
    # A list is the blocks of the message. A JSON object in text is what somebody said, and stays
    # text. So does everything that a tool returned.
    if "content" in message and role_of(message, default_role) != "tool":
        content = decode_object_or_list(message["content"])
        if isinstance(content, list):
            message["content"] = content

    _rename_keys_of_openinference(message)
    if value.get("event.name") == "gen_ai.tool.message":
        # The event has the id of the call at the key ``id``.
        message.setdefault("tool_call_id", message.get("id"))
    message.pop("tool.result", None)  # Strands repeats the result in the next message.
    return message


def _copy_inner_message(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the message in a choice of a completion, or in an object of OpenInference.

    Both have the message at the key ``message``. If text or a list is there, `value` itself is the
    message, and the text or list is its content, unless it has another.
    """
    inner_message = decode_object_or_list(value.get("message"))
    if isinstance(inner_message, dict):
        return dict(inner_message)
    if isinstance(inner_message, str):
        return {"content": inner_message, **value}

    message = dict(value)
    if isinstance(inner_message, list):
        del message["message"]
        return {"content": inner_message, **message}
    return message


def _rename_keys_of_openinference(message: dict[str, Any]) -> None:
    """Store the fields of a message of OpenInference at the usual keys; the message is changed.

    The blocks at ``contents`` become the content, and a call in the older form becomes
    ``function_call``.
    """
    blocks = message.get("contents")
    if "content" not in message and isinstance(blocks, list):
        texts = [dict_at(block, "message_content") for block in blocks if isinstance(block, dict)]
        message["content"] = [{"type": "text", **text} for text in texts]
    if message.get("function_call_name") is not None:
        message["function_call"] = {
            "name": message["function_call_name"],
            "arguments": message.get("function_call_arguments_json"),
        }


_MAX_PATH_KEYS = 8
"""How many keys of an attribute's name are split; the last has the rest of the name."""

_MAX_INDEX_DIGITS = 9
"""Longer numbers in the name of an attribute are no indices of a list."""


def collect_indexed(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """Return the list whose fields are attributes with a prefix and an index in their names.

    With the prefix ``a.``, the attributes ``a.0.message.role`` and ``a.1.message.role`` give the
    list ``[{"message": {"role": ...}}, {"message": {"role": ...}}]``. The list is empty if there
    are no such attributes.
    """
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            keys = name.removeprefix(prefix).split(".", _MAX_PATH_KEYS - 1)
            _set_at_path(root, keys, value)
    items = {key: value for key, value in root.items() if _is_index(key)}
    collected = _convert_to_lists(items)
    return collected if isinstance(collected, list) else []


def _set_at_path(root: dict[str, Any], keys: list[str], value: Any) -> None:
    """Store a value in nested objects at a path of keys, unless a value is there already.

    Missing objects on the path are created. Nothing is stored if the path has only one key, or if a
    value on the path is no object.
    """
    *path, last_key = keys
    if not path:
        return
    holder: Any = root
    for key in path:
        if not isinstance(holder, dict):
            return
        holder = holder.setdefault(key, {})
    if isinstance(holder, dict):
        holder.setdefault(last_key, value)


def _convert_to_lists(value: Any) -> Any:
    """Convert objects whose keys are all indices to lists in the order of the indices.

    Objects at any depth are converted. An empty object stays an empty object.
    """
    if not isinstance(value, dict):
        return value
    if value and all(_is_index(key) for key in value):
        return [_convert_to_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _convert_to_lists(field) for key, field in value.items()}


def _is_index(key: str) -> bool:
    """Return whether a part of an attribute's name is an index, in decimal digits of ASCII."""
    return key.isdecimal() and key.isascii() and len(key) <= _MAX_INDEX_DIGITS
