"""Reads a history of any framework: its messages, items and events are told by their keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.messages import (
    call_in_block,
    convert_documents,
    find_tool_message,
    is_message,
    read_message,
    role_of,
    rows_or_content,
    unwrap_message,
)
from graphrag_eval_async.traces.plain import (
    MAX_DEPTH,
    OpenedHistory,
    as_json,
    decode_api_answer,
    describe_keys,
    dict_at,
    first_value,
    json_of,
    list_at,
    open_history,
    seconds_between,
    text_of,
    visible_text,
)
from graphrag_eval_async.traces.trace import Call, Trace, make_call, to_response
from graphrag_eval_async.traces.unread import (
    check_holder,
    check_keys,
    check_message,
    looks_like_call,
)

if TYPE_CHECKING:
    from graphrag_eval_async.traces.layouts import Layout
    from graphrag_eval_async.traces.trace import TraceOptions

_SKIPPED_KINDS = (
    "reasoning",
    "compaction",
    "item_reference",
    "mcp_list_tools",
    "mcp_approval_request",
    "program",
)
"""Kinds of items of OpenAI that are neither calls nor results nor messages."""

_LOOKED_FOR = "the formats openai, responses, agents, langchain, anthropic and pydantic-ai"
"""The formats that this module reads, for errors."""

_AGENTS_SDK_OBJECTS = ("trace", "trace.span")
"""Values of ``object`` in what the OpenAI Agents SDK exports."""

_USAGE_HOLDER_KEYS = ("response", "output", "completion")
"""Keys at which the object that holds a history may have an answer of an API, with its usage."""

_UNTYPED_MESSAGE_KEYS = {"content", "data", "kwargs", "tool_calls"}
"""Keys by which an object without a role, or of an unknown type, is taken for a message."""

_NO_STEPS = (
    "no steps, only a question and an answer; with LangChain, return_intermediate_steps=True "
    "writes them"
)
"""The problem of a trace that has no place for calls, so that its steps score 0."""

_HARMLESS_BLOCK_KEYS = frozenset(
    {
        "retry-prompt",  # Of Pydantic AI: without the name of a tool, it is about the answer.
        "tool_call_id",
    }
)
"""Keys and kinds of blocks that look like calls but are none."""


def convert(
    history: Any, name: str, options: TraceOptions, layout: Layout | None = None
) -> dict[str, Any]:
    """Convert a history to a response.

    Args:
        history: the history, as JSON values.
        name: name of its format.
        options: see `TraceOptions`.
        layout: how the history is laid out; None if it has messages, items or events of the
            frameworks that this module knows.

    Raises:
        TraceError: the history has nothing of the format, or has calls that cannot be read.
    """
    if nests_deeper(history, MAX_DEPTH):
        history = as_json(history)
    trace = Trace(name, options.get("turn", "last"))
    if layout is None:
        read_history(history, trace)
    else:
        layout.read(history, trace)
    if trace.times:
        trace.elapsed_sec = seconds_between(trace.times, trace.times)

    # A history without a call or an answer is refused, since they may stand where no reader looks.
    has_calls = bool(trace.collect_calls())
    if isinstance(history, dict) and not has_calls:
        opened = open_history(history)
        is_question_and_answer = layout is None and _is_question_and_answer(opened)
        holder_keys = opened.holder_keys if layout is None else layout.holder_keys
        check_holder(history, holder_keys, is_question_and_answer=is_question_and_answer)
        if is_question_and_answer:
            trace.add_problem(_NO_STEPS)
    is_answered = has_calls or trace.answer or trace.extra_fields
    if history and not is_answered:
        if not trace.question:
            keys = describe_keys(history)
            raise TraceError(f"nothing of the format {name} is in it; it has {keys}")
        _check_holds_more_than_one_message(history, layout)
    return to_response(trace, **options)


def _is_question_and_answer(opened: OpenedHistory) -> bool:
    """Return whether a history has nothing of an agent but the text of its answer.

    Such a history would have no place for calls.
    """
    if not opened.has_text_as_answer:
        return False
    request_messages = opened.messages[:-1]
    for message in request_messages:
        if isinstance(message, dict) and role_of(unwrap_message(message)) == "assistant":
            return False
    return True


def _check_holds_more_than_one_message(history: Any, layout: Layout | None) -> None:
    """Check that a history without calls and answer is not just a message of the user.

    If each line of a log has one message, the question would score 0, since its answer is in
    another line.

    Raises:
        TraceError: the history is itself a message, and neither a list nor an object that holds
            messages.
    """
    messages = open_history(history).messages
    if layout is not None:
        messages = layout.list_messages(history)
    is_bare_message = len(messages) == 1 and messages[0] is history
    if is_bare_message:
        raise TraceError(
            "it is one message of the user, not a history; a line holds all messages of a trace"
        )


def read_history(history: Any, trace: Trace) -> None:
    """Add the messages, items, events or spans of a history to a trace.

    Those that cannot be read are noted as problems of the trace.

    Raises:
        TraceError: a message has calls or results that cannot be read.
    """
    opened = open_history(history)
    items = opened.messages
    objects = [item for item in items if isinstance(item, dict)]
    if any(item.get("object") in _AGENTS_SDK_OBJECTS for item in objects):
        _read_agents_sdk_export(objects, trace)
    else:
        reader = _ItemReader(trace)
        for number, item in enumerate(items, start=1):
            if isinstance(item, dict):
                _check_message_is_readable(item, f"message {number}")
                reader.read(item)
            else:
                trace.add_problem(f"a message that is no object: {json_of(item)}")
    if opened.holder_keys:
        _add_usage_of_holder(history, trace)


def _add_usage_of_holder(holder: dict[str, Any], trace: Trace) -> None:
    """Add to a trace the tokens in the object that holds the history.

    The object, its answer, and the responses of models in a `RunState` may each have a ``usage``.
    """
    answers = [decode_api_answer(holder.get(key)) for key in _USAGE_HOLDER_KEYS]
    for value in (holder, *answers, *list_at(holder, "model_responses")):
        # Messages are left out here, since their tokens are added when the messages are read.
        if isinstance(value, dict) and "role" not in value:
            trace.add_token_usage(value.get("usage"))


def _check_message_is_readable(item: dict[str, Any], place: str) -> None:
    """Check that `read_message` finds all calls and results of an item, if the item is a message.

    Args:
        item: an item of a history.
        place: which item it is, for the error.

    Raises:
        TraceError: `read_message` would not find a call or result.
    """
    if not is_message(item):
        return
    message = unwrap_message(item)
    check_message(message, place=place, looked_for=_LOOKED_FOR)
    for key in ("content", "parts"):
        for block in list_at(message, key):
            if isinstance(block, dict) and call_in_block(block) is None:
                check_keys(block, _HARMLESS_BLOCK_KEYS, place=place, looked_for=_LOOKED_FOR)


class _ToolResult(NamedTuple):
    """What an event of LangChain tells when a tool has ended.

    Attributes:
        call_id: id that the model gave the call; None if no model asked for it.
        output: what the tool returned, or the message of its error.
        failed: whether the call failed; None if the event does not say.
    """

    call_id: str | None
    output: Any
    failed: bool | None


class _ItemReader:
    """Adds the items of a history to a trace one after another.

    It remembers what later events of LangChain refer to.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # How many calls models asked for that no tool has started, by name.
        self._requested_calls: Counter[str | None] = Counter()
        # The calls of tools that started, by id of the run; None if a model asked for the call.
        self._started_calls: dict[str, Call | None] = {}
        # Id of the run that all others are parts of; None before its start and after its end.
        self._root_run_id: Any = None

    def read(self, item: dict[str, Any]) -> None:
        """Add an item to the trace: a message, an event, a call, a result or an API's answer.

        An item of an unknown kind is noted as a problem.

        Raises:
            TraceError: an item of an unknown kind looks like a call.
        """
        item = dict_at(item, "raw_item") or item  # A `RunState` wraps each item.
        kind = item.get("type")
        if is_message(item):
            self._read_message(item)
            return
        if isinstance(item.get("event"), str):
            self._read_event(item)
            return
        call = call_in_block(item)
        if call is not None:
            self._trace.add_part(call)
            return

        has_outputs = isinstance(item.get("output"), list) or isinstance(item.get("choices"), list)
        if kind is None and has_outputs:
            read_history(item, self._trace)  # The item is a whole answer of an API.
        elif kind in _SKIPPED_KINDS:
            return
        elif not _UNTYPED_MESSAGE_KEYS.isdisjoint(item):
            self._read_message(item)
        elif looks_like_call(item):
            raise TraceError(
                f"a call that is not in {_LOOKED_FOR}: an object with {describe_keys(item)}"
            )
        else:
            name = text_of(kind) or "none"
            self._trace.add_problem(f"an item of the unknown kind {name}")

    def _read_message(self, item: dict[str, Any]) -> None:
        """Add a message, with or without an envelope, and its times and tokens to the trace."""
        message = unwrap_message(item)
        if "parts" in message:
            if not isinstance(message["parts"], list):
                self._trace.add_problem("a message without parts")
                return
            read_message(message, self._trace)
            # Pydantic AI writes times to messages and to their parts.
            parts = [part for part in message["parts"] if isinstance(part, dict)]
            times = [holder.get("timestamp") for holder in (message, *parts)]
            self._trace.times += [time for time in times if time is not None]
        else:
            read_message(message, self._trace)
        self._trace.add_token_usage(first_value(message, "usage", "usage_metadata"))

    def _read_event(self, event: dict[str, Any]) -> None:
        """Add what an event of LangChain's `astream_events` tells to the trace.

        A model asks for calls when it ends. Tools that no model asked for are also calls.

        Raises:
            TraceError: the event is of version 1, whose events do not tell the calls of models.
        """
        kind = event["event"]
        data = dict_at(event, "data")
        run_id = event.get("run_id")
        is_root = not event.get("parent_ids")
        is_of_model_or_tool = kind.startswith(("on_chat_model_", "on_tool_"))
        if is_root and is_of_model_or_tool and self._root_run_id not in (None, run_id):
            # Only version 1 has several roots, since its events do not name their parents.
            raise TraceError('events of astream_events with version="v1"; use version="v2"')

        if kind == "on_chain_start" and is_root:
            self._root_run_id = run_id
            self._read_input(data.get("input"))
        elif kind == "on_chain_end" and is_root:
            self._root_run_id = None
            self._read_final_state(data.get("output"))
        elif kind == "on_chat_model_end":
            self._read_model_output(data.get("output"))
        elif kind == "on_retriever_end":
            self._read_retrieval(data, run_id)
        elif kind == "on_tool_start":
            self._start_tool(event.get("name"), data.get("input"), run_id)
        elif kind in ("on_tool_end", "on_tool_error"):
            result = _read_tool_result(kind, data)
            self._end_tool(event.get("name"), data.get("input"), run_id, result)

    def _read_input(self, graph_input: Any) -> None:
        """Start a turn with the question in the input of a graph or chain.

        The question is the input if that is text, the text at its key ``input`` or ``question``, or
        the last message of the user in it. Without a question, no turn is started.
        """
        question: str | None = None
        if isinstance(graph_input, str):
            question = graph_input
        elif isinstance(graph_input, dict):
            input_text = graph_input.get("input", graph_input.get("question"))
            if isinstance(input_text, str):
                question = input_text
            else:
                question = self._question_in_messages(graph_input)

        if question is not None:
            self._trace.start_turn(question)
            self._requested_calls.clear()

    def _question_in_messages(self, graph_input: dict[str, Any]) -> str | None:
        """Return the last message of the user in an input of a graph; None if there is none."""
        user_messages = Trace(self._trace.format)
        for item in open_history(graph_input).messages:
            if not isinstance(item, dict):
                continue
            message = unwrap_message(item)
            if role_of(message) == "user":
                read_message(message, user_messages)
        return user_messages.question

    def _read_model_output(self, output: Any) -> None:
        """Add the message that a model returned, and count the calls that the model asked for."""
        if not isinstance(output, dict):
            return
        message = unwrap_message(output)
        count_before = len(self._trace.calls)
        read_message(message, self._trace, "assistant")
        self._trace.add_token_usage(message.get("usage_metadata"))
        for call in self._trace.calls[count_before:]:
            self._requested_calls[call.name] += 1

    def _read_retrieval(self, data: dict[str, Any], run_id: Any) -> None:
        """Add the call of a retriever, and the documents that it returned, to the trace."""
        query = data.get("input")
        if isinstance(query, dict):
            query = query.get("query")
        documents = data.get("output")
        if isinstance(documents, dict):
            documents = documents.get("documents", documents)
        call = self._trace.add_call("retrieval", {"query": query}, run_id)
        call.set_result(convert_documents(documents))

    def _read_final_state(self, state: Any) -> None:
        """Add the answer in the output of a graph or chain to the trace.

        If the output has messages, also add the calls and results that have no events.
        """
        trace = self._trace
        if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
            # What the last model said takes precedence over an output of unknown form.
            output = state.get("output") if isinstance(state, dict) else state
            trace.answer = trace.answer or visible_text(output) or None
            return

        state_trace = Trace(trace.format, trace.turn)
        read_history(state["messages"], state_trace)
        for call in state_trace.collect_calls():
            if not trace.has_call_with_id(call.id):
                trace.calls.append(call)
                continue
            waiting_call = trace.first_waiting_call(call.id)
            if call.has_result and waiting_call is not None:
                waiting_call.set_result(call.output, call.failed)
        trace.problems |= state_trace.problems
        trace.question = trace.question or state_trace.question
        # The messages end with the answer, which the last model may not have given.
        trace.answer = state_trace.answer or trace.answer

    def _start_tool(self, name: Any, args: Any, run_id: Any) -> None:
        """Remember that a tool started, and add its call unless a model asked for the call."""
        run_key = str(run_id)
        call = make_call(name, run_id, args or {})
        if run_key in self._started_calls:
            self._trace.add_problem(f"{run_key}: started more than once; the first counts")
        elif self._requested_calls[call.name] > 0:
            self._requested_calls[call.name] -= 1
            self._started_calls[run_key] = None
        else:
            added_call = self._trace.add_call(call.name, call.args, call.id)
            self._started_calls[run_key] = added_call

    def _end_tool(self, name: Any, args: Any, run_id: Any, result: _ToolResult) -> None:
        """Add the result of a tool to its call.

        The call was added when the tool started, or when a model asked for it. If it was not added,
        it is added here with the result.
        """
        trace = self._trace
        started_call = self._started_calls.get(str(run_id))
        if started_call is not None and not started_call.has_result:
            trace.set_call_id(started_call, result.call_id)
            started_call.set_result(result.output, result.failed)
            return

        call = make_call(name, run_id, args or {})
        has_waiting_call = trace.first_waiting_call(None, call.name) is not None
        if result.call_id is not None or has_waiting_call:
            # Calls of models do not have the id of the run, but an id of their own, or none.
            call.id = result.call_id
        call.set_result(result.output, result.failed)
        is_in_trace = (
            trace.has_call_with_id(call.id)
            or trace.first_waiting_call(call.id, call.name) is not None
        )
        if is_in_trace:
            call.args = None  # Without arguments, it is a result alone.
        trace.add_part(call)


