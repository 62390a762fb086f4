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

MAX_EXPLANATION = 2048
"""Maximum number of characters of an explanation in a record."""

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that allows content of answers in telemetry, by OpenTelemetry's
conventions.
"""

CAPTURE_VALUES = {"true", "span_and_event", "event_only"}
"""Its values that allow content in events."""

Attributes: TypeAlias = dict[str, str | int | float]
"""The attributes of a log record, by name."""

LABELS = {0.0: "fail", 1.0: "pass"}
"""The labels of scores from 0 to 1; that of other scores is `PARTIAL`."""

PARTIAL = "partial"

# Ids of only zeros are invalid, by OpenTelemetry's specification.
_TRACE_ID = re.compile(r"(?!0+$)[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{16}")

EXPLANATIONS: Mapping[str, tuple[str, ...]] = {
    value: (f"{value}_reason", f"{metric.name}_reason")
    for metric in JUDGED
    for value in metric.values
} | {"steps_score": (REASON,), "answer_match": ("answer_match_reason",)}
"""For each metric, the keys of a result that may explain its value, the best first."""


def captures_content() -> bool:
    """Return whether the environment allows records to hold what judges said."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in CAPTURE_VALUES


def records_of(result: Mapping[str, Any], *, with_content: bool) -> list[Attributes]:
    """Return the attributes of the records of a result, one for each of its metrics.

    A metric that failed has the attribute ``error.type`` instead of a value. A pending result has
    no records. If a response has no answer, there are no records of scores of answers: whether they
    were requested is not known.

    Args:
        result: the result.
        with_content: whether records hold what judges said.

    Raises:
        AggregationError: `result` is not a result.
    """
    if "pending" in result:
        return []
    evaluation = observe(result, include_errors=True)
    records: list[Attributes] = []
    for metric, value in evaluation.values:
        if is_score(metric):
            records.append(_score_record(result, metric, value, with_content=with_content))
    for metric, cause in evaluation.outcomes:
        if _is_failed_score(metric, cause):
            records.append({"gen_ai.evaluation.name": metric, "error.type": cause})
    about_result = _about_result(result)
    for attributes in records:
        attributes.update(about_result)
    return records


def _is_failed_score(metric: str, cause: str) -> bool:
    """Return whether an outcome of a result says that a score failed.

    Args:
        metric: the name of a metric, or another key that has outcomes.
        cause: why the metric has no value.
    """
    if metric in {REASON, OUTPUTS} or not is_score(metric):
        return False
    if cause == TEXT:
        # The output of a custom evaluation is a text, which is no failure.
        return False
    # Without an answer, only the score of steps is known to have been requested.
    return metric == "steps_score" or cause not in {RESPONSE_ERROR, NO_ANSWER}


def _score_record(
    result: Mapping[str, Any], metric: str, value: float, *, with_content: bool
) -> Attributes:
    """Return the attributes of a score: its name, value, label and explanation.

    Args:
        result: the result that has the score.
        metric: the name of the score.
        value: its value.
        with_content: whether the record may hold what a judge said.
    """
    record: Attributes = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.value": float(value),
    }
    if metric in BOUNDED_METRICS:
        record["gen_ai.evaluation.score.label"] = LABELS.get(value, PARTIAL)
    # The explanation of the score of steps never quotes an answer, so that it may always be sent.
    if with_content or metric == "steps_score":
        explanation = _explanation_of(result, metric)
        if explanation and explanation != NO_FAILURE:
            record["gen_ai.evaluation.explanation"] = in_utf8(explanation)[:MAX_EXPLANATION]
    return record


def _explanation_of(result: Mapping[str, Any], metric: str) -> str:
    """Return the explanation of the value of a metric in a result; "" if there is none."""
    for key in EXPLANATIONS.get(metric, (f"{metric}_reason",)):
        explanation = result.get(key)
        if isinstance(explanation, str):
            return explanation
    return ""


def _about_result(result: Mapping[str, Any]) -> Attributes:
    """Return the attributes that identify a result; ids that the result lacks are left out."""
    attributes: Attributes = {"graphrag_eval.template_id": in_utf8(result["template_id"])}
    for key in ("question_id", "status"):
        value = result.get(key)
        if isinstance(value, str):
            attributes[f"graphrag_eval.{key}"] = in_utf8(value)
    sample = result.get("sample")
    if isinstance(sample, int):
        attributes["graphrag_eval.sample"] = sample
    response_id = result.get("response_id")
    if response_id is not None:
        attributes["gen_ai.response.id"] = in_utf8(str(response_id))
    return attributes


def span_of(result: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the ids of the trace and of the agent's span that a response names, as numbers.

    Returns:
        None if one of the ids is missing or is not a valid one.
    """
    metadata = result.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    trace_id = str(metadata.get("trace_id", "")).lower()
    span_id = str(metadata.get("span_id", "")).lower()
    if not (_TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)):
        return None
    return int(trace_id, 16), int(span_id, 16)
