"""Spans of OpenTelemetry, with the attributes of its GenAI conventions or of OpenInference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import fsum, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.calls import CALL_KINDS, calls_of
from graphrag_eval_async.traces.messages import read_histories
from graphrag_eval_async.traces.plain import decode_object_or_list
from graphrag_eval_async.traces.spans import (
    nearest_above,
    parents_of,
    spans_of_line,
    text_or_none,
)
from graphrag_eval_async.traces.trace import Trace, TraceOptions, to_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Call

_USAGE = "gen_ai.usage."
_TOKEN_ATTRIBUTES = {
    "input_tokens": (f"{_USAGE}input_tokens", f"{_USAGE}prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": (
        f"{_USAGE}output_tokens",
        f"{_USAGE}completion_tokens",
        "llm.token_count.completion",
    ),
    "total_tokens": (f"{_USAGE}total_tokens", "llm.token_count.total"),
}
"""Attributes of counts of tokens, by the field of the response that they are added to."""

_INPUT_ATTRIBUTES = ("input.value", "mlflow.spanInputs", "traceloop.entity.input")
_OUTPUT_ATTRIBUTES = ("output.value", "mlflow.spanOutputs", "traceloop.entity.output")
_COST_ATTRIBUTES = ("llm.cost.total", f"{_USAGE}cost", "operation.cost")
"""Attributes of what an agent was given, of what it returned, and of what it cost."""

_MAX_NUMBER = 2**53
"""Larger numbers are not exact in readers of JSON that take all numbers for doubles."""

_NANOSECONDS = 1e9
"""How many nanoseconds a second has."""

T = TypeVar("T")


class SpanHistory(NamedTuple):
    """A history in the attributes or events of a span."""

    span: Span
    history: Trace


def responses_from_otlp(
    lines: Iterable[str | bytes | Mapping[str, Any]], **options: Unpack[TraceOptions]
) -> OtlpResponses:
    """Convert lines of OTLP in JSON to responses, one per trace.

    Args:
        lines: text, bytes or dicts, each an object with `resourceSpans`. Other lines are skipped.
            Spans may come in any order; all lines are read before the first response is made.
        options: see `TraceOptions`; here, `question_id` names the attribute that has the question's
            id. The root span is searched first, then the other spans, then their resources.

    Returns:
        an iterator over responses, in the order in which the traces begin; its `skipped` counts
        what was skipped.
    """
    return OtlpResponses(lines, options)


class OtlpResponses(Iterator[dict[str, Any]]):
    """Iterates over responses; `skipped` counts what was skipped so far."""

    def __init__(self, lines: Iterable[Any], options: TraceOptions) -> None:
        self.skipped: Counter[str] = Counter()
        self._responses = self._read(lines, options)

    def __next__(self) -> dict[str, Any]:
        return next(self._responses)

    def _read(self, lines: Iterable[Any], options: TraceOptions) -> Iterator[dict[str, Any]]:
        """Read all lines, then yield the response of each trace; count what has none."""
        traces: dict[str, list[Span]] = {}
        for line in lines:
            for span in spans_of_line(line, self.skipped):
                traces.setdefault(span.trace_id, []).append(span)
        for spans in traces.values():
            response = response_of_spans(spans, **options)
            if response is not None:
                yield response
            else:
                self.skipped["traces without a span of an agent"] += 1


def response_of_spans(
    spans: Iterable[Span], **options: Unpack[TraceOptions]
) -> dict[str, Any] | None:
    """Return the response that the spans of a trace make; None if no agent wrote any of them.

    Args:
        spans: spans of one trace, in any order.
        options: see `TraceOptions`; here, `question_id` names the attribute that has the id.
    """
    trace = Trace("otlp", options.get("turn", "last"))
    ordered_spans = _without_repetitions(spans, trace)
    ordered_spans.sort(key=lambda span: span.start_or_infinity)
    if all(span.kind is None for span in ordered_spans):
        return None

    parents = parents_of(ordered_spans)
    root = _find_root(ordered_spans, parents)
    _read_spans(ordered_spans, root, parents, trace)
    if not root.is_root:
        trace.add_problem("the root span is missing, and maybe others")
    elif root.is_error and root.kind not in CALL_KINDS:
        trace.error = root.describe_failure() or "the root span failed"

    _add_tokens_and_costs(ordered_spans, parents, trace)
    _read_times(root, ordered_spans, trace)
    ids = {"id": root.trace_id, "trace_id": root.trace_id, "span_id": root.span_id}
    for key, id_ in ids.items():
        if id_:
            trace.extra_fields[key] = id_

    id_attribute = options.get("question_id")
    if id_attribute is not None:
        question_id = _find_question_id(id_attribute, root, ordered_spans)
        if question_id is None:
            trace.add_problem(f"no span has the attribute {id_attribute}")
        options["question_id"] = question_id
    return to_response(trace, **options)


def _find_root(spans: Sequence[Span], parents: Mapping[Span, Span]) -> Span:
    """Return the root span of a trace.

    Without one, it is the first span whose parent is missing, or else the first of all.
    """
    for span in spans:
        if span.is_root:
            return span
    for span in spans:
        if span not in parents:
            return span
    return spans[0]


def _find_question_id(attribute: str, root: Span, spans: Sequence[Span]) -> str | None:
    """Return the value of an attribute of the root span, of other spans, or of their resources.

    The first value counts. The result is None if there is none.
    """
    values = [span.attributes.get(attribute) for span in (root, *spans)]
    values += [span.resource.get(attribute) for span in (root, *spans)]
    for value in values:
        if value is not None:
            return text_or_none(value)
    return None


def _without_repetitions(spans: Iterable[Span], trace: Trace) -> list[Span]:
    """Return the spans without those that were sent again; two that differ are both kept.

    Spans with the same id are noted as problems of the trace.
    """
    kept = []
    spans_by_id: dict[str, Span] = {}
    for span in spans:
        if span.span_id is not None:
            first_span = spans_by_id.setdefault(span.span_id, span)
            if first_span is not span:
                if _is_repetition(first_span, span):
                    trace.add_problem(
                        f"span {span.span_id}: there more than once; the first counts"
                    )
                    continue
                trace.add_problem(f"span {span.span_id}: another has the same id")
        kept.append(span)
    return kept


def _is_repetition(span: Span, other: Span) -> bool:
    """Return whether two spans with the same id have the same parent, times and content."""
    return (
        span.parent_id == other.parent_id
        and span.name == other.name
        and span.start == other.start
        and span.end == other.end
        and span.attributes == other.attributes
        and span.events == other.events
        and span.is_error == other.is_error
    )


def _read_spans(
    spans: Sequence[Span], root: Span, parents: Mapping[Span, Span], trace: Trace
) -> None:
    """Add the problems, question, calls and answer of the spans of a trace to `trace`.

    Args:
        spans: the spans, in the order of their starts.
        root: the root span.
        parents: the parent of each span that has one.
        trace: what is read is added to it.
    """
    for span in spans:
        for problem in span.problems:
            trace.add_problem(problem)
    _note_several_runs(spans, parents, trace)

    # Histories of models come first: they are in the order in which the models were asked.
    models_first = sorted(spans, key=lambda span: span.kind != "model")
    histories = [
        SpanHistory(span, history) for span in models_first for history in read_histories(span)
    ]
    root_input = root_output = None
    if root.kind == "other":
        root_input = decode_object_or_list(root.first_attribute(*_INPUT_ATTRIBUTES))
        root_output = decode_object_or_list(root.first_attribute(*_OUTPUT_ATTRIBUTES))

    question = _find_question(root, root_input, histories)
    _add_calls(calls_of(spans, histories, parents, trace.add_problem), question, trace)
    for _, history in histories:
        trace.problems |= history.problems
    trace.answer = _last_answer(histories)
    if trace.answer is None:
        trace.answer = _single_text(root_output)


def _note_several_runs(spans: Sequence[Span], parents: Mapping[Span, Span], trace: Trace) -> None:
    """Note a problem if the spans of a trace are of several runs of agents.

    A run is a span of an agent with no other above it.
    """
    agent_spans = {span for span in spans if span.kind is not None}
    run_count = 0
    for span in agent_spans:
        if span.kind == "other" and nearest_above(span, parents, agent_spans) is None:
            run_count += 1
    if run_count > 1:
        trace.add_problem(
            f"{run_count} runs of agents in one trace, read as one; give each a trace of its own"
        )


def _find_question(root: Span, root_input: Any, histories: Sequence[SpanHistory]) -> str | None:
    """Return the question that a trace answers, or None.

    It is taken from histories of the root span, from its input if that is text, from histories of
    other spans, or from the only text in the input of the root span, whichever comes first.
    """
    questions = [history.question for span, history in histories if span is root]
    if isinstance(root_input, str):
        questions.append(_single_text(root_input))
    questions += [history.question for _, history in histories]
    questions.append(_single_text(root_input))
    for question in questions:
        if question:
            return question
    return None


def _last_answer(histories: Sequence[SpanHistory]) -> str | None:
    """Return the answer in the history of the span that ended last; None if none has an answer."""
    with_answers = [entry for entry in histories if entry.history.answer is not None]
    if not with_answers:
        return None
    last = max(with_answers, key=lambda entry: entry.span.end_or_start)
    return last.history.answer


def _single_text(value: Any) -> str | None:
    """Return text, or the only text in the values of an object and in its lists, or None.

    MLflow and Traceloop record the arguments of the function that runs an agent, such as
    ``{"question": "..."}`` or ``{"args": ["..."], "kwargs": {}}``; and text as JSON.
    """
    if isinstance(value, str):
        text = decoded(value) if value.startswith('"') else value
        return text if isinstance(text, str) else None

    items = value
    if isinstance(value, dict):
        items = list(value.values())
    if not isinstance(items, list):
        return None
    texts = []
    for item in items:
        inner_values = [item]
        if isinstance(item, dict):
            inner_values = list(item.values())
        elif isinstance(item, list):
            inner_values = item
        texts += [text for text in inner_values if isinstance(text, str)]
    return texts[0] if len(texts) == 1 else None


def _add_calls(calls: Sequence[Call], question: str | None, trace: Trace) -> None:
    """Add the calls of earlier turns, the question, and the calls after it to a trace.

    Args:
        calls: all calls in order, and results whose calls are in no history.
        question: text of the question; None if it is not known.
        trace: the trace.
    """
    earlier_calls = [call for call in calls if call.is_of_earlier_turn]
    later_calls = [call for call in calls if not call.is_of_earlier_turn]
    ids_of_calls = {call.id for call in calls if call.args is not None and call.id is not None}

    for call in earlier_calls:
        _add_call_or_result(call, ids_of_calls, trace)
    if question is not None or earlier_calls:
        trace.start_turn(question or "")
        trace.question = question
    for call in later_calls:
        _add_call_or_result(call, ids_of_calls, trace)


def _add_call_or_result(call: Call, ids_of_calls: set[str], trace: Trace) -> None:
    """Add a call to a trace, or a result alone, in the order in which it came.

    A result whose call is not among `ids_of_calls` is noted as a problem.
    """
    if call.args is not None or call.id in ids_of_calls:
        trace.add_part(call)
    else:
        trace.add_problem(f"{call.label}: a result without a call")
        trace.calls.append(call)


def _add_tokens_and_costs(
    spans: Sequence[Span], parents: Mapping[Span, Span], trace: Trace
) -> None:
    """Add up tokens and costs of spans in `trace`.

    Spans above repeat what those below have, so only the lowest spans that have any count.
    """
    tokens_by_span = {}
    costs_by_span = {}
    for span in spans:
        tokens = _tokens_of(span)
        if tokens:
            tokens_by_span[span] = tokens
        cost = _number_at(span, _COST_ATTRIBUTES)
        if cost is not None:
            costs_by_span[span] = cost

    for tokens in _values_of_lowest(tokens_by_span, parents):
        trace.tokens.update({field: int(count) for field, count in tokens.items()})
    if costs_by_span:
        trace.extra_fields["cost_usd"] = fsum(_values_of_lowest(costs_by_span, parents))


def _values_of_lowest(values: Mapping[Span, T], parents: Mapping[Span, Span]) -> list[T]:
    """Return the values of the spans that are above no other span with a value."""
    repeating_spans = {nearest_above(span, parents, values) for span in values}
    lowest = [value for span, value in values.items() if span not in repeating_spans]
    # If each span is above another, which no sound trace has, all count.
    return lowest or list(values.values())


def _tokens_of(span: Span) -> dict[str, float]:
    """Return the tokens of a span of a language model by the fields of the response.

    The result is empty if the span tells none, or is of embeddings, whose tokens are others.
    """
    is_embedding = (
        span.attributes.get("openinference.span.kind") == "EMBEDDING"
        or span.attributes.get("gen_ai.operation.name") == "embeddings"
    )
    if is_embedding:
        return {}

    tokens: dict[str, float] = {}
    for field, attributes in _TOKEN_ATTRIBUTES.items():
        count = _number_at(span, attributes)
        if count is not None:
            tokens[field] = count
    if "input_tokens" in tokens or "output_tokens" in tokens:
        tokens = {"input_tokens": 0, "output_tokens": 0} | tokens
        tokens["total_tokens"] = tokens["input_tokens"] + tokens["output_tokens"]
    return tokens


def _number_at(span: Span, attributes: tuple[str, ...]) -> float | None:
    """Return the first of some attributes of a span that has a value, if it can be added up.

    Else, it is None: if it is no number, negative, infinite or too large.
    """
    value = span.first_attribute(*attributes)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not isfinite(value) or not 0 <= value < _MAX_NUMBER:
        return None
    return value


def _read_times(root: Span, spans: Sequence[Span], trace: Trace) -> None:
    """Store in `trace` how long the root span took.

    If the root or one of its times is missing, it is the time from the first start to the last end
    of all spans.
    """
    timed_spans = spans
    if root.is_root and root.start is not None and root.end is not None:
        timed_spans = [root]
    starts = [span.start for span in timed_spans if span.start is not None]
    ends = [span.end for span in timed_spans if span.end is not None]
    if not starts or not ends:
        return
    nanoseconds = max(ends) - min(starts)
    if nanoseconds < 0:
        trace.add_problem("the root span ends before it starts")
    else:
        trace.elapsed_sec = nanoseconds / _NANOSECONDS
