"""Messages of LangChain and LangGraph, and the events of `astream_events`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import (
    documents_of,
    list_of,
    message_of_command,
    output_of,
    said,
    text_of,
)
from graphrag_eval_async.traces.trace import Trace, calls_of, convert, end

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import Call, TraceOptions


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

_SILENT = ("system", "SystemMessage", "developer", "remove", "RemoveMessage", "chat", "ChatMessage")
"""Types of messages that are neither steps nor answers."""


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response.

    Args:
        history: messages (objects, `messages_to_dict`, `model_dump` or `dumpd`), the final state of a graph,
            which has `messages`, the events of `astream_events` with version "v2", or JSON text of these.
        options: see `TraceOptions`.

    Returns:
        a response, with the same errors as `response_from_trace`.
    """
    return convert(history, "langchain", read, options)


def read(history: Any, trace: Trace) -> None:
    """Read a history of plain JSON values."""
    events = _Events(trace)
    for item in list_of(history):
        if not isinstance(item, dict):
            trace.problem("a message that is no object")
        elif isinstance(item.get("event"), str):
            events.read(item)
        else:
            _read_message(message_of(item), trace)


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
        output = output_of(message)
        trace.result(message.get("tool_call_id"), output, failed=failed, name=message.get("name"))
    elif kind not in _SILENT:
        trace.problem(f"a message of the unknown type {text_of(kind)}")


def _read_answer(message: dict[str, Any], trace: Trace) -> list[Call]:
    """What a model said or which calls it made; the calls."""
    more = message.get("additional_kwargs")
    kept = more.get("tool_calls") if isinstance(more, dict) else None  # As the provider sent them.
    calls = calls_of(message.get("tool_calls"), trace) + calls_of(message.get("invalid_tool_calls"), trace)
    made = [_read_call(call, trace) for call in calls or calls_of(kept, trace) if isinstance(call, dict)]
    for call in calls:
        if not isinstance(call, dict):
            trace.problem(f"a call that is no object: {text_of(call)}")
    usage = message.get("usage_metadata")
    if isinstance(usage, dict):
        trace.count(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens"))
    if not made:
        trace.reply(message.get("content"))
    return made


def _read_call(call: dict[str, Any], trace: Trace) -> Call:
    function = call.get("function")  # As OpenAI has it.
    if isinstance(function, dict):
        call = {"args": function.get("arguments")} | call | function
    return trace.call(call.get("name"), call.get("args"), call.get("id"))


class _Events:
    """Reads events: a call is what a model asked for, or a tool that something else started."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._asked: Counter[str | None] = Counter()  # By name, calls of models that have not started.
        self._started: dict[str, Call] = {}  # By run, calls that no model asked for.
        self._runs: set[str] = set()
        self._root: Any = None  # The run that everything is a part of, as long as it lasts.

    def read(self, event: dict[str, Any]) -> None:
        """Read the next event."""
        kind = event["event"]
        data = event.get("data")
        data = data if isinstance(data, dict) else {}
        is_root, run = not event.get("parent_ids"), event.get("run_id")
        if is_root and self._root not in (None, run) and kind.startswith(("on_chat_model_", "on_tool_")):
            raise TraceError(
                'events of astream_events with version="v1", which are read only in part; use version="v2"'
            )
        if kind == "on_chain_start" and is_root:
            self._root = run
            self._read_input(data.get("input"))
        elif kind == "on_chain_end" and is_root:
            self._root = None
            self._read_output(data.get("output"))
        elif kind == "on_chat_model_end":
            calls = _read_answer(message_of(data.get("output")), self._trace)
            self._asked.update(call.name for call in calls)
        elif kind == "on_retriever_end":
            given = data.get("input")
            query = given.get("query") if isinstance(given, dict) else given
            output = data.get("output")
            output = output.get("documents", output) if isinstance(output, dict) else output
            call = self._trace.call("retrieval", {"query": query}, event.get("run_id"))
            end(call, documents_of(output))
        elif kind == "on_tool_start":
            self._start(event, data)
        elif kind in ("on_tool_end", "on_tool_error"):
            self._end(event, data, failed=kind == "on_tool_error")

    def _ask(self, text: str) -> None:
        self._trace.ask(text)
        self._asked.clear()

    def _read_input(self, given: Any) -> None:
        if isinstance(given, str):
            self._ask(given)
        elif isinstance(given, dict):
            for item in list_of(given):
                if message_of(item).get("type") == "human":
                    self._ask(said(message_of(item).get("content")))
            if isinstance(text := given.get("input", given.get("question")), str):
                self._ask(text)

    def _read_output(self, given: Any) -> None:
        """The final state, which may have calls and results whose events are missing."""
        trace = self._trace
        if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
            if trace.answer is None:
                trace.reply(given.get("output") if isinstance(given, dict) else given)
            return
        state = Trace(trace.format, trace.turn)
        read(given["messages"], state)
        known = {call.id: call for call in trace.calls}
        for call in state.finished():
            mine = known.get(call.id)
            if mine is None:
                trace.calls.append(call)
            elif call.ended and not mine.ended:
                mine.output, mine.failed, mine.ended = call.output, call.failed, True
        for text, count in state.problems.items():
            trace.problems[text] = max(trace.problems[text], count)
        trace.question = trace.question or state.question
        trace.answer = state.answer or trace.answer

    def _start(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        run, name = event.get("run_id"), event.get("name")
        if run is not None and str(run) in self._runs:
            self._trace.problem(f"{run}: started more than once; the first counts")
            return
        self._runs.add(str(run))
        asked = name if isinstance(name, str) else None
        if self._asked[asked] > 0:
            self._asked[asked] -= 1
        else:
            self._started[str(run)] = self._trace.call(name, data.get("input"), run)

    def _end(self, event: dict[str, Any], data: dict[str, Any], *, failed: bool | None) -> None:
        trace, name = self._trace, event.get("name")
        message = message_of(message_of_command(data.get("output")))
        key = message.get("tool_call_id", data.get("tool_call_id"))
        if failed:
            error = data.get("error")
            output = error.get("message") if isinstance(error, dict) and "message" in error else error
        else:
            output = output_of(message) if "content" in message else data.get("output")
            failed = message["status"] == "error" if isinstance(message.get("status"), str) else None
        call = self._started.pop(str(event.get("run_id")), None)
        if call is not None and key is not None:
            trace.identify(call, key)
        call = call or trace.waiting(key, name)
        if call is None and trace.knows(key):
            trace.result(key, output)  # Once more, which is a problem.
            return
        call = call or trace.call(name, data.get("input"), key if key is not None else event.get("run_id"))
        end(call, output, failed=failed)
