"""Spans of OTLP in JSON, read leniently, and which of them is above which."""

from __future__ import annotations

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
        """Return the value of the first attribute in `names` that has a value, or None."""
        return first_value(self.attributes, *names)

    def first_text(self, *names: str) -> str | None:
        """Return the value of the first attribute in `names` that has one, as text.

        None if there is no value, or if the value is empty text.
        """
        return text_or_none(self.first_attribute(*names)) or None

    def describe_failure(self) -> str | None:
        """Return why the span failed; None if the span does not say.

        The reason is the first message of an exception among the events, the message of the status,
        or the type of the error, in order of preference.
        """
        for name, attributes in self.events:
            message = attributes.get("exception.message")
            if name == "exception" and isinstance(message, str) and message:
                return message
        return self.message or self.first_text("error.type")


def spans_of_line(line: Any, skipped: Counter[str]) -> list[Span]:
    """Return the spans of one line of OTLP; an empty list if the line has no spans.

    Args:
        line: JSON text, or the decoded value of a line.
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
    # The memory that a line takes is shared by its spans in equal parts.
    for span in spans:
        span.size += _BYTES_PER_BYTE_OF_LINE * size // len(spans)
    return spans


def _has_resource_spans(value: Any) -> bool:
    """Return whether the value of a line has a value at the key of OTLP for spans."""
    if not isinstance(value, dict):
        return False
    return first_value(value, "resourceSpans", "resource_spans") is not None


def _describe_line_without_spans(value: Any) -> str:
    """Return the name under which a line without spans is counted.

    Lines with logs and lines with metrics are counted separately from all others.
    """
    if isinstance(value, dict):
        for key in _OTHER_SIGNALS:
            if key in value:
                return f"lines of {key}"
    return NO_SPANS


def _read_resource_spans(line: dict[str, Any]) -> tuple[list[Span], int]:
    """Return the spans in the value of a line, and how many parts of the line are not OTLP.

    Problems with a resource are noted in each of the resource's spans.
    """
    spans: list[Span] = []
    line_problems: list[str] = []
    for resource_spans in _objects_at(line, line_problems, "resourceSpans", "resource_spans"):
        resource_problems: list[str] = []
        resource = _object_at(resource_spans, resource_problems, "resource")
        resource_attributes = _read_attributes(resource, resource_problems)
        for scope_spans in _objects_at(resource_spans, line_problems, "scopeSpans", "scope_spans"):
            for value in _objects_at(scope_spans, line_problems, "spans"):
                # Each span gets its own copy, to which its own problems are added.
                span_problems = resource_problems[:MAX_PROBLEMS]
                spans.append(_read_span(value, resource_attributes, span_problems))
    return spans, len(line_problems)


def _object_at(holder: dict[str, Any], problems: list[str], key: str) -> dict[str, Any]:
    """Return the object at a key; an empty object if nothing, or something else, is there.

    A value of another type is noted in `problems`.
    """
    value = holder.get(key)
    if value is not None and not isinstance(value, dict):
        problems.append(f"the {key} of a span is no object: {json_of(value)}")
    return dict_at(holder, key)


def _list_at(holder: dict[str, Any], problems: list[str], *keys: str) -> list[Any]:
    """Return the list at the first key that has a value; an empty list if there is no list.

    A value of another type is noted in `problems`.
    """
    value = first_value(holder, *keys)
    if isinstance(value, list):
        return value
    if value is not None:
        problems.append(f"the {keys[0]} of a span is no list: {json_of(value)}")
    return []


def _objects_at(holder: dict[str, Any], problems: list[str], *keys: str) -> list[dict[str, Any]]:
    """Return the objects in the list at the first key that has a value.

    A value that is no list, and items that are no objects, are left out and noted in `problems`.
    """
    objects = []
    for item in _list_at(holder, problems, *keys):
        if isinstance(item, dict):
            objects.append(item)
        else:
            problems.append(f"one of the {keys[0]} of a span is no object: {json_of(item)}")
    return objects


def _read_span(value: dict[str, Any], resource: dict[str, Any], problems: list[str]) -> Span:
    """Return a span from its object in OTLP.

    Args:
        value: the object. Keys may be in camel case or in snake case.
        resource: attributes of the program that wrote the span.
        problems: what is wrong with the resource. Problems with the span are added, and the span
            gets the list as its own.
    """
    # Problems are listed in the order in which these fields are read.
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
        holder: the object of OTLP that has the attributes, as a list of pairs or as an object.
        problems: gets a text for each pair without a name, and for each second value of a name.
            Both are left out.
        key: the key at which the object has the attributes.
        depth: how deep values may nest; deeper values become text.
    """
    values_by_name = holder.get(key)
    if isinstance(values_by_name, dict):  # Some writers have an object in place of a list.
        return {
            name: _plain_value(value, problems, depth) for name, value in values_by_name.items()
        }

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

    Some writers have plain JSON in place of an `AnyValue`, which keeps its value.

    Args:
        value: the `AnyValue`, or plain JSON. An empty object stands for None.
        problems: gets a text for each problem with the lists and objects in the value.
        depth: how deep the value may nest; deeper parts become text.
    """
    if value == {}:
        return None
    if not isinstance(value, dict):
        return as_json(value, depth)  # Plain JSON.

    type_name, inner_value = next(iter(value.items()))
    if type_name == "stringValue" and isinstance(inner_value, str):
        return inner_value  # Most values are like this.
    if depth <= 0:
        return json_of(value)

    type_name = type_name.replace("_v", "V")  # Some writers have string_value for stringValue.
    if not type_name.endswith("Value"):
        return as_json(value, depth)  # A plain JSON object.
    if type_name == "kvlistValue" and isinstance(inner_value, dict):
        return _read_attributes(inner_value, problems, "values", depth - 1)
    if type_name == "arrayValue" and isinstance(inner_value, dict):
        items = _list_at(inner_value, problems, "values")
        return [_plain_value(item, problems, depth - 1) for item in items]
    if type_name == "intValue" and isinstance(inner_value, str):
        return _parse_int64(inner_value)
    return as_json(inner_value, depth)


def _parse_int64(text: str) -> int | str:
    """Return the integer that a text spells; the text itself if it is no integer of 64 bits.

    JSON of OTLP has integers as text, since many readers of JSON cannot hold 64 bits.
    """
    try:
        number = int(text)
    except ValueError:
        return text
    return number if number in _INT64_RANGE else text


def _read_id(holder: dict[str, Any], *keys: str) -> str | None:
    """Return the id at the first key that has a value, in lower case; None if there is no id.

    Ids consist of hexadecimal digits, which some writers have in upper case.
    """
    text = text_or_none(first_value(holder, *keys)) or ""
    return text.lower()[:_MAX_ID_CHARACTERS] or None


def _read_number(holder: dict[str, Any], problems: list[str], *keys: str) -> int | None:
    """Return the time or count at the first key that has a value; None if it is missing or 0.

    The result is also None for a value that is no unsigned integer of 64 bits, which is noted in
    `problems`.
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

    The kind is "other" for other spans of agents, and None for spans that no agent wrote.
    """
    tool_name = attributes.get("gen_ai.tool.name")
    if tool_name == _MERGED_TOOLS:
        return "other"  # The span repeats the results of other spans.
    for attribute, kinds in _KINDS.items():
        value = str(attributes.get(attribute)).strip('"')  # MLflow writes JSON, with quotes.
        kind = kinds.get(value) or kinds.get(value.upper())
        if kind is not None:
            return kind

    # Pydantic AI writes spans of tools without the name of an operation.
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
    """Return why no response can be made of a trace in which no agent wrote a span.

    The text names the attributes that were looked for, and attributes that the spans have.
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
    """Return the parent of each span that has one.

    A parent that is not among `spans`, or is the span itself, does not count.
    """
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
    """Return the nearest span above a span that is one of `candidates`; None if there is none.

    Args:
        span: the span to start from, which does not count itself.
        parents: the parent of each span that has one.
        candidates: the spans that may be returned.
    """
    ancestor = parents.get(span)
    for _ in range(MAX_LEVELS):  # Without a limit, parents in a circle would be followed forever.
        if ancestor is None or ancestor in candidates:
            return ancestor
        ancestor = parents.get(ancestor)
    return None
