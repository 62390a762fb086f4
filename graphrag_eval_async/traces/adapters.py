"""Histories of agent frameworks as responses, and which format a history has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import history_of, opened, shown
from graphrag_eval_async.traces.reading import convert

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import TraceOptions

FORMATS = ("openai", "responses", "agents", "langchain", "anthropic", "pydantic-ai", "llamaindex", "mcp")
"""Names of the formats of which a history has one trace."""

_OTLP = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
_ITEMS = ("tool_call_item", "tool_call_output_item", "message_output_item", "handoff_call_item")
_LANGCHAIN = ("human", "ai", "tool", "system", "AIMessageChunk")
_LLAMAINDEX = {"tool_kwargs", "tool_output", "current_agent_name"}


def response_from_openai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of OpenAI's APIs or Agents SDK to a response.

    Args:
        messages: messages of Chat Completions; items or an answer of the Responses API; or of the Agents SDK,
            `result.to_input_list()`, a `RunState` as JSON, or what a `TracingProcessor` exports. Dicts, or
            objects of the SDKs.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(messages), "openai", options)


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response.

    Args:
        history: messages (objects, `messages_to_dict`, `model_dump` or `dumpd`), the final state of a graph,
            which has `messages`, the events of `astream_events` with version "v2", or JSON text of these.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(history), "langchain", options)


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response.

    Args:
        messages: the messages that you send, with the last answer appended: dicts, objects of the SDK or JSON
            text.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(messages), "anthropic", options)


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response.

    Args:
        messages: `result.all_messages()` or `result.all_messages_json()`.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(messages), "pydantic-ai", options)


def response_from_llamaindex(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert events or a chat history of LlamaIndex to a response.

    Args:
        history: the events of a workflow agent (`handler.stream_events()`), as objects or by `model_dump`, or
            the messages of a chat history, which do not tell errors.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(history), "llamaindex", options)


def response_from_mcp(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages between a client and its MCP servers to a response, which has no answer.

    Args:
        messages: requests `tools/call` and their answers for one question, in the order of sending.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history_of(messages), "mcp", options)


def response_from_trace(trace: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Recognise the format of a history and convert it to a response.

    Args:
        trace: one history, as `response_from_openai` and the other adapters take it.
        options: see `TraceOptions`.

    Returns:
        a response for `evaluate_stream`. Its `trace_format` names the format, and its `trace_problems` lists
        what is wrong with the trace.

    Raises:
        TraceError: text is not JSON, or nothing of a known format is in it.
        UsageError: an option has an invalid value.
    """
    return read_trace(history_of(trace), "auto", **options)


def read_trace(value: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """The response that a JSON value makes in one of `FORMATS`, or in the one that is recognised ("auto")."""
    return convert(value, detect(value) if format == "auto" else format, options)


def detect(value: Any) -> str:
    """The name of the format of a trace."""
    if isinstance(value, dict) and _OTLP & value.keys():
        raise TraceError("a line of OpenTelemetry holds spans of many traces; read it with the format otlp")
    items = [item for item in opened(value).items if isinstance(item, dict)]
    for item in items:
        if found := _format_of(item):
            return found
    for item in items:
        if ("role" in item and "parts" not in item) or isinstance(item.get("message"), dict):
            return "openai"  # Texts alone look alike in all formats that have roles.
    raise TraceError(f"no known format; it has {shown(value)}. Known are {', '.join(FORMATS)}")


def _format_of(item: dict[str, Any]) -> str | None:
    """The format that has such a message, item or event; None if several have."""
    kind, role, blocks = item.get("type"), item.get("role"), item.get("content")
    kind = kind if isinstance(kind, str) else ""
    if "jsonrpc" in item:
        return "mcp"
    if "parts" in item and item.get("kind") in ("request", "response"):
        return "pydantic-ai"
    is_langchain = kind in _LANGCHAIN and ("content" in item or "data" in item)
    if is_langchain or "lc" in item or str(item.get("event")).startswith("on_"):
        return "langchain"
    if not _LLAMAINDEX.isdisjoint(item) or (role is not None and "blocks" in item):
        return "llamaindex"
    if item.get("object") in ("trace", "trace.span") or "raw_item" in item or kind in _ITEMS:
        return "openai"
    blocks = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    is_anthropic = any(str(block.get("type")).endswith(("tool_use", "tool_result")) for block in blocks)
    if kind.endswith(("_call", "_call_output")) or (kind == "message" and not is_anthropic):
        return "openai"
    if role == "tool" or "tool_calls" in item or "function_call" in item:
        return "openai"
    return "anthropic" if role is not None and is_anthropic else None
