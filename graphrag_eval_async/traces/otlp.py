"""Spans of OpenTelemetry, with the attributes of its GenAI conventions or of OpenInference."""

from __future__ import annotations

from collections import Counter
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, Unpack

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.traces.plain import first, structure
from graphrag_eval_async.traces.span_calls import CALLS, SpanCall, TraceCalls, calls_of
from graphrag_eval_async.traces.span_messages import histories_of
from graphrag_eval_async.traces.spans import above, parents_of, spans_of_line, text_or_none
from graphrag_eval_async.traces.trace import Trace, TraceOptions, to_response

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from graphrag_eval_async.traces.messages import Message
    from graphrag_eval_async.traces.spans import Span

GroupBy = Literal["trace", "conversation"]

_CONVERSATION = ("gen_ai.conversation.id", "session.id")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_TOTAL_TOKENS = ("gen_ai.usage.total_tokens", "llm.token_count.total")
_COST = ("llm.cost.total", "gen_ai.usage.cost", "operation.cost")

Histories = list[tuple["Span", list["Message"]]]


class OtlpOptions(TraceOptions, total=False):
    """The options for spans of OpenTelemetry, in addition to those of all adapters.

    Attributes:
        question_id: name of the attribute that has the question's id. The root span is searched first, then
            the other spans, then their resources.
        group_by: "trace" makes one response per trace; "conversation" one per `gen_ai.conversation.id` or
            `session.id`.
    """

    group_by: GroupBy


def responses_from_otlp(
    lines: Iterable[str | bytes | Mapping[str, Any]], **options: Unpack[OtlpOptions]
) -> OtlpResponses:
    """Convert lines of OTLP in JSON to responses, one per trace or conversation.

    Args:
        lines: text, bytes or dicts, each an object with `resourceSpans`. Other lines are skipped. Spans may
            come in any order; all lines are read before the first response is made.
        options: see `OtlpOptions` and `TraceOptions`. With `turn="last"`, a call counts if it was made in the
            last trace, or after the user's last message.

    Returns:
        an iterator over responses, in the order in which the traces begin; its `skipped` counts what was
        skipped.

    Raises:
        UsageError: an option has an invalid value.
    """
    return OtlpResponses(lines, options)


class OtlpResponses:
    """Iterates over responses.

    Attributes:
        skipped: what was skipped so far, and how often.
    """

    def __init__(self, lines: Iterable[Any], options: OtlpOptions) -> None:
        self.skipped: Counter[str] = Counter()
        self._group_by = options.get("group_by", "trace")
        if self._group_by not in ("trace", "conversation"):
            raise UsageError(f'group_by: expected "trace" or "conversation", got {self._group_by!r}')
        self._responses = self._read(lines, options)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        return next(self._responses)

    def _read(self, lines: Iterable[Any], options: OtlpOptions) -> Iterator[dict[str, Any]]:
        groups: dict[tuple[str, str], list[Span]] = {}
        for line in lines:
            for span in spans_of_line(line, self.skipped):
                groups.setdefault(("trace", span.trace_id), []).append(span)
        if self._group_by == "conversation":
            groups = _by_conversation(groups)
        while groups:
            key = next(iter(groups))
            response = response_of_spans(groups.pop(key), **options)
            if response is None:
                self.skipped["traces without a span of an agent"] += 1
                continue
            yield response | {"id": key[1]} if key[0] == "conversation" else response


def _by_conversation(groups: dict[tuple[str, str], list[Span]]) -> dict[tuple[str, str], list[Span]]:
    """Spans by conversation: their own, that of a span above, or the only one of their trace."""
    found: dict[tuple[str, str], list[Span]] = {}
    for key, spans in groups.items():
        names = {span: name for span in spans if (name := span.text(*_CONVERSATION)) is not None}
        of_resources = (text_or_none(first(span.resource, *_CONVERSATION)) for span in spans)
        only = set(names.values()) or {name for name in of_resources if name is not None}
        parents = parents_of(spans)
        for span in spans:
            holder = span if span in names else above(span, parents, names)
            name = names[holder] if holder is not None else next(iter(only)) if len(only) == 1 else None
            found.setdefault(key if name is None else ("conversation", name), []).append(span)
    return found


