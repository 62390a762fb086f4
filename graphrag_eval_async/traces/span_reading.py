"""What the spans of one trace or conversation tell, together."""

from __future__ import annotations

from math import fsum, inf, isfinite
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.histories import Calls, Found
from graphrag_eval_async.traces.span_calls import call_of, kind_of
from graphrag_eval_async.traces.span_messages import histories_of
from graphrag_eval_async.traces.spans import Nearest, Tree, structure
from graphrag_eval_async.traces.trace import Call, end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphrag_eval_async.traces.span_messages import Message
    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Trace

_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_TOTAL_TOKENS = ("gen_ai.usage.total_tokens", "llm.token_count.total")
_COST = ("llm.cost.total", "gen_ai.usage.cost", "operation.cost")
_CALLS = ("tool", "retrieval", "rerank")


def read_spans(spans: Iterable[Span], trace: Trace) -> Span:
    """Read the spans of one trace or conversation; at least one. Returns the root of the last trace."""
    spans = sorted(_once(spans, trace), key=_start)
    for span in spans:
        for problem in span.problems:
            trace.problem(problem)
    tree = Tree(spans)
    here = _last_trace(spans)
    now = [span for span in spans if span.trace_id == here]
    root = _root(now, tree)
    runs = _runs(now, tree)
    if runs > 1:
        trace.problem(f"{runs} runs of agents in one trace, read as one; give each a trace of its own")
    calls = Calls(trace.problem)
    histories = _read_histories(spans, here, calls, trace)
    told = _span_calls(spans, tree, trace)
    for is_here in (True, False):
        calls.add_spans((found for span, found in told if (span.trace_id == here) is is_here), here=is_here)
    question, answer = _question(root, histories), _answer(root, histories)
    _emit(list(calls.finish()), question, trace)
    trace.answer = answer
    if not root.is_root:
        trace.problem("the root span is missing, and maybe others")
    if root.is_root and root.is_error and kind_of(root) not in _CALLS:
        trace.error = root.why() or "the root span failed"
    _count(now if trace.turn == "last" else spans, tree, trace)
    _read_times(root, now, trace)
    ids = {"id": root.trace_id, "trace_id": root.trace_id, "span_id": root.span_id}
    trace.more |= {key: value for key, value in ids.items() if value}
    return root


def _start(span: Span) -> float:
    return inf if span.start is None else span.start


def _end(span: Span) -> float:
    return _start(span) if span.end is None else span.end


def _once(spans: Iterable[Span], trace: Trace) -> list[Span]:
    """Spans without those that were sent again; two that differ are both kept."""
    known: dict[tuple[str, str], Span] = {}
    found = []
    for span in spans:
        key = (span.trace_id, span.span_id or "")
        first = known.setdefault(key, span) if span.span_id is not None else span
        if first is not span and first.same_as(span):
            trace.problem(f"span {span.span_id}: there more than once; the first counts")
            continue
        if first is not span:
            trace.problem(f"span {span.span_id}: another has the same id")
        found.append(span)
    return found


def _last_trace(spans: list[Span]) -> str:
    """The trace whose first span of an agent starts last."""
    first: dict[str, float] = {}
    for span in spans:
        if kind_of(span) is not None:
            first.setdefault(span.trace_id, 0 if span.start is None else span.start)
    return max(first, key=lambda trace_id: first[trace_id], default=spans[0].trace_id)


def _root(spans: list[Span], tree: Tree) -> Span:
    """The first span without a parent, or else the first whose parent is missing."""
    root = next((span for span in spans if span.is_root), None)
    return root or next((span for span in spans if tree.parent(span) is None), spans[0])


def _runs(spans: list[Span], tree: Tree) -> int:
    """How many spans of agents are below no other span of an agent."""
    nearest = Nearest(tree, lambda span: kind_of(span) is not None)
    return sum(kind_of(span) == "other" and nearest.above(span) is None for span in spans)


def _read_histories(
    spans: list[Span], here: str, calls: Calls, trace: Trace
) -> list[tuple[Span, list[Message]]]:
    """Add all histories to the calls, and return those of the last trace."""
    found = []
    for span in sorted(spans, key=lambda span: (span.trace_id == here, kind_of(span) != "model")):
        time = _start(span) if kind_of(span) == "model" else _end(span)
        problems: list[str] = []
        for messages in histories_of(span, problems):
            if messages:
                calls.add_history(messages, time, here=span.trace_id == here)
                found.append((span, messages))
        for problem in problems:
            trace.problem(problem)
    return [(span, messages) for span, messages in found if span.trace_id == here]


def _span_calls(spans: list[Span], tree: Tree, trace: Trace) -> list[tuple[Span, Found]]:
    """The calls of spans of tools and retrievals; once, where two libraries traced the same call."""
    found: dict[Span, Found] = {}
    for number, span in enumerate(spans):
        kind = kind_of(span)
        if kind in _CALLS:
            found[span] = call_of(span, kind, (_start(span), number), trace.problem)
    nearest = Nearest(tree, found.__contains__)
    kept = []
    for span in reversed(found):
        outer = nearest.above(span)
        if outer is None or not _absorb(found[outer], found[span], trace):
            kept.append((span, found[span]))
    return kept[::-1]


