"""Histories of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, Unpack

from graphrag_eval_async.traces.plain import history_of, list_of
from graphrag_eval_async.traces.trace import Trace, TraceOptions, said, to_response


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """The response that messages of Anthropic make.

    Args:
        messages: the list that is sent, with the last answer appended; dicts, objects of it or JSON text.
        options: see `TraceOptions`.

    Returns:
        a response for `evaluate_stream`. What is wrong with the trace is listed in `trace_problems`.

    Raises:
        TraceError: text is not JSON.
        UsageError: an option has a value it cannot have.
    """
    trace = Trace("anthropic", options.get("turn", "last"))
    read(history_of(messages), trace)
    return to_response(trace, **options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    for message in list_of(history, "messages"):
        if not isinstance(message, dict):
            trace.problem("a message that is no object")
            continue
        content = message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        calls = [
            block for block in blocks if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use")
        ]
        results = [block for block in blocks if str(block.get("type")).endswith("tool_result")]
        for call in calls:
            trace.call(call.get("name"), call.get("input"), call.get("id"))
        for result in results:
            _read_result(result, trace)
        if message.get("role") == "user" and not results:
            trace.ask(said(content))
        elif message.get("role") == "assistant" and not any(call["type"] == "tool_use" for call in calls):
            trace.reply(content)
        if isinstance(usage := message.get("usage"), dict):
            trace.count(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens"))


def _read_result(block: dict[str, Any], trace: Trace) -> None:
    """The result of a tool; one that the server runs has an object with an error code where it failed."""
    content = block.get("content")
    code = content.get("error_code") if isinstance(content, dict) else None
    failed = bool(block.get("is_error")) or code is not None
    trace.result(block.get("tool_use_id"), content if code is None else code, failed=failed)
