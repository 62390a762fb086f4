"""Reads a history of any framework: its messages, items and events are told by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.langchain import Events
from graphrag_eval_async.traces.messages import Call, id_of, is_message, message_of, opened_message
from graphrag_eval_async.traces.plain import (
    MAX_DEPTH,
    as_json,
    dict_at,
    first,
    list_at,
    opened,
    seconds_between,
    shown,
    text_of,
    whole_answer,
)
from graphrag_eval_async.traces.trace import Trace, to_response

if TYPE_CHECKING:
    from graphrag_eval_async.traces.trace import TraceOptions

_SILENT = ("reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request", "program")
"""Kinds of items of OpenAI that are neither calls nor results nor messages."""

_RESULTS = ("results", "outputs", "output", "result")
_NOT_ARGUMENTS = {"id", "type", "status", "call_id", "error", *_RESULTS}
_OF_MCP_RESULTS = {"isError", "is_error", "structuredContent", "structured_content"}


def convert(value: Any, name: str, options: TraceOptions) -> dict[str, Any]:
    """The response that a history of JSON values makes, whose format has that name."""
    if nests_deeper(value, MAX_DEPTH):
        value = as_json(value)
    trace = Trace(name, options.get("turn", "last"))
    read(value, trace)
    if trace.times:
        trace.elapsed_sec = seconds_between(trace.times, trace.times)
    is_read = trace.found or (name != "mcp" and (trace.question or trace.answer or trace.more))
    if value and not is_read and not trace.finished():
        raise TraceError(f"nothing of the format {name} is in it; it has {shown(value)}")
    return to_response(trace, **options)


def read(value: Any, trace: Trace) -> None:
    """Read a history of JSON values."""
    history = opened(value)
    if history.asked is not None:
        trace.ask(history.asked)
    objects = [item for item in history.items if isinstance(item, dict)]
    if any(item.get("object") in ("trace", "trace.span") for item in objects):
        _read_spans(objects, trace)
    else:
        reader = _Reader(trace)
        for item in history.items:
            if isinstance(item, dict):
                reader.read(item)
            else:
                trace.problem(f"a message that is no object: {text_of(item)}")
        reader.finish()
    if history.said:
        trace.answer = history.said
    if history.keys:
        answers = (whole_answer(value.get(key)) for key in ("response", "output", "completion"))
        for holder in (value, *answers, *list_at(value, "model_responses")):  # Those of a `RunState`.
            if isinstance(holder, dict) and "role" not in holder:
                trace.use(holder.get("usage"))


class _Reader:
    """Reads one item after another, with what has to be remembered of those before."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = Events(trace, read)
        self.listed: dict[Any, dict[str, Any]] = {}  # Calls of LlamaIndex, by id.
        self.others: set[Any] = set()  # Ids of requests of MCP that call no tool.

    def read(self, item: dict[str, Any]) -> None:
        if isinstance(raw := item.get("raw_item"), dict):  # Of a `RunState`.
            item = raw
        if is_message(item):
            self._read_message(item)
        elif isinstance(item.get("event"), str):
            self.events.read(item)
        elif "tool_output" in item:
            self._read_output(item)
        elif "tool_kwargs" in item:
            self.trace.call(item.get("tool_name"), item["tool_kwargs"], item.get("tool_id"))
        elif "jsonrpc" in item or self.trace.format == "mcp":
            self._read_rpc(item)
        elif isinstance(kind := item.get("type"), str):
            self._read_item(item, kind)
        elif isinstance(item.get("output"), list) or isinstance(item.get("choices"), list):
            read(item, self.trace)  # A whole answer of an API.
        elif self.trace.format == "llamaindex":
            self._read_event(item)
        else:
            self.trace.problem("an item of the unknown kind none")

    def finish(self) -> None:
        """Add calls of LlamaIndex whose own events are missing."""
        trace, answer = self.trace, self.trace.answer
        for key, call in self.listed.items():
            if not trace.knows(key):
                trace.call(call.get("tool_name"), call.get("tool_kwargs"), key)
                trace.answer = answer

    def _read_message(self, item: dict[str, Any]) -> None:
        trace, item = self.trace, opened_message(item)
        if "parts" in item and not isinstance(item["parts"], list):
            trace.problem("a message without parts")
            return
        trace.add(message_of(item, trace.problem))
        if "parts" in item:
            parts = [part for part in list_at(item, "parts") if isinstance(part, dict)]
            trace.times += [each.get("timestamp") for each in (item, *parts)]
        trace.use(first(item, "usage", "usage_metadata"))

    # Items of OpenAI's Responses API

    def _read_item(self, item: dict[str, Any], kind: str) -> None:
        trace, key = self.trace, first(item, "call_id", "id")
        if kind == "function_call":
            trace.call(item.get("name"), item.get("arguments"), key)
        elif kind == "custom_tool_call":
            trace.call(item.get("name"), {"input": item.get("input")}, key)
        elif kind == "mcp_call":
            self._read_mcp_call(item)
        elif kind.endswith("_call_output"):
            failed = True if item.get("status") == "failed" else None
            trace.result(Call.returned(None, item.get("call_id"), item.get("output"), failed))
        elif kind.endswith("_call"):
            self._read_hosted(item, kind, key)
        elif kind not in _SILENT:
            trace.problem(f"an item of the unknown kind {kind}")

    def _read_mcp_call(self, item: dict[str, Any]) -> None:
        call = self.trace.call(item.get("name"), item.get("arguments"), item.get("id"))
        error, status, output = item.get("error"), item.get("status"), item.get("output")
        if isinstance(error, dict):
            error = error.get("content") or error.get("message") or error
        if error is not None:
            call.end(error, failed=True)
        elif output is not None or status in ("completed", "failed", None):
            call.end(output, failed=status == "failed")

    def _read_hosted(self, item: dict[str, Any], kind: str, key: Any) -> None:
        """A tool that the server runs, such as file search: call and result are one item."""
        args = {
            name: value for name, value in item.items() if name not in _NOT_ARGUMENTS and value is not None
        }
        call = self.trace.call(kind.removesuffix("_call"), args, key)
        output, status = first(item, *_RESULTS), item.get("status")
        # Calls of the user's own computer or shell have their results in items of their own.
        if output is not None or "call_id" not in item or status == "failed":
            error = item.get("error")
            call.end(output if error is None else error, failed=status in ("failed", "incomplete"))

    # Events of LlamaIndex, whose dumps do not name them

    def _read_output(self, event: dict[str, Any]) -> None:
        output = event["tool_output"]
        output = output if isinstance(output, dict) else {"content": output}
        text, raw = output.get("blocks") or output.get("content"), output.get("raw_output")
        if isinstance(raw, dict | list) or text is None:  # The text has them as Python shows them.
            text = raw
        failed = output["is_error"] if isinstance(output.get("is_error"), bool) else None
        result = Call.returned(event.get("tool_name"), event.get("tool_id"), text, failed)
        self.trace.result(result, args=event.get("tool_kwargs") or {})

    def _read_event(self, item: dict[str, Any]) -> None:
        """What an agent is given, or puts out; its calls are listed, and have events of their own."""
        trace = self.trace
        if isinstance(response := item.get("response"), dict):
            for call in list_at(item, "tool_calls"):
                if isinstance(call, dict) and call.get("tool_id") is not None:
                    self.listed.setdefault(id_of(call["tool_id"]), call)
            message = message_of(response, trace.problem, "assistant")
            if message.answers:
                trace.answer = message.text
        elif trace.question is None:
            for each in list_at(item, "input"):
                if isinstance(each, dict) and (asked := message_of(each, trace.problem)).asks:
                    trace.question = asked.text
            if isinstance(text := item.get("user_msg"), str) and trace.question is None:
                trace.ask(text)

    # Messages of the Model Context Protocol

    def _read_rpc(self, message: dict[str, Any]) -> None:
        trace = self.trace
        trace.found |= "jsonrpc" in message
        key, method = id_of(message.get("id")), message.get("method")
        if method == "tools/call":
            params = dict_at(message, "params")
            trace.call(params.get("name"), params.get("arguments"), key)
        elif method is not None:
            self.others.add(key)
        elif key is None or key not in self.others or (trace.waiting(key) and _is_of_a_tool(message)):
            self._read_answer(message, key)

    def _read_answer(self, message: dict[str, Any], key: Any) -> None:
        error, result = message.get("error"), message.get("result")
        if error is not None:
            text = error.get("message") if isinstance(error, dict) else error
            found = Call.returned(None, key, text if text is not None else error, True)
        elif isinstance(result, dict):
            content = result.get("content") or first(result, "structuredContent", "structured_content")
            failed = first(result, "isError", "is_error")
            found = Call.returned(None, key, content, None if failed is None else bool(failed))
        elif "result" in message:
            found = Call.returned(None, key, result)
        else:
            self.trace.problem("a message that is neither a request nor an answer")
            return
        self.trace.result(found)


def _is_of_a_tool(answer: dict[str, Any]) -> bool:
    """Whether an answer can be that of a tool: servers ask clients, too, and both count from 0."""
    result = answer.get("result")
    if not isinstance(result, dict):
        return True
    return isinstance(result.get("content"), list) or bool(_OF_MCP_RESULTS & result.keys())


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
            call.end(data.get("output") or error, failed=error is not None)
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
