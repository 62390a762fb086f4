"""Calls of tools by the Model Context Protocol, as JSON-RPC requests and answers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.traces.plain import list_of
from graphrag_eval_async.traces.trace import convert, id_of

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import Trace, TraceOptions


def response_from_mcp(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages between a client and its MCP servers to a response, which has no answer.

    Args:
        messages: requests `tools/call` and their answers for one question, in the order of sending.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(messages, "mcp", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    others: set[str | int | None] = set()  # Ids of requests that call no tool.
    messages = list_of(history)
    batches = (each if isinstance(each, list) else [each] for each in messages)
    for message in chain.from_iterable(batches):
        if not isinstance(message, dict):
            trace.problem("a message that is no object")
            continue
        trace.found |= "jsonrpc" in message
        key, method = id_of(message.get("id")), message.get("method")
        if method == "tools/call":
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            trace.call(params.get("name"), params.get("arguments"), key)
        elif method is not None:
            others.add(key)
        elif key is None or key not in others or (trace.waiting(key) is not None and _is_of_a_tool(message)):
            _read_answer(message, key, trace)


def _is_of_a_tool(answer: dict[str, Any]) -> bool:
    """Whether an answer can be that of a tool: servers ask clients, too, and both count from 0."""
    result = answer.get("result")
    if not isinstance(result, dict):
        return True
    return isinstance(result.get("content"), list) or bool(_TOOL_KEYS & result.keys())


_TOOL_KEYS = {"isError", "is_error", "structuredContent", "structured_content"}


def _read_answer(message: dict[str, Any], key: Any, trace: Trace) -> None:
    error, result = message.get("error"), message.get("result")
    if error is not None:
        text = error.get("message") if isinstance(error, dict) else error
        trace.result(key, text if text is not None else error, failed=True)
    elif isinstance(result, dict):
        content = result.get("content")
        structured = result.get("structuredContent", result.get("structured_content"))
        failed = result.get("isError", result.get("is_error"))
        trace.result(key, content or structured, failed=None if failed is None else bool(failed))
    elif "result" in message:
        trace.result(key, result)
    else:
        trace.problem("a message that is neither a request nor an answer")
