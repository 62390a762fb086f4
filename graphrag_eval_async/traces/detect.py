"""Recognises the format of a trace."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces import anthropic, langchain, llamaindex, mcp, openai, pydantic_ai
from graphrag_eval_async.traces.plain import history_of, list_of, shown
from graphrag_eval_async.traces.trace import TraceOptions, convert

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.traces.trace import Trace

FORMATS: dict[str, Callable[[Any, Trace], None]] = {
    "openai": openai.read,
    "responses": openai.read,
    "agents": openai.read,
    "langchain": langchain.read,
    "anthropic": anthropic.read,
    "pydantic-ai": pydantic_ai.read,
    "llamaindex": llamaindex.read,
    "mcp": mcp.read,
}
"""What reads one trace, by the name of its format."""

OTLP = ("resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics")
"""Keys of lines of OpenTelemetry, which hold spans of many traces."""


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
    name = detect(value) if format == "auto" else format
    return convert(value, name, FORMATS[name], options)


def detect(value: Any) -> str:
    """The name of the format of a trace."""
    if isinstance(value, dict) and any(key in value for key in OTLP):
        raise TraceError("a line of OpenTelemetry holds spans of many traces; read it with the format otlp")
    listed = list_of(value)
    batches = (each if isinstance(each, list) else [each] for each in listed)  # MCP has lists in lists.
    items = [item for item in chain.from_iterable(batches) if isinstance(item, dict)]
    found = next((name for item in items if (name := _format_of(item))), None)
    if found is None and any(
        ("role" in item and "parts" not in item) or isinstance(item.get("message"), dict) for item in items
    ):
        found = "openai"  # Texts alone look alike in all formats that have roles.
    if found is None:
        raise TraceError(f"no known format; it has {shown(value)}. Known are {', '.join(FORMATS)}")
    return found


_ITEMS = frozenset({"tool_call_item", "tool_call_output_item", "message_output_item", "handoff_call_item"})
_LANGCHAIN = frozenset({"human", "ai", "tool", "system", "AIMessageChunk"})
_LLAMAINDEX = {"tool_kwargs", "tool_output", "current_agent_name"}
_BLOCKS = ("tool_use", "tool_result")


def _format_of(item: dict[str, Any]) -> str | None:
    """The format that has such a message, item or event; None if several have."""
    kind, role, content = item.get("type"), item.get("role"), item.get("content")
    if "jsonrpc" in item:
        return "mcp"
    if "parts" in item and item.get("kind") in ("request", "response"):
        return "pydantic-ai"
    is_event = isinstance(item.get("event"), str) and item["event"].startswith("on_")
    if (
        is_event
        or "lc" in item
        or (isinstance(kind, str) and kind in _LANGCHAIN and ("content" in item or "data" in item))
    ):
        return "langchain"
    if _LLAMAINDEX & item.keys() or (role is not None and "blocks" in item):
        return "llamaindex"
    if (
        item.get("object") in ("trace", "trace.span")
        or "raw_item" in item
        or (isinstance(kind, str) and kind in _ITEMS)
    ):
        return "openai"
    if isinstance(kind, str) and (kind.endswith(("_call", "_call_output")) or kind == "message"):
        return "anthropic" if kind == "message" and _has_blocks(content) else "openai"
    if role == "tool" or "tool_calls" in item or "function_call" in item:
        return "openai"
    return "anthropic" if role is not None and _has_blocks(content) else None


def _has_blocks(content: Any) -> bool:
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and str(block.get("type")).endswith(_BLOCKS) for block in blocks)
