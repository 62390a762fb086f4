"""Reads a history of any framework: its messages, items and events are told by their keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.messages import (
    documents_of,
    is_message,
    opened_message,
    output_of,
    part_of,
    read_message,
    role_of,
    tool_message,
)
from graphrag_eval_async.traces.plain import (
    MAX_DEPTH,
    as_json,
    dict_at,
    first,
    json_of,
    list_at,
    opened,
    said,
    seconds_between,
    shown,
    text_of,
    whole_answer,
)
from graphrag_eval_async.traces.trace import Call, Trace, call_of, to_response
from graphrag_eval_async.traces.unread import check_holder, check_keys, check_message

if TYPE_CHECKING:
    from graphrag_eval_async.traces.layouts import Layout
    from graphrag_eval_async.traces.trace import TraceOptions

_SILENT = (
    "reasoning",
    "compaction",
    "item_reference",
    "mcp_list_tools",
    "mcp_approval_request",
    "program",
)
"""Kinds of items of OpenAI that are neither calls nor results nor messages."""

_LOOKED_FOR = "the formats openai, responses, agents, langchain, anthropic and pydantic-ai"

_BLOCK_KEYS = frozenset(
    {
        "retry-prompt",  # Of Pydantic AI: without the name of a tool, it is about the answer.
        "tool_call_id",
    }
)
"""Keys and kinds of blocks that look like calls but are none."""


def convert(
    value: Any, name: str, options: TraceOptions, layout: Layout | None = None
) -> dict[str, Any]:
    """Return the response that a history of JSON values makes, whose format has that name.

    It is read by its layout if it has one, else as messages, items or events of the frameworks that
    this module knows.
    """
    if nests_deeper(value, MAX_DEPTH):
        value = as_json(value)
    trace = Trace(name, options.get("turn", "last"))
    if layout is None:
        read(value, trace)
    else:
        layout.read(value, trace)
    if trace.times:
        trace.elapsed_sec = seconds_between(trace.times, trace.times)
    if isinstance(value, dict) and not trace.finished():
        check_holder(value, opened(value)[1] if layout is None else layout.holder_keys)
    is_read = trace.question or trace.answer or trace.more
    if value and not is_read and not trace.finished():
        raise TraceError(f"nothing of the format {name} is in it; it has {shown(value)}")
    return to_response(trace, **options)


def read(value: Any, trace: Trace) -> None:
    """Add the messages, items, events or spans of a history of JSON values to a trace."""
    items, keys = opened(value)
    objects = [item for item in items if isinstance(item, dict)]
    if any(item.get("object") in ("trace", "trace.span") for item in objects):
        _read_spans(objects, trace)
    else:
        reader = _Reader(trace)
        for number, item in enumerate(items, start=1):
            if isinstance(item, dict):
                _check_calls(item, f"message {number}")
                reader.read(item)
            else:
                trace.problem(f"a message that is no object: {json_of(item)}")
    if keys:
        answers = [whole_answer(value.get(key)) for key in ("response", "output", "completion")]
        run_state_responses = list_at(value, "model_responses")
        for holder in (value, *answers, *run_state_responses):
            if isinstance(holder, dict) and "role" not in holder:
                trace.use(holder.get("usage"))


def _check_calls(item: dict[str, Any], place: str) -> None:
    """Raise a `TraceError` if a message has a call or result that `read_message` would not find."""
    if not is_message(item):
        return
    message = opened_message(item)
    check_message(message, place=place, looked_for=_LOOKED_FOR)
    for key in ("content", "parts"):
        for block in list_at(message, key):
            if isinstance(block, dict) and part_of(block) is None:
                check_keys(block, _BLOCK_KEYS, place=place, looked_for=_LOOKED_FOR)


class _Reader:
    """Reads one item after another, with what has to be remembered of those before."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # By name, calls of models that have not started.
        self.asked: Counter[str | None] = Counter()
        # Of LangChain; those that no model asked for are calls.
        self.runs: dict[str, Call | None] = {}
        self.root: Any = None  # The run that everything is a part of, as long as it lasts.

    def read(self, item: dict[str, Any]) -> None:
        item = dict_at(item, "raw_item") or item  # Of a `RunState`.
        kind = item.get("type")
        if is_message(item):
            self.read_message(item)
        elif isinstance(item.get("event"), str):
            self.read_event(item, item["event"], dict_at(item, "data"), item.get("run_id"))
        elif (part := part_of(item)) is not None:
            self.trace.part(part)
        elif kind is None and (
            isinstance(item.get("output"), list) or isinstance(item.get("choices"), list)
        ):
            read(item, self.trace)  # A whole answer of an API.
        elif kind not in _SILENT and not {"content", "data", "kwargs", "tool_calls"}.isdisjoint(
            item
        ):
            self.read_message(item)  # Of an unknown type, or without a role.
        elif kind not in _SILENT:
            self.trace.problem(f"an item of the unknown kind {text_of(kind) or 'none'}")

    def read_message(self, item: dict[str, Any]) -> None:
        trace, item = self.trace, opened_message(item)
        if "parts" in item and not isinstance(item["parts"], list):
            trace.problem("a message without parts")
            return
        read_message(item, trace)
        if "parts" in item:
            parts = [part for part in item["parts"] if isinstance(part, dict)]
            trace.times += [
                time for each in (item, *parts) if (time := each.get("timestamp")) is not None
            ]
        trace.use(first(item, "usage", "usage_metadata"))

    def read_event(self, event: dict[str, Any], kind: str, data: dict[str, Any], run: Any) -> None:
        """An event of LangChain: a call is what a model asked for, or a tool that something else
        started.
        """
        trace, is_root = self.trace, not event.get("parent_ids")
        if (
            is_root
            and self.root not in (None, run)
            and kind.startswith(("on_chat_model_", "on_tool_"))
        ):
            raise TraceError('events of astream_events with version="v1"; use version="v2"')
        if kind == "on_chain_start" and is_root:
            self.root = run
            self._read_input(data.get("input"))
        elif kind == "on_chain_end" and is_root:
            self.root = None
            self._read_output(data.get("output"))
        elif kind == "on_chat_model_end" and isinstance(data.get("output"), dict):
            answer, count = opened_message(data["output"]), len(trace.calls)
            read_message(answer, trace, "assistant")
            trace.use(answer.get("usage_metadata"))
            self.asked.update(call.name for call in trace.calls[count:])
        elif kind == "on_retriever_end":
            given, output = data.get("input"), data.get("output")
            query = given.get("query") if isinstance(given, dict) else given
            output = output.get("documents", output) if isinstance(output, dict) else output
            trace.call("retrieval", {"query": query}, run).end(documents_of(output))
        elif kind == "on_tool_start":
            self._start(call_of(event.get("name"), run, data.get("input") or {}), str(run))
        elif kind in ("on_tool_end", "on_tool_error"):
            call = call_of(event.get("name"), run, data.get("input") or {})
            self._end(call, str(run), data, failed=True if kind == "on_tool_error" else None)

    def _read_input(self, given: Any) -> None:
        asked = Trace(self.trace.format)
        if isinstance(given, dict):
            for item in opened(given)[0]:
                if isinstance(item, dict) and role_of(message := opened_message(item)) == "user":
                    read_message(message, asked)
            given = given.get("input", given.get("question"))
        text = given if isinstance(given, str) else asked.question
        if text is not None:
            self.trace.ask(text)
            self.asked.clear()

    def _read_output(self, given: Any) -> None:
        """The final state, which may have calls and results whose events are missing."""
        trace = self.trace
        if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
            text = said(given.get("output") if isinstance(given, dict) else given)
            trace.answer = trace.answer or text or None
            return
        state = Trace(trace.format, trace.turn)
        read(given["messages"], state)
        answer = state.answer or trace.answer
        for call in state.finished():
            if not trace.knows(call.id):
                trace.calls.append(call)
            elif call.ended and (mine := trace.waiting(call.id)) is not None:
                mine.end(call.output, call.failed)
        trace.problems |= state.problems
        trace.question, trace.answer = trace.question or state.question, answer

    def _start(self, call: Call, run: str) -> None:
        if run in self.runs:
            self.trace.problem(f"{run}: started more than once; the first counts")
        elif self.asked[call.name] > 0:
            self.asked[call.name] -= 1
            self.runs[run] = None
        else:
            self.runs[run] = self.trace.call(call.name, call.args, call.id)

    def _end(self, call: Call, run: str, data: dict[str, Any], *, failed: bool | None) -> None:
        trace, output = self.trace, data.get("output")
        message = tool_message(output) or {}
        key = call_of(None, first(message, "tool_call_id") or data.get("tool_call_id")).id
        if failed:
            error = data.get("error")
            output = error.get("message", error) if isinstance(error, dict) else error
        elif "content" in message:
            output = output_of(message)
            failed = (
                message["status"] == "error" if isinstance(message.get("status"), str) else None
            )
        started = self.runs.get(run)
        if started is not None and not started.ended:
            trace.identify(started, key)
            started.end(output, failed)
            return
        if key is not None or trace.waiting(None, call.name) is not None:
            call.id = key
        call.end(output, failed)
        if trace.knows(call.id) or trace.waiting(call.id, call.name) is not None:
            call.args = None  # The call is there already; this is its result alone.
        trace.part(call)