def response_of_spans(spans: Iterable[Span], **options: Unpack[OtlpOptions]) -> dict[str, Any] | None:
    """The response that the spans of a trace or conversation make; None if no agent wrote any of them."""
    spans = list(spans)
    if all(span.kind is None for span in spans):
        return None
    trace = Trace("otlp", options.get("turn", "last"))
    root = _read(spans, trace)
    attribute = options.get("question_id")
    others: dict[str, Any] = {key: value for key, value in options.items() if key != "group_by"}
    if attribute is not None:
        others["question_id"] = _attribute(attribute, root, spans, trace)
    return to_response(trace, **others)


def _attribute(name: str, root: Span, spans: list[Span], trace: Trace) -> str | None:
    spans = [root, *sorted(spans, key=lambda span: span.trace_id != root.trace_id)]
    for holder in (*(span.attributes for span in spans), *(span.resource for span in spans)):
        if (value := holder.get(name)) is not None:
            return text_or_none(value)
    trace.problem(f"no span has the attribute {name}")
    return None


def _read(spans: list[Span], trace: Trace) -> Span:
    """Read the spans of one trace or conversation; at least one. Returns the root of the last trace."""
    spans = sorted(_once(spans, trace), key=_start)
    for problem in (problem for span in spans for problem in span.problems):
        trace.problem(problem)
    parents = parents_of(spans)
    here = _last_trace(spans)
    now = [span for span in spans if span.trace_id == here]
    root = next((span for span in now if span.is_root), None)
    root = root or next((span for span in now if span not in parents), now[0])
    agents = {span for span in now if span.kind is not None}
    runs = sum(span.kind == "other" and above(span, parents, agents) is None for span in agents)
    if runs > 1:
        trace.problem(f"{runs} runs of agents in one trace, read as one; give each a trace of its own")
    histories = _histories(spans, trace)
    calls = _calls(spans, here, histories, parents, trace)
    told = [(span, messages) for span, messages in histories if span.trace_id == here]
    _emit(calls, _question(root, told), trace)
    trace.answer = _answer(root, told)
    if not root.is_root:
        trace.problem("the root span is missing, and maybe others")
    elif root.is_error and root.kind not in CALLS:
        trace.error = root.why() or "the root span failed"
    _count(now if trace.turn == "last" else spans, parents, trace)
    _read_times(root, now, trace)
    ids = {"id": root.trace_id, "trace_id": root.trace_id, "span_id": root.span_id}
    trace.more |= {key: value for key, value in ids.items() if value}
    return root


def _start(span: Span) -> float:
    return inf if span.start is None else span.start


def _end(span: Span) -> float:
    return _start(span) if span.end is None else span.end


def _once(spans: Iterable[Span], trace: Trace) -> Iterator[Span]:
    """Spans without those that were sent again; two that differ are both kept."""
    known: dict[tuple[str, str], Span] = {}
    for span in spans:
        same = known.setdefault((span.trace_id, span.span_id), span) if span.span_id is not None else span
        if same is not span and same.same_as(span):
            trace.problem(f"span {span.span_id}: there more than once; the first counts")
            continue
        if same is not span:
            trace.problem(f"span {span.span_id}: another has the same id")
        yield span


def _last_trace(spans: list[Span]) -> str:
    """The trace whose first span of an agent starts last."""
    starts: dict[str, float] = {}
    for span in spans:
        if span.kind is not None:
            starts.setdefault(span.trace_id, span.start or 0)
    return max(starts, key=lambda trace_id: starts[trace_id], default=spans[0].trace_id)


def _histories(spans: list[Span], trace: Trace) -> Histories:
    """The histories that spans carry; those of models first, which are in the order of their making."""
    return [
        (span, messages)
        for span in sorted(spans, key=lambda span: span.kind != "model")
        for messages in histories_of(span, trace.problem)
        if messages
    ]