def _read_tool_result(kind: str, data: dict[str, Any]) -> _ToolResult:
    """Return the result of a tool from the data of an event of LangChain.

    `kind` is the kind of the event: "on_tool_end" or "on_tool_error".
    """
    output = data.get("output")
    message = find_tool_message(output) or {}
    call_id = message.get("tool_call_id") or data.get("tool_call_id")
    if call_id is not None:
        call_id = str(call_id)
    failed = None
    if kind == "on_tool_error":
        failed = True
        output = data.get("error")
        if isinstance(output, dict):
            output = output.get("message", output)
    elif "content" in message:
        output = rows_or_content(message)
        if isinstance(message.get("status"), str):
            failed = message["status"] == "error"
    return _ToolResult(call_id=call_id, output=output, failed=failed)


def _read_agents_sdk_export(objects: list[dict[str, Any]], trace: Trace) -> None:
    """Add to a trace what a `TracingProcessor` of the OpenAI Agents SDK has exported.

    Args:
        objects: the exported spans and traces, in any order. There should be only one trace.
        trace: the trace to which everything is added.
    """
    trace_ids = [value.get("id") for value in objects if value.get("object") == "trace"]
    if trace_ids:
        trace.extra_fields["trace_id"] = trace_ids[-1]
    if len(trace_ids) > 1:
        count = len(trace_ids)
        trace.add_problem(f"{count} traces, read as one; pass the objects of one trace at a time")

    spans = [value for value in objects if value.get("object") == "trace.span"]
    spans.sort(key=lambda span: str(span.get("started_at")))
    for span in spans:
        _read_agents_sdk_span(span, trace)

    # If no span of a model has tokens, those of the spans of turns count.
    if not trace.tokens:
        for span in spans:
            turn = dict_at(dict_at(span, "span_data"), "data")
            if turn.get("sdk_span_type") == "turn":
                trace.add_token_usage(turn.get("usage"))
    starts = [span.get("started_at") for span in spans]
    ends = [span.get("ended_at") for span in spans]
    trace.elapsed_sec = seconds_between(starts, ends)


