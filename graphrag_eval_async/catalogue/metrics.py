"""Metrics: their names in the order in which aggregates show them, their ranges, and their keys."""

from __future__ import annotations

import re
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class JudgedMetric(NamedTuple):
    """A built-in metric that a judge computes."""

    name: str  # Its section of the configuration.
    values: tuple[str, ...]  # Keys of its values in a result or a retrieval step.
    # What a response and its question must have, in words; without it, the metric is skipped.
    needs: str
    more: tuple[str, ...] = ()  # Other keys that it may add.
    # By key of an error, the values that it leaves out; without entries, ``<name>_error`` leaves
    # out all.
    errors: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    needs_reference: bool = False  # Whether it needs a reference answer or reference steps.
    counts_unanswered: bool = False  # Whether an absent answer counts as a missing value.
    of_step: bool = False  # Whether it belongs to single retrieval steps.
    is_bounded: bool = True  # Whether its values are from 0 to 1 by definition.


def _retrieval(name: str, needs: str) -> JudgedMetric:
    recall, precision, f1 = parts = tuple(
        f"{name}_{part}" for part in ("recall", "precision", "f1")
    )
    errors = {
        f"{name}_error": parts,
        f"{recall}_error": (recall, f1),
        f"{precision}_error": (precision, f1),
    }
    more = tuple(f"{part}{suffix}" for part in parts for suffix in ("_reason", "_error", "_cost"))
    return JudgedMetric(name, parts, needs, more, errors, needs_reference=True, of_step=True)


