"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.traces.plain import MAX_ATTRIBUTE_DEPTH, first, json_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Container, Iterable, Mapping, Sequence

MAX_LEVELS = 1000
"""How many levels a span is searched for those above it; this also ends circles."""

MAX_ID = 128
"""How many characters of an id count."""

_BYTES_PER_SPAN = 1000
_KINDS = {
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "LLM": "model",
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
_MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)  # Whatever is of another type.
_PREFIXES = ("gen_ai.", "openinference.", "llm.", "retrieval.", "pydantic_ai.")


@dataclass(slots=True, eq=False)
class Span:
    """One span; times are in nanoseconds since 1970."""

    trace_id: str  # Empty if it has none.
    span_id: str | None = None
    parent_id: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    kind: str | None = None  # "tool", "retrieval", "rerank", "model" or "other"; None if no agent wrote it.
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_error: bool = False  # By its status, or an `error.type`.
    message: str | None = None  # Of its status.
    resource: dict[str, Any] = field(default_factory=dict)  # What wrote it.
    is_cut: bool = False  # Whether some of its attributes were dropped.
    size: int = _BYTES_PER_SPAN  # About how many bytes of memory it takes.

    @property
    def is_root(self) -> bool:
        """Whether it has no parent."""
        return self.parent_id is None

    @property
    def failed(self) -> bool:
        """Whether it is an error, or an exception is among its events."""
        return self.is_error or any(name == "exception" for name, _ in self.events)

    def first(self, *keys: str) -> Any:
        """The value of the first of some attributes that is there; None if none is."""
        return first(self.attributes, *keys)

    def text(self, *keys: str) -> str | None:
        """As `first`, for an attribute that is a name or an id; None if it is empty."""
        return text_or_none(first(self.attributes, *keys)) or None

    def why(self) -> str | None:
        """Why it failed: the message of its exception or status, or else the type of the error."""
        told = (
            attributes.get("exception.message") for name, attributes in self.events if name == "exception"
        )
        text = next((text for text in told if isinstance(text, str) and text), None)
        return text or self.message or self.text("error.type")


def spans_of_line(line: Any, skipped: Counter[str]) -> list[Span]:
    """The spans of one line; `skipped` counts what is none."""
    size = len(line) if isinstance(line, str | bytes | bytearray | memoryview) else 0
    if size or isinstance(line, str | bytes):
        if not (line if isinstance(line, str) else bytes(line)).strip():
            return []
        try:
            line = orjson.loads(line)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            skipped["lines that are not JSON"] += 1
            return []
    if not isinstance(line, dict) or first(line, "resourceSpans", "resource_spans") is None:
        kinds = [key for key in ("resourceLogs", "resourceMetrics") if isinstance(line, dict) and key in line]
        skipped[f"lines of {kinds[0]}" if kinds else "lines without resourceSpans"] += 1
        return []
    read: list[Span | None] = []
    try:
        for resource in first(line, "resourceSpans", "resource_spans"):
            attributes = _attributes((resource.get("resource") or {}).get("attributes") or ())
            for scope in first(resource, "scopeSpans", "scope_spans") or ():
                read += [_span(span, attributes, skipped) for span in scope.get("spans") or ()]
    except _MALFORMED:
        skipped["lines that are not OTLP"] += 1
    found = [span for span in read if span is not None]
    for span in found:
        span.size += 2 * size // len(found)
    return found


def _span(value: dict[str, Any], resource: dict[str, Any], skipped: Counter[str]) -> Span | None:
    try:
        return _read_span(value, resource)
    except _MALFORMED:
        skipped["spans that are not OTLP"] += 1
        return None


def _read_span(value: dict[str, Any], resource: dict[str, Any]) -> Span:
    attributes = _attributes(value.get("attributes") or ())
    status = value.get("status") or {}
    return Span(
        trace_id=_id(first(value, "traceId", "trace_id")) or "",
        span_id=_id(first(value, "spanId", "span_id")),
        parent_id=_id(first(value, "parentSpanId", "parent_span_id")),
        name=text_or_none(value.get("name")) or "",
        start=_nanoseconds(first(value, "startTimeUnixNano", "start_time_unix_nano")),
        end=_nanoseconds(first(value, "endTimeUnixNano", "end_time_unix_nano")),
        kind=_kind_of(attributes),
        attributes=attributes,
        events=[
            (str(event.get("name")), _attributes(event.get("attributes") or ()))
            for event in value.get("events") or ()
        ],
        is_error=status.get("code") in (2, "2", "STATUS_CODE_ERROR") or bool(attributes.get("error.type")),
        message=text_or_none(status.get("message")) or None,
        resource=resource,
        is_cut=int(first(value, "droppedAttributesCount", "dropped_attributes_count") or 0) > 0,
    )


def _attributes(pairs: Iterable[dict[str, Any]], depth: int = MAX_ATTRIBUTE_DEPTH) -> dict[str, Any]:
    return {str(pair["key"]): _plain(pair.get("value"), depth) for pair in pairs}


def _plain(value: Any, depth: int) -> Any:
    """What an `AnyValue` holds."""
    if not value:
        return None
    [(kind, inner)] = value.items()
    kind = kind.replace("_v", "V")
    if depth <= 0:
        return json_of(value)
    if kind == "arrayValue":
        return [_plain(each, depth - 1) for each in inner.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(inner.get("values") or (), depth - 1)
    if kind == "intValue":
        return int(inner) if -(2**63) <= int(inner) < 2**63 else str(inner)
    return json_of(inner) if isinstance(inner, dict | list) else inner


def _id(value: Any) -> str | None:
    """Ids in hexadecimal digits are the same in upper and lower case; an empty one is none."""
    return (value or "").lower()[:MAX_ID] or None


def _nanoseconds(value: Any) -> int | None:
    return number if 0 < (number := int(value or 0)) < 2**64 else None


def _kind_of(attributes: dict[str, Any]) -> str | None:
    kind = str(attributes.get("openinference.span.kind")).upper()
    operation = attributes.get("gen_ai.operation.name")
    if found := _KINDS.get(kind) or _KINDS.get(str(operation)):
        return found
    if operation is None and "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes:
        return "tool"  # As Pydantic AI writes it.
    return "other" if any(key.startswith(_PREFIXES) for key in attributes) else None


def text_or_none(value: Any) -> str | None:
    """Text as it is, numbers and anything else as JSON; None for None."""
    return value if value is None or isinstance(value, str) else json_of(value)


def parents_of(spans: Sequence[Span]) -> dict[Span, Span]:
    """The parent of each span whose parent is there."""
    known = {(span.trace_id, span.span_id): span for span in reversed(spans)}
    found = [(span, known.get((span.trace_id, span.parent_id))) for span in spans if not span.is_root]
    return {span: parent for span, parent in found if parent is not None and parent is not span}


def above(span: Span, parents: Mapping[Span, Span], chosen: Container[Span]) -> Span | None:
    """The nearest span above one that is chosen; None if there is none."""
    here = parents.get(span)
    for _ in range(MAX_LEVELS):
        if here is None or here in chosen:
            return here
        here = parents.get(here)
    return None
