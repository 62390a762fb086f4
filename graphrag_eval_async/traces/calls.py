"""The calls of one trace: histories, which repeat one another, tell them; spans fill in what
they lack.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.layouts import blocks_as_text
from graphrag_eval_async.traces.messages import collect_indexed, find_tool_message, rows_or_content
from graphrag_eval_async.traces.plain import (
    decode_object_or_list,
    first_value,
    json_of,
    text_of,
)
from graphrag_eval_async.traces.spans import nearest_above, text_or_none
from graphrag_eval_async.traces.trace import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Trace

CALL_KINDS = ("tool", "retrieval", "rerank")
"""Kinds of spans that are calls."""

_EARLIER = 1e-6
"""By how much the number in the sort key of a call is below that of the next call of its history.
It is small beside the differences between numbers of other calls, which are whole.
"""


class CallKey(NamedTuple):
    """What two calls that are the same have in common, as texts that can be compared.

    Attributes:
        id: the call's id, if it is known.
        name: name of the tool.
        args: the arguments, or the output of a result alone.
    """

    id: str | None
    name: str | None
    args: str


class HistoryCallKey(NamedTuple):
    """What a call in a history has in common with the same call in another history.

    Attributes:
        call: id, name and arguments.
        is_result_alone: whether the histories have only its result.
        number: which of the calls of a history with this id, name and arguments it is, from 1.
    """

    call: CallKey
    is_result_alone: bool
    number: int


def calls_of(
    spans: Sequence[Span],
    histories: Iterable[tuple[Span, Trace]],
    parents: Mapping[Span, Span],
    report_problem: Callable[[str], None],
) -> list[Call]:
    """Return the calls of one trace in order, and results whose calls are in no history.

    Args:
        spans: the spans of the trace.
        histories: histories that spans have, each with its span.
        parents: the parent of each span that has one.
        report_problem: called with a text for each thing that is unclear.
    """
    # Histories repeat one another, and the spans of calls complete them.
    calls_by_key: dict[HistoryCallKey, Call] = {}
    calls_by_history = [_add_history(span, history, calls_by_key) for span, history in histories]
    span_calls = _calls_of_spans(spans, parents, report_problem)
    new_calls = _match_with_histories(span_calls, calls_by_key.values(), report_problem)

    # Times order the calls, but never against the order of a history.
    for calls in calls_by_history:
        _keep_order_of_history(calls)
    all_calls = sorted([*calls_by_key.values(), *new_calls], key=lambda call: call.sort_key)

    # A result alone is left out if a call has it.
    results = {(call.id, text_of(call.output)) for call in all_calls if call.args is not None}
    kept = []
    for call in all_calls:
        is_result_alone = call.args is None
        if not is_result_alone or (call.id, call.output) not in results:
            kept.append(call)
    return kept


def _keep_order_of_history(calls: list[Call]) -> None:
    """Lower the sort keys of the calls of a history so that each is below that of the next call."""
    limit = (inf, inf)
    for call in reversed(calls):
        time, number = limit
        call.sort_key = min(call.sort_key, (time, number - _EARLIER))
        limit = call.sort_key


def _add_history(
    span: Span, history: Trace, calls_by_key: dict[HistoryCallKey, Call]
) -> list[Call]:
    """Add the calls of a history that a span has to `calls_by_key`, and return them in order.

    A call is the same as one of another history if id, name and arguments are, and if both are the
    first such call of their histories, or both the second, and so on. Then the call that was added
    before gets what it lacks, and is returned in place of the new one.
    """
    time = span.end_or_start
    if span.kind == "model":
        time = span.start_or_infinity  # The history was there before the model was asked.
    counts: Counter[tuple[str | None, str | None, str]] = Counter()
    calls = []
    for call in (*history.calls, *history.repeated_results, *history.early_results.values()):
        call.id = text_or_none(call.id) or None
        call.sort_key = (time, len(calls_by_key))
        call.precedes_question = call.turn < history.turn_count

        is_result_alone = call.args is None
        key = CallKey(
            call.id, call.name, _comparable(call.output if is_result_alone else call.args)
        )
        counts[key] += 1
        history_key = HistoryCallKey(key, is_result_alone, number=counts[key])
        known_call = calls_by_key.setdefault(history_key, call)
        if known_call is not call:
            _fill_gaps(known_call, call)
            known_call.precedes_question |= call.precedes_question
            known_call.is_made_in_trace |= call.is_made_in_trace
        calls.append(known_call)
    return calls


def _fill_gaps(call: Call, other: Call) -> None:
    """Store in `call` what it lacks and `other` has: id, name, arguments, result and failure.

    An object of arguments also replaces arguments that are text.
    """
    call.id = call.id or other.id
    call.name = call.name or other.name
    has_better_args = (
        isinstance(other.args, dict) and bool(other.args) and not isinstance(call.args, dict)
    )
    if other.args is not None and (has_better_args or not call.args):
        call.args = other.args
    if call.output is None:
        call.output = other.output
    if call.failed is None:
        call.failed = other.failed
    call.has_result |= other.has_result


def _comparable(args: Any) -> str:
    """Return a text that is the same for equal arguments, whatever the order of their keys.

    No arguments, and empty ones, are the same.
    """
    if not args:
        return ""
    if isinstance(args, dict):
        args = dict(sorted(args.items()))
    return json_of(args)


@dataclass(frozen=True)
class _MatchingRound:
    """One round in which calls of spans are matched with calls of histories.

    Attributes:
        fields: fields of `CallKey` that must be equal.
        by_id: whether both calls must have an id; else, one of them must have none.
    """

    fields: tuple[str, ...]
    by_id: bool

    def part_of_key(self, key: CallKey) -> tuple[str | None, ...]:
        """Return the fields of a key that must be equal in this round."""
        return tuple(getattr(key, field) for field in self.fields)


_MATCHING_ROUNDS = (
    _MatchingRound(("id", "name", "args"), by_id=True),
    _MatchingRound(("id", "name"), by_id=True),
    _MatchingRound(("id",), by_id=True),
    _MatchingRound(("name", "args"), by_id=False),
    _MatchingRound(("name",), by_id=False),
)
"""The closest matches come first, so that none is taken by a call that fits less."""


def _match_with_histories(
    span_calls: list[Call], all_history_calls: Iterable[Call], report_problem: Callable[[str], None]
) -> list[Call]:
    """Add what spans of calls tell to the same calls of histories.

    Calls are the same if their ids are; where one has no id, if their names and arguments are, or
    else their names, in the order of their starts.

    Returns:
        the calls of spans that are in no history, each with arguments, if only empty ones.
    """
    history_calls = [call for call in all_history_calls if call.args is not None]
    history_calls.sort(key=lambda call: call.is_of_earlier_turn)
    # Matches complete the calls, so the keys are taken before.
    keys = {
        call: CallKey(call.id, call.name, _comparable(call.args))
        for call in (*history_calls, *span_calls)
    }
    for matching_round in _MATCHING_ROUNDS:
        matches = _find_matches(span_calls, history_calls, keys, matching_round)
        for span_call, history_call in matches.items():
            _complete_by_span(history_call, span_call, report_problem)
        matched = set(matches.values())
        span_calls = [call for call in span_calls if call not in matches]
        history_calls = [call for call in history_calls if call not in matched]

    # The other calls of spans are in no history.
    for call in span_calls:
        if call.args is None and call.output is None and not call.failed:
            report_problem(
                "a span of a tool without arguments and result: is the capture of content on?"
            )
        if call.args is None:
            call.args = {}
    return span_calls


def _find_matches(
    span_calls: list[Call],
    history_calls: list[Call],
    keys: Mapping[Call, CallKey],
    matching_round: _MatchingRound,
) -> dict[Call, Call]:
    """Return, for calls of spans, the first call of histories that matches in a round.

    Each call of histories matches at most one call of spans. `keys` has the keys of all calls.
    """
    # Calls with an id and calls without wait in queues of their own.
    by_id = matching_round.by_id
    order = {call: number for number, call in enumerate(history_calls)}
    unmatched: defaultdict[tuple[Any, ...], deque[Call]] = defaultdict(deque)
    for call in history_calls:
        has_id = keys[call].id is not None
        unmatched[has_id, matching_round.part_of_key(keys[call])].append(call)

    matches = {}
    for span_call in span_calls:
        key = matching_round.part_of_key(keys[span_call])
        span_has_id = keys[span_call].id is not None
        queues = []
        for history_has_id in (True, False):
            both_have_ids = span_has_id and history_has_id
            queue = unmatched[history_has_id, key]
            if both_have_ids == by_id and queue:
                queues.append(queue)
        if queues:
            # The earliest call counts.
            first_queue = min(queues, key=lambda queue: order[queue[0]])
            matches[span_call] = first_queue.popleft()
    return matches


def _complete_by_span(
    history_call: Call, span_call: Call, report_problem: Callable[[str], None]
) -> None:
    """Store in a call of a history what the span of the same call tells.

    Where both tell, the span counts; arguments that differ are reported.
    """
    span_args = span_call.args
    if isinstance(span_args, dict) and span_args and history_call.args not in ({}, span_args):
        report_problem(
            f"{history_call.label}: its span has other arguments, which count, than "
            f"{json_of(history_call.args)}"
        )
    _fill_gaps(span_call, history_call)
    history_call.id = span_call.id
    history_call.name = span_call.name
    history_call.args = span_call.args
    history_call.output = span_call.output
    history_call.failed = span_call.failed
    history_call.has_result = span_call.has_result
    history_call.is_made_in_trace = True

    time_of_span = span_call.sort_key[0]
    number_in_history = history_call.sort_key[1]
    history_call.sort_key = min(history_call.sort_key, (time_of_span, number_in_history))


def _calls_of_spans(
    spans: Sequence[Span], parents: Mapping[Span, Span], report_problem: Callable[[str], None]
) -> list[Call]:
    """Return the calls that spans of tools, retrievers and rerankers are.

    If two libraries traced the same call, one span is below the other; the call of the outer one is
    returned, with what only the inner one tells.
    """
    calls_by_span = {
        span: _call_of_span(span, report_problem) for span in spans if span.kind in CALL_KINDS
    }
    kept = []
    for span, call in reversed(calls_by_span.items()):
        outer_span = nearest_above(span, parents, calls_by_span)
        if outer_span is None or not _is_same_call(calls_by_span[outer_span], call):
            kept.append(call)
            continue

        outer_call = calls_by_span[outer_span]
        both_have_outputs = outer_call.output is not None and call.output is not None
        if both_have_outputs and outer_call.output != call.output:
            report_problem(f"{call.label}: two spans with other results; the outer counts")
        _fill_gaps(outer_call, call)
    kept.reverse()
    return kept


def _is_same_call(outer: Call, inner: Call) -> bool:
    """Return whether a span and a span below it tell of the same call.

    Their names are equal, and their ids; without ids, their outputs and arguments, if both have
    them.
    """
    if outer.name != inner.name:
        return False
    if outer.id and inner.id:
        return outer.id == inner.id
    if outer.output is not None and inner.output is not None and outer.output != inner.output:
        return False
    return not outer.args or not inner.args or bool(outer.args == inner.args)


def _call_of_span(span: Span, report_problem: Callable[[str], None]) -> Call:
    """Return the call that a span of a tool, a retriever or a reranker tells of.

    A result that begins like JSON, but is none, is reported, since it may be cut off.
    """
    if span.kind == "tool":
        call = _read_tool_span(span)
    else:
        call = _read_retrieval_span(span, str(span.kind))
    call.is_made_in_trace = True
    call.sort_key = (span.start_or_infinity, 0)
    if span.has_failed:
        call.failed = True
    call.has_result = call.output is not None or span.end is not None or span.has_failed
    if call.output is None and span.has_failed:
        call.output = span.describe_failure()

    output = call.output
    begins_like_json = isinstance(output, str) and output.lstrip()[:1] in {"{", "["}
    if begins_like_json and decode_object_or_list(output) is output:
        report_problem(
            f"{call.label}: the result begins like JSON but is not valid; it may be cut off"
        )
    return call


_TOOL_NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "tool_call.function.name",
    "ai.toolCall.name",
    "traceloop.entity.name",
)
_TOOL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
_TOOL_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_call.function.arguments",
    "tool_arguments",
    "ai.toolCall.args",
    "gcp.vertex.agent.tool_call_args",
    "mlflow.spanInputs",
    "traceloop.entity.input",
    "input.value",
)
_TOOL_RESULTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "ai.toolCall.result",
    "gcp.vertex.agent.tool_response",
    "mlflow.spanOutputs",
    "traceloop.entity.output",
    "output.value",
)
"""Where name, id, arguments and result of a call stand in the attributes of its span."""


def _read_tool_span(span: Span) -> Call:
    """Return the call that a span of a tool tells of, from attributes or events.

    The call's `failed` is set only if the result says so, and not by the span's status.
    """
    name = span.first_text(*_TOOL_NAMES)
    if name is None:
        name = span.name.removeprefix("execute_tool ") or None
    call = Call(name, span.first_text(*_TOOL_IDS), _arguments_of_tool(span))
    call.output = _result_of_tool(span)

    result = decode_object_or_list(call.output)
    if not isinstance(result, dict):
        return call
    message = find_tool_message(result)
    if result.get("kind") == "tool-return" and "return_value" in result:
        # Pydantic AI, which also writes what the model is shown.
        call.output = result["return_value"]
    elif "raw_input" in result and "raw_output" in result:  # LlamaIndex
        call.output = result["raw_output"]
        if isinstance(result.get("is_error"), bool):
            call.failed = result["is_error"]
    elif message is not None and "content" in message:  # LangChain
        call.id = call.id or text_or_none(message["tool_call_id"]) or None
        call.output = rows_or_content(message)
        call.failed = {"success": False, "error": True}.get(str(message.get("status")))
    return call


def _arguments_of_tool(span: Span) -> Any:
    """Return the arguments in the span of a tool, without what frameworks wrap them in.

    They are an object, or text that is no JSON; None if the span has none.
    """
    value = _first_attribute_or_event(
        span, _TOOL_ARGUMENTS, event="gen_ai.tool.message", key="content"
    )
    args = decode_object_or_list(value)
    if not isinstance(args, dict):
        return args
    if "traceloop.entity.input" in span.attributes and isinstance(args.get("inputs"), dict):
        # Traceloop's instrumentation of LangChain writes tags and metadata beside them.
        args = args["inputs"]
    is_call_in_python = isinstance(args.get("kwargs"), dict) and args.keys() <= {"args", "kwargs"}
    if is_call_in_python:
        return args["kwargs"]  # LlamaIndex
    return args


def _first_attribute_or_event(span: Span, names: tuple[str, ...], *, event: str, key: str) -> Any:
    """Return the first of some attributes of a span that has a value, or a field of an event.

    Strands writes events in place of attributes. The result is None if the span has neither.
    """
    value = span.first_attribute(*names)
    if value is not None:
        return value
    for event_name, attributes in span.events:
        if event_name == event:
            return attributes.get(key)
    return None


def _result_of_tool(span: Span) -> Any:
    """Return what the tool of a span returned, without what frameworks wrap it in.

    None means that the span does not tell it.
    """
    value = _first_attribute_or_event(span, _TOOL_RESULTS, event="gen_ai.choice", key="message")
    if isinstance(value, str) and value.startswith('"'):
        # The AI SDK, MLflow and Traceloop write text as JSON, too.
        return decoded(value)

    result = decode_object_or_list(value)
    if isinstance(result, list):
        return blocks_as_text(result, otherwise=value)
    if not isinstance(result, dict):
        return value

    is_of_adk = any(name.startswith("gcp.vertex.agent.") for name in span.attributes)
    if is_of_adk and len(result) == 1:
        return first_value(result, "result", "error") or value
    if "traceloop.entity.output" in span.attributes:
        # Traceloop's instrumentation of LangChain writes tags beside the output.
        output = result.get("output", value)
        return output if isinstance(output, str) else json_of(output)
    return value


def _read_retrieval_span(span: Span, kind: str) -> Call:
    """Return the call that a span of a retriever or a reranker tells of, with its documents.

    `kind` is "retrieval" or "rerank", which is also the name of the call.
    """
    args = {
        "query": span.first_attribute(
            "gen_ai.retrieval.query.text", "reranker.query", "input.value"
        ),
        "k": span.first_attribute(
            "gen_ai.retrieval.top_k", "gen_ai.request.top_k", "reranker.top_k"
        ),
        "data_source": span.first_attribute("gen_ai.data_source.id"),
    }
    known_args = {key: value for key, value in args.items() if value is not None}
    call = Call(kind, span.span_id, known_args)

    # The documents stand in one attribute, in several with an index, or in both.
    attribute = "retrieval.documents" if kind == "retrieval" else "reranker.output_documents"
    documents = decode_object_or_list(
        span.first_attribute("gen_ai.retrieval.documents", attribute, "output.value")
    )
    if isinstance(documents, dict) and isinstance(documents.get("documents"), list):
        documents = documents["documents"]
    if isinstance(documents, list):
        documents = [_convert_document(document) for document in documents]

    indexed_values = collect_indexed(span.attributes, f"{attribute}.")
    if indexed_values:
        indexed_documents = [_convert_document(value) for value in indexed_values]
        documents = _join_documents(documents, indexed_documents)
    call.output = json_of(documents) if isinstance(documents, list) else documents
    return call


def _join_documents(documents: Any, indexed_documents: list[Any]) -> list[Any]:
    """Return documents of attributes with an index, each with the fields it only has elsewhere.

    `documents` are the same documents from one attribute: LangChain writes their ids only there. If
    they are no list of as many documents, they are ignored.
    """
    if not isinstance(documents, list) or len(documents) != len(indexed_documents):
        return indexed_documents
    joined = []
    for document, indexed_document in zip(documents, indexed_documents, strict=True):
        if isinstance(document, dict) and isinstance(indexed_document, dict):
            joined.append(document | indexed_document)
        else:
            joined.append(indexed_document)
    return joined


def _convert_document(value: Any) -> Any:
    """Convert a retrieved document to an object with `id` and `text`, as steps have it.

    What is no object is returned unchanged.
    """
    if not isinstance(value, dict):
        return value
    fields = value["document"] if isinstance(value.get("document"), dict) else value
    document = {key.removeprefix("document."): field for key, field in fields.items()}
    for key in ("content", "page_content"):
        if "text" not in document and isinstance(document.get(key), str):
            document["text"] = document.pop(key)
    if "metadata" in document:
        document["metadata"] = decode_object_or_list(document["metadata"])
    return document
