"""Histories of OpenAI: Chat Completions, Responses, and items and spans of the Agents SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.traces.plain import (
    block_text,
    list_of,
    said,
    seconds_between,
    text_of,
    whole_answer,
)
from graphrag_eval_async.traces.trace import Trace, calls_of, convert, end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.traces.trace import TraceOptions


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
    return convert(messages, "openai", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    items = list_of(history)
    if any(isinstance(each, dict) and each.get("object") in ("trace", "trace.span") for each in items):
        _read_spans(items, trace)
        return
    for item in items:
        if isinstance(item, dict):
            _read_item(item, trace)
        else:
            trace.problem("an item that is no object")
    if isinstance(history, dict):
        responses = history.get("model_responses")  # Of a `RunState`.
        responses = responses if isinstance(responses, list) else []
        answers = (whole_answer(history.get(key)) for key in ("response", "output", "completion"))
        for holder in (history, *answers, *responses):
            if isinstance(holder, dict):
                _count(holder.get("usage"), trace)


def _read_item(item: dict[str, Any], trace: Trace) -> None:
    if isinstance(raw := item.get("raw_item"), dict):  # Of a `RunState`.
        item = raw
    if isinstance(message := item.get("message"), dict):  # Of the choices of a completion.
        item = message
    kind = item.get("type")
    read_item = _ITEMS.get(kind) if isinstance(kind, str) else None
    if read_item is not None:
        read_item(item, trace)
    elif kind is None and (isinstance(item.get("output"), list) or isinstance(item.get("choices"), list)):
        read(item, trace)  # A whole answer of either API.
    elif "role" in item:
        _read_message(item, trace)
    elif isinstance(kind, str) and kind.endswith("_call_output"):
        failed = True if item.get("status") == "failed" else None
        trace.result(item.get("call_id"), item.get("output"), failed=failed)
    elif isinstance(kind, str) and kind.endswith("_call"):
        _read_hosted(item, trace)
    elif kind not in _SILENT:
        trace.problem(f"an item of the unknown kind {text_of(kind) or 'none'}")


_SILENT = ("reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request", "program")
"""Kinds of items that are neither calls nor results nor messages."""


def _read_message(message: dict[str, Any], trace: Trace) -> None:
    role, content = message["role"], message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if any(block.get("type") in ("tool_use", "tool_result") for block in blocks):
        trace.problem("a message as Anthropic has it; response_from_anthropic reads it")
    # Right after the result of a tool, it may show what that returned, such as an image.
    shows = trace.answer is None and trace.calls and trace.calls[-1].ended and None in map(block_text, blocks)
    if role == "user" and not shows:
        trace.ask(said(content))
    elif role in ("tool", "function"):
        trace.result(message.get("tool_call_id"), content, name=message.get("name"))
    elif role == "assistant":
        calls = calls_of(message.get("tool_calls"), trace)
        old = message.get("function_call")
        for call in [*calls, *([{"function": old}] if old else [])]:
            _read_call(call, trace)
        if not calls and not old:
            trace.reply(content if content is not None else message.get("refusal"))


def _read_call(call: Any, trace: Trace) -> None:
    if not isinstance(call, dict):
        trace.problem("a call that is no object")
    elif isinstance(custom := call.get("custom"), dict):
        trace.call(custom.get("name"), {"input": custom.get("input")}, call.get("id"))
    else:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        trace.call(function.get("name"), function.get("arguments"), call.get("id"))


def _read_function_call(item: dict[str, Any], trace: Trace) -> None:
    trace.call(item.get("name"), item.get("arguments"), item.get("call_id") or item.get("id"))


def _read_custom_call(item: dict[str, Any], trace: Trace) -> None:
    trace.call(item.get("name"), {"input": item.get("input")}, item.get("call_id") or item.get("id"))


def _read_mcp_call(item: dict[str, Any], trace: Trace) -> None:
    call = trace.call(item.get("name"), item.get("arguments"), item.get("id"))
    error = item.get("error")
    if error is not None:
        end(call, _error_text(error), failed=True)
    elif item.get("output") is not None or item.get("status") in ("completed", "failed", None):
        end(call, item.get("output"), failed=item.get("status") == "failed")


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        return text_of(error.get("content") or error.get("message") or error)
    return text_of(error)


_RESULTS = ("results", "outputs", "output", "result")
_NOT_ARGUMENTS = {"id", "type", "status", "call_id", "error", *_RESULTS}


def _read_hosted(item: dict[str, Any], trace: Trace) -> None:
    """A tool that the server runs, such as file search: call and result are one item."""
    args = {key: value for key, value in item.items() if key not in _NOT_ARGUMENTS and value is not None}
    call = trace.call(item["type"].removesuffix("_call"), args, item.get("call_id") or item.get("id"))
    status = item.get("status")
    output = next((item[key] for key in _RESULTS if item.get(key) is not None), None)
    # Calls of the user's own computer or shell have their results in items of their own.
    if output is not None or "call_id" not in item or status == "failed":
        end(
            call,
            output if item.get("error") is None else item["error"],
            failed=status in ("failed", "incomplete"),
        )


_ITEMS: dict[str, Callable[[dict[str, Any], Trace], None]] = {
    "message": _read_message,
    "function_call": _read_function_call,
    "custom_tool_call": _read_custom_call,
    "mcp_call": _read_mcp_call,
}


def _read_spans(spans: Iterable[Any], trace: Trace) -> None:
    """What a `TracingProcessor` of the Agents SDK exports."""
    found = sorted(
        (span for span in spans if isinstance(span, dict) and span.get("object") == "trace.span"),
        key=lambda span: str(span.get("started_at")),
    )
    ids = [span.get("id") for span in spans if isinstance(span, dict) and span.get("object") == "trace"]
    if ids:
        trace.more["trace_id"] = ids[-1]
    if len(ids) > 1:
        trace.problem(f"{len(ids)} traces, read as one; pass the objects of one trace at a time")
    tokens: list[Any] = []
    for span in found:
        data = span.get("span_data")
        if isinstance(data, dict):
            _read_span(span, data, tokens, trace)
        else:
            trace.problem("a span without span_data")
    if not trace.tokens:
        for usage in tokens:
            _count(usage, trace)
    started = [span.get("started_at") for span in found]
    ended = [span.get("ended_at") for span in found]
    trace.elapsed_sec = seconds_between(started, ended)


def _read_span(span: dict[str, Any], data: dict[str, Any], tokens: list[Any], trace: Trace) -> None:
    kind, error = data.get("type"), span.get("error")
    if kind == "function":
        call = trace.call(data.get("name"), data.get("input"), span.get("id"))
        if span.get("ended_at") is not None or data.get("output") is not None:
            end(call, data.get("output") or _error_of(error), failed=error is not None)
    elif kind in ("response", "generation"):
        _count(data.get("usage"), trace)
        _read_generation(data, trace)
    elif kind == "agent" and error is not None:
        trace.error = text_of(_error_of(error))
    elif isinstance(more := data.get("data"), dict) and more.get("sdk_span_type") == "turn":
        tokens.append(more.get("usage"))


def _error_of(error: Any) -> Any:
    """What an error of a span says, in most detail."""
    if not isinstance(error, dict):
        return error
    data = error.get("data")
    return (data.get("error") if isinstance(data, dict) else None) or error.get("message") or error


def _read_generation(data: Mapping[str, Any], trace: Trace) -> None:
    """The question and the answer; the calls are spans of their own."""
    seen = Trace("openai", "all")
    for key in ("input", "output"):
        if isinstance(value := data.get(key), list) or isinstance(value, dict):
            read(value, seen)
        elif isinstance(value, str) and key == "input":
            seen.ask(value)
    if seen.question is not None and trace.question is None:
        trace.question = seen.question
    trace.answer = seen.answer


def _count(usage: Any, trace: Trace) -> None:
    if isinstance(usage, dict):
        trace.count(
            input_tokens=usage.get("input_tokens", usage.get("prompt_tokens")),
            output_tokens=usage.get("output_tokens", usage.get("completion_tokens")),
        )
