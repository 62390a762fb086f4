"""Metrics: their names in the order in which aggregates show them, their ranges, and their keys."""

from __future__ import annotations

import re
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

COST = "_cost"
"""Suffix of the names of costs, which are in US dollars."""

BY = "_by"
"""Suffix of the key that says what each of several judges says."""

DISAGREEMENT = "_disagreement"
"""Suffix of the key that says how far the scores of several judges are apart."""


class JudgedMetric(NamedTuple):
    """A built-in metric that a judge computes.

    Attributes:
        name: its section of the configuration.
        values: keys of its values in a result or a retrieval step.
        needs: what a response and its question must have, in words; else the metric is skipped.
        other_keys: other keys that it may add.
        errors: by key of an error, the values that are missing because of it; without entries, the
            key ``<name>_error`` explains all.
        needs_reference: whether it needs a reference answer or reference steps.
        counts_unanswered: whether an absent answer counts as a missing value.
        of_step: whether it belongs to single retrieval steps.
        is_bounded: whether its values are from 0 to 1 by definition.
    """

    name: str
    values: tuple[str, ...]
    needs: str
    other_keys: tuple[str, ...] = ()
    errors: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    needs_reference: bool = False
    counts_unanswered: bool = False
    of_step: bool = False
    is_bounded: bool = True


def _retrieval_metric(name: str, *, needs: str) -> JudgedMetric:
    """Return a metric of retrieval steps: recall, precision and F1, each with its reason and
    cost.
    """
    recall = f"{name}_recall"
    precision = f"{name}_precision"
    f1 = f"{name}_f1"
    return JudgedMetric(
        name,
        values=(recall, precision, f1),
        needs=needs,
        other_keys=tuple(
            f"{value}{suffix}"
            for value in (recall, precision, f1)
            for suffix in ("_reason", "_error", COST)
        ),
        # Without recall or precision, there is no F1.
        errors={
            f"{name}_error": (recall, precision, f1),
            f"{recall}_error": (recall, f1),
            f"{precision}_error": (precision, f1),
        },
        needs_reference=True,
        of_step=True,
    )


JUDGED = (
    JudgedMetric(
        "answer_correctness",
        values=("answer_recall", "answer_precision", "answer_f1"),
        needs="an answer and a reference answer",
        other_keys=(
            "answer_reference_claims_count",
            "answer_actual_claims_count",
            "answer_matching_claims_count",
            "answer_correctness_reason",
            "answer_eval_error",
        ),
        errors={"answer_eval_error": ("answer_recall", "answer_precision", "answer_f1")},
        needs_reference=True,
        counts_unanswered=True,
    ),
    JudgedMetric(
        "answer_relevance",
        values=("answer_relevance",),
        needs="an answer",
        counts_unanswered=True,
        is_bounded=False,
    ),
    JudgedMetric(
        "ragas_answer_correctness",
        values=("ragas_answer_correctness",),
        needs="an answer and a reference answer",
        other_keys=(
            "ragas_answer_correctness_tp",
            "ragas_answer_correctness_fp",
            "ragas_answer_correctness_fn",
            "ragas_answer_correctness_similarity",
        ),
        needs_reference=True,
        counts_unanswered=True,
        is_bounded=False,
    ),
    JudgedMetric(
        "faithfulness",
        values=("faithfulness",),
        needs="an answer and the texts of a retrieval step",
    ),
    JudgedMetric(
        "context_relevance",
        values=("context_relevance",),
        needs="the texts of a retrieval step",
    ),
    JudgedMetric(
        "sparql_groundedness",
        values=("sparql_groundedness",),
        needs="an answer and the rows of a SPARQL query",
    ),
    _retrieval_metric(
        "retrieval_answer",
        needs="the texts of a retrieval step and a reference answer",
    ),
    _retrieval_metric(
        "retrieval_context",
        needs="the texts of a retrieval step that matches one of the reference",
    ),
)
"""The built-in metrics that a judge computes, in the order in which aggregates show them."""

CONDITIONAL_METRICS = {
    value for metric in JUDGED if not metric.counts_unanswered for value in metric.values
}
"""Judged metrics that apply to some responses only, such as those with a retrieval step."""

RESOURCES = ("input_tokens", "output_tokens", "total_tokens", "elapsed_sec")
"""Metrics that responses contain: what answers consume, besides costs; less is better."""

TOOL_CALLS = ("tool_calls_precision", "tool_calls_recall", "tool_calls_f1")
"""Metrics of the names of the steps, which are off by default."""

VALUES_F1 = "values_f1"
"""The last of `VALUES`, and the value of a reference step's `score` that asks for them."""

VALUES = ("values_precision", "values_recall", VALUES_F1)
"""Metrics of reference steps with ``score: values_f1``, which compares results as sets of
values.
"""

STEP_METRICS = ("steps_score", *TOOL_CALLS, *VALUES)
"""Metrics of the steps, which need no judge."""

