"""Results as evaluation events of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.metrics import BOUNDED_METRICS, is_score
from graphrag_eval_async.catalogue.outcomes import NO_ANSWER, OUTPUTS, REASON, RESPONSE_ERROR, TEXT
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.unicode import in_utf8

MAX_EXPLANATION = 2048  # characters

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that allows content of answers in telemetry, by OpenTelemetry's
conventions.
"""

Attributes: TypeAlias = dict[str, str | int | float]

_TRACE_ID, _SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{32}"), re.compile(r"(?!0+$)[0-9a-f]{16}")
_EXPLANATIONS = {
    value: (f"{value}_reason", f"{metric.name}_reason")
    for metric in JUDGED
    for value in metric.values
} | {"steps_score": (REASON,), "answer_match": ("answer_match_reason",)}


def captures_content() -> bool:
    """Return whether the environment allows records to hold what judges said."""
    return os.environ.get(CAPTURE, "").strip().lower() in {"true", "span_and_event", "event_only"}


def records_of(result: Mapping[str, Any], *, with_content: bool) -> list[Attributes]:
    """Return the attributes of a record for each score of a result; of failed metrics with
    ``error.type``.

    A pending result has no records. A response without an answer may lack a judged score because
    nobody asked for it, so it has no record of any.

    Args:
        with_content: whether records hold what judges said.

    Raises:
        AggregationError: `result` is not a result.
    """
    if "pending" in result:
        return []
    seen = observe(result, include_errors=True)
    records: list[Attributes] = []
    for metric, value in seen.values:
        if is_score(metric):
            records.append(_scored(result, metric, value, with_content=with_content))
    for metric, kind in seen.outcomes:
        is_known = metric == "steps_score" or kind not in {RESPONSE_ERROR, NO_ANSWER}
        if is_known and metric not in {REASON, OUTPUTS} and kind != TEXT and is_score(metric):
            records.append({"gen_ai.evaluation.name": metric, "error.type": kind})
    about = _about(result)
    for attributes in records:
        attributes |= about
    return records


def _scored(
    result: Mapping[str, Any], metric: str, value: float, *, with_content: bool
) -> Attributes:
    scored: Attributes = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.value": float(value),
    }
    if metric in BOUNDED_METRICS:
        label = {0.0: "fail", 1.0: "pass"}.get(value, "partial")
        scored["gen_ai.evaluation.score.label"] = label
    if with_content or metric == "steps_score":  # Why steps failed quotes nothing.
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


def span_of(result: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the ids of the trace and of the agent's span; None unless the response has valid
    ones.
    """
    metadata = result.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    trace_id = str(metadata.get("trace_id", "")).lower()
    span_id = str(metadata.get("span_id", "")).lower()
    if not (_TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)):
        return None
    return int(trace_id, 16), int(span_id, 16)
