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
        histories: the histories in the attributes and events of spans, each with its span.
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

    # A result alone is dropped if a call has the same id and output. Its own output is text.
    results = {(call.id, text_of(call.output)) for call in all_calls if call.args is not None}
    kept_calls = []
    for call in all_calls:
        is_result_alone = call.args is None
        if not is_result_alone or (call.id, call.output) not in results:
            kept_calls.append(call)
    return kept_calls


def _keep_order_of_history(calls: list[Call]) -> None:
    """Lower the sort keys of a history's calls so that the key of each call is below the next one.

    The calls are changed in place.
    """
    next_key = (inf, inf)  # No call follows the last one.
    # The last call comes first, since each key depends on the key of the next call.
    for call in reversed(calls):
        time, number = next_key
        call.sort_key = min(call.sort_key, (time, number - _EARLIER))
        next_key = call.sort_key


def _add_history(
    span: Span, history: Trace, calls_by_key: dict[HistoryCallKey, Call]
) -> list[Call]:
    """Add the calls of one history of a span to `calls_by_key`, and return them in order.

    Histories repeat one another. Two calls of different histories are the same call if

    - their ids, names and arguments are equal, and
    - both are the first such call in their history, or both the second, and so on.

    If `calls_by_key` already has the same call, that call gets what only the new call tells, and is
    returned in its place.
    """
    time = span.end_or_start
    if span.kind == "model":
        time = span.start_or_infinity  # The history was there before the model was asked.
    counts: Counter[tuple[str | None, str | None, str]] = Counter()
    calls = []
    for call in (*history.calls, *history.repeated_results, *history.early_results.values()):
        call.id = text_or_none(call.id) or None
        # The number keeps the order of calls that have the same time.
        call.sort_key = (time, len(calls_by_key))
        call.precedes_question = call.turn < history.turn_count

        is_result_alone = call.args is None
        key = CallKey(
            call.id, call.name, _comparable(call.output if is_result_alone else call.args)
        )
        counts[key] += 1
        history_key = HistoryCallKey(key, is_result_alone, number=counts[key])
        first_call = calls_by_key.setdefault(history_key, call)
        is_repeated = first_call is not call
        if is_repeated:
            _fill_gaps(first_call, call)
            first_call.precedes_question |= call.precedes_question
            first_call.is_made_in_trace |= call.is_made_in_trace
        calls.append(first_call)
    return calls


def _fill_gaps(call: Call, other: Call) -> None:
    """Store in `call` the id, name, arguments, result and failure that only `other` has.

    If the arguments of `call` are no object, a nonempty object in `other` also replaces them.
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

    It is empty for missing arguments as well as for empty ones.
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
        needs_ids: whether both calls must have an id. If not, at least one of them must have none,
            since two ids that differ are those of different calls.
    """

    fields: tuple[str, ...]
    needs_ids: bool

    def part_of_key(self, key: CallKey) -> tuple[str | None, ...]:
        """Return the values in a key that must be equal in this round."""
        return tuple(getattr(key, field) for field in self.fields)


_MATCHING_ROUNDS = (
    _MatchingRound(("id", "name", "args"), needs_ids=True),
    _MatchingRound(("id", "name"), needs_ids=True),
    _MatchingRound(("id",), needs_ids=True),
    _MatchingRound(("name", "args"), needs_ids=False),
    _MatchingRound(("name",), needs_ids=False),
)
"""The closest matches come first, so that none is taken by a call that fits less."""


