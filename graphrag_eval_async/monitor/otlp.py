"""Results as evaluation events of OpenTelemetry's GenAI conventions, and a file of them in OTLP's JSON."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import orjson

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, JUDGED, is_score
from graphrag_eval_async.records.outcomes import NO_ANSWER, OUTPUTS, REASON, RESPONSE_ERROR, TEXT
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.version import version

EVENT = "gen_ai.evaluation.result"
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
SCOPE = "graphrag_eval_async"
INFO, WARN = 9, 13  # severities of OpenTelemetry
MAX_EXPLANATION = 2048  # characters

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that allows content of answers in telemetry, by OpenTelemetry's conventions."""

Attributes: TypeAlias = dict[str, str | int | float]

_TRACE_ID, _SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{32}"), re.compile(r"(?!0+$)[0-9a-f]{16}")
_EXPLANATIONS = {
    value: (f"{value}_reason", f"{metric.name}_reason") for metric in JUDGED for value in metric.values
} | {"steps_score": (REASON,), "answer_match": ("answer_match_reason",)}


class Records(NamedTuple):
    """The attributes of a record for each score of a result; of failed metrics with ``error.type``.

    The ids of the agent's span are hexadecimal digits; both are empty if the response has none.
    """

    attributes: list[Attributes]
    trace_id: str
    span_id: str


class Recording:
    """Makes records of results.

    A response without an answer may lack a judged score because nobody asked for it, so it has no record of
    any.
    """

    def __init__(self, metrics: Collection[str] = ()) -> None:
        """Record these metrics or all scores; what judges said if the environment allows it."""
        allowed = {"true", "span_and_event", "event_only"}
        self._content = os.environ.get(CAPTURE, "").strip().lower() in allowed
        self._metrics = frozenset(metrics)

    def __call__(self, result: Mapping[str, Any]) -> Records:
        """The records of a complete result and of its retrieval steps; none of a pending one.

        Raises:
            AggregationError: `result` is not a result.
        """
        if "pending" in result:
            return Records([], "", "")
        seen = observe(result, include_errors=True)
        found: list[Attributes] = []
        for metric, value in seen.values:
            if self._is_wanted(metric):
                found.append(self._scored(result, metric, value))
        for metric, kind in seen.outcomes:
            is_known = metric == "steps_score" or kind not in {RESPONSE_ERROR, NO_ANSWER}
            if is_known and metric not in {REASON, OUTPUTS} and kind != TEXT and self._is_wanted(metric):
                found.append({"gen_ai.evaluation.name": metric, "error.type": kind})
        about = _about(result)
        for attributes in found:
            attributes |= about
        return Records(found, *_span_of(result))

    def _is_wanted(self, metric: str) -> bool:
        return is_score(metric) and (not self._metrics or metric in self._metrics)

    def _scored(self, result: Mapping[str, Any], metric: str, value: float) -> Attributes:
        scored: Attributes = {"gen_ai.evaluation.name": metric, "gen_ai.evaluation.score.value": float(value)}
        if metric in BOUNDED_METRICS:
            label = {0.0: "fail", 1.0: "pass"}.get(value, "partial")
            scored["gen_ai.evaluation.score.label"] = label
        if self._content or metric == "steps_score":  # Why steps failed quotes nothing.
            keys = _EXPLANATIONS.get(metric, (f"{metric}_reason",))
            reason = next((result[key] for key in keys if isinstance(result.get(key), str)), "")
            if reason and reason != NO_FAILURE:
                scored["gen_ai.evaluation.explanation"] = in_utf8(reason)[:MAX_EXPLANATION]
        return scored


def _about(result: Mapping[str, Any]) -> Attributes:
    found: Attributes = {"graphrag_eval.template_id": in_utf8(result["template_id"])}
    for name in ("question_id", "status"):
        if isinstance(value := result.get(name), str):
            found[f"graphrag_eval.{name}"] = in_utf8(value)
    if isinstance(sample := result.get("sample"), int):
        found["graphrag_eval.sample"] = sample
    if (response := result.get("response_id")) is not None:
        found["gen_ai.response.id"] = in_utf8(str(response))
    return found


def _span_of(result: Mapping[str, Any]) -> tuple[str, str]:
    """The ids of the agent's span, if both are valid."""
    metadata = result.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    trace_id, span_id = str(found.get("trace_id", "")).lower(), str(found.get("span_id", "")).lower()
    valid = _TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)
    return (trace_id, span_id) if valid else ("", "")


def _pairs(attributes: Mapping[str, str | int | float]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: str | int | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def resource_from_environment() -> dict[str, str]:
    """The attributes of the resource: ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME``."""
    found = {"service.name": "graphrag-eval-async"}
    for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, equals, value = pair.partition("=")
        if equals:
            found[in_utf8(name.strip())] = in_utf8(unquote(value.strip()))
    if service := os.environ.get("OTEL_SERVICE_NAME"):
        found["service.name"] = in_utf8(service)
    return found


class OtlpFile:
    """Appends the records of results to a file of OTLP in JSON, as a collector writes it and tails it."""

    def __init__(self, path: str | os.PathLike[str], metrics: Collection[str] = ()) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  (closed by `close`)
        self._resource = {"attributes": _pairs(resource_from_environment())}
        self._scope = {"name": SCOPE, "version": version()}
        self._records = Recording(metrics)
        self.close = self._file.close

    def add(self, result: Mapping[str, Any]) -> None:
        """Write the records of a result as one line, if it has any."""
        records = self._records(result)
        rest = memoryview(self._line(records) if records.attributes else b"")
        while rest:
            rest = rest[self._file.write(rest) :]

    def _line(self, records: Records) -> bytes:
        now, found = str(time.time_ns()), []
        common: dict[str, Any] = {"timeUnixNano": now, "observedTimeUnixNano": now, "eventName": EVENT}
        if records.trace_id:
            common |= {"traceId": records.trace_id, "spanId": records.span_id, "flags": 1}
        for attributes in records.attributes:
            severity: dict[str, Any] = {"severityNumber": INFO}
            if "error.type" in attributes:
                severity = {"severityNumber": WARN, "severityText": "WARN"}
            found.append({**common, **severity, "attributes": _pairs(attributes)})
        scopes = [{"scope": self._scope, "logRecords": found, "schemaUrl": SCHEMA}]
        logs = {"resourceLogs": [{"resource": self._resource, "scopeLogs": scopes}]}
        return orjson.dumps(logs, option=orjson.OPT_APPEND_NEWLINE)
