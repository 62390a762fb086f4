"""Messages of any framework: who speaks, what is said, which tools are called and what they
returned.
"""

from __future__ import annotations

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
    """Whether an item of a history is a message, with or without an envelope."""
    kind = value.get("type")
    if not _OF_MESSAGES.isdisjoint(value) or (isinstance(kind, str) and kind in _ROLES):
        return True
    return isinstance(value.get("message"), dict)


def opened_message(value: dict[str, Any]) -> dict[str, Any]:
    """A message without the envelope of LangChain or of a choice."""
    for key in ("data", "kwargs", "message") if "role" not in value else ():
        if isinstance(inner := value.get(key), dict):
            names = value.get("id")
            kind = names[-1] if isinstance(names, list) and names else value.get("type")
            return {"type": kind} | inner
    return value


def role_of(message: dict[str, Any], default: str = "") -> str:
    """The role of a message without an envelope, as `_ROLES` has it."""
    for key in ("type", "role", "kind"):
        found = message.get(key)
        if isinstance(found, str) and (found in _ROLES or key == "role"):
            return _ROLES.get(found, found)
    return _ROLES.get(default, default)


def read_message(
    value: dict[str, Any], trace: Trace, role: str = "", *, is_new: bool = False
) -> None:
    """Add what a message without an envelope says, calls and returns; its role is as given if it
    has none.
    """
    role, content, parts = role_of(value, role), value.get("content"), value.get("parts")
    if role == "user" and parts is None and content and isinstance(content, str):  # As most are.
        trace.ask(content)
        return
    found: list[Call] = []
    text, waits, shows = "", False, False
    if isinstance(parts, list) and parts:
        content = parts
    if "tool_call_id" in value or (role == "tool" and parts is None):
        found.append(
            _result_of(value, value.get("tool_call_id"), output_of(value | {"content": content}))
        )
    else:
        content = content if content is not None else value.get("refusal")
        text, waits, shows = _read_content(content, found, trace, is_parts=parts is not None)
    if role == "assistant" or "tool_calls" in value:
        made = _calls_beside(value, trace)
        ids = {call.id for call in made}
        found = [part for part in found if part.ended or part.id not in ids] + made
        waits |= bool(made)
    # Right after the result of a tool of OpenAI, an image shows what was returned.
    shows &= (
        trace.format in _OPENAI
        and trace.answer is None
        and bool(trace.calls)
        and trace.calls[-1].ended
    )
    for part in found:
        part.is_new = is_new
        trace.part(part)
    if role in ("request", ""):  # Of Pydantic AI, which also sends what the user did not say.
        listed = content if isinstance(content, list) else []
        is_asked = any(
            isinstance(part, dict) and part.get("part_kind") == "user-prompt" for part in listed
        )
        role = "user" if is_asked else "system" if role else ""
    if role == "user" and not found and not shows and (text or trace.format != "otlp"):
        trace.ask(text)  # What stands beside results is what a tool shows.
    elif role == "assistant" and text and not waits:
        trace.answer = text
    elif role not in _ROLES:
        trace.problem(
            f"a message of the unknown role {role or text_of(value.get('type')) or 'none'}"
        )


def _read_content(
    content: Any, found: list[Call], trace: Trace, *, is_parts: bool
) -> tuple[str, bool, bool]:
    """Add calls and results; return what is said after them, whether calls wait, and an image is
    shown.
    """
    texts: list[str] = []
    waits = shows = False
    if not isinstance(content, list):
        whole = said(content)
        if not whole and content not in (None, ""):
            trace.problem(f"a content that is neither text nor a list: {text_of(content)}")
        return whole, False, False
    for block in content:
        if not isinstance(block, dict):
            if isinstance(block, str) and not is_parts:
                texts.append(block)
            else:
                trace.problem(f"a part of a message that is no object: {json_of(block)}")
        elif (part := part_of(block)) is not None:
            found.append(part)
            waits |= not part.ended and first(block, *_KINDS) in _OF_CLIENT
            texts.clear()
        elif (text := block_text(block)) is not None:
            texts.append(text)
        else:
            shows |= "part_kind" not in block
    return "\n".join(filter(None, texts)), waits, shows


