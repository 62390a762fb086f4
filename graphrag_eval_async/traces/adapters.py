"""Histories of agent frameworks as responses, and which format a history has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import dict_at, history_of, list_at, opened, shown
from graphrag_eval_async.traces.reading import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.traces.trace import TraceOptions

FORMATS = ("openai", "responses", "agents", "langchain", "anthropic", "pydantic-ai", "llamaindex", "mcp")
"""Names of the formats of which a history has one trace."""

_OTLP = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
_ITEMS = ("tool_call_item", "tool_call_output_item", "message_output_item", "handoff_call_item")
_LANGCHAIN = ("human", "ai", "tool", "system", "AIMessageChunk")
_LLAMAINDEX = {"tool_kwargs", "tool_output", "current_agent_name"}
_OPENAI = {"tool_calls", "function_call"}


def response_from_openai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of OpenAI's APIs or Agents SDK to a response, as `response_from_trace` does.

    It has messages of Chat Completions; items or an answer of the Responses API; or of the Agents SDK,
    `result.to_input_list()`, a `RunState` as JSON, or what a `TracingProcessor` exports.
    """
    return read_trace(history_of(messages), "openai", **options)


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response, as `response_from_trace` does.

    It has messages (objects, `messages_to_dict`, `model_dump` or `dumpd`), or is the final state of a graph,
    or the events of `astream_events` with version "v2".
    """
    return read_trace(history_of(history), "langchain", **options)


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response, as `response_from_trace` does.

    They are those that you send, with the last answer appended.
    """
    return read_trace(history_of(messages), "anthropic", **options)


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response, as `response_from_trace` does.

    They are `result.all_messages()` or `result.all_messages_json()`.
    """
    return read_trace(history_of(messages), "pydantic-ai", **options)


def response_from_llamaindex(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert events or a chat history of LlamaIndex to a response, as `response_from_trace` does.

    It has the events of a workflow agent (`handler.stream_events()`), as objects or by `model_dump`, or the
    messages of a chat history, which do not tell errors.
    """
    return read_trace(history_of(history), "llamaindex", **options)


def response_from_mcp(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages between a client and its MCP servers to a response, as `response_from_trace` does.

    They are requests `tools/call` and their answers for one question, in the order of sending. The
    response has no answer.
    """
    return read_trace(history_of(messages), "mcp", **options)


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
    if format == "auto":
        return convert(value, detect(value), options)
    name, fits = "openai" if format in ("responses", "agents") else format, True
    for names in _formats_in(value):
        fits &= name in names
        if name in names and names is not _TEXTS:
            fits = True
            break
    if not fits:
        raise TraceError(f"it is of the format {detect(value)}, not of {format}")
    return convert(value, format, options)


def detect(value: Any) -> str:
    """The name of the format of a trace."""
    if isinstance(value, dict) and not _OTLP.isdisjoint(value):
        raise TraceError("a line of OpenTelemetry holds spans of many traces; read it with the format otlp")
    found = None
    for names in _formats_in(value):
        found = names[0]
        if names is not _TEXTS:
            break
    if found is None:
        raise TraceError(f"no known format; it has {shown(value)}. Known are {', '.join(FORMATS)}")
    return found


def _formats_in(value: Any) -> Iterator[tuple[str, ...]]:
    """The formats that may have an item of a history, the likeliest first, for each item that has any."""
    return filter(None, (_formats_of(item) for item in opened(value)[0] if isinstance(item, dict)))


_TEXTS = ("openai", "langchain", "anthropic", "llamaindex")  # Messages that are only text look alike there.


def _formats_of(item: dict[str, Any]) -> tuple[str, ...]:
    if len(item) == 2 and item.get("role") in ("user", "assistant") and isinstance(item.get("content"), str):
        return _TEXTS  # As most are.
    item = dict_at(item, "message") or item  # Of a choice of a completion.
    kind = str(item.get("type"))
    blocks = [block for block in list_at(item, "content") if isinstance(block, dict)]
    if "jsonrpc" in item:
        return ("mcp",)
    if "parts" in item:
        return ("pydantic-ai",) if item.get("kind") in ("request", "response") else ()
    is_langchain = kind in _LANGCHAIN and ("content" in item or "data" in item)
    if is_langchain or "lc" in item or str(item.get("event")).startswith("on_"):
        return ("langchain",)
    if not _LLAMAINDEX.isdisjoint(item) or ("role" in item and "blocks" in item):
        return ("llamaindex",)
    if any(str(block.get("type")).endswith(("tool_use", "tool_result")) for block in blocks):
        return ("anthropic",)
    if item.get("object") in ("trace", "trace.span") or "raw_item" in item or kind in _ITEMS:
        return ("openai",)
    if kind.endswith(("_call", "_call_output")):
        return ("openai",)
    if item.get("role") == "tool" or not _OPENAI.isdisjoint(item):
        return ("openai", "langchain", "llamaindex")  # These take dicts of OpenAI, too.
    return _TEXTS if "role" in item or kind == "message" else ()
