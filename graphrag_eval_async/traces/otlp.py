"""Spans of OpenTelemetry, with the attributes of its GenAI conventions or of OpenInference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import fsum, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.calls import CALL_KINDS, calls_of
from graphrag_eval_async.traces.messages import answer_in_output, question_in_input, read_histories
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
"""Attributes with the input, the output and the cost of an agent."""

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
        """Read all lines, then yield a response for each trace.

        Traces of which no response can be made are counted in `skipped`.
        """
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
    """Convert the spans of one trace to a response; None if no agent wrote any of the spans.

    Args:
        spans: the spans, in any order.
        options: see `TraceOptions`; here, `question_id` names the attribute that has the id.
    """
    trace = Trace("otlp", options.get("turn", "last"))
    ordered_spans = _without_repetitions(spans, trace)
    ordered_spans.sort(key=lambda span: span.start_or_infinity)
    if all(span.kind is None for span in ordered_spans):
        return None

    # The calls, the question, the answer and an error.
    parents = parents_of(ordered_spans)
    root = _find_root(ordered_spans, parents)
    _read_spans(ordered_spans, root, parents, trace)
    if not root.is_root:
        trace.add_problem("the root span is missing, and maybe others")
    elif root.is_error and root.kind not in CALL_KINDS:
        trace.error = root.describe_failure() or "the root span failed"

    # Tokens, costs, times and ids.
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

    If the root is missing, it is the first span whose parent is missing. If no parent is missing,
    which happens if parents form a circle, it is the first span.
    """
    for span in spans:
        if span.is_root:
            return span
    for span in spans:
        if span not in parents:
            return span
    return spans[0]


def _find_question_id(attribute: str, root: Span, spans: Sequence[Span]) -> str | None:
    """Return the value of an attribute as text; None if nothing has the attribute.

    The root span is searched first, then the other spans, then the resources in the same order.
    """
    values = [span.attributes.get(attribute) for span in (root, *spans)]
    values += [span.resource.get(attribute) for span in (root, *spans)]
    for value in values:
        if value is not None:
            return text_or_none(value)
    return None


def _without_repetitions(spans: Iterable[Span], trace: Trace) -> list[Span]:
    """Return the spans without repetitions, which are spans that were sent more than once.

    Different spans with the same id are all kept. Both cases are noted as problems of the trace.
    """
    kept_spans = []
    first_by_id: dict[str, Span] = {}
    for span in spans:
        first_span = span
        if span.span_id is not None:
            first_span = first_by_id.setdefault(span.span_id, span)
        if first_span is span:
            kept_spans.append(span)
        elif _is_repetition(first_span, span):
            trace.add_problem(f"span {span.span_id}: there more than once; the first counts")
        else:
            trace.add_problem(f"span {span.span_id}: another has the same id")
            kept_spans.append(span)
    return kept_spans


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
    """Add problems, the question, calls and the answer to a trace from its spans.

    Args:
        spans: the spans, in the order of their starts.
        root: the root span.
        parents: the parent of each span that has one.
        trace: the trace to which everything is added.
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
    root_input: Any = None
    root_output: Any = None
    if root.kind == "other":
        root_input = decode_object_or_list(root.first_attribute(*_INPUT_ATTRIBUTES))
        root_output = decode_object_or_list(root.first_attribute(*_OUTPUT_ATTRIBUTES))
    outer_span = _find_span_with_input(root, spans)

    question = _find_question(root, root_input, histories, outer_span)
    _add_calls(calls_of(spans, histories, parents, trace.add_problem), question, trace)
    for _, history in histories:
        trace.problems |= history.problems
    trace.answer = _last_answer(histories)
    if trace.answer is None and outer_span is not None:
        trace.answer = answer_in_output(outer_span.first_attribute(*_OUTPUT_ATTRIBUTES))
    if trace.answer is None:
        trace.answer = _single_text(root_output)


def _find_span_with_input(root: Span, spans: Sequence[Span]) -> Span | None:
    """Return the outermost span of an agent that has an input; None if no such span has one.

    It is the root span or, if that has no input, the first to start of the others.
    """
    for span in (root, *spans):
        if span.kind == "other" and span.first_attribute(*_INPUT_ATTRIBUTES) is not None:
            return span
    return None


def _note_several_runs(spans: Sequence[Span], parents: Mapping[Span, Span], trace: Trace) -> None:
    """Note a problem if the spans of a trace come from several runs of agents.

    The outermost span of a run has kind "other", since it is neither a call nor a model, and there
    is no span of an agent above it.
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


