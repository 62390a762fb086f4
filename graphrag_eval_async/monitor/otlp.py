"""Results as evaluation events of OpenTelemetry's GenAI conventions, and as lines of OTLP in JSON."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import orjson

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, JUDGED, is_score
from graphrag_eval_async.records.outcomes import NO_ANSWER, OUTPUTS, REASON, RESPONSE_ERROR, TEXT, Outcome
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.version import version

EVENT = "gen_ai.evaluation.result"
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
SCOPE = "graphrag_eval_async"
SERVICE = "graphrag-eval-async"
INFO, WARN = 9, 13
"""Severities of OpenTelemetry."""

MAX_EXPLANATION = 2048
"""Maximum characters of an explanation."""

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that allows content of answers in telemetry, by OpenTelemetry's conventions."""

_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
_EXPLANATIONS = {
    value: (f"{value}_reason", f"{metric.name}_reason") for metric in JUDGED for value in metric.values
}


class EvaluationRecord(NamedTuple):
    """One metric of one result, as a log record.

    Attributes:
        attributes: by OpenTelemetry's conventions; our own begin with ``graphrag_eval.``.
        failed: whether the metric could not be computed; `attributes` then has ``error.type`` and no score.
        trace_id, span_id: the span of the agent, as hexadecimal digits; both empty if the response has none.
    """

    attributes: dict[str, str | int | float]
    failed: bool
    trace_id: str
    span_id: str


def evaluation_records(
    result: Mapping[str, Any],
    metrics: Collection[str] = (),
    *,
    content: bool = False,
    met: set[str] | None = None,
) -> Iterator[EvaluationRecord]:
    """Yield a record for each score of a complete result and of its retrieval steps; none for a pending one.

    Args:
        result: the result.
        metrics: names of the metrics to export; empty for all scores.
        content: whether to include the explanations of judges.
        met: the judged scores that results had so far, to which those of this one are added. A response
            without an answer may lack all others because nobody asked for them, so it has no record of these.

    Raises:
        AggregationError: `result` is not a result.
    """
    if "pending" in result:
        return
    seen = observe(result, include_errors=True)
    about = _about(result)
    ids = _span_of(result)
    for metric, value in seen.values:
        if met is not None:
            met.add(metric)
        if is_score(metric) and (not metrics or metric in metrics):
            yield EvaluationRecord(_scored(result, metric, value, content=content) | about, False, *ids)
    for metric, kind in _unscored(seen.outcomes, met):
        if not metrics or metric in metrics:
            failed: dict[str, str | int | float] = {"gen_ai.evaluation.name": metric, "error.type": kind}
            yield EvaluationRecord(failed | about, True, *ids)


def recording(metrics: Collection[str]) -> Callable[[Mapping[str, Any]], Iterator[EvaluationRecord]]:
    """Return `evaluation_records` for the results of one run, with explanations if the environment allows."""
    allowed = os.environ.get(CAPTURE, "").strip().lower() in {"true", "span_and_event", "event_only"}
    return partial(evaluation_records, metrics=frozenset(metrics), content=allowed, met=set())


def _scored(
    result: Mapping[str, Any], metric: str, value: float, *, content: bool
) -> dict[str, str | int | float]:
    scored: dict[str, str | int | float] = {"gen_ai.evaluation.name": metric}
    scored["gen_ai.evaluation.score.value"] = float(value)
    if metric in BOUNDED_METRICS:
        label = {0.0: "fail", 1.0: "pass"}.get(value, "partial")
        scored["gen_ai.evaluation.score.label"] = label
    if explanation := _explanation(result, metric, content=content):
        scored["gen_ai.evaluation.explanation"] = explanation
    return scored


def _unscored(outcomes: Iterable[Outcome], met: set[str] | None) -> Iterator[Outcome]:
    """Yield the scores without a value, and why; see `evaluation_records`."""
    for metric, kind in outcomes:
        if metric in {REASON, OUTPUTS} or kind == TEXT or not is_score(metric):
            continue
        if met is not None and kind not in {RESPONSE_ERROR, NO_ANSWER}:
            met.add(metric)
        if met is None or metric == "steps_score" or metric in met:
            yield metric, kind


def _about(result: Mapping[str, Any]) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {"graphrag_eval.template_id": in_utf8(result["template_id"])}
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
    return (trace_id, span_id) if valid and int(trace_id, 16) and int(span_id, 16) else ("", "")


def _explanation(result: Mapping[str, Any], metric: str, *, content: bool) -> str:
    """Why the steps scored below 1, which quotes nothing; with `content`, what the judge said."""
    if metric == "steps_score":
        keys: Sequence[str] = (REASON,)
    else:
        keys = _EXPLANATIONS.get(metric, (f"{metric}_reason",)) if content else ()
    reason = next((result[key] for key in keys if isinstance(result.get(key), str)), NO_FAILURE)
    return "" if reason == NO_FAILURE else in_utf8(reason)[:MAX_EXPLANATION]


def otlp_line(records: Collection[EvaluationRecord], resource: Mapping[str, str]) -> bytes:
    """Records as one line of OTLP in JSON, as a collector's file exporter writes it; empty without any."""
    if not records:
        return b""
    now = str(time.time_ns())
    scope_logs = {
        "scope": _scope(),
        "logRecords": [_json(record, now) for record in records],
        "schemaUrl": SCHEMA,
    }
    logs = {"resource": {"attributes": _pairs(resource)}, "scopeLogs": [scope_logs]}
    return orjson.dumps({"resourceLogs": [logs]}, option=orjson.OPT_APPEND_NEWLINE)


@cache
def _scope() -> dict[str, str]:
    return {"name": SCOPE, "version": version()}


def _json(record: EvaluationRecord, now: str) -> dict[str, Any]:
    severity = {"severityNumber": WARN, "severityText": "WARN"} if record.failed else {"severityNumber": INFO}
    found = {"timeUnixNano": now, "observedTimeUnixNano": now, **severity, "eventName": EVENT}
    found |= {"attributes": _pairs(record.attributes)}
    span = {"traceId": record.trace_id, "spanId": record.span_id, "flags": 1} if record.trace_id else {}
    return found | span


def _pairs(attributes: Mapping[str, str | int | float]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: str | int | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def resource_from_environment() -> dict[str, str]:
    """The attributes of the resource: ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME``."""
    from urllib.parse import unquote

    found = {"service.name": SERVICE}
    for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, equals, value = pair.partition("=")
        if equals:
            found[in_utf8(name.strip())] = in_utf8(unquote(value.strip()))
    if service := os.environ.get("OTEL_SERVICE_NAME"):
        found["service.name"] = in_utf8(service)
    return found


class OtlpFile:
    """Appends the records of results to a file of OTLP in JSON, which a collector tails."""

    def __init__(self, path: str | os.PathLike[str], metrics: Collection[str] = ()) -> None:
        """Open the file at the end."""
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  (closed by `close`)
        self._resource = resource_from_environment()
        self._records = recording(metrics)

    def add(self, result: Mapping[str, Any]) -> None:
        """Write the records of a result as one line."""
        rest = memoryview(otlp_line([*self._records(result)], self._resource))
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._file.close()