def _read_spans(objects: list[dict[str, Any]], trace: Trace) -> None:
    """What a `TracingProcessor` of the Agents SDK exports of one trace."""
    ids = [each.get("id") for each in objects if each.get("object") == "trace"]
    if ids:
        trace.more["trace_id"] = ids[-1]
    if len(ids) > 1:
        trace.problem(f"{len(ids)} traces, read as one; pass the objects of one trace at a time")
    spans = [each for each in objects if each.get("object") == "trace.span"]
    spans.sort(key=lambda span: str(span.get("started_at")))
    for span in spans:
        _read_span(span, trace)
    for span in spans if not trace.tokens else ():
        turn = dict_at(dict_at(span, "span_data"), "data")
        if turn.get("sdk_span_type") == "turn":
            trace.use(turn.get("usage"))
    started = [span.get("started_at") for span in spans]
    trace.elapsed_sec = seconds_between(started, [span.get("ended_at") for span in spans])


def _read_span(span: dict[str, Any], trace: Trace) -> None:
    data, error = dict_at(span, "span_data"), span.get("error")
    kind = data.get("type")
    if isinstance(error, dict):  # In most detail.
        error = dict_at(error, "data").get("error") or error.get("message") or error
    if not data:
        trace.problem("a span without span_data")
    elif kind == "function":
        call = trace.call(data.get("name"), data.get("input"), span.get("id"))
        if span.get("ended_at") is not None or data.get("output") is not None:
            call.end(data.get("output") or error, error is not None)
    elif kind in ("response", "generation"):
        trace.use(data.get("usage"))
        # The question and the answer; the calls are spans of their own.
        seen = Trace("openai", "all")
        for value in (data.get("input"), data.get("output")):
            if isinstance(value, list | dict):
                read(value, seen)
            elif isinstance(value, str) and seen.question is None:
                seen.ask(value)
        trace.question = seen.question if trace.question is None else trace.question
        trace.answer = seen.answer
    elif kind == "agent" and error is not None:
        trace.error = text_of(error)
