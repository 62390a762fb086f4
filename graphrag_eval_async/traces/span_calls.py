"""The calls of one trace: histories, which repeat one another, tell them; spans fill in what they lack."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.messages import output_of, tool_message
from graphrag_eval_async.traces.plain import json_of, structure, text_of
from graphrag_eval_async.traces.span_messages import indexed
from graphrag_eval_async.traces.spans import above, text_or_none
from graphrag_eval_async.traces.trace import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from graphrag_eval_async.traces.spans import Span
    from graphrag_eval_async.traces.trace import Trace

    Problem = Callable[[str], None]

CALLS = ("tool", "retrieval", "rerank")
"""Kinds of spans that are calls."""


@dataclass(slots=True, eq=False)
class SpanCall(Call):
    """A call of a trace."""

    place: tuple[float, float] = (inf, 0)  # Orders calls: a time, and a number.
    before: bool = False  # Whether a history has it before the user's last message.
    span: Span | None = None  # That of its run.

    @property
    def is_old(self) -> bool:
        """Whether it belongs to an earlier turn of the user: no span of the trace made it."""
        return self.before and not self.is_new

    @property
    def key(self) -> Hashable:
        """The same for the same call in another history."""
        is_result = self.args is None
        return self.id, self.name, is_result, key_of(self.output if is_result else self.args)

    def merge(self, strong: SpanCall, weak: SpanCall) -> None:
        """Be what two tell of the same call, of which the first counts where they differ."""
        self.id, self.name = strong.id or weak.id, strong.name or weak.name
        is_better = bool(weak.args) and isinstance(weak.args, dict) and not isinstance(strong.args, dict)
        self.args = weak.args if weak.args is not None and (is_better or not strong.args) else strong.args
        self.output = weak.output if strong.output is None else strong.output
        self.failed = weak.failed if strong.failed is None else strong.failed
        self.ended = strong.ended or weak.ended


def key_of(args: Any) -> str:
    """The same for equal arguments, whatever the order of their keys."""
    return json_of(dict(sorted(args.items())) if isinstance(args, dict) else args) if args else ""


def _keys(call: SpanCall, *, has_id: bool) -> list[Hashable]:
    """What a call is found by, best first, if that of its span has an id or not."""
    args = key_of(call.args)
    return [(call.id, call.name, args), (call.id,), (has_id, call.name, args), (has_id, call.name)]


class TraceCalls:
    """Collects the calls of one trace."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[Hashable, SpanCall] = {}
        self._alone: list[SpanCall] = []  # Those of spans that no history tells.
        self._histories: list[list[SpanCall]] = []
        self._count = 0

    def add_history(self, history: Trace, time: float) -> None:
        """Add what a history tells.

        A call is the same as one of another history if id, name and arguments are, and if both are the first
        such call of their histories, or both the second, and so on.
        """
        seen: Counter[Hashable] = Counter()
        told = []
        for each in (*history.calls, *history.repeated, *chain.from_iterable(history.early.values())):
            self._count += 1
            call = SpanCall(each.name, text_or_none(each.id) or None, each.args, each.output, each.failed)
            call.ended, call.is_new = each.ended, each.is_new
            call.place, call.before = (time, self._count), each.turn < history.turns
            key = call.key
            seen[key] += 1
            known = self._known.setdefault((key, seen[key]), call)
            if known is not call:
                known.merge(known, call)
                known.before |= call.before
                known.is_new |= call.is_new
            told.append(known)
        self._histories.append(told)

    def add_spans(self, calls: list[SpanCall]) -> None:
        """Add the calls that spans of their own tell, in the order of their starts.

        They are matched with those of messages by id; where either has none, by name and arguments or else by
        name, in their order.
        """
        free: defaultdict[Hashable, deque[SpanCall]] = defaultdict(deque)
        for known in sorted(self._known.values(), key=lambda call: call.is_old):
            keys = _keys(known, has_id=False)
            keys = keys if known.id is not None else [*keys[2:], *_keys(known, has_id=True)[2:]]
            for key in keys if known.args is not None else ():
                free[key].append(known)
        for way in range(4):
            left = []
            for call in calls:
                queue = free.get(_keys(call, has_id=call.id is not None)[way])
                while queue and queue[0].span is not None:
                    queue.popleft()
                if queue:
                    self._fill(queue[0], call)
                else:
                    left.append(call)
            calls = left
        self._alone += calls

    def _fill(self, known: SpanCall, call: SpanCall) -> None:
        """Add what a span tells of a call, which counts."""
        if isinstance(call.args, dict) and call.args and known.args not in ({}, call.args):
            text = json_of(known.args)
            self._problem(f"{known.label}: its span has other arguments, which count, than {text}")
        known.merge(call, known)
        known.span, known.is_new = call.span, True
        known.place = min(known.place, (call.place[0], known.place[1]))

    def finish(self) -> list[SpanCall]:
        """All calls in their order; results without calls are among them."""
        for told in self._histories:
            limit = (inf, inf)
            for call in reversed(told):  # A call is not later than the next of its history.
                limit = call.place = min(call.place, (limit[0], limit[1] - 1e-6))
        calls = [call for call in self._known.values() if call.args is not None] + self._alone
        waiting: defaultdict[Hashable, deque[SpanCall]] = defaultdict(deque)
        for call in calls:
            waiting[call.id] += [] if call.ended else [call]
        told_results = {(call.id, text_of(call.output)) for call in calls}
        for result in [call for call in self._known.values() if call.args is None]:
            if result.id is None or result.id not in waiting:
                self._problem(f"{result.label}: a result without a call")
                calls.append(result)
            elif waiting[result.id]:
                waiting[result.id].popleft().end(result.output, result.failed)
                told_results.add((result.id, text_of(result.output)))
            elif (result.id, text_of(result.output)) not in told_results:
                self._problem(f"{result.id}: more than one result; the first counts")
        return sorted(calls, key=lambda call: call.place)


