"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.traces.plain import MAX_ATTRIBUTE_DEPTH, as_json, dict_at, first, json_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Container, Iterator, Mapping, Sequence

MAX_LEVELS = 1000
"""How many levels a span is searched for those above it; this also ends circles."""

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_ERROR = (2, "2", "STATUS_CODE_ERROR")
_BYTES_PER_VALUE, _BYTES_PER_SPAN = 60, 800
_OPERATIONS = {
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
_OPENINFERENCE = {"TOOL": "tool", "RETRIEVER": "retrieval", "RERANKER": "rerank", "LLM": "model"}
_PREFIXES = ("gen_ai.", "openinference.", "llm.", "retrieval.", "pydantic_ai.")


@dataclass(slots=True, eq=False)
class Span:
    """One span; times are in nanoseconds since 1970.

    Attributes:
        trace_id: empty if the span has none.
        parent_id: None for a root.
        kind: "tool", "retrieval", "rerank", "model" or "other"; None if no agent wrote it.
        is_error: whether its status is an error, or it has an `error.type`.
        failed: whether it is an error, or an exception is among its events.
        resource: the attributes of what wrote the span.
        problems: what is wrong with it.
    """

    trace_id: str
    span_id: str | None = None
    parent_id: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    kind: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_error: bool = False
    failed: bool = False
    message: str | None = None
    resource: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_root(self) -> bool:
        """Whether it has no parent."""
        return self.parent_id is None

    def first(self, *keys: str) -> Any:
        """The value of the first of some attributes that is there; None if none is."""
        return first(self.attributes, *keys)

    def text(self, *keys: str) -> str | None:
        """As `first`, for an attribute that is a name or an id; None if it is empty."""
        return text_or_none(first(self.attributes, *keys)) or None

    def same_as(self, other: Span) -> bool:
        """Whether it is the same span, sent again."""
        keys = ("parent_id", "name", "start", "end", "attributes", "events", "failed")
        return all(getattr(self, key) == getattr(other, key) for key in keys)

    def why(self) -> str | None:
        """Why it failed: the message of its exception or status, or else the type of the error."""
        for name, attributes in self.events:
            text = attributes.get("exception.message") if name == "exception" else None
            if isinstance(text, str) and text:
                return text
        return self.message or self.text("error.type")


def spans_of_line(line: Any, skipped: Counter[str]) -> list[Span]:
    """The spans of one line; `skipped` counts what is none."""
    if isinstance(line, str | bytes | bytearray | memoryview):
        if not (line if isinstance(line, str) else bytes(line)).strip():
            return []
        try:
            line = orjson.loads(line)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            skipped["lines that are not JSON"] += 1
            return []
    return list(_spans_in(line, skipped))


def _spans_in(value: Any, skipped: Counter[str]) -> Iterator[Span]:
    if not isinstance(value, dict):
        skipped["lines that are no objects"] += 1
        return
    resources = first(value, "resourceSpans", "resource_spans")
    if resources is None:
        kind = next((key for key in value if key in {"resourceLogs", "resourceMetrics"}), None)
        skipped[f"lines of {kind}" if kind else "lines without resourceSpans"] += 1
        return
    for resource in _objects(resources, "resourceSpans", skipped):
        attributes = _attributes(dict_at(resource, "resource").get("attributes"), [])
        scopes = first(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in _objects(scopes, "scopeSpans", skipped):
            for span in _objects(scope.get("spans"), "spans", skipped):
                yield _span(span, attributes)


def _objects(values: Any, where: str, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    if values is not None and not isinstance(values, list):
        skipped[f"{where}: no list"] += 1
        return
    for value in values or ():
        if isinstance(value, dict):
            yield value
        else:
            skipped[f"{where}: no object"] += 1


def _span(value: dict[str, Any], resource: dict[str, Any]) -> Span:
    problems: list[str] = []
    attributes = _attributes(value.get("attributes"), problems)
    status = dict_at(value, "status")
    events = []
    for event in _list(value.get("events"), "events", problems):
        if isinstance(event, dict):
            name = text_or_none(event.get("name")) or ""
            events.append((name, _attributes(event.get("attributes"), problems)))
        else:
            problems.append(f"an event that is no object: {json_of(event)}")
    if first(value, "droppedAttributesCount", "dropped_attributes_count") not in (None, 0, "0"):
        problems.append("a span without some of its attributes: there were too many")
    is_error = status.get("code") in _ERROR or attributes.get("error.type") not in (None, "")
    return Span(
        trace_id=_id(first(value, "traceId", "trace_id")) or "",
        span_id=_id(first(value, "spanId", "span_id")),
        parent_id=_id(first(value, "parentSpanId", "parent_span_id")),
        name=text_or_none(value.get("name")) or "",
        start=_nanoseconds(first(value, "startTimeUnixNano", "start_time_unix_nano")),
        end=_nanoseconds(first(value, "endTimeUnixNano", "end_time_unix_nano")),
        kind=_kind_of(attributes),
        attributes=attributes,
        events=events,
        is_error=is_error,
        failed=is_error or any(name == "exception" for name, _ in events),
        message=text_or_none(status.get("message")) or None,
        resource=resource,
        problems=problems,
    )


def _kind_of(attributes: dict[str, Any]) -> str | None:
    kind = str(attributes.get("openinference.span.kind")).upper()
    operation = attributes.get("gen_ai.operation.name")
    if found := _OPENINFERENCE.get(kind) or _OPERATIONS.get(str(operation)):
        return found
    if operation is None and "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes:
        return "tool"  # As Pydantic AI writes it.
    return "other" if any(key.startswith(_PREFIXES) for key in attributes) else None


def _list(found: Any, what: str, problems: list[str]) -> list[Any]:
    if found is not None and not isinstance(found, list):
        problems.append(f"{what} that are no list: {json_of(found)}")
    return found if isinstance(found, list) else []


def _attributes(values: Any, problems: list[str], depth: int = MAX_ATTRIBUTE_DEPTH) -> dict[str, Any]:
    """Pairs of keys and values as a dict; a dict is one already."""
    if isinstance(values, dict):
        return {str(key): as_json(value, depth) for key, value in values.items()}
    found: dict[str, Any] = {}
    for pair in _list(values, "attributes", problems):
        if not isinstance(pair, dict) or not isinstance(key := pair.get("key"), str):
            problems.append(f"an attribute without a key: {json_of(pair)}")
        elif key in found:
            problems.append(f"an attribute that is there twice, {key}: {json_of(pair.get('value'))}")
        else:
            found[key] = _value(pair.get("value"), problems, depth)
    return found


def _value(value: Any, problems: list[str], depth: int) -> Any:
    """What an `AnyValue` holds; JSON that is none of its kinds is kept as it is."""
    if not isinstance(value, dict) or len(value) != 1:
        return as_json(value, depth) if value != {} else None
    if depth <= 0:
        return json_of(value)
    [(kind, inner)] = value.items()
    if isinstance(inner, str):
        is_integer = kind in ("intValue", "int_value") and _INTEGER.fullmatch(inner)
        return int(inner) if is_integer and -(2**63) <= int(inner) < 2**63 else inner
    values = inner.get("values", []) if isinstance(inner, dict) else inner
    if kind in ("arrayValue", "array_value") and isinstance(values, list):
        return [_value(each, problems, depth - 1) for each in values]
    if kind in ("kvlistValue", "kvlist_value") and isinstance(values, list):
        return _attributes(values, problems, depth - 1)
    return as_json(inner if str(kind).endswith(("Value", "_value")) else value, depth)


def _id(value: Any) -> str | None:
    """Ids in hexadecimal digits are the same in upper and lower case; an empty one is none."""
    return (text_or_none(value) or "").lower() or None


def _nanoseconds(value: Any) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**64
    return int(value) if is_time else None


def text_or_none(value: Any) -> str | None:
    """Text as it is, numbers and anything else as JSON; None for None."""
    return value if value is None or isinstance(value, str) else json_of(value)


def size_of(span: Span) -> int:
    """About how many bytes of memory a span takes, without those of its resource."""
    inner = [attributes for _, attributes in span.events]
    return _BYTES_PER_SPAN + size_of_value([span.attributes, inner, span.name, span.message, span.problems])


def size_of_value(value: Any) -> int:
    """About how many bytes of memory a JSON value takes."""
    total, stack = 0, [value]
    while stack:
        value = stack.pop()
        total += _BYTES_PER_VALUE
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            stack += value
            stack += value.values()
    return total


def parents_of(spans: Sequence[Span]) -> dict[Span, Span]:
    """The parent of each span whose parent is there."""
    known: dict[tuple[str, str | None], Span] = {}
    for span in spans:
        known.setdefault((span.trace_id, span.span_id), span)
    children = [span for span in spans if span.parent_id is not None]
    found = [(span, known.get((span.trace_id, span.parent_id))) for span in children]
    return {span: parent for span, parent in found if parent is not None and parent is not span}


def above(span: Span, parents: Mapping[Span, Span], chosen: Container[Span]) -> Span | None:
    """The nearest span above one that is chosen; None if there is none."""
    here = parents.get(span)
    for _ in range(MAX_LEVELS):
        if here is None or here in chosen:
            return here
        here = parents.get(here)
    return None