def _calls_beside(value: dict[str, Any], trace: Trace) -> list[Call]:
    """Calls that stand beside the content, where some formats repeat them."""
    calls: list[Any] = []
    for key in ("tool_calls", "invalid_tool_calls"):
        listed = structure(value.get(key))
        if isinstance(listed, list):
            calls += listed
        elif listed:
            trace.problem(f"calls that are no list: {text_of(listed)}")
    if old := value.get("function_call"):
        calls.append({"function": old})
    if not calls and (kept := dict_at(value, "additional_kwargs").get("tool_calls")):
        return _calls_beside({"tool_calls": kept}, trace)  # As the provider sent them.
    for call in calls:
        if not isinstance(call, dict):
            trace.problem(f"a call that is no object: {json_of(call)}")
    return [_called(call) for call in calls if isinstance(call, dict)]


def _called(call: dict[str, Any]) -> Call:
    call = dict_at(call, "tool_call") or call
    if custom := dict_at(call, "custom"):
        return call_of(custom.get("name"), call.get("id"), {"input": custom.get("input")})
    call = call | dict_at(call, "function")
    return call_of(call.get("name"), call.get("id"), first(call, "arguments", "args"))


def part_of(block: dict[str, Any]) -> Call | None:
    """The call or result that a block of a message or an item of OpenAI is; None if it is
    neither.
    """
    kind = block.get("type") or first(block, *_KINDS)
    if not isinstance(kind, str) or kind in _TEXTS:
        return None
    name = first(block, "name", "tool_name")
    if kind in _CALLS:
        args = {"input": block.get("input")} if kind == "custom_tool_call" else first(block, *_ARGS)
        return call_of(name, first(block, *_IDS), args)
    if kind.endswith(_RESULTS) or (kind == "retry-prompt" and name is not None):
        return _result_of(block, first(block, *_IDS), first(block, *_OUTPUTS))
    return _hosted(block, kind) if kind.endswith("_call") else None


def _hosted(item: dict[str, Any], kind: str) -> Call:
    """A call of a tool that the server runs, such as file search, which has its result."""
    name, args = item.get("name"), item.get("arguments")
    if kind != "mcp_call":
        name = kind.removesuffix("_call")
        args = {
            key: value for key, value in item.items() if value is not None and key not in _NOT_ARGS
        }
    call = call_of(name, first(item, "call_id", "id"), args or {})
    output, error, status = first(item, *_OF_HOSTED), item.get("error"), item.get("status")
    if isinstance(error, dict):
        error = error.get("content") or error.get("message") or error
    # Calls of the user's own computer or shell have their results in items of their own.
    waits = "call_id" in item or status == "in_progress"
    if error is not None or output is not None or status == "failed" or not waits:
        failed = error is not None or status in ("failed", "incomplete")
        call.end(output if error is None else error, failed)
    return call


def _result_of(value: dict[str, Any], key: Any, output: Any) -> Call:
    """A result; whether it failed is said by a mark, a status, or an error code in place of the
    output.
    """
    failed, outcome = value.get("is_error"), value.get("outcome")
    if value.get("part_kind") == "retry-prompt":
        failed = True
    elif not isinstance(failed, bool):
        failed = {"success": False, "error": True, "failed": True}.get(str(value.get("status")))
        failed = outcome != "success" if isinstance(outcome, str) else failed
    # Of servers of Anthropic.
    if isinstance(output, dict) and output.get("error_code") is not None:
        output, failed = output["error_code"], True
    return call_of(first(value, "name", "tool_name"), key).end(output, failed)


def tool_message(value: Any) -> dict[str, Any] | None:
    """The message of a tool that a tool of LangChain returned, also in a `Command`; None if it
    is none.
    """
    update = value.get("update") if isinstance(value, dict) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    for each in messages if isinstance(messages, list) else [value]:
        if isinstance(each, dict) and "tool_call_id" in (message := opened_message(each)):
            return message
    return None


