"""Events and chat histories of LlamaIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.traces.plain import list_of, said, text_of
from graphrag_eval_async.traces.trace import calls_of, convert, end, id_of

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import Trace, TraceOptions


def response_from_llamaindex(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert events or a chat history of LlamaIndex to a response.

    Args:
        history: the events of a workflow agent (`handler.stream_events()`), as objects or by `model_dump`, or
            the messages of a chat history, which do not tell errors.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history, "llamaindex", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values. Events are told by their keys: their dumps do not name them."""
    listed: dict[Any, dict[str, Any]] = {}
    for item in list_of(history):
        if not isinstance(item, dict):
            trace.problem("an event that is no object")
        elif "tool_output" in item:
            _read_result(item, trace)
        elif "tool_kwargs" in item:
            trace.call(item.get("tool_name"), item.get("tool_kwargs"), item.get("tool_id"))
        elif "role" in item:
            _read_message(item, trace)
        else:
            _read_event(item, listed, trace)
    answer = trace.answer
    for key, call in listed.items():  # Whose own events are missing.
        if not trace.knows(key):
            trace.call(call.get("tool_name"), call.get("tool_kwargs"), key)
    trace.answer = answer


def _read_event(item: dict[str, Any], listed: dict[Any, dict[str, Any]], trace: Trace) -> None:
    """What an agent is given, or puts out; its calls are `listed`, and have events of their own."""
    if isinstance(response := item.get("response"), dict):
        calls = item.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and call.get("tool_id") is not None:
                listed.setdefault(id_of(call["tool_id"]), call)
        # What is said before a call is no answer.
        if not _calls_in(_blocks(response)):
            trace.reply(_blocks(response))
    elif trace.question is None:
        if isinstance(given := item.get("input"), list):
            _read_question(given, trace)
        elif isinstance(text := item.get("user_msg"), str):
            trace.ask(text)


def _blocks(message: dict[str, Any]) -> Any:
    blocks = message.get("blocks")
    return blocks if isinstance(blocks, list) and blocks else message.get("content")


def _calls_in(blocks: Any) -> list[dict[str, Any]]:
    blocks = blocks if isinstance(blocks, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("block_type") == "tool_call"]


def _read_question(messages: list[Any], trace: Trace) -> None:
    asked = [each for each in messages if isinstance(each, dict) and each.get("role") == "user"]
    if asked:
        trace.question = said(_blocks(asked[-1]))


def _read_result(event: dict[str, Any], trace: Trace) -> None:
    output, key = event["tool_output"], event.get("tool_id")
    output = output if isinstance(output, dict) else {"content": output}
    text = _blocks(output)
    failed = output.get("is_error")
    call = trace.waiting(key, event.get("tool_name"))
    if call is None and trace.knows(key):
        trace.result(key, output)  # Once more, which is a problem.
        return
    call = call or trace.call(event.get("tool_name"), event.get("tool_kwargs"), key)
    raw = output.get("raw_output")
    if isinstance(raw, dict | list) or text is None:  # The text has them as Python shows them.
        text = raw
    text = text_of(text)
    end(call, text, failed=failed if isinstance(failed, bool) else None)


def _read_message(message: dict[str, Any], trace: Trace) -> None:
    role = message["role"]
    more = message.get("additional_kwargs")
    more = more if isinstance(more, dict) else {}
    content = _blocks(message)
    if role == "user":
        trace.ask(said(content))
    elif role == "tool":
        trace.result(more.get("tool_call_id"), content)
    elif role == "assistant":
        calls = _calls_in(content)
        for call in calls:
            trace.call(call.get("tool_name"), call.get("tool_kwargs"), call.get("tool_call_id"))
        for call in calls_of(more.get("tool_calls"), trace) if not calls else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                calls.append(call)
                trace.call(function.get("name"), function.get("arguments"), call.get("id"))
            else:
                trace.problem(f"a call without a function: {text_of(call)}")
        if not calls:
            trace.reply(content)
