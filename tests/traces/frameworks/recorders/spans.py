"""Collects the spans of frameworks that use the global provider of OpenTelemetry."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

EXPORTER = InMemorySpanExporter()


def collect_spans() -> None:
    """Begin to collect spans, without those of earlier runs."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    if not getattr(provider, "collects_for_recorders", False):
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        provider.collects_for_recorders = True
    EXPORTER.clear()


def collected_lines() -> list[dict[str, Any]]:
    """Return the collected spans as lines of OTLP in JSON."""
    return lines_of(EXPORTER.get_finished_spans())


def lines_of(spans: Any) -> list[dict[str, Any]]:
    """Return spans of the SDK as lines of OTLP in JSON, without their resource."""
    scope = {"scope": {"name": "agent"}, "spans": [_span(span) for span in spans]}
    return [{"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}]


def _span(span: Any) -> dict[str, Any]:
    status: dict[str, Any] = {"code": span.status.status_code.value}
    if span.status.description:
        status["message"] = span.status.description.splitlines()[0]
    value = {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        "name": span.name,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes),
        "status": status,
        "events": [
            {"name": event.name, "attributes": _attributes(event.attributes)}
            for event in span.events
        ],
    }
    if span.parent:
        value["parentSpanId"] = f"{span.parent.span_id:016x}"
    return value


def _attributes(attributes: Any) -> list[dict[str, Any]]:
    """Return attributes without stack traces, which have paths of the machine."""
    return [
        {"key": key, "value": _value(value)}
        for key, value in (attributes or {}).items()
        if key != "exception.stacktrace"
    ]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(inner) for inner in value]}}
    return {"stringValue": str(value)}
