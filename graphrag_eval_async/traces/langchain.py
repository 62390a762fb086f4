"""Messages of LangChain and LangGraph, and the events of `astream_events`."""

from __future__ import annotations

from typing import Any, Unpack

from graphrag_eval_async.traces.plain import history_of, list_of
from graphrag_eval_async.traces.trace import Trace, TraceOptions, end, said, to_response

_KINDS = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
    "user": "human",
    "assistant": "ai",
    "function": "tool",
}


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """The response that a history of LangChain or LangGraph makes.

    Args:
        history: messages as objects, by `messages_to_dict`, `model_dump` or `dumpd`; the final state of a
            graph, which has `messages`; the events of `astream_events`, version "v2"; or JSON text of these.
        options: see `TraceOptions`.

    Returns:
        a response for `evaluate_stream`. What is wrong with the trace is listed in `trace_problems`.

    Raises:
        TraceError: text is not JSON.
        UsageError: an option has a value it cannot have.
    """
    trace = Trace("langchain", options.get("turn", "last"))
    read(history_of(history), trace)
    return to_response(trace, **options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    events = _Events(trace)
    for item in list_of(history, "messages", "events", "output"):
        if not isinstance(item, dict):
            trace.problem("a message that is no object")
        elif isinstance(item.get("event"), str):
            events.read(item)
        else:
            _read_message(message_of(item), trace)
    events.finish()


def message_of(item: Any) -> dict[str, Any]:
    """The keys of a message in any of its forms, with `type` as "human", "ai", "tool" or another."""
    if not isinstance(item, dict):
        return {}
    kind = item.get("type")
    message = next((item[key] for key in ("data", "kwargs") if isinstance(item.get(key), dict)), item)
    if item.get("lc") is not None:  # As `dumpd` writes it.
        names = item.get("id")
        kind = names[-1] if isinstance(names, list) and names else None
    kind = message.get("type", message.get("role")) or kind
    return message | {"type": _KINDS.get(kind, kind) if isinstance(kind, str) else None}


def _read_message(message: dict[str, Any], trace: Trace) -> None:
    kind = message["type"]
    if kind == "human":
        trace.ask(said(message.get("content")))
    elif kind == "ai":
        _read_answer(message, trace)
    elif kind == "tool":
        status = message.get("status")
        failed = status == "error" if isinstance(status, str) else None
        trace.result(
            message.get("tool_call_id"), message.get("content"), failed=failed, name=message.get("name")
        )


def _read_answer(message: dict[str, Any], trace: Trace) -> None:
    calls = message.get("tool_calls")
    broken = message.get("invalid_tool_calls")
    count = 0
    for call in [*(calls if isinstance(calls, list) else ()), *(broken if isinstance(broken, list) else ())]:
        if isinstance(call, dict):
            function = call.get("function")  # As OpenAI has it.
            call = (
                call
                if not isinstance(function, dict)
                else {"args": function.get("arguments")} | call | function
            )
            trace.call(call.get("name"), call.get("args"), call.get("id"))
            count += 1
    usage = message.get("usage_metadata")
    if isinstance(usage, dict):
        trace.count(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens"))
    if not count:
        trace.reply(message.get("content"))


class _Events:
    """Reads events: a call is what a model asked for, or a tool that was started by something else."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._started: dict[str, dict[str, Any]] = {}

    def read(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        data = event.get("data")
        data = data if isinstance(data, dict) else {}
        is_root = not event.get("parent_ids")
        if kind == "on_chain_start" and is_root:
            self._read_input(data.get("input"))
        elif kind == "on_chain_end" and is_root:
            self._read_output(data.get("output"))
        elif kind == "on_chat_model_end":
            _read_answer(message_of(data.get("output")), self._trace)
        elif kind == "on_tool_start":
            self._started[str(event.get("run_id"))] = event
        elif kind in ("on_tool_end", "on_tool_error"):
            self._started.pop(str(event.get("run_id")), None)
            self._end(event, data, failed=kind == "on_tool_error")

    def _read_input(self, given: Any) -> None:
        if isinstance(given, str):
            self._trace.ask(given)
        elif isinstance(given, dict):
            for item in list_of(given, "messages"):
                if message_of(item).get("type") == "human":
                    self._trace.ask(said(message_of(item).get("content")))
            if isinstance(text := given.get("input", given.get("question")), str):
                self._trace.ask(text)

    def _read_output(self, given: Any) -> None:
        """The final state, which may have calls whose events are missing."""
        trace = self._trace
        if isinstance(given, dict) and isinstance(given.get("messages"), list):
            state = Trace(trace.format, trace.turn)
            read(given["messages"], state)
            known = {call.id for call in trace.calls}
            trace.calls += [call for call in state.calls if call.id not in known]
            trace.question = trace.question or state.question
            trace.answer = trace.answer or state.answer
        elif trace.answer is None:
            trace.reply(given.get("output") if isinstance(given, dict) else given)

    def _end(self, event: dict[str, Any], data: dict[str, Any], *, failed: bool | None) -> None:
        trace, name = self._trace, event.get("name")
        message = message_of(data.get("output"))
        key = message.get("tool_call_id", data.get("tool_call_id"))
        if failed:
            error = data.get("error")
            output = error.get("message") if isinstance(error, dict) and "message" in error else error
        else:
            output = message["content"] if "content" in message else data.get("output")
            failed = message["status"] == "error" if isinstance(message.get("status"), str) else None
        open_calls = [call for call in trace.calls if not call.ended]
        call = next((call for call in open_calls if call.id == key), None) if key is not None else None
        call = call or next((call for call in open_calls if key is None and call.name == name), None)
        call = call or trace.call(name, data.get("input"), key if key is not None else event.get("run_id"))
        end(call, output, failed=failed)

    def finish(self) -> None:
        """Tools that were started and did not end are calls without a result."""
        for event in self._started.values():
            if not any(call.name == event.get("name") and not call.ended for call in self._trace.calls):
                data = event.get("data")
                given = data.get("input") if isinstance(data, dict) else None
                self._trace.call(event.get("name"), given, event.get("run_id"))
