"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from graphrag_eval_async.traces.plain import MAX_ATTRIBUTE_DEPTH, as_json, first, json_of
from graphrag_eval_async.traces.trace import MAX_PROBLEMS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Container, Mapping, Sequence


T = TypeVar("T", dict[str, Any], list[Any])

MAX_LEVELS = 1000  # How many levels a span is searched for those above it; this also ends circles.
MAX_ID = 128  # How many characters of an id count.

LISTED_ATTRIBUTES = 8
"""How many attributes of spans without an agent are named."""

NO_SPANS = "lines without resourceSpans"
"""What lines are counted as that are JSON, but not OTLP."""

_BYTES_PER_SPAN = 1000
_ERRORS = (2, "2", "STATUS_CODE_ERROR")
_CODES = (None, 0, 1, "0", "1", "STATUS_CODE_UNSET", "STATUS_CODE_OK", *_ERRORS)
_TYPES: dict[type, str] = {dict: "object", list: "list"}
_KINDS: dict[str, dict[str, str]] = {
    # OpenInference
    "openinference.span.kind": {
        "TOOL": "tool",
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        "LLM": "model",
    },
    # The GenAI conventions of OpenTelemetry
    "gen_ai.operation.name": {
        "execute_tool": "tool",
        "retrieval": "retrieval",
        "chat": "model",
        "text_completion": "model",
        "generate_content": "model",
    },
    # Vercel's AI SDK
    "ai.operationId": {
        "ai.toolCall": "tool",
        "ai.generateText.doGenerate": "model",
        "ai.streamText.doStream": "model",
        "ai.generateObject.doGenerate": "model",
        "ai.streamObject.doStream": "model",
    },
    # Traceloop's OpenLLMetry
    "traceloop.span.kind": {"tool": "tool"},
    "mlflow.spanType": {
        "TOOL": "tool",
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        "CHAT_MODEL": "model",
        "LLM": "model",
    },
}
"""Kinds of spans by the attributes that tell them, and by their values."""

KIND_ATTRIBUTES = (*_KINDS, "gen_ai.tool.name")
"""The attributes by which a span of an agent is recognised."""

_PREFIXES = (
    "gen_ai.",
    "openinference.",
    "llm.",
    "retrieval.",
    "pydantic_ai.",
    "gcp.vertex.agent.",
    "traceloop.",
    "mlflow.",
)
"""How attributes begin that only agents have."""

_MERGED_TOOLS = "(merged tools)"
"""Name under which ADK repeats the results of tools that ran side by side, in one more span."""


@dataclass(slots=True, eq=False)
class Span:
    """One span; times are in nanoseconds since 1970."""

    trace_id: str  # Empty if it has none.
    span_id: str | None = None
    parent_id: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    # "tool", "retrieval", "rerank", "model" or "other"; None if no agent wrote it.
    kind: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_error: bool = False  # By its status, or an `error.type`.
    message: str | None = None  # Of its status.
    resource: dict[str, Any] = field(default_factory=dict)  # What wrote it.
    problems: list[str] = field(default_factory=list)
    size: int = _BYTES_PER_SPAN  # About how many bytes of memory it takes.

    @property
    def is_root(self) -> bool:
        """Whether it has no parent."""
        return self.parent_id is None

    @property
    def begun(self) -> float:
        """When it started; infinity if that is not known."""
        return inf if self.start is None else self.start

    @property
    def done(self) -> float:
        """When it ended or, if that is not known, started."""
        return self.begun if self.end is None else self.end

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
            about.get("exception.message") for name, about in self.events if name == "exception"
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
        kinds = [
            key
            for key in ("resourceLogs", "resourceMetrics")
            if isinstance(line, dict) and key in line
        ]
        skipped[f"lines of {kinds[0]}" if kinds else NO_SPANS] += 1
        return []
    found: list[Span] = []
    problems: list[str] = []
    for resource in _objects(line, problems, "resourceSpans", "resource_spans"):
        told: list[str] = []
        attributes = _attributes(_part(resource, dict, told, "resource"), told)
        for scope in _objects(resource, problems, "scopeSpans", "scope_spans"):
            spans = _objects(scope, problems, "spans")
            found += [_span(span, attributes, told[:MAX_PROBLEMS]) for span in spans]
    if problems:
        skipped["parts of lines that are not OTLP"] += len(problems)
    for span in found:
        span.size += 2 * size // len(found)
    return found


def _part(holder: dict[str, Any], kind: type[T], problems: list[str], *keys: str) -> T:
    """The value of the first key that has one; an empty one, with a problem, if it is of another
    type.
    """
    found = first(holder, *keys)
    if isinstance(found, kind):
        return found
    if found is not None:
        problems.append(f"the {keys[0]} of a span is no {_TYPES[kind]}: {json_of(found)}")
    return kind()


def _objects(holder: dict[str, Any], problems: list[str], *keys: str) -> list[dict[str, Any]]:
    listed = _part(holder, list, problems, *keys)
    if all(type(each) is dict for each in listed):
        return listed
    odd = [each for each in listed if not isinstance(each, dict)]
    problems += [f"one of the {keys[0]} of a span is no object: {json_of(each)}" for each in odd]
    return [each for each in listed if isinstance(each, dict)]


