"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.plain import as_json

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

DEPTH = 100
"""How deep a value of an attribute may nest; deeper parts are kept as text."""

_HEX = re.compile(r"[0-9A-Fa-f]+")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_ERROR = (2, "2", "STATUS_CODE_ERROR")
_BYTES_PER_VALUE = 60
_BYTES_PER_SPAN = 800


@dataclass(slots=True, eq=False)
class Span:
    """One span; times are in nanoseconds since 1970.

    Attributes:
        trace_id: empty if the span has none.
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
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_error: bool = False
    failed: bool = False
    message: str | None = None
    resource: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def first(self, *keys: str) -> Any:
        """The value of the first of some attributes that is there; None if none is."""
        return next((value for key in keys if (value := self.attributes.get(key)) is not None), None)

    def text(self, *keys: str) -> str | None:
        """As `first`, for an attribute that is a name or an id."""
        return text_or_none(self.first(*keys))

    @property
    def is_root(self) -> bool:
        """Whether it has no parent."""
        return self.parent_id is None

    def same_as(self, other: Span) -> bool:
        """Whether it is the same span, sent again."""
        keys = ("trace_id", "span_id", "parent_id", "name", "start", "end", "attributes", "events", "failed")
        return all(getattr(self, key) == getattr(other, key) for key in keys)

    def why(self) -> str | None:
        """Why it failed: the message of its exception or status, or else the type of the error."""
        for name, attributes in self.events:
            text = attributes.get("exception.message") if name == "exception" else None
            if isinstance(text, str) and text:
                return text
        return self.message or self.text("error.type")


class Tree:
    """Finds parents among some spans."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans: dict[tuple[str, str], Span] = {}
        for span in spans:
            if span.span_id is not None:
                self._spans.setdefault((span.trace_id, span.span_id), span)

    def parent(self, span: Span) -> Span | None:
        """The parent of a span; None if it is not there."""
        return None if span.parent_id is None else self._spans.get((span.trace_id, span.parent_id))


class Nearest:
    """Finds the nearest span of some kind, in linear time for all spans together."""

    def __init__(self, tree: Tree, is_meant: Callable[[Span], bool]) -> None:
        self._tree = tree
        self._is_meant = is_meant
        self._found: dict[Span, Span | None] = {}

    def from_here(self, span: Span | None) -> Span | None:
        """The span itself, if it is meant, or the nearest above it; parents in a circle end the search."""
        path: list[Span] = []
        while span is not None and span not in self._found:
            self._found[span] = span if self._is_meant(span) else None
            path.append(span)
            span = None if self._found[span] is not None else self._tree.parent(span)
        found = self._found[span] if span is not None else self._found[path[-1]] if path else None
        for passed in path:
            self._found[passed] = found
        return found

    def above(self, span: Span) -> Span | None:
        """The nearest above a span."""
        return self.from_here(self._tree.parent(span))