def _calls(
    spans: list[Span], here: str, histories: Histories, parents: Mapping[Span, Span], trace: Trace
) -> tuple[list[SpanCall], list[SpanCall]]:
    """The calls of earlier turns, and those of the last turn, which the trace that is `here` has."""
    of_traces: dict[str, TraceCalls] = {}
    for span in sorted(spans, key=lambda span: span.trace_id == here):
        of_traces.setdefault(span.trace_id, TraceCalls(trace.problem))
    for span, messages in histories:
        time = _start(span) if span.kind == "model" else _end(span)
        of_traces[span.trace_id].add_history(messages, time)
    earlier: list[SpanCall] = []
    current: list[SpanCall] = []
    known: dict[Hashable, SpanCall] = {}
    counts: Counter[Hashable] = Counter()
    for trace_id, calls in of_traces.items():
        of_trace = [span for span in spans if span.trace_id == trace_id]
        calls.add_spans(calls_of(of_trace, parents, trace.problem))
        seen: Counter[Hashable] = Counter()
        for call in calls.finish():
            seen[call.key] += 1
            mine = known.get((call.key, seen[call.key])) if call.is_old else None
            if mine is not None:  # A call of an earlier trace.
                mine.merge(mine, call)
                continue
            counts[call.key] += 1
            known[call.key, counts[call.key]] = call
            (current if trace_id == here and not call.is_old else earlier).append(call)
    return earlier, current


def _emit(calls: tuple[list[SpanCall], list[SpanCall]], question: str | None, trace: Trace) -> None:
    earlier, current = calls
    for call in earlier:
        _emit_call(call, trace)
    if question is not None or earlier:
        trace.ask(question or "")
        trace.question = question
    for call in current:
        _emit_call(call, trace)


def _emit_call(told: SpanCall, trace: Trace) -> None:
    if told.span is None and told.args is None:  # A result alone.
        trace.calls.append(told)
        return
    call = trace.call(told.name, told.args, told.id)
    if told.span is not None and told.args is None and told.output is None and not told.failed:
        trace.problem("a span of a tool without arguments and result: is the capture of content on?")
    if told.ended:
        call.end(told.output, failed=told.failed)


def _question(root: Span, histories: Histories) -> str | None:
    """What the user asked: as the root tells, or else as the first model that was called was told."""

    def asked(is_meant: Callable[[Span], bool]) -> str | None:
        told = (each for span, messages in histories if is_meant(span) for each in reversed(messages))
        return next((each.text for each in told if each.asks and each.text), None)

    found = asked(lambda span: span is root)
    value = structure(root.attributes.get("input.value"))
    if found is None and isinstance(value, str) and root.kind == "other":
        return value
    return asked(lambda span: span is not root) if found is None else found


def _answer(root: Span, histories: Histories) -> str | None:
    """The last message of the agent, of the span that ended last."""
    for _, messages in sorted(histories, key=lambda each: _end(each[0]), reverse=True):
        if messages[-1].answers:
            return messages[-1].text
    value = structure(root.attributes.get("output.value"))
    return value if isinstance(value, str) and root.kind == "other" else None


def _count(spans: list[Span], parents: Mapping[Span, Span], trace: Trace) -> None:
    """Add up tokens and costs of the spans below which no other has any: those above repeat them."""

    def lowest(used: dict[Span, Any]) -> list[Span]:
        repeating = {above(span, parents, used) for span in used}
        # Of spans that are each above another, which no sound trace has, all count.
        return [span for span in used if span not in repeating] or list(used)

    used = {span: counts for span in spans if (counts := _usage(span))}
    for span in lowest(used):
        trace.count(**used[span])
    costs = {span: cost for span in spans if (cost := _number(span, _COST)) is not None}
    if costs:
        trace.more["cost_usd"] = fsum(costs[span] for span in lowest(costs))


def _usage(span: Span) -> dict[str, float]:
    """The tokens of a language model; those of embeddings are others."""
    is_embedding = span.attributes.get("openinference.span.kind") == "EMBEDDING"
    if is_embedding or span.attributes.get("gen_ai.operation.name") == "embeddings":
        return {}
    given, made = _number(span, _INPUT_TOKENS), _number(span, _OUTPUT_TOKENS)
    total = _number(span, _TOTAL_TOKENS)
    if given is None and made is None:
        return {} if total is None else {"total_tokens": total}
    given, made = given or 0, made or 0
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}


def _number(span: Span, keys: tuple[str, ...]) -> float | None:
    """A number that can be added up; None if there is none."""
    value = span.first(*keys)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if isfinite(value) and 0 <= value < 2**53 else None


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