JUDGED = (
    JudgedMetric(
        "answer_correctness",
        ("answer_recall", "answer_precision", "answer_f1"),
        "an answer and a reference answer",
        (
            *(
                "answer_reference_claims_count",
                "answer_actual_claims_count",
                "answer_matching_claims_count",
            ),
            *("answer_correctness_reason", "answer_eval_error"),
        ),
        {"answer_eval_error": ("answer_recall", "answer_precision", "answer_f1")},
        needs_reference=True,
        counts_unanswered=True,
    ),
    JudgedMetric(
        "answer_relevance",
        ("answer_relevance",),
        "an answer",
        counts_unanswered=True,
        is_bounded=False,
    ),
    JudgedMetric(
        "ragas_answer_correctness",
        ("ragas_answer_correctness",),
        "an answer and a reference answer",
        tuple(
            f"ragas_answer_correctness{suffix}" for suffix in ("_tp", "_fp", "_fn", "_similarity")
        ),
        needs_reference=True,
        counts_unanswered=True,
        is_bounded=False,
    ),
    JudgedMetric("faithfulness", ("faithfulness",), "an answer and the texts of a retrieval step"),
    JudgedMetric("context_relevance", ("context_relevance",), "the texts of a retrieval step"),
    JudgedMetric(
        "sparql_groundedness", ("sparql_groundedness",), "an answer and the rows of a SPARQL query"
    ),
    _retrieval("retrieval_answer", "the texts of a retrieval step and a reference answer"),
    _retrieval(
        "retrieval_context", "the texts of a retrieval step that matches one of the reference"
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

_OF_ANSWERS = [value for metric in JUDGED if not metric.of_step for value in metric.values]
RESULT_METRICS = (*STEP_METRICS, ANSWER_MATCH, *RESOURCES, *_OF_ANSWERS)
RETRIEVAL_METRICS = tuple(value for metric in JUDGED if metric.of_step for value in metric.values)
"""Metrics of a single retrieval step."""

BOUNDED_METRICS = frozenset(
    {
        *STEP_METRICS,
        ANSWER_MATCH,
        *(v for metric in JUDGED if metric.is_bounded for v in metric.values),
    }
)
"""Metrics defined to be from 0 to 1. A cosine similarity is not, nor is a metric computed from
one.
"""

COST = "_cost"
"""Suffix of the names of costs, which are in US dollars."""

BY, DISAGREEMENT = "_by", "_disagreement"
"""Suffixes of the keys that several judges add: what each says, and how far their scores are
apart.
"""

ERROR_RATE = "error_rate"
"""Name of the share of responses that are errors; not a key of a result."""

MISSING_RATE = "missing_rate"
"""Name of the share of questions without a response; not a key of a result."""

is_repeat_rate = re.compile(r"pass[@^](?:[1-9]\d?|100)").fullmatch
"""Whether a name is that of a rate of repeats, such as ``pass@2``; not a key of a result."""

PRIMARY = (
    *(
        ERROR_RATE,
        "steps_score",
        ANSWER_MATCH,
        "answer_f1",
        "answer_relevance",
        "ragas_answer_correctness",
    ),
    *("faithfulness", "sparql_groundedness"),
)
"""The metrics that comparisons decide by default: one score for each way to judge an answer."""

_OWN_KEYS = """
    template_id question_id question_text reference_steps reference_answer status error
    actual_answer actual_steps steps_score_error sample response_id metadata judge pending matches
    diff failure source failure_detail execution execution_error trace_problems tags custom_metrics
    answer_match_reason steps number_of_error_samples number_of_success_samples error_rate repeats
"""
_SUFFIXES = ("_reason", "_error", COST, BY, DISAGREEMENT)
RESULT_KEYS = frozenset({*_OWN_KEYS.split(), *RESULT_METRICS, *RETRIEVAL_METRICS}).union(
    (key for metric in JUDGED for key in metric.more),
    (f"{metric.name}{suffix}" for metric in JUDGED for suffix in _SUFFIXES),
)
"""Keys of results, their steps and groups of aggregates. Outputs of custom evaluations may not
use them.
"""

_POSITIONS = {metric: i for i, metric in enumerate(RESULT_METRICS + RETRIEVAL_METRICS)}


def metric_position(metric: str) -> tuple[int, str]:
    """Sort key that puts the metrics in their fixed order, followed by costs by name."""
    return _POSITIONS.get(metric, len(_POSITIONS)), metric


def is_score(name: str) -> bool:
    """Whether a metric measures the quality of answers, not their cost."""
    return name not in RESOURCES and not name.endswith(COST)


def is_primary(name: str, chosen: Collection[str] | None, fractions: Collection[str]) -> bool:
    """Whether comparisons decide a metric: those that a configuration has `chosen`, or else the
    primary.
    """
    return name in chosen if chosen is not None else name in PRIMARY or name in fractions


def may_be_bounded(name: str) -> bool:
    """Whether a metric is bounded, or may be the output of a custom evaluation."""
    return name in BOUNDED_METRICS or not (name in RESULT_KEYS or name.endswith(COST))


def is_counted_cost(name: str) -> bool:
    """Whether a metric is a cost, but not that of an F1 score, which is a sum of other costs."""
    return name.endswith(COST) and not name.endswith(f"_f1{COST}")


def is_metric(name: str) -> bool:
    """Whether a key of this name is a metric in every result or retrieval step."""
    return name in _POSITIONS or name.endswith(COST)


_SECTIONS = {value: metric.name for metric in JUDGED for value in (*metric.values, metric.name)}


def section_of(metric: str) -> str | None:
    """The configuration section that enables a built-in metric or its cost; None if it needs no
    judge.
    """
    return _SECTIONS.get(metric.removesuffix(COST))


def range_of(metric: str) -> tuple[float, float]:
    """The least and the greatest value of a metric; outputs of custom evaluations may have any."""
    if metric in BOUNDED_METRICS or metric in {ERROR_RATE, MISSING_RATE} or is_repeat_rate(metric):
        return 0, 1
    if metric in _POSITIONS and is_score(metric):
        return -1, 1  # Made of cosine similarities.
    return (0, inf) if is_metric(metric) else (-inf, inf)


def fits_64_bits(value: float) -> bool:
    """Whether an int, or a float with an integer value, fits in 64 bits, signed or unsigned."""
    return -(2**63) <= value < 2**64
