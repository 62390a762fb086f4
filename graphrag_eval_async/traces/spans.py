"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.traces.plain import (
    MAX_ATTRIBUTE_DEPTH,
    as_json,
    dict_at,
    first_value,
    json_of,
)
from graphrag_eval_async.traces.trace import MAX_PROBLEMS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Container, Mapping, Sequence


MAX_LEVELS = 1000
"""How many levels a span is searched for those above it; this also ends circles."""

_MAX_ID_CHARACTERS = 128
"""How many characters of an id count."""

_SHOWN_ID_CHARACTERS = 40
"""How many characters of an id a message shows."""

LISTED_ATTRIBUTES = 8
"""How many attributes of spans without an agent are named."""

NO_SPANS = "lines without resourceSpans"
"""What lines are counted as that are JSON, but not OTLP."""

_OTHER_SIGNALS = ("resourceLogs", "resourceMetrics")
"""Keys of lines of OTLP that hold no spans."""

_BYTES_PER_SPAN = 1000
"""About how many bytes a span takes beside its text."""

_BYTES_PER_BYTE_OF_LINE = 2
"""About how many bytes the decoded spans of a line take, by bytes of the line."""

_INT64_RANGE = range(-(2**63), 2**63)
_UINT64_RANGE = range(2**64)
"""Values that integers in attributes, and times and counts of spans, can have in OTLP."""

_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR")
"""Codes of the status of a span that failed."""

_STATUS_CODES = (None, 0, 1, "0", "1", "STATUS_CODE_UNSET", "STATUS_CODE_OK", *_ERROR_CODES)
"""All codes of the status of a span."""

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

