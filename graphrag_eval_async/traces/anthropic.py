"""Histories of Anthropic's Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.traces.plain import list_of, said, text_of
from graphrag_eval_async.traces.trace import convert

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import Trace, TraceOptions


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response.

    Args:
        messages: the messages that you send, with the last answer appended: dicts, objects of the SDK or JSON
            text.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(messages, "anthropic", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    for message in list_of(history):
        if not isinstance(message, dict):
            trace.problem("a message that is no object")
            continue
        _read_message(message, trace)
        if isinstance(usage := message.get("usage"), dict):
            for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
                trace.count(input_tokens=usage.get(key))
            trace.count(output_tokens=usage.get("output_tokens"))


_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def _read_message(message: dict[str, Any], trace: Trace) -> None:
    content = message.get("content")
    if message.get("tool_calls") or message.get("role") == "tool":
        trace.problem("a message as OpenAI has it; response_from_openai reads it")
    blocks = content if isinstance(content, list) else [content]
    texts: list[Any] = []  # What is said after the last call and result.
    kinds = set()
    for block in blocks:
        if not isinstance(block, dict):
            if not isinstance(block, str | None):
                trace.problem(f"a block that is no object: {text_of(block)}")
            texts.append(block)
            continue
        kind = str(block.get("type"))
        if kind in _CALLS:
            trace.call(block.get("name"), block.get("input"), block.get("id"))
        elif kind.endswith("tool_result"):
            _read_result(block, trace)
        else:
            texts.append(block)
            continue
        kinds.add("call" if kind == "tool_use" else "call of the server" if kind in _CALLS else "result")
        texts.clear()
    if message.get("role") == "user" and not kinds:
        trace.ask(said(content))
    elif message.get("role") == "assistant" and "call" not in kinds:
        trace.reply(texts)


def _read_result(block: dict[str, Any], trace: Trace) -> None:
    """The result of a tool; one that the server runs has an object with an error code where it failed."""
    content = block.get("content")
    code = content.get("error_code") if isinstance(content, dict) else None
    failed = True if code is not None else block.get("is_error")
    failed = failed if isinstance(failed, bool) else None
    trace.result(block.get("tool_use_id"), content if code is None else code, failed=failed)