ANSWER_MATCH = "answer_match"
"""The metric of answers that needs no judge. A result has this key if it applies, null without a
value.
"""

RETRIEVAL_METRICS = tuple(value for metric in JUDGED if metric.of_step for value in metric.values)
"""Metrics of a single retrieval step."""

RESULT_METRICS = (
    *STEP_METRICS,
    ANSWER_MATCH,
    *RESOURCES,
    *(value for metric in JUDGED if not metric.of_step for value in metric.values),
)
"""Metrics of a result, which are not of one of its steps."""

BOUNDED_METRICS = frozenset(
    {
        *STEP_METRICS,
        ANSWER_MATCH,
        *(value for metric in JUDGED if metric.is_bounded for value in metric.values),
    }
)
"""Metrics defined to be from 0 to 1. A cosine similarity is not, nor is a metric computed from
one.
"""

ERROR_RATE = "error_rate"
"""Name of the share of responses that are errors; not a key of a result."""

MISSING_RATE = "missing_rate"
"""Name of the share of questions without a response; not a key of a result."""

is_repeat_rate = re.compile(r"pass[@^](?:[1-9]\d?|100)").fullmatch
"""Whether a name is that of a rate of repeats, such as ``pass@2``; not a key of a result."""

PRIMARY = (
    ERROR_RATE,
    "steps_score",
    ANSWER_MATCH,
    "answer_f1",
    "answer_relevance",
    "ragas_answer_correctness",
    "faithfulness",
    "sparql_groundedness",
)
"""The metrics that comparisons decide by default: one score for each way to judge an answer."""

_KEYS_WITHOUT_METRICS = """
    template_id question_id question_text reference_steps reference_answer status error
    actual_answer actual_steps steps_score_error sample response_id metadata judge pending matches
    diff failure source failure_detail execution execution_error trace_problems tags custom_metrics
    answer_match_reason steps number_of_error_samples number_of_success_samples error_rate repeats
"""

RESULT_KEYS = frozenset(
    {
        *_KEYS_WITHOUT_METRICS.split(),
        *RESULT_METRICS,
        *RETRIEVAL_METRICS,
        *(key for metric in JUDGED for key in metric.other_keys),
        *(
            f"{metric.name}{suffix}"
            for metric in JUDGED
            for suffix in ("_reason", "_error", COST, BY, DISAGREEMENT)
        ),
    }
)
"""Keys of results, their steps and groups of aggregates. Outputs of custom evaluations may not
use them.
"""

_POSITIONS = {
    metric: position for position, metric in enumerate(RESULT_METRICS + RETRIEVAL_METRICS)
}

_SECTIONS = {value: metric.name for metric in JUDGED for value in (*metric.values, metric.name)}


def metric_position(metric: str) -> tuple[int, str]:
    """Return a sort key that puts metrics in their fixed order, and then all others by name."""
    return _POSITIONS.get(metric, len(_POSITIONS)), metric


def is_score(name: str) -> bool:
    """Return whether a metric measures the quality of answers, not their cost."""
    return name not in RESOURCES and not name.endswith(COST)


def is_primary(name: str, chosen: Collection[str] | None, fractions: Collection[str]) -> bool:
    """Return whether comparisons decide a metric.

    Args:
        name: the metric.
        chosen: the metrics that the configuration names; None if it names none.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
    """
    if chosen is not None:
        return name in chosen
    return name in PRIMARY or name in fractions


def is_metric(name: str) -> bool:
    """Return whether a key of this name is a metric in every result or retrieval step."""
    return name in _POSITIONS or name.endswith(COST)


def is_counted_cost(name: str) -> bool:
    """Return whether a metric is a cost, but not that of an F1 score, which is a sum of other
    costs.
    """
    return name.endswith(COST) and not name.endswith(f"_f1{COST}")


def may_be_bounded(name: str) -> bool:
    """Return whether a metric is bounded, or may be the output of a custom evaluation."""
    is_built_in = name in RESULT_KEYS or name.endswith(COST)
    return name in BOUNDED_METRICS or not is_built_in


def section_of(metric: str) -> str | None:
    """Return the section of the configuration that enables a metric or its cost.

    It is None for a metric that needs no judge or is not built in.
    """
    return _SECTIONS.get(metric.removesuffix(COST))


def range_of(metric: str) -> tuple[float, float]:
    """Return the least and the greatest value of a metric.

    An output of a custom evaluation may have any value.
    """
    if metric in BOUNDED_METRICS or metric in {ERROR_RATE, MISSING_RATE} or is_repeat_rate(metric):
        return 0, 1
    if metric in _POSITIONS and is_score(metric):
        # The scores that are not bounded are cosine similarities, or computed from them.
        return -1, 1
    if is_metric(metric):
        return 0, inf
    return -inf, inf


def fits_64_bits(value: float) -> bool:
    """Return whether an int, or a float with an integer value, fits in 64 bits, signed or
    unsigned.
    """
    return -(2**63) <= value < 2**64