def _match_with_histories(
    span_calls: list[Call], all_history_calls: Iterable[Call], report_problem: Callable[[str], None]
) -> list[Call]:
    """Match calls of spans with the same calls of histories, and complete the latter.

    Two calls are the same if their ids are equal. If one of them has no id, they are the same if
    their names and arguments are equal or, failing that, their names alone. Calls with the same
    name are matched in the order of their starts.

    Returns:
        the calls of spans that are in no history. Missing arguments of theirs become an empty
        object.
    """
    history_calls = [call for call in all_history_calls if call.args is not None]
    # Calls of this turn come first, since spans of earlier turns are in other traces.
    history_calls.sort(key=lambda call: call.is_of_earlier_turn)
    # The keys are made before the first match, since matches change the calls.
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
    """Return the history call that matches each span call in one round, by span call.

    If several history calls match, the earliest is taken. No history call is taken twice. Span
    calls without a match are not in the result.

    Args:
        span_calls: the calls of spans that have no match yet.
        history_calls: the calls of histories that have no match yet, in order.
        keys: the keys of all these calls.
        matching_round: says which parts of the keys must be equal.
    """
    # Calls with ids and calls without ids wait in separate queues, by the part of their key.
    with_id: defaultdict[tuple[str | None, ...], deque[Call]] = defaultdict(deque)
    without_id: defaultdict[tuple[str | None, ...], deque[Call]] = defaultdict(deque)
    for call in history_calls:
        part = matching_round.part_of_key(keys[call])
        if keys[call].id is None:
            without_id[part].append(call)
        else:
            with_id[part].append(call)

    positions = {call: position for position, call in enumerate(history_calls)}
    matches = {}
    for span_call in span_calls:
        part = matching_round.part_of_key(keys[span_call])
        span_has_id = keys[span_call].id is not None
        # The queues of the calls that may match, by whether they have ids.
        queues: list[deque[Call]] = []
        if matching_round.needs_ids:
            if span_has_id:
                queues = [with_id[part]]
        elif span_has_id:
            queues = [without_id[part]]
        else:
            queues = [with_id[part], without_id[part]]

        filled_queues = [queue for queue in queues if queue]
        if filled_queues:
            queue_of_earliest = min(filled_queues, key=lambda queue: positions[queue[0]])
            matches[span_call] = queue_of_earliest.popleft()
    return matches


def _complete_by_span(
    history_call: Call, span_call: Call, report_problem: Callable[[str], None]
) -> None:
    """Add what a span's call tells to the same call of a history.

    Where the two differ, the history's call gets the value of the span. Different arguments are
    reported. Both calls are changed.
    """
    span_args = span_call.args
    if isinstance(span_args, dict) and span_args and history_call.args not in ({}, span_args):
        report_problem(
            f"{history_call.label}: its span has other arguments, which count, than "
            f"{json_of(history_call.args)}"
        )
    # The span's call is completed first, and then copied as a whole.
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
    """Return a call for each span of a tool, retriever or reranker, in the order of the spans.

    If two libraries traced the same call, one span is below the other. Then only the call of the
    outer span is returned, completed by the inner span.
    """
    calls_by_span = {
        span: _call_of_span(span, report_problem) for span in spans if span.kind in CALL_KINDS
    }
    kept_calls = []
    # Inner spans start last. They come first here, so that a call is complete before it completes
    # the call of the span above it.
    for span, call in reversed(calls_by_span.items()):
        outer_span = nearest_above(span, parents, calls_by_span)
        if outer_span is None or not _is_same_call(calls_by_span[outer_span], call):
            kept_calls.append(call)
            continue

        outer_call = calls_by_span[outer_span]
        both_have_outputs = outer_call.output is not None and call.output is not None
        if both_have_outputs and outer_call.output != call.output:
            report_problem(f"{call.label}: two spans with other results; the outer counts")
        _fill_gaps(outer_call, call)
    kept_calls.reverse()
    return kept_calls


def _is_same_call(outer: Call, inner: Call) -> bool:
    """Return whether the calls of a span and of a span below it are the same call.

    Their names must be equal. If both have an id, the ids decide. If not, the outputs must be
    equal, and so must the arguments, unless one of the calls lacks them.
    """
    if outer.name != inner.name:
        return False
    if outer.id and inner.id:
        return outer.id == inner.id
    both_have_outputs = outer.output is not None and inner.output is not None
    if both_have_outputs and outer.output != inner.output:
        return False
    both_have_args = bool(outer.args) and bool(inner.args)
    return not both_have_args or bool(outer.args == inner.args)


