"""Histories of agent frameworks as responses, and which format a history has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import dict_at, history_of, list_at, opened, shown
from graphrag_eval_async.traces.reading import convert

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import TraceOptions

FORMATS = ("openai", "responses", "agents", "langchain", "anthropic", "pydantic-ai", "llamaindex", "mcp")
"""Names of the formats of which a history has one trace."""

_OTLP = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
_ITEMS = ("tool_call_item", "tool_call_output_item", "message_output_item", "handoff_call_item")
_LANGCHAIN = ("human", "ai", "tool", "system", "AIMessageChunk")
_LLAMAINDEX = {"tool_kwargs", "tool_output", "current_agent_name"}
_OPENAI = {"raw_item", "tool_calls", "function_call"}


def response_from_openai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of OpenAI's APIs or Agents SDK to a response, as `response_from_trace` does.

    It has messages of Chat Completions; items or an answer of the Responses API; or of the Agents SDK,
    `result.to_input_list()`, a `RunState` as JSON, or what a `TracingProcessor` exports.
    """
    return convert(history_of(messages), "openai", options)


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response, as `response_from_trace` does.

    It has messages (objects, `messages_to_dict`, `model_dump` or `dumpd`), or is the final state of a graph,
    or the events of `astream_events` with version "v2".
    """
    return convert(history_of(history), "langchain", options)


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response, as `response_from_trace` does.

    They are those that you send, with the last answer appended.
    """
    return convert(history_of(messages), "anthropic", options)


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response, as `response_from_trace` does.

    They are `result.all_messages()` or `result.all_messages_json()`.
    """
    return convert(history_of(messages), "pydantic-ai", options)


def response_from_llamaindex(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert events or a chat history of LlamaIndex to a response, as `response_from_trace` does.

    It has the events of a workflow agent (`handler.stream_events()`), as objects or by `model_dump`, or the
    messages of a chat history, which do not tell errors.
    """
    return convert(history_of(history), "llamaindex", options)


def response_from_mcp(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages between a client and its MCP servers to a response, as `response_from_trace` does.

    They are requests `tools/call` and their answers for one question, in the order of sending. The
    response has no answer.
    """
    return convert(history_of(messages), "mcp", options)


def response_from_trace(trace: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Recognise the format of a history and convert it to a response.

    Args:
        trace: one history: dicts and lists, objects of a framework, or JSON text.
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
    if isinstance(value, dict) and not _OTLP.isdisjoint(value):
        raise TraceError("a line of OpenTelemetry holds spans of many traces; read it with the format otlp")
    items = [item for item in opened(value)[0] if isinstance(item, dict)]
    found = next((name for item in items if (name := _format_of(item))), None)
    # Texts alone look alike in all formats that have roles.
    if found or any(("role" in item and "parts" not in item) or dict_at(item, "message") for item in items):
        return found or "openai"
    raise TraceError(f"no known format; it has {shown(value)}. Known are {', '.join(FORMATS)}")


def _format_of(item: dict[str, Any]) -> str | None:
    """The format that has such a message, item or event; None if several have."""
    kind = str(item.get("type"))
    has_role = item.get("role") is not None
    blocks = [block for block in list_at(item, "content") if isinstance(block, dict)]
    is_anthropic = any(str(block.get("type")).endswith(("tool_use", "tool_result")) for block in blocks)
    if "jsonrpc" in item:
        return "mcp"
    if "parts" in item and item.get("kind") in ("request", "response"):
        return "pydantic-ai"
    is_langchain = kind in _LANGCHAIN and ("content" in item or "data" in item)
    if is_langchain or "lc" in item or str(item.get("event")).startswith("on_"):
        return "langchain"
    if not _LLAMAINDEX.isdisjoint(item) or (has_role and "blocks" in item):
        return "llamaindex"
    if item.get("object") in ("trace", "trace.span") or not _OPENAI.isdisjoint(item) or kind in _ITEMS:
        return "openai"
    if kind.endswith(("_call", "_call_output")) or (kind == "message" and not is_anthropic):
        return "openai"
    return "openai" if item.get("role") == "tool" else "anthropic" if has_role and is_anthropic else None
