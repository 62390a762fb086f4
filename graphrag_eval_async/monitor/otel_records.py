"""Results as evaluation events of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, JUDGED, is_score
from graphrag_eval_async.records.outcomes import NO_ANSWER, OUTPUTS, REASON, RESPONSE_ERROR, TEXT
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.steps.failure import NO_FAILURE

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

    def __init__(self) -> None:
        """Record what judges said if the environment allows it."""
        allowed = {"true", "span_and_event", "event_only"}
        self._content = os.environ.get(CAPTURE, "").strip().lower() in allowed

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
            if is_score(metric):
                found.append(self._scored(result, metric, value))
        for metric, kind in seen.outcomes:
            is_known = metric == "steps_score" or kind not in {RESPONSE_ERROR, NO_ANSWER}
            if is_known and metric not in {REASON, OUTPUTS} and kind != TEXT and is_score(metric):
                found.append({"gen_ai.evaluation.name": metric, "error.type": kind})
        about = _about(result)
        for attributes in found:
            attributes |= about
        return Records(found, *_span_of(result))

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