def _span(value: dict[str, Any], resource: dict[str, Any], problems: list[str]) -> Span:
    attributes, status = _attributes(value, problems), _part(value, dict, problems, "status")
    if (code := status.get("code")) not in _CODES:
        problems.append(f"a status that is not known: {json_of(code)}")
    events = _objects(value, problems, "events")
    if _number(value, problems, "droppedAttributesCount", "dropped_attributes_count"):
        problems.append("a span without some of its attributes: there were too many")
    return Span(
        trace_id=_id(value, "traceId", "trace_id") or "",
        span_id=_id(value, "spanId", "span_id"),
        parent_id=_id(value, "parentSpanId", "parent_span_id"),
        name=text_or_none(value.get("name")) or "",
        start=_number(value, problems, "startTimeUnixNano", "start_time_unix_nano"),
        end=_number(value, problems, "endTimeUnixNano", "end_time_unix_nano"),
        kind=_kind_of(attributes),
        attributes=attributes,
        events=[(str(event.get("name")), _attributes(event, problems)) for event in events],
        is_error=code in _ERRORS or bool(attributes.get("error.type")),
        message=text_or_none(status.get("message")) or None,
        resource=resource,
        problems=problems,
    )


def _attributes(
    holder: dict[str, Any],
    problems: list[str],
    key: str = "attributes",
    depth: int = MAX_ATTRIBUTE_DEPTH,
) -> dict[str, Any]:
    if isinstance(plain := holder.get(key), dict):  # As some writers have them.
        return {name: _plain(value, problems, depth) for name, value in plain.items()}
    found: dict[str, Any] = {}
    for pair in _part(holder, list, problems, key):
        name = pair.get("key") if isinstance(pair, dict) else None
        if not isinstance(name, str):
            problems.append(f"an attribute without a key: {json_of(pair)}")
        elif name in found:
            problems.append(
                f"an attribute that is there twice, {name}: {json_of(pair.get('value'))}"
            )
        else:
            found[name] = _plain(pair.get("value"), problems, depth)
    return found


def _plain(value: Any, problems: list[str], depth: int) -> Any:
    """What an `AnyValue` holds; JSON that is none is kept as it is."""
    if not isinstance(value, dict) or not value:
        return as_json(value, depth) if value != {} else None
    kind, inner = next(iter(value.items()))
    if isinstance(inner, str) and kind == "stringValue":  # As most are.
        return inner
    kind = kind.replace("_v", "V")
    if depth <= 0:
        return json_of(value)
    if kind == "kvlistValue" and isinstance(inner, dict):
        return _attributes(inner, problems, "values", depth - 1)
    if kind == "arrayValue" and isinstance(inner, dict):
        return [
            _plain(each, problems, depth - 1) for each in _part(inner, list, problems, "values")
        ]
    if kind == "intValue" and isinstance(inner, str):
        with suppress(ValueError):
            return int(inner) if -(2**63) <= int(inner) < 2**63 else inner
    return as_json(inner if kind.endswith("Value") else value, depth)


def _id(holder: dict[str, Any], *keys: str) -> str | None:
    """Ids in hexadecimal digits are the same in upper and lower case; an empty one is none."""
    return (text_or_none(first(holder, *keys)) or "").lower()[:MAX_ID] or None


def _number(holder: dict[str, Any], problems: list[str], *keys: str) -> int | None:
    value = first(holder, *keys)
    try:
        number = int(value or 0)
    except (OverflowError, TypeError, ValueError):
        number = -1
    if not 0 <= number < 2**64:
        problems.append(f"{keys[0]} of a span is no number of that kind: {json_of(value)}")
        return None
    return number or None


def _kind_of(attributes: dict[str, Any]) -> str | None:
    """Return the kind of a span with these attributes, as `Span.kind` has it."""
    name = attributes.get("gen_ai.tool.name")
    if name == _MERGED_TOOLS:
        return "other"
    for attribute, kinds in _KINDS.items():
        value = str(attributes.get(attribute)).strip('"')  # MLflow writes JSON.
        kind = kinds.get(value) or kinds.get(value.upper())
        if kind is not None:
            return kind
    if (
        name is not None
        and "gen_ai.operation.name" not in attributes
        and "gen_ai.tool.call.id" in attributes
    ):
        return "tool"  # As Pydantic AI writes it.
    is_of_agent = any(key in _KINDS or key.startswith(_PREFIXES) for key in attributes)
    return "other" if is_of_agent else None


def text_or_none(value: Any) -> str | None:
    """Text as it is, numbers and anything else as JSON; None for None."""
    return value if value is None or isinstance(value, str) else json_of(value)


def explain_no_agent(spans: Sequence[Span]) -> str:
    """Return why no response can be made of the spans of a trace, none of which an agent wrote."""
    looked_for = ", ".join(KIND_ATTRIBUTES)
    names = dict.fromkeys(key for span in spans for key in span.attributes)
    present = ", ".join(list(names)[:LISTED_ATTRIBUTES]) or "none"
    return (
        f"no span of an agent in the trace {spans[0].trace_id[:40]}: looked for the attributes "
        f"{looked_for}; its spans have {present}"
    )


def parents_of(spans: Sequence[Span]) -> dict[Span, Span]:
    """The parent of each span whose parent is there."""
    known = {(span.trace_id, span.span_id): span for span in reversed(spans)}
    found = [
        (span, known.get((span.trace_id, span.parent_id))) for span in spans if not span.is_root
    ]
    return {span: parent for span, parent in found if parent is not None and parent is not span}


def above(span: Span, parents: Mapping[Span, Span], chosen: Container[Span]) -> Span | None:
    """The nearest span above one that is chosen; None if there is none."""
    here = parents.get(span)
    for _ in range(MAX_LEVELS):
        if here is None or here in chosen:
            return here
        here = parents.get(here)
    return None
