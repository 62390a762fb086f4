"""The layout of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps import failure_of, right_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.metrics.judging import Judged
    from graphrag_eval_async.records import Question, Response
    from graphrag_eval_async.steps import Facts, StepsScore

MAX_ERRORS = 10
"""How many failed comparisons `steps_score_error` tells."""

BEFORE_METRICS = (
    "template_id",
    "question_id",
    "question_text",
    "reference_steps",
    "reference_answer",
    "status",
    "error",
    "actual_answer",
)
"""The keys that stand before those of the judged metrics."""


def blank(question: Question) -> dict[str, Any]:
    """What every result of a question begins with."""
    blank: dict[str, Any] = {
        "template_id": question.template_id,
        "question_id": question.id,
        "question_text": question.text,
    }
    if question.reference_steps is not None:
        blank["reference_steps"] = question.reference_steps
    if question.reference_answer is not None:
        blank["reference_answer"] = question.reference_answer
    return blank


def fill(
    result: dict[str, Any],
    response: Response,
    sample: int,
    scored: StepsScore | None,
    facts: Facts | None,
) -> None:
    """Add the keys that depend on the response, in their documented order.

    `facts` are there if the question has reference steps, `scored` if they were compared.
    """
    fields = response.fields
    result["status"] = "error" if response.failed else "success"
    for key in ("error", "actual_answer", "actual_steps"):
        if key in fields:
            result[key] = fields[key]
    if scored is not None:
        _fill_scored(result, fields, scored)
    if facts is not None:
        result["failure"] = failure_of(facts)
    for key in ("input_tokens", "output_tokens", "total_tokens", "elapsed_sec"):
        if key in fields:
            result[key] = fields[key]
    result["sample"] = sample
    if "id" in fields:
        result["response_id"] = fields["id"]
    if response.metadata:
        result["metadata"] = response.metadata


def _fill_scored(result: dict[str, Any], fields: Mapping[str, Any], scored: StepsScore) -> None:
    for group, index, actual in scored.matches:
        result["reference_steps"][group][index]["matches"] = fields["actual_steps"][actual].get("id")
    result["steps_score"] = scored.score
    if scored.errors:
        result["steps_score_error"] = "; ".join(scored.errors[:MAX_ERRORS])


def complete(
    result: Mapping[str, Any], facts: Facts | None, judged: Judged, provenance: dict[str, Any]
) -> dict[str, Any]:
    """The result with what its judges say, in the documented order; it is not changed itself.

    `facts` are those that `fill` was given.
    """
    before = {key: result[key] for key in BEFORE_METRICS if key in result}
    whole = before | judged.keys | {key: value for key, value in result.items() if key not in before}
    if facts is not None:
        whole["failure"] = failure_of(facts._replace(right_answer=right_answer(judged.keys)))
    if judged.of_steps:
        steps = result["actual_steps"]
        whole["actual_steps"] = [step | judged.of_steps.get(i, {}) for i, step in enumerate(steps)]
    whole["judge"] = provenance
    return whole
