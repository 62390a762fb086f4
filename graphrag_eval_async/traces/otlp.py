"""Spans of OpenTelemetry, with the attributes of its GenAI conventions or of OpenInference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from math import fsum, isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.calls import CALLS, calls_of
from graphrag_eval_async.traces.messages import histories_of
from graphrag_eval_async.traces.plain import structure
from graphrag_eval_async.traces.spans import above, parents_of, spans_of_line, text_or_none
from graphrag_eval_async.traces.trace import Trace, TraceOptions, to_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Call

_USAGE = "gen_ai.usage."
_TOKENS = {
    "input_tokens": (f"{_USAGE}input_tokens", f"{_USAGE}prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": (
        f"{_USAGE}output_tokens",
        f"{_USAGE}completion_tokens",
        "llm.token_count.completion",
    ),
    "total_tokens": (f"{_USAGE}total_tokens", "llm.token_count.total"),
}
_INPUTS = ("input.value", "mlflow.spanInputs", "traceloop.entity.input")
_OUTPUTS = ("output.value", "mlflow.spanOutputs", "traceloop.entity.output")
_COST = ("llm.cost.total", f"{_USAGE}cost", "operation.cost")


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
        traces: dict[str, list[Span]] = {}
        for line in lines:
            for span in spans_of_line(line, self.skipped):
                traces.setdefault(span.trace_id, []).append(span)
        for spans in traces.values():
            if (response := response_of_spans(spans, **options)) is not None:
                yield response
            else:
                self.skipped["traces without a span of an agent"] += 1


def response_of_spans(
    spans: Iterable[Span], **options: Unpack[TraceOptions]
) -> dict[str, Any] | None:
    """The response that the spans of a trace make; None if no agent wrote any of them."""
    trace = Trace("otlp", options.get("turn", "last"))
    spans = sorted(_once(spans, trace), key=lambda span: span.begun)
    if all(span.kind is None for span in spans):
        return None
    parents = parents_of(spans)
    root = next((span for span in spans if span.is_root), None)
    root = root or next((span for span in spans if span not in parents), spans[0])
    _read(spans, root, parents, trace)
    if not root.is_root:
        trace.problem("the root span is missing, and maybe others")
    elif root.is_error and root.kind not in CALLS:
        trace.error = root.why() or "the root span failed"
    _count(spans, parents, trace)
    _read_times(root, spans, trace)
    ids = {"id": root.trace_id, "trace_id": root.trace_id, "span_id": root.span_id}
    trace.more |= {key: value for key, value in ids.items() if value}
    if (attribute := options.get("question_id")) is not None:
        told = [span.attributes.get(attribute) for span in (root, *spans)]
        told += [span.resource.get(attribute) for span in (root, *spans)]
        options["question_id"] = next(
            (text_or_none(value) for value in told if value is not None), None
        )
        if options["question_id"] is None:
            trace.problem(f"no span has the attribute {attribute}")
    return to_response(trace, **options)


def _once(spans: Iterable[Span], trace: Trace) -> Iterator[Span]:
    """Spans without those that were sent again; two that differ are both kept."""
    known: dict[str, Span] = {}
    keys = attrgetter("parent_id", "name", "start", "end", "attributes", "events", "is_error")
    for span in spans:
        same = known.setdefault(span.span_id, span) if span.span_id is not None else span
        if same is not span and keys(same) == keys(span):
            trace.problem(f"span {span.span_id}: there more than once; the first counts")
            continue
        if same is not span:
            trace.problem(f"span {span.span_id}: another has the same id")
        yield span


def _read(spans: list[Span], root: Span, parents: Mapping[Span, Span], trace: Trace) -> None:
    """Read the calls, the question and the answer."""
    for problem in chain.from_iterable(span.problems for span in spans):
        trace.problem(problem)
    agents = {span for span in spans if span.kind is not None}
    runs = sum(span.kind == "other" and above(span, parents, agents) is None for span in agents)
    if runs > 1:
        trace.problem(
            f"{runs} runs of agents in one trace, read as one; give each a trace of its own"
        )
    # Those of models first, which are in the order of their making.
    models_first = sorted(spans, key=lambda span: span.kind != "model")
    histories = [(span, history) for span in models_first for history in histories_of(span)]
    root_input = root_output = None
    if root.kind == "other":
        root_input = structure(root.first(*_INPUTS))
        root_output = structure(root.first(*_OUTPUTS))

    questions = [history.question for span, history in histories if span is root]
    if isinstance(root_input, str):
        questions.append(_single_text(root_input))
    questions += [history.question for _, history in histories]
    questions.append(_single_text(root_input))
    question = next(filter(None, questions), None)

    _read_calls(calls_of(spans, histories, parents, trace.problem), question, trace)
    for _, history in histories:
        trace.problems |= history.problems
    # The last that ended tells.
    ends = sorted(histories, key=lambda each: each[0].done, reverse=True)
    answers = (history.answer for _, history in ends if history.answer is not None)
    trace.answer = next(answers, _single_text(root_output))


def _single_text(value: Any) -> str | None:
    """Return text, or the only text in the values of an object and in its lists, or None.

    MLflow and Traceloop record the arguments of the function that runs an agent, such as
    ``{"question": "..."}`` or ``{"args": ["..."], "kwargs": {}}``; and text as JSON.
    """
    if isinstance(value, str):
        text = decoded(value) if value.startswith('"') else value
        return text if isinstance(text, str) else None
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return None
    texts = []
    for inner in value:
        values = [inner]
        if isinstance(inner, dict):
            values = list(inner.values())
        elif isinstance(inner, list):
            values = inner
        texts += [text for text in values if isinstance(text, str)]
    return texts[0] if len(texts) == 1 else None


def _read_calls(calls: list[Call], question: str | None, trace: Trace) -> None:
    """Add the calls before the question, the question, and the calls after it."""
    known = {call.id for call in calls if call.args is not None} - {None}

    def add(call: Call) -> None:
        if call.args is not None or call.id in known:
            trace.part(call)
        else:  # At its place.
            trace.problem(f"{call.label}: a result without a call")
            trace.calls.append(call)

    earlier = [call for call in calls if call.is_old]
    for call in earlier:
        add(call)
    if question is not None or earlier:
        trace.ask(question or "")
        trace.question = question
    for call in calls:
        if not call.is_old:
            add(call)


def _count(spans: list[Span], parents: Mapping[Span, Span], trace: Trace) -> None:
    """Add up tokens and costs of the spans below which no other has any: those above repeat
    them.
    """

    def lowest(used: dict[Span, Any]) -> list[Any]:
        repeating = {above(span, parents, used) for span in used}
        # Of spans that are each above another, which no sound trace has, all count.
        return [used[span] for span in used if span not in repeating] or [*used.values()]

    for counts in lowest({span: counts for span in spans if (counts := _usage(span))}):
        trace.tokens.update({key: int(count) for key, count in counts.items()})
    costs = {span: cost for span in spans if (cost := _number(span, _COST)) is not None}
    if costs:
        trace.more["cost_usd"] = fsum(lowest(costs))


def _usage(span: Span) -> dict[str, float]:
    """The tokens of a language model; those of embeddings are others."""
    is_embedding = span.attributes.get("openinference.span.kind") == "EMBEDDING"
    if is_embedding or span.attributes.get("gen_ai.operation.name") == "embeddings":
        return {}
    found = {
        key: value for key, names in _TOKENS.items() if (value := _number(span, names)) is not None
    }
    if found.keys() - {"total_tokens"}:
        found = {"input_tokens": 0, "output_tokens": 0} | found
        found["total_tokens"] = found["input_tokens"] + found["output_tokens"]
    return found


def _number(span: Span, keys: tuple[str, ...]) -> float | None:
    """A number that can be added up; None if there is none."""
    value = span.first(*keys)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and isfinite(value) and 0 <= value < 2**53 else None


def _read_times(root: Span, spans: list[Span], trace: Trace) -> None:
    """The time of the root or, if it is missing, from the first start to the last end."""
    if root.is_root and root.start is not None and root.end is not None:
        spans = [root]
    starts = [span.start for span in spans if span.start is not None]
    ends = [span.end for span in spans if span.end is not None]
    if starts and ends and max(ends) >= min(starts):
        trace.elapsed_sec = (max(ends) - min(starts)) / 1e9
    elif starts and ends:
        trace.problem("the root span ends before it starts")