_AGENT_PREFIXES = (
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
    """One span.

    Attributes:
        trace_id: id of the trace; empty if it has none.
        span_id: id of the span.
        parent_id: id of the span above it; None if it is a root.
        name: name of the span.
        start: when it started, in nanoseconds since 1970; None if that is not known.
        end: when it ended, in nanoseconds since 1970; None if that is not known.
        kind: "tool", "retrieval", "rerank", "model" or "other"; None if no agent wrote it.
        attributes: values by name.
        events: name and attributes of each event.
        is_error: whether it failed, by its status or an `error.type`.
        message: message of its status.
        resource: attributes of the program that wrote it.
        problems: what is wrong with it.
        size: about how many bytes of memory it takes.
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
    message: str | None = None
    resource: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    size: int = _BYTES_PER_SPAN

    @property
    def is_root(self) -> bool:
        """Whether the span has no parent."""
        return self.parent_id is None

    @property
    def start_or_infinity(self) -> float:
        """When the span started; infinity if that is not known, so that it is sorted last."""
        return inf if self.start is None else self.start

    @property
    def end_or_start(self) -> float:
        """When the span ended or, if that is not known, when it started."""
        return self.start_or_infinity if self.end is None else self.end

    @property
    def has_failed(self) -> bool:
        """Whether the span is an error, or has an exception among its events."""
        return self.is_error or any(name == "exception" for name, _ in self.events)

    def first_attribute(self, *names: str) -> Any:
        """Return the value of the first of some attributes that has one; None if none has."""
        return first_value(self.attributes, *names)

    def first_text(self, *names: str) -> str | None:
        """Return the first of some attributes that has a value, as text; None if it is empty."""
        return text_or_none(self.first_attribute(*names)) or None

    def describe_failure(self) -> str | None:
        """Return why the span failed: the first message of an exception, else of the status.

        Without a message, it is the type of the error; None without that.
        """
        for name, attributes in self.events:
            message = attributes.get("exception.message")
            if name == "exception" and isinstance(message, str) and message:
                return message
        return self.message or self.first_text("error.type")


def spans_of_line(line: Any, skipped: Counter[str]) -> list[Span]:
    """Return the spans of one line of OTLP; none if it is empty or has no spans.

    Args:
        line: JSON text, or the value that it has.
        skipped: counts, by reason, lines and parts of lines that are skipped.
    """
    size = 0
    value = line
    if isinstance(line, str | bytes | bytearray | memoryview):
        size = len(line)
        text = line if isinstance(line, str) else bytes(line)
        if not text.strip():
            return []
        try:
            value = orjson.loads(text)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            skipped["lines that are not JSON"] += 1
            return []

    if not _has_resource_spans(value):
        skipped[_describe_line_without_spans(value)] += 1
        return []

    spans, problem_count = _read_resource_spans(value)
    if problem_count:
        skipped["parts of lines that are not OTLP"] += problem_count
    for span in spans:
        span.size += _BYTES_PER_BYTE_OF_LINE * size // len(spans)
    return spans


def _has_resource_spans(value: Any) -> bool:
    """Return whether the value of a line has the key of OTLP at which spans are."""
    if not isinstance(value, dict):
        return False
    return first_value(value, "resourceSpans", "resource_spans") is not None


def _describe_line_without_spans(value: Any) -> str:
    """Return what a line without spans is counted as: lines of logs, of metrics, or of neither."""
    if isinstance(value, dict):
        for key in _OTHER_SIGNALS:
            if key in value:
                return f"lines of {key}"
    return NO_SPANS


def _read_resource_spans(line: dict[str, Any]) -> tuple[list[Span], int]:
    """Return the spans in the value of a line, and how many parts of the line are not OTLP.

    Problems with a resource are noted in its spans.
    """
    spans: list[Span] = []
    line_problems: list[str] = []
    for resource_spans in _objects_at(line, line_problems, "resourceSpans", "resource_spans"):
        problems: list[str] = []
        resource = _object_at(resource_spans, problems, "resource")
        resource_attributes = _read_attributes(resource, problems)
        for scope_spans in _objects_at(resource_spans, line_problems, "scopeSpans", "scope_spans"):
            for value in _objects_at(scope_spans, line_problems, "spans"):
                span_problems = problems[:MAX_PROBLEMS]
                spans.append(_read_span(value, resource_attributes, span_problems))
    return spans, len(line_problems)


def _object_at(holder: dict[str, Any], problems: list[str], key: str) -> dict[str, Any]:
    """Return the object at a key; an empty one if nothing is there, or if it is of another type.

    Another type is noted in `problems`.
    """
    value = holder.get(key)
    if value is not None and not isinstance(value, dict):
        problems.append(f"the {key} of a span is no object: {json_of(value)}")
    return dict_at(holder, key)


def _list_at(holder: dict[str, Any], problems: list[str], *keys: str) -> list[Any]:
    """Return the list at the first key that has a value; an empty one if it is of another type.

    Another type is noted in `problems`.
    """
    value = first_value(holder, *keys)
    if isinstance(value, list):
        return value
    if value is not None:
        problems.append(f"the {keys[0]} of a span is no list: {json_of(value)}")
    return []


def _objects_at(holder: dict[str, Any], problems: list[str], *keys: str) -> list[dict[str, Any]]:
    """Return the objects in the list at the first key that has a value.

    What is no list, and items that are no objects, are noted in `problems`.
    """
    objects = []
    for item in _list_at(holder, problems, *keys):
        if isinstance(item, dict):
            objects.append(item)
        else:
            problems.append(f"one of the {keys[0]} of a span is no object: {json_of(item)}")
    return objects


def _read_span(value: dict[str, Any], resource: dict[str, Any], problems: list[str]) -> Span:
    """Return the span that an object of OTLP is.

    Args:
        value: the object. Keys may be in camel case or in snake case.
        resource: attributes of the program that wrote the span.
        problems: the span's own list of problems, to which more are added.
    """
    attributes = _read_attributes(value, problems)
    status = _object_at(value, problems, "status")
    code = status.get("code")
    if code not in _STATUS_CODES:
        problems.append(f"a status that is not known: {json_of(code)}")

    event_values = _objects_at(value, problems, "events")
    if _read_number(value, problems, "droppedAttributesCount", "dropped_attributes_count"):
        problems.append("a span without some of its attributes: there were too many")

    start = _read_number(value, problems, "startTimeUnixNano", "start_time_unix_nano")
    end = _read_number(value, problems, "endTimeUnixNano", "end_time_unix_nano")
    events = [(str(event.get("name")), _read_attributes(event, problems)) for event in event_values]
    return Span(
        trace_id=_read_id(value, "traceId", "trace_id") or "",
        span_id=_read_id(value, "spanId", "span_id"),
        parent_id=_read_id(value, "parentSpanId", "parent_span_id"),
        name=text_or_none(value.get("name")) or "",
        start=start,
        end=end,
        kind=_kind_of(attributes),
        attributes=attributes,
        events=events,
        is_error=code in _ERROR_CODES or bool(attributes.get("error.type")),
        message=text_or_none(status.get("message")) or None,
        resource=resource,
        problems=problems,
    )


def _read_attributes(
    holder: dict[str, Any],
    problems: list[str],
    key: str = "attributes",
    depth: int = MAX_ATTRIBUTE_DEPTH,
) -> dict[str, Any]:
    """Return the attributes of a span, event or resource by name, with plain values.

    Args:
        holder: the object of OTLP that has them, as a list of pairs or as an object.
        problems: pairs without a name, and second values of a name, are noted here and left out.
        key: where the object has them.
        depth: how deep values may nest; deeper ones stay as text.
    """
    pairs_by_name = holder.get(key)
    if isinstance(pairs_by_name, dict):  # Some writers have an object.
        return {name: _plain_value(value, problems, depth) for name, value in pairs_by_name.items()}

    attributes: dict[str, Any] = {}
    for pair in _list_at(holder, problems, key):
        name = pair.get("key") if isinstance(pair, dict) else None
        if not isinstance(name, str):
            problems.append(f"an attribute without a key: {json_of(pair)}")
        elif name in attributes:
            second_value = json_of(pair.get("value"))
            problems.append(f"an attribute that is there twice, {name}: {second_value}")
        else:
            attributes[name] = _plain_value(pair.get("value"), problems, depth)
    return attributes


def _plain_value(value: Any, problems: list[str], depth: int) -> Any:
    """Return the plain value of an `AnyValue` of OTLP, such as ``{"stringValue": "text"}``.

    An empty object is None. JSON that is no `AnyValue` is returned unchanged. What nests deeper
    than `depth` becomes text. Problems with lists and objects in it are added to `problems`.
    """
    if value == {}:
        return None
    if not isinstance(value, dict):
        return as_json(value, depth)

    type_name, inner_value = next(iter(value.items()))
    if type_name == "stringValue" and isinstance(inner_value, str):
        return inner_value  # Most values are like this.
    type_name = type_name.replace("_v", "V")  # string_value is stringValue.
    if depth <= 0:
        return json_of(value)

    if type_name == "kvlistValue" and isinstance(inner_value, dict):
        return _read_attributes(inner_value, problems, "values", depth - 1)
    if type_name == "arrayValue" and isinstance(inner_value, dict):
        items = _list_at(inner_value, problems, "values")
        return [_plain_value(item, problems, depth - 1) for item in items]
    if type_name == "intValue" and isinstance(inner_value, str):
        # JSON has integers of 64 bits as text.
        with suppress(ValueError):
            number = int(inner_value)
            return number if number in _INT64_RANGE else inner_value
    if type_name.endswith("Value"):
        return as_json(inner_value, depth)
    return as_json(value, depth)


def _read_id(holder: dict[str, Any], *keys: str) -> str | None:
    """Return the id at the first key that has a value, in lower case; None if it is empty.

    Ids are in hexadecimal digits, which writers have in either case.
    """
    text = text_or_none(first_value(holder, *keys)) or ""
    return text.lower()[:_MAX_ID_CHARACTERS] or None


def _read_number(holder: dict[str, Any], problems: list[str], *keys: str) -> int | None:
    """Return the time or count at the first key that has a value; None if it is missing or 0.

    What is no integer of 64 bits without a sign is None, and noted in `problems`.
    """
    value = first_value(holder, *keys)
    try:
        number = int(value or 0)
    except (OverflowError, TypeError, ValueError):
        number = -1  # This is out of range, too.
    if number not in _UINT64_RANGE:
        problems.append(f"{keys[0]} of a span is no number of that kind: {json_of(value)}")
        return None
    return number or None


def _kind_of(attributes: dict[str, Any]) -> str | None:
    """Return the kind of a span with these attributes, as in `Span.kind`.

    It is "other" for spans of agents that are neither calls nor models, and None for all else.
    """
    tool_name = attributes.get("gen_ai.tool.name")
    if tool_name == _MERGED_TOOLS:
        return "other"  # It repeats the results of other spans.
    for attribute, kinds in _KINDS.items():
        value = str(attributes.get(attribute)).strip('"')  # MLflow writes JSON.
        kind = kinds.get(value) or kinds.get(value.upper())
        if kind is not None:
            return kind

    # Pydantic AI writes spans of tools like this.
    has_operation = "gen_ai.operation.name" in attributes
    if tool_name is not None and "gen_ai.tool.call.id" in attributes and not has_operation:
        return "tool"
    if any(key in _KINDS or key.startswith(_AGENT_PREFIXES) for key in attributes):
        return "other"
    return None


def text_or_none(value: Any) -> str | None:
    """Return text unchanged, None for None, and any other value as JSON text."""
    if value is None or isinstance(value, str):
        return value
    return json_of(value)


def explain_no_agent(spans: Sequence[Span]) -> str:
    """Return why no response can be made of the spans of a trace, none of which an agent wrote.

    The text names the attributes looked for, and attributes that the spans have.
    """
    trace_id = spans[0].trace_id[:_SHOWN_ID_CHARACTERS]
    looked_for = ", ".join(KIND_ATTRIBUTES)
    names = dict.fromkeys(name for span in spans for name in span.attributes)
    present = ", ".join(list(names)[:LISTED_ATTRIBUTES]) or "none"
    return (
        f"no span of an agent in the trace {trace_id}: looked for the attributes "
        f"{looked_for}; its spans have {present}"
    )


def parents_of(spans: Sequence[Span]) -> dict[Span, Span]:
    """Return the parent of each span, without spans whose parent is missing or is itself."""
    spans_by_id: dict[tuple[str, str | None], Span] = {}
    for span in spans:
        spans_by_id.setdefault((span.trace_id, span.span_id), span)
    parents = {}
    for span in spans:
        if span.is_root:
            continue
        parent = spans_by_id.get((span.trace_id, span.parent_id))
        if parent is not None and parent is not span:
            parents[span] = parent
    return parents


def nearest_above(
    span: Span, parents: Mapping[Span, Span], candidates: Container[Span]
) -> Span | None:
    """Return the nearest of some spans that is above a span in its trace; None if none is.

    Args:
        span: the span to start from, which does not count.
        parents: the parent of each span that has one.
        candidates: the spans that count.
    """
    ancestor = parents.get(span)
    for _ in range(MAX_LEVELS):  # The limit ends circles of parents.
        if ancestor is None or ancestor in candidates:
            return ancestor
        ancestor = parents.get(ancestor)
    return None