def _find_question(
    root: Span, root_input: Any, histories: Sequence[SpanHistory], outer_span: Span | None
) -> str | None:
    """Return the question that a trace answers; None if no question is found.

    The question is taken from the first of these that has one:

    1. the histories of the root span
    2. the input of the root span, if the input is text
    3. the input of the outermost span of an agent, in its messages or at a usual key
    4. the histories of all spans
    5. the input of the root span, if the input has only one text in it

    Args:
        root: the root span.
        root_input: the decoded input of the root span; None if it has none.
        histories: the histories of all spans.
        outer_span: the outermost span of an agent that has an input; None if there is none.
    """
    questions = [history.question for span, history in histories if span is root]
    if isinstance(root_input, str):
        questions.append(_single_text(root_input))
    if outer_span is not None:
        questions.append(question_in_input(outer_span.first_attribute(*_INPUT_ATTRIBUTES)))
    questions += [history.question for _, history in histories]
    questions.append(_single_text(root_input))
    for question in questions:
        if question:
            return question
    return None


def _last_answer(histories: Sequence[SpanHistory]) -> str | None:
    """Return the answer in the history of the span that ended last.

    Only histories with an answer count. None if there is no such history.
    """
    answered = [entry for entry in histories if entry.history.answer is not None]
    if not answered:
        return None
    last = max(answered, key=lambda entry: entry.span.end_or_start)
    return last.history.answer


def _single_text(value: Any) -> str | None:
    """Return a value that is text, or the only text in an object or list; otherwise None.

    In an object or list, two levels are searched: its items, and the items of those. MLflow and
    Traceloop record the arguments of the function that runs an agent, such as
    ``{"question": "..."}`` or ``{"args": ["..."], "kwargs": {}}``.
    """
    if isinstance(value, str):
        # MLflow and Traceloop write text as JSON, in quotes.
        text = decoded(value) if value.startswith('"') else value
        return text if isinstance(text, str) else None

    texts: list[str] = []
    for item in _items_of(value):
        if isinstance(item, str):
            texts.append(item)
        else:
            texts += [inner_item for inner_item in _items_of(item) if isinstance(inner_item, str)]
    return texts[0] if len(texts) == 1 else None


def _items_of(value: Any) -> list[Any]:
    """Return the items of a list, or the values of an object; an empty list for anything else."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    return []


def _add_calls(calls: Sequence[Call], question: str | None, trace: Trace) -> None:
    """Add calls and the question to a trace: the question comes after the calls of earlier turns.

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
        # An unknown question also begins a turn, which separates the calls.
        trace.start_turn(question or "")
        trace.question = question
    for call in later_calls:
        _add_call_or_result(call, ids_of_calls, trace)


def _add_call_or_result(call: Call, ids_of_calls: set[str], trace: Trace) -> None:
    """Add a call, or a result alone, to the end of a trace.

    A result is joined to its call. If the id of the result is not among `ids_of_calls`, the result
    stands for a call, and is noted as a problem.
    """
    if call.args is not None or call.id in ids_of_calls:
        trace.add_part(call)
    else:
        trace.add_problem(f"{call.label}: a result without a call")
        trace.calls.append(call)


def _add_tokens_and_costs(
    spans: Sequence[Span], parents: Mapping[Span, Span], trace: Trace
) -> None:
    """Add the sums of the tokens and costs of spans to `trace`.

    A span with spans below it repeats their tokens and costs. So a span is only counted if no span
    below it has any.
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
        for field, count in tokens.items():
            trace.tokens[field] += int(count)
    if costs_by_span:
        trace.extra_fields["cost_usd"] = fsum(_values_of_lowest(costs_by_span, parents))


def _values_of_lowest(values: Mapping[Span, T], parents: Mapping[Span, Span]) -> list[T]:
    """Return the values of the spans that have no other span with a value below them."""
    repeating_spans = {nearest_above(span, parents, values) for span in values}
    lowest = [value for span, value in values.items() if span not in repeating_spans]
    # If parents form a circle, which is an error in the trace, no span is the lowest: all count.
    return lowest or list(values.values())


def _tokens_of(span: Span) -> dict[str, float]:
    """Return the counts of tokens that a span has, by field of the response.

    The result is empty if the span has no counts, or is of a model of embeddings: a response only
    counts the tokens of language models.
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
    """Return the number at the first of some attributes of a span that has a value.

    None if there is no value, or if it cannot be added up: if it is no number, or is negative,
    infinite or too large.
    """
    value = span.first_attribute(*attributes)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not isfinite(value) or not 0 <= value < _MAX_NUMBER:
        return None
    return value


def _read_times(root: Span, spans: Sequence[Span], trace: Trace) -> None:
    """Store in `trace` how many seconds the root span took.

    If the root span or one of its times is missing, the seconds from the first start to the last
    end of all spans are stored. If there is no start or no end, nothing is stored.
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
