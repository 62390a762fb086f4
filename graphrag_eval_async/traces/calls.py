"""The calls of one trace: histories, which repeat one another, tell them; spans fill in what
they lack.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.layouts import blocks_as_text
from graphrag_eval_async.traces.messages import indexed, output_of, tool_message
from graphrag_eval_async.traces.plain import first, json_of, structure, text_of
from graphrag_eval_async.traces.spans import above, text_or_none
from graphrag_eval_async.traces.trace import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Trace

    Problem = Callable[[str], None]

CALLS = ("tool", "retrieval", "rerank")  # Kinds of spans that are calls.


def calls_of(
    spans: Sequence[Span],
    histories: Iterable[tuple[Span, Trace]],
    parents: Mapping[Span, Span],
    problem: Problem,
) -> list[Call]:
    """The calls of one trace in their order, and results whose calls no history has."""
    known: dict[Hashable, Call] = {}
    told = [_add_history(span, history, known) for span, history in histories]
    alone = _match(_calls_of_spans(spans, parents, problem), known, problem)
    for calls in told:
        limit = (inf, inf)
        for call in reversed(calls):  # A call is not later than the next of its history.
            limit = call.place = min(call.place, (limit[0], limit[1] - 1e-6))
    found = sorted([*known.values(), *alone], key=lambda call: call.place)
    outputs = {(call.id, text_of(call.output)) for call in found if call.args is not None}
    return [
        call for call in found if call.args is not None or (call.id, call.output) not in outputs
    ]


def _add_history(span: Span, history: Trace, known: dict[Hashable, Call]) -> list[Call]:
    """Add what a history tells, and return it.

    A call is the same as one of another history if id, name and arguments are, and if both are the
    first such call of their histories, or both the second, and so on.
    """
    seen: Counter[Hashable] = Counter()
    told = []
    time = span.begun if span.kind == "model" else span.done
    for call in (*history.calls, *history.repeated, *history.early.values()):
        call.id = text_or_none(call.id) or None
        call.place, call.is_before = (time, len(known)), call.turn < history.turns
        key = call.id, call.name, _key_of(call.output if call.args is None else call.args)
        seen[key] += 1
        first = known.setdefault((key, call.args is None, seen[key]), call)
        if first is not call:
            _merge(first, call)
            first.is_before |= call.is_before
            first.is_new |= call.is_new
        told.append(first)
    return told


def _merge(call: Call, other: Call) -> None:
    """Add to a call what another tells of it; where both tell, the first counts."""
    call.id = call.id or other.id
    call.name = call.name or other.name
    other_is_better = (
        isinstance(other.args, dict) and bool(other.args) and not isinstance(call.args, dict)
    )
    if other.args is not None and (other_is_better or not call.args):
        call.args = other.args
    if call.output is None:
        call.output = other.output
    if call.failed is None:
        call.failed = other.failed
    call.ended |= other.ended


def _key_of(args: Any) -> str:
    """Return a text that is the same for equal arguments, whatever the order of their keys."""
    if not args:
        return ""
    if isinstance(args, dict):
        args = dict(sorted(args.items()))
    return json_of(args)


_MATCHING_ROUNDS = (
    # By id, name and arguments, then by fewer of these.
    (slice(0, 3), True),
    (slice(0, 2), True),
    (slice(0, 1), True),
    # Where either has no id.
    (slice(1, 3), False),
    (slice(1, 2), False),
)
"""Which of id, name and arguments must be equal, and whether both calls must have an id."""


def _match(calls: list[Call], by_key: dict[Hashable, Call], problem: Problem) -> list[Call]:
    """Add what spans of their own tell to the calls of histories; return those that are new.

    They are matched by id; where either has none, by name and arguments or else by name, in the
    order of their starts.
    """
    history_calls = [call for call in by_key.values() if call.args is not None]
    history_calls.sort(key=lambda call: call.is_old)
    keys = {call: (call.id, call.name, _key_of(call.args)) for call in (*history_calls, *calls)}
    order = {call: number for number, call in enumerate(history_calls)}

    for fields, is_by_id in _MATCHING_ROUNDS:
        unmatched: defaultdict[Hashable, deque[Call]] = defaultdict(deque)
        for call in order:
            unmatched[call.id is not None, keys[call][fields]].append(call)

        without_match = []
        for call in calls:
            key = keys[call][fields]
            has_id = call.id is not None
            queues = []
            for other_has_id in (True, False):
                both_have_ids = has_id and other_has_id
                queue = unmatched[other_has_id, key]
                if both_have_ids == is_by_id and queue:
                    queues.append(queue)
            if not queues:
                without_match.append(call)
                continue
            first_queue = min(queues, key=lambda queue: order[queue[0]])
            known = first_queue.popleft()
            _fill(known, call, problem)
            del order[known]
        calls = without_match

    for call in calls:
        if call.args is None and call.output is None and not call.failed:
            problem("a span of a tool without arguments and result: is the capture of content on?")
        if call.args is None:
            call.args = {}
    return calls


def _fill(known: Call, call: Call, problem: Problem) -> None:
    """Add what the span of a call tells to a call of a history; the span counts."""
    if isinstance(call.args, dict) and call.args and known.args not in ({}, call.args):
        problem(
            f"{known.label}: its span has other arguments, which count, than {json_of(known.args)}"
        )
    _merge(call, known)
    for key in ("id", "name", "args", "output", "failed", "ended"):
        setattr(known, key, getattr(call, key))
    known.is_new, known.place = True, min(known.place, (call.place[0], known.place[1]))


def _calls_of_spans(
    spans: Sequence[Span], parents: Mapping[Span, Span], problem: Problem
) -> list[Call]:
    """The calls of spans of tools, retrievers and rerankers; once, where two libraries traced
    the same.
    """
    found = {span: _call_of(span, problem) for span in spans if span.kind in CALLS}
    kept = []
    for span, call in reversed(found.items()):
        outer = above(span, parents, found)
        if outer is None or not _is_same(found[outer], call):
            kept.append(call)
            continue
        if None not in (found[outer].output, call.output) and found[outer].output != call.output:
            problem(f"{call.label}: two spans with other results; the outer counts")
        _merge(found[outer], call)
    return kept[::-1]


def _is_same(outer: Call, inner: Call) -> bool:
    """Return whether a span below another tells of the same call."""
    if outer.name != inner.name or (outer.id and inner.id):
        return outer.name == inner.name and outer.id == inner.id
    is_output = None in (outer.output, inner.output) or outer.output == inner.output
    return is_output and (not outer.args or not inner.args or outer.args == inner.args)


def _call_of(span: Span, problem: Problem) -> Call:
    """Return the call that a span of a tool, a retriever or a reranker tells of."""
    call = _tool(span) if span.kind == "tool" else _retrieval(span, str(span.kind))
    call.is_new, call.place = True, (span.begun, 0)
    call.failed = True if span.failed else call.failed
    call.ended = call.output is not None or span.end is not None or span.failed
    if call.output is None and span.failed:
        call.output = span.why()
    output = call.output
    if (
        isinstance(output, str)
        and output.lstrip()[:1] in {"{", "["}
        and structure(output) is output
    ):
        problem(f"{call.label}: the result begins like JSON but is not valid; it may be cut off")
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


def _tool(span: Span) -> Call:
    """Return the call that a span of a tool tells of."""
    name = span.text(*_TOOL_NAMES)
    key = span.text(*_TOOL_IDS)
    args = structure(_first_or_event(span, _TOOL_ARGUMENTS, "gen_ai.tool.message", "content"))
    if isinstance(args, dict) and "traceloop.entity.input" in span.attributes:
        # Of its instrumentation of LangChain, beside tags and metadata.
        args = args["inputs"] if isinstance(args.get("inputs"), dict) else args
    if (
        isinstance(args, dict)
        and isinstance(args.get("kwargs"), dict)
        and args.keys() <= {"args", "kwargs"}
    ):
        args = args["kwargs"]  # Of LlamaIndex, as its tools are called in Python.
    call = Call(name or span.name.removeprefix("execute_tool ") or None, key, args)
    call.output = _result_of_tool(span)
    told = structure(call.output)
    message = tool_message(told)
    if isinstance(told, dict) and told.get("kind") == "tool-return" and "return_value" in told:
        call.output = told["return_value"]  # Of Pydantic AI, beside what the model is shown.
    elif isinstance(told, dict) and told.keys() >= {"raw_input", "raw_output"}:  # Of LlamaIndex.
        call.output = told["raw_output"]
        if isinstance(told.get("is_error"), bool):
            call.failed = told["is_error"]
    elif message is not None and "content" in message:  # Of LangChain.
        call.id = call.id or text_or_none(message["tool_call_id"]) or None
        call.output = output_of(message)
        call.failed = {"success": False, "error": True}.get(str(message.get("status")))
    return call


def _first_or_event(span: Span, keys: tuple[str, ...], event: str, key: str) -> Any:
    """Return the first attribute of a span; without any, that of an event, as Strands writes it."""
    value = span.first(*keys)
    if value is not None:
        return value
    for name, attributes in span.events:
        if name == event:
            return attributes.get(key)
    return None


def _result_of_tool(span: Span) -> Any:
    """Return what the tool of a span returned, without what frameworks wrap it in."""
    value = _first_or_event(span, _TOOL_RESULTS, "gen_ai.choice", "message")
    inner = structure(value)
    if isinstance(value, str) and value.startswith('"'):
        # The AI SDK, MLflow and Traceloop write text as JSON, too.
        return decoded(value)
    if isinstance(inner, list):
        return blocks_as_text(inner, otherwise=value)
    is_of_adk = any(key.startswith("gcp.vertex.agent.") for key in span.attributes)
    if is_of_adk and isinstance(inner, dict) and len(inner) == 1:
        return first(inner, "result", "error") or value
    if "traceloop.entity.output" in span.attributes and isinstance(inner, dict):
        # Of its instrumentation of LangChain, beside tags.
        output = inner.get("output", value)
        return output if isinstance(output, str) else json_of(output)
    return value


def _retrieval(span: Span, kind: str) -> Call:
    """Return the call of a step `kind`, "retrieval" or "rerank", that a span tells of."""
    args = {
        "query": span.first("gen_ai.retrieval.query.text", "reranker.query", "input.value"),
        "k": span.first("gen_ai.retrieval.top_k", "gen_ai.request.top_k", "reranker.top_k"),
        "data_source": span.first("gen_ai.data_source.id"),
    }
    args = {key: value for key, value in args.items() if value is not None}
    call = Call(kind, span.span_id, args)

    key = "retrieval.documents" if kind == "retrieval" else "reranker.output_documents"
    documents = structure(span.first("gen_ai.retrieval.documents", key, "output.value"))
    if isinstance(documents, dict) and isinstance(documents.get("documents"), list):
        documents = documents["documents"]
    if isinstance(documents, list):
        documents = [_document(document) for document in documents]

    indexed_documents = [_document(value) for value in indexed(span.attributes, f"{key}.")]
    if indexed_documents:
        documents = _documents_joined(documents, indexed_documents)
    call.output = json_of(documents) if isinstance(documents, list) else documents
    return call


def _documents_joined(documents: Any, indexed_documents: list[Any]) -> list[Any]:
    """Return documents of attributes with an index, with what else the same documents have.

    LangChain's documents have ids in one attribute, and none in those with an index.
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


def _document(value: Any) -> Any:
    """Return a document as `steps.retrieval` reads it, with `id` and `text`; all else as it is."""
    if not isinstance(value, dict):
        return value
    inner = value["document"] if isinstance(value.get("document"), dict) else value
    document = {key.removeprefix("document."): field for key, field in inner.items()}
    for key in ("content", "page_content"):
        if "text" not in document and isinstance(document.get(key), str):
            document["text"] = document.pop(key)
    if "metadata" in document:
        document["metadata"] = structure(document["metadata"])
    return document