def _read_agents_sdk_span(span: dict[str, Any], trace: Trace) -> None:
    """Add one exported span of the OpenAI Agents SDK: a call, a request to a model, or an agent."""
    data = dict_at(span, "span_data")
    kind = data.get("type")
    error = span.get("error")
    if isinstance(error, dict):
        # The message is general, while the data say what happened.
        error = dict_at(error, "data").get("error") or error.get("message") or error

    if not data:
        trace.add_problem("a span without span_data")
    elif kind == "function":
        call = trace.add_call(data.get("name"), data.get("input"), span.get("id"))
        if span.get("ended_at") is not None or data.get("output") is not None:
            call.set_result(data.get("output") or error, error is not None)
    elif kind in ("response", "generation"):
        trace.add_token_usage(data.get("usage"))
        _read_question_and_answer(data, trace)
    elif kind == "agent" and error is not None:
        trace.error = text_of(error)


def _read_question_and_answer(data: dict[str, Any], trace: Trace) -> None:
    """Store the question and the answer of one request to a model in a trace.

    A question that the trace already has is kept; an answer is replaced. Calls in the request are
    not read, since they have spans of their own.

    Args:
        data: the data of the request's span.
        trace: the trace.
    """
    conversation = Trace("openai", "all")
    for value in (data.get("input"), data.get("output")):
        if isinstance(value, list | dict):
            read_history(value, conversation)
        elif isinstance(value, str) and conversation.question is None:
            conversation.start_turn(value)
    if trace.question is None:
        trace.question = conversation.question
    trace.answer = conversation.answer