def _call_of_span(span: Span, report_problem: Callable[[str], None]) -> Call:
    """Return the call that a span of a tool, a retriever or a reranker records.

    A result that begins like JSON, but is not valid JSON, is reported, since it may be cut off.
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
    # Text that cannot be decoded is returned as the same object.
    could_be_decoded = decode_object_or_list(output) is not output
    if begins_like_json and not could_be_decoded:
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
    """Return the call that the attributes or events of a tool's span record.

    The call's `failed` is set only if the result itself says whether the call failed. The status of
    the span is not read here.
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
        # Pydantic AI writes both what the tool returned and what the model is shown.
        call.output = result["return_value"]
    elif "raw_input" in result and "raw_output" in result:  # LlamaIndex
        call.output = result["raw_output"]
        if isinstance(result.get("is_error"), bool):
            call.failed = result["is_error"]
    elif message is not None and "content" in message:  # LangChain
        call.id = call.id or text_or_none(message["tool_call_id"]) or None
        call.output = rows_or_content(message)
        status = message.get("status")
        if status in ("success", "error"):
            call.failed = status == "error"
    return call


def _arguments_of_tool(span: Span) -> Any:
    """Return the arguments in the span of a tool, without the objects that frameworks wrap them in.

    They are a decoded JSON value, or text that is not JSON. None if the span has no arguments.
    """
    value = _first_attribute_or_event(
        span, _TOOL_ARGUMENTS, event="gen_ai.tool.message", key="content"
    )
    args = decode_object_or_list(value)
    if not isinstance(args, dict):
        return args
    if "traceloop.entity.input" in span.attributes and isinstance(args.get("inputs"), dict):
        # Traceloop's instrumentation of LangChain writes tags and metadata beside the arguments.
        args = args["inputs"]
    is_call_in_python = isinstance(args.get("kwargs"), dict) and args.keys() <= {"args", "kwargs"}
    if is_call_in_python:
        return args["kwargs"]  # LlamaIndex
    return args


def _first_attribute_or_event(span: Span, names: tuple[str, ...], *, event: str, key: str) -> Any:
    """Return the first of some attributes that a span has, or else a field of an event.

    Strands writes an event in place of the attributes.

    Args:
        span: the span.
        names: names of attributes, in order of preference.
        event: name of the event that is read if the span has none of the attributes. The first
            event of this name counts.
        key: the field of the event.

    Returns:
        None if neither has a value.
    """
    value = span.first_attribute(*names)
    if value is not None:
        return value
    for event_name, attributes in span.events:
        if event_name == event:
            return attributes.get(key)
    return None


def _result_of_tool(span: Span) -> Any:
    """Return what the tool of a span returned, without the objects that frameworks wrap it in.

    None if the span does not record it.
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
        # ADK wraps an output that is no object. Any other object is the output itself.
        return first_value(result, "result", "error") or value
    if "traceloop.entity.output" in span.attributes:
        # Traceloop's instrumentation of LangChain writes tags beside the output.
        output = result.get("output", value)
        return output if isinstance(output, str) else json_of(output)
    return value


def _read_retrieval_span(span: Span, kind: str) -> Call:
    """Return the call that a span of a retriever or a reranker records, with the documents.

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
    present_args = {key: value for key, value in args.items() if value is not None}
    call = Call(kind, span.span_id, present_args)

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
    """Return `indexed_documents`, each with the fields that only its twin in `documents` has.

    Args:
        documents: the same documents, in the same order, from one attribute. LangChain writes ids
            only there. A value that is no list, or a list of another length, is ignored.
        indexed_documents: the documents from attributes with an index. Their fields take
            precedence.
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
    """Return a retrieved document with the keys that steps have, such as `id` and `text`.

    A document that is no object is returned unchanged.
    """
    if not isinstance(value, dict):
        return value
    fields = value
    if isinstance(value.get("document"), dict):
        fields = value["document"]
    document = {key.removeprefix("document."): field for key, field in fields.items()}
    for key in ("content", "page_content"):
        if "text" not in document and isinstance(document.get(key), str):
            document["text"] = document.pop(key)
    if "metadata" in document:
        document["metadata"] = decode_object_or_list(document["metadata"])
    return document