# Spans of tools, retrievers and rerankers


def calls_of(spans: Sequence[Span], parents: Mapping[Span, Span], problem: Problem) -> list[SpanCall]:
    """The calls of spans; once, where two libraries traced the same call."""
    found = {span: _call_of(span, problem) for span in spans if span.kind in CALLS}
    kept = []
    for span, call in reversed(found.items()):
        outer = above(span, parents, found)
        if outer is None or not _is_same(found[outer], call):
            kept.append(call)
            continue
        if None not in (found[outer].output, call.output) and found[outer].output != call.output:
            problem(f"{call.label}: two spans with other results; the outer counts")
        found[outer].merge(found[outer], call)
    return kept[::-1]


def _is_same(outer: SpanCall, inner: SpanCall) -> bool:
    if outer.name != inner.name or (outer.id and inner.id):
        return outer.name == inner.name and outer.id == inner.id
    is_output = None in (outer.output, inner.output) or outer.output == inner.output
    return is_output and (not outer.args or not inner.args or outer.args == inner.args)


def _call_of(span: Span, problem: Problem) -> SpanCall:
    call = _tool(span) if span.kind == "tool" else _retrieval(span, str(span.kind))
    call.span, call.is_new = span, True
    call.place = (inf if span.start is None else span.start, 0)
    call.failed = True if span.failed else call.failed
    call.ended = call.output is not None or span.end is not None or span.failed
    if call.output is None and span.failed:
        call.output = span.why()
    output = call.output
    if isinstance(output, str) and output.lstrip()[:1] in {"{", "["} and structure(output) is output:
        problem(f"{call.label}: the result is not the JSON that it begins as, perhaps cut")
    return call


def _tool(span: Span) -> SpanCall:
    name = span.text("gen_ai.tool.name", "tool.name", "tool_call.function.name")
    keys = ("gen_ai.tool.call.arguments", "tool_call.function.arguments", "tool_arguments", "input.value")
    key = span.text("gen_ai.tool.call.id", "tool_call.id", "tool.id")
    call = SpanCall(
        name or span.name.removeprefix("execute_tool ") or None, key, structure(span.first(*keys))
    )
    call.output = span.first("gen_ai.tool.call.result", "tool_response", "output.value")
    told = structure(call.output)
    message = tool_message(told)
    if isinstance(told, dict) and told.get("kind") == "tool-return" and "return_value" in told:
        call.output = told["return_value"]  # Of Pydantic AI, beside what the model is shown.
    elif message is not None and "content" in message:  # Of LangChain.
        call.id = call.id or text_or_none(message["tool_call_id"]) or None
        call.output = output_of(message)
        call.failed = {"success": False, "error": True}.get(str(message.get("status")))
    return call


def _retrieval(span: Span, kind: str) -> SpanCall:
    args = {
        "query": span.first("gen_ai.retrieval.query.text", "reranker.query", "input.value"),
        "k": span.first("gen_ai.retrieval.top_k", "gen_ai.request.top_k", "reranker.top_k"),
        "data_source": span.first("gen_ai.data_source.id"),
    }
    call = SpanCall(kind, span.span_id, {key: value for key, value in args.items() if value is not None})
    key = "retrieval.documents" if kind == "retrieval" else "reranker.output_documents"
    documents = structure(span.first("gen_ai.retrieval.documents", key, "output.value"))
    if isinstance(documents, dict) and isinstance(documents.get("documents"), list):
        documents = documents["documents"]
    documents = [_document(each) for each in documents] if isinstance(documents, list) else documents
    if flat := [_document(each) for each in indexed(span.attributes, f"{key}.")]:
        # Of LangChain's documents, these lack the ids.
        told = documents if isinstance(documents, list) and len(documents) == len(flat) else [{}] * len(flat)
        documents = [
            own | each if isinstance(own, dict) else each for own, each in zip(told, flat, strict=True)
        ]
    call.output = json_of(documents) if isinstance(documents, list) else documents
    return call


def _document(value: Any) -> Any:
    """A document as `steps.retrieval` reads it: with `id` and `text`."""
    if not isinstance(value, dict):
        return value
    found = dict(value["document"] if isinstance(value.get("document"), dict) else value)
    found = {key.removeprefix("document."): each for key, each in found.items()}
    for key in ("content", "page_content"):
        if "text" not in found and isinstance(found.get(key), str):
            found["text"] = found.pop(key)
    if "metadata" in found:
        found["metadata"] = structure(found["metadata"])
    return found
