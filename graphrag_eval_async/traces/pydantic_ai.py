"""Messages of Pydantic AI, versions 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.traces.plain import list_of, said, seconds_between, text_of
from graphrag_eval_async.traces.trace import convert

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import Trace, TraceOptions


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response.

    Args:
        messages: `result.all_messages()` or `result.all_messages_json()`.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(messages, "pydantic-ai", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    times: list[Any] = []
    for message in list_of(history):
        parts = message.get("parts") if isinstance(message, dict) else None
        if not isinstance(parts, list):
            trace.problem("a message without parts")
            continue
        for part in parts:
            if not isinstance(part, dict):
                trace.problem(f"a part that is no object: {text_of(part)}")
        parts = [part for part in parts if isinstance(part, dict)]
        # What a tool adds to its return for the model comes as if the user had said it.
        returns = any(part.get("part_kind") == "tool-return" for part in parts)
        if returns:
            parts = [part for part in parts if part.get("part_kind") != "user-prompt"]
        is_asked = any(part.get("part_kind") == "user-prompt" for part in parts)
        if is_asked and (trace.turn == "last" or not times):
            times = [] if trace.turn == "last" else times
        times += [each.get("timestamp") for each in (message, *parts)]
        for part in parts:
            _read_part(part, trace)
        if message.get("kind") == "response":
            _read_response(message, parts, trace)
    trace.elapsed_sec = seconds_between(times, times)


def _read_part(part: dict[str, Any], trace: Trace) -> None:
    kind, name, key = part.get("part_kind"), part.get("tool_name"), part.get("tool_call_id")
    if kind == "user-prompt":
        trace.ask(said(part.get("content")))
    elif kind in ("tool-call", "builtin-tool-call"):
        trace.call(name, part.get("args"), key)
    elif kind in ("tool-return", "builtin-tool-return"):
        outcome = part.get("outcome")
        failed = outcome != "success" if isinstance(outcome, str) else None
        trace.result(key, part.get("content"), failed=failed, name=name)
    elif kind == "retry-prompt" and name is not None:  # Without a name, it is about the answer.
        trace.result(key, part.get("content"), failed=True, name=name)


def _read_response(message: dict[str, Any], parts: list[dict[str, Any]], trace: Trace) -> None:
    usage = message.get("usage")
    if isinstance(usage, dict):
        trace.count(
            input_tokens=usage.get("input_tokens", usage.get("request_tokens")),
            output_tokens=usage.get("output_tokens", usage.get("response_tokens")),
        )
    if not any(part.get("part_kind") == "tool-call" for part in parts):
        texts = [part.get("content") for part in parts if part.get("part_kind") == "text"]
        trace.reply([text for text in texts if isinstance(text, str)])
