"""Events of LangChain and LangGraph, as `astream_events` yields them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.messages import (
    Call,
    documents_of,
    id_of,
    message_of,
    name_of,
    opened_message,
    output_of,
    tool_message,
)
from graphrag_eval_async.traces.plain import dict_at, first, opened, said
from graphrag_eval_async.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable


class Events:
    """Reads events: a call is what a model asked for, or a tool that something else started."""

    def __init__(self, trace: Trace, read: Callable[[Any, Trace], None]) -> None:
        self._trace = trace
        self._read_history = read
        self._asked: Counter[str | None] = Counter()  # By name, calls of models that have not started.
        self._started: dict[str, Call] = {}  # By run, calls that no model asked for.
        self._runs: set[str] = set()
        self._root: Any = None  # The run that everything is a part of, as long as it lasts.

    def read(self, event: dict[str, Any]) -> None:
        """Read the next event."""
        kind, data, run = event["event"], dict_at(event, "data"), event.get("run_id")
        is_root = not event.get("parent_ids")
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
        elif kind == "on_chat_model_end" and isinstance(data.get("output"), dict):
            answer = opened_message(data["output"])
            message = message_of(answer, self._trace.problem, "assistant")
            self._trace.add(message)
            self._trace.use(answer.get("usage_metadata"))
            self._asked.update(call.name for call in message.parts if not call.ended)
        elif kind == "on_retriever_end":
            given, output = data.get("input"), data.get("output")
            query = given.get("query") if isinstance(given, dict) else given
            output = output.get("documents", output) if isinstance(output, dict) else output
            self._trace.call("retrieval", {"query": query}, run).end(documents_of(output))
        elif kind == "on_tool_start":
            self._start(event, data, str(run))
        elif kind in ("on_tool_end", "on_tool_error"):
            self._end(event, data, failed=True if kind == "on_tool_error" else None)

    def _read_input(self, given: Any) -> None:
        texts = [given]
        if isinstance(given, dict):
            messages = [opened_message(each) for each in opened(given).items if isinstance(each, dict)]
            found = [message_of(each, lambda _: None) for each in messages]
            texts = [each.text for each in found if each.asks]
            texts.append(given.get("input", given.get("question")))
        for text in texts:
            if isinstance(text, str):
                self._trace.ask(text)
                self._asked.clear()

    def _read_output(self, given: Any) -> None:
        """The final state, which may have calls and results whose events are missing."""
        trace = self._trace
        if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
            text = said(given.get("output") if isinstance(given, dict) else given)
            trace.answer = trace.answer or text or None
            return
        state = Trace(trace.format, trace.turn)
        self._read_history(given["messages"], state)
        known = {call.id: call for call in trace.calls}
        for call in state.finished():
            mine = known.get(call.id)
            if mine is None:
                trace.calls.append(call)
            elif call.ended and not mine.ended:
                mine.end(call.output, failed=call.failed)
        for text, count in state.problems.items():
            trace.problems[text] = max(trace.problems[text], count)
        trace.question = trace.question or state.question
        trace.answer = state.answer or trace.answer

    def _start(self, event: dict[str, Any], data: dict[str, Any], run: str) -> None:
        name = name_of(event.get("name"))
        if event.get("run_id") is not None and run in self._runs:
            self._trace.problem(f"{run}: started more than once; the first counts")
            return
        self._runs.add(run)
        if self._asked[name] > 0:
            self._asked[name] -= 1
        else:
            self._started[run] = self._trace.call(name, data.get("input"), event.get("run_id"))

    def _end(self, event: dict[str, Any], data: dict[str, Any], *, failed: bool | None) -> None:
        trace, name, output = self._trace, name_of(event.get("name")), data.get("output")
        message = tool_message(output) or {}
        key = id_of(first(message, "tool_call_id") or data.get("tool_call_id"))
        if failed:
            error = data.get("error")
            output = error.get("message", error) if isinstance(error, dict) else error
        elif "content" in message:
            output = output_of(message)
            failed = message["status"] == "error" if isinstance(message.get("status"), str) else None
        call = self._started.pop(str(event.get("run_id")), None)
        if call is not None:
            trace.identify(call, key)
            call.end(output, failed=failed)
            return
        if key is None and trace.waiting(None, name) is None:
            key = id_of(event.get("run_id"))
        trace.result(Call.returned(name, key, output, failed), args=data.get("input") or {})