def output_of(message: dict[str, Any]) -> Any:
    """What a tool of LangChain returned: the content, or the artifact if only that has rows."""
    content, artifact = message.get("content"), message.get("artifact")
    is_better = artifact is not None and _has_rows(artifact) and not _has_rows(content)
    return documents_of(artifact) if is_better else content


def _has_rows(value: Any) -> bool:
    """Whether a value is results of SPARQL or a list of objects, in whichever form they are
    read.
    """
    value = unwrapped(text_of(value) if isinstance(value, list) else value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, dict) for each in value)
    return isinstance(value, dict) and "head" in value


def documents_of(output: Any) -> Any:
    """Documents of LangChain as `retrieval` steps have them, with `id` and `text`; all else as
    it is.
    """
    listed = output if isinstance(output, list) else []
    documents = [dict_at(each, "kwargs") or each for each in listed if isinstance(each, dict)]
    found = [
        {"id": each.get("id"), "text": each["page_content"], "metadata": each.get("metadata")}
        for each in documents
        if "page_content" in each
    ]
    return found if found and len(found) == len(listed) else output


def histories_of(span: Span) -> list[Trace]:
    """The histories that a span carries."""
    attributes = span.attributes
    told: list[Messages] = [_given_and_made(attributes), _messages_of_ai_sdk(attributes)]
    if span.kind == "model":
        told.append(_messages_of_mlflow(attributes))
    for key in _HISTORIES:
        value = structure(attributes.get(key))
        listed = (
            [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
        )
        if value is not None and (key != "events" or any("event.name" in each for each in listed)):
            told.append([(key, "", value)])
    flat = [(prefix, role) for role, _, prefixes in _GIVEN_AND_MADE for prefix in prefixes]
    told.append(
        [(prefix, role, found) for prefix, role in flat if (found := indexed(attributes, prefix))]
    )
    events: Messages = []
    # Strands writes arguments and result of a tool as such events, too.
    for name, about in span.events if span.kind != "tool" else []:
        if name in _EVENTS:
            body = structure(about.get("gen_ai.event.content"))
            events.append(
                (name, "", {"event.name": name, **(body if isinstance(body, dict) else about)})
            )
        else:
            events += _given_and_made(about)
    return [_history(messages) for messages in (*told, events) if messages]


def _given_and_made(attributes: dict[str, Any]) -> Messages:
    found = [
        (key, role, attributes.get(key))
        for role, keys, _ in (*_GIVEN_AND_MADE, *_OF_ADK)
        for key in keys
    ]
    # ADK writes empty objects into spans that are not of models.
    return [
        (key, role, structure(value)) for key, role, value in found if value not in (None, "{}")
    ]


def _messages_of_ai_sdk(attributes: dict[str, Any]) -> Messages:
    """Return the messages in the attributes that Vercel's AI SDK writes."""
    messages: Messages = []
    prompt = structure(first(attributes, "ai.prompt.messages", "ai.prompt"))
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), str):
        prompt = [{"role": "user", "content": prompt["prompt"]}]
    if prompt is not None:
        messages.append(("ai.prompt", "user", prompt))

    calls = structure(attributes.get("ai.response.toolCalls"))
    text = attributes.get("ai.response.text")
    blocks = [
        {"type": "tool-call", **call}
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, dict)
    ]
    content: Any = blocks or text
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
    history = Trace("otlp", "all")
    for key, role, value in messages:
        if isinstance(value, dict):
            listed = first(value, "messages", "contents")
            value = listed if isinstance(listed, list) else [value]
        if not isinstance(value, list):
            history.problem(f"{key}: no list of messages, perhaps cut: {json_of(value)}")
            continue
        for each in value:
            if isinstance(each, dict):
                _read_told(each, role, history)
            else:
                history.problem(f"a message that is no object: {json_of(each)}")
    return history


def _read_told(value: dict[str, Any], role: str, history: Trace) -> None:
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
            value["function_call"] = {
                "name": name,
                "arguments": value.get("function_call_arguments_json"),
            }
    message = opened_message(value)
    layout = layout_of_message_in_span(message)
    if layout is None:
        read_message(message, history, role, is_new=is_new)
        return
    try:
        layout.read_message({"role": role, **message}, history)
    except TraceError as error:
        history.problem(str(error))


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