def spans_in(value: Any, skipped: Counter[str]) -> Iterator[Span]:
    """The spans in the JSON value of a line; `skipped` counts what is none."""
    if not isinstance(value, dict):
        skipped["lines that are no objects"] += 1
        return
    resources = _get(value, "resourceSpans", "resource_spans")
    if resources is None:
        kind = next((key for key in value if key in {"resourceLogs", "resourceMetrics"}), "neither spans")
        skipped[f"lines of {kind}" if kind != "neither spans" else "lines without resourceSpans"] += 1
        return
    for resource in _objects(resources, "resourceSpans", skipped):
        about = resource.get("resource")
        attributes = _attributes(_get(about, "attributes") if isinstance(about, dict) else None, [])
        scopes = _get(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
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


def _get(value: dict[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _span(value: dict[str, Any], resource: dict[str, Any]) -> Span:
    problems: list[str] = []
    attributes = _attributes(value.get("attributes"), problems)
    status = value.get("status")
    status = status if isinstance(status, dict) else {}
    events = [_event(event, problems) for event in _list(value, "events", problems)]
    span = Span(
        trace_id=_id(_get(value, "traceId", "trace_id")) or "",
        span_id=_id(_get(value, "spanId", "span_id")),
        parent_id=_id(_get(value, "parentSpanId", "parent_span_id")),
        name=text_or_none(value.get("name")) or "",
        start=_nanoseconds(_get(value, "startTimeUnixNano", "start_time_unix_nano")),
        end=_nanoseconds(_get(value, "endTimeUnixNano", "end_time_unix_nano")),
        attributes=attributes,
        events=events,
        message=text_or_none(status.get("message")) or None,
        resource=resource,
        problems=problems,
    )
    error = attributes.get("error.type")
    span.is_error = status.get("code") in _ERROR or (error is not None and error != "")
    span.failed = span.is_error or any(name == "exception" for name, _ in events)
    dropped = _get(value, "droppedAttributesCount", "dropped_attributes_count")
    if dropped not in (None, 0, "0"):
        problems.append("a span without some of its attributes: there were too many")
    return span


def _list(value: dict[str, Any], key: str, problems: list[str]) -> list[Any]:
    found = value.get(key)
    if found is not None and not isinstance(found, list):
        problems.append(f"a span whose {key} are no list: {shown(found)}")
    return found if isinstance(found, list) else []


def _event(value: Any, problems: list[str]) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict):
        problems.append(f"an event that is no object: {shown(value)}")
        return "", {}
    return text_or_none(value.get("name")) or "", _attributes(value.get("attributes"), problems)


def _attributes(values: Any, problems: list[str]) -> dict[str, Any]:
    """Pairs of keys and values as a dict; a dict is one already."""
    if isinstance(values, dict):
        return {str(key): as_json(value, DEPTH) for key, value in values.items()}
    if values is not None and not isinstance(values, list):
        problems.append(f"attributes that are no list: {shown(values)}")
    return _pairs(values, DEPTH, problems) if isinstance(values, list) else {}


def _pairs(values: list[Any], depth: int, problems: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in values:
        if isinstance(pair, dict) and isinstance(key := pair.get("key"), str):
            if key in found:
                problems.append(f"an attribute that is there twice, {key}: {shown(pair.get('value'))}")
            else:
                found[key] = _value(pair.get("value"), depth, problems)
        else:
            problems.append(f"an attribute without a key: {shown(pair)}")
    return found


def _value(value: Any, depth: int, problems: list[str]) -> Any:
    """What an `AnyValue` holds; JSON that is none of its kinds is kept as it is."""
    if not isinstance(value, dict):
        return as_json(value, depth)
    if depth <= 0:
        return shown(value)
    for key, inner in value.items():
        name = str(key).replace("_v", "V")
        if name in {"stringValue", "boolValue", "bytesValue"} and isinstance(inner, str | bool):
            return inner
        if name == "intValue":
            return int(inner) if isinstance(inner, str) and _is_64_bit(inner) else as_json(inner, depth)
        if name == "doubleValue":
            return inner if isinstance(inner, int | float) else as_json(inner, depth)
        values = inner.get("values", []) if isinstance(inner, dict) else inner
        if name == "arrayValue" and isinstance(values, list):
            return [_value(each, depth - 1, problems) for each in values]
        if name == "kvlistValue" and isinstance(values, list):
            return _pairs(values, depth - 1, problems)
    return as_json(value, depth) if value else None


def _is_64_bit(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _id(value: Any) -> str | None:
    """Ids in hexadecimal digits are the same in upper and lower case; an empty one is none."""
    text = text_or_none(value)
    return (text.lower() if _HEX.fullmatch(text) else text) if text else None


def _nanoseconds(value: Any) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and 0 < value < 2**64:
        value = int(value)
    is_time = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_time else None


def text_or_none(value: Any) -> str | None:
    """Text as it is, numbers and anything else as JSON; None for None."""
    return value if value is None or isinstance(value, str) else shown(value)


def shown(value: Any) -> str:
    """A value as JSON text."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):  # Deeper than 254 levels, or with an integer beyond 64 bits.
        return repr(as_json(value, DEPTH))


def structure(value: Any) -> Any:
    """An object or list for its JSON text; anything else, and what nests too deep, as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        with suppress(orjson.JSONDecodeError, UnicodeEncodeError):
            found = orjson.loads(value)
            return value if nests_deeper(found, DEPTH) else found
    return value


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