def _absorb(outer: Found, inner: Found, trace: Trace) -> bool:
    """Whether two spans tell the same call; if so, the outer learns what the inner knows."""
    is_same = outer.id is not None and outer.id == inner.id
    outputs = (outer.output, inner.output)
    differ = None not in outputs and outputs[0] != outputs[1]
    if outer.name != inner.name or (outer.id and inner.id and not is_same):
        return False
    if not is_same and (differ or (outer.args and inner.args and outer.args != inner.args)):
        return False
    if differ:
        trace.problem(f"{outer.label}: two spans with other results; the outer counts")
    outer.id = outer.id or inner.id
    if not outer.args or (isinstance(inner.args, dict) and not isinstance(outer.args, dict)):
        outer.args = inner.args
    outer.output = inner.output if outer.output is None else outer.output
    outer.ended |= inner.ended
    outer.failed = inner.failed if outer.failed is None else outer.failed
    return True


def _emit(found: list[Found], question: str | None, trace: Trace) -> None:
    earlier = [call for call in found if not call.is_current]
    for call in earlier:
        _emit_call(call, trace)
    if question is not None or earlier:
        trace.ask(question or "")
        trace.question = question
    for call in found:
        if call.is_current:
            _emit_call(call, trace)


def _emit_call(found: Found, trace: Trace) -> None:
    if found.is_orphan:
        call = Call(found.name, found.id)
        trace.calls.append(call)
    else:
        call = trace.call(found.name, found.args, found.id)
    if found.has_span and found.args is None and found.output is None and not found.failed:
        trace.problem("a span of a tool without arguments and result: is the capture of content on?")
    if found.ended:
        end(call, found.output, failed=found.failed)


def _question(root: Span, histories: list[tuple[Span, list[Message]]]) -> str | None:
    """What the user asked: as the root tells, or else as the first model that was called was told."""
    value = structure(root.attributes.get("input.value"))
    of_root = [messages for span, messages in histories if span is root]
    of_models = [messages for span, messages in histories if span is not root]
    found = next(_asked(of_root), None)
    if found is None and isinstance(value, str) and kind_of(root) == "other":
        return value
    return next(_asked(of_models), None) if found is None else found


def _asked(histories: list[list[Message]]) -> Iterator[str]:
    for messages in histories:
        yield from (message.text for message in reversed(messages) if message.asks)


def _answer(root: Span, histories: list[tuple[Span, list[Message]]]) -> str | None:
    """The last message of the agent, of the span that ended last."""
    for _, messages in sorted(histories, key=lambda each: _end(each[0]), reverse=True):
        if messages[-1].answers:
            return messages[-1].text
    value = structure(root.attributes.get("output.value"))
    return value if isinstance(value, str) and kind_of(root) == "other" else None


def _count(spans: list[Span], tree: Tree, trace: Trace) -> None:
    """Add up tokens and costs of the spans below which no other has any: those above repeat them."""
    used = {span: counts for span in spans if (counts := _usage(span))}
    for span in _without_repetitions(used, tree):
        trace.count(**used[span])
    costs = {span: cost for span in spans if (cost := _number(span, _COST)) is not None}
    if costs:
        trace.more["cost_usd"] = fsum(costs[span] for span in _without_repetitions(costs, tree))


def _without_repetitions(spans: dict[Span, Any], tree: Tree) -> list[Span]:
    nearest = Nearest(tree, spans.__contains__)
    above = {nearest.above(span) for span in spans}
    # Of spans that are each above another, which no sound trace has, all count.
    return [span for span in spans if span not in above] or list(spans)


def _usage(span: Span) -> dict[str, float]:
    """The tokens of a language model; those of embeddings are others."""
    is_embedding = span.attributes.get("openinference.span.kind") == "EMBEDDING"
    if is_embedding or span.attributes.get("gen_ai.operation.name") == "embeddings":
        return {}
    given = _number(span, _INPUT_TOKENS), _number(span, _OUTPUT_TOKENS)
    total = _number(span, _TOTAL_TOKENS)
    if given == (None, None):
        return {} if total is None else {"total_tokens": total}
    used, made = given[0] or 0, given[1] or 0
    return {"input_tokens": used, "output_tokens": made, "total_tokens": used + made}


def _number(span: Span, keys: tuple[str, ...]) -> float | None:
    """A number that can be added up; None if there is none."""
    value = span.first(*keys)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if isfinite(value) and 0 <= value < 2**53 else None


def _read_times(root: Span, spans: list[Span], trace: Trace) -> None:
    """The time of the root or, if it is missing, from the first start to the last end."""
    if root.is_root and root.start is not None and root.end is not None:
        started, ended = root.start, root.end
    else:
        starts = [span.start for span in spans if span.start is not None]
        ends = [span.end for span in spans if span.end is not None]
        if not starts or not ends:
            return
        started, ended = min(starts), max(ends)
    if ended >= started:
        trace.elapsed_sec = (ended - started) / 1e9
    else:
        trace.problem("the root span ends before it starts")
