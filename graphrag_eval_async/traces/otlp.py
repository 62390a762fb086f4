"""Spans of OpenTelemetry, with the attributes of its GenAI conventions or of OpenInference."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Unpack

import orjson

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.traces.span_calls import kind_of
from graphrag_eval_async.traces.span_reading import read_spans
from graphrag_eval_async.traces.spans import Nearest, Tree, spans_in, text_or_none
from graphrag_eval_async.traces.trace import Trace, TraceOptions, to_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.traces.spans import Span

_CONVERSATION = ("gen_ai.conversation.id", "session.id")
GroupBy = Literal["trace", "conversation"]


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


def spans_of_line(line: Any, skipped: Counter[str]) -> list[Span]:
    """The spans of one line; `skipped` counts what is none."""
    if isinstance(line, str | bytes | bytearray | memoryview):
        if not line.strip() if isinstance(line, str | bytes | bytearray) else not line:
            return []
        try:
            line = orjson.loads(line)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            skipped["lines that are not JSON"] += 1
            return []
    return list(spans_in(line, skipped))


def response_of_spans(spans: Iterable[Span], **options: Unpack[OtlpOptions]) -> dict[str, Any] | None:
    """The response that the spans of a trace or conversation make; None if no agent wrote any of them."""
    spans = list(spans)
    if all(kind_of(span) is None for span in spans):
        return None
    trace = Trace("otlp", options.get("turn", "last"))
    root = read_spans(spans, trace)
    attribute = options.get("question_id")
    others: dict[str, Any] = {key: value for key, value in options.items() if key not in _OWN}
    if attribute is not None:
        others["question_id"] = _attribute(attribute, root, spans, trace)
    return to_response(trace, **others)


_OWN = ("question_id", "group_by")


def _attribute(name: str, root: Span, spans: list[Span], trace: Trace) -> str | None:
    spans = [root, *sorted(spans, key=lambda span: span.trace_id != root.trace_id)]
    for holder in (*(span.attributes for span in spans), *(span.resource for span in spans)):
        if (value := holder.get(name)) is not None:
            return text_or_none(value)
    trace.problem(f"no span has the attribute {name}")
    return None


def _by_conversation(groups: dict[tuple[str, str], list[Span]]) -> dict[tuple[str, str], list[Span]]:
    """Spans by conversation: their own, that of a span above, or the only one of their trace."""
    found: dict[tuple[str, str], list[Span]] = {}
    for key, spans in groups.items():
        names = {name for span in spans if (name := span.text(*_CONVERSATION)) is not None}
        names = names or {name for span in spans if (name := _of_resource(span)) is not None}
        only = ("conversation", names.pop()) if len(names) == 1 else key
        nearest = Nearest(Tree(spans), lambda span: span.first(*_CONVERSATION) is not None)
        for span in spans:
            above = nearest.from_here(span)
            name = above.text(*_CONVERSATION) if above is not None else None
            found.setdefault(only if name is None else ("conversation", name), []).append(span)
    return found


def _of_resource(span: Span) -> str | None:
    return next((text_or_none(span.resource[key]) for key in _CONVERSATION if key in span.resource), None)
