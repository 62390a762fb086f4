"""Metrics: their names in the order in which aggregates show them, their ranges, and their keys."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from graphrag_eval_async.catalogue.judged import JUDGED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

COST = "_cost"
"""Suffix of the names of costs, which are in US dollars."""

BY = "_by"
"""Suffix of the key that says what each of several judges says."""

DISAGREEMENT = "_disagreement"
"""Suffix of the key that says how far the scores of several judges are apart."""

RESOURCES = ("input_tokens", "output_tokens", "total_tokens", "elapsed_sec")
"""Metrics that responses contain: what answers consume, besides costs; less is better."""

TOOL_CALLS = ("tool_calls_precision", "tool_calls_recall", "tool_calls_f1")
"""Metrics of the names of the steps, which are off by default."""

VALUES_F1 = "values_f1"
"""One of `VALUES`, and the value of a reference step's `score` that asks for them."""

VALUES_RECALL = "values_recall"

VALUES_WRONG = "values_wrong"
"""Share of the values that the agent returned that are not expected; 0 if it returned none."""

TEXT2SPARQL_F1 = "text2sparql_f1"
"""What the client of TEXT2SPARQL computes for a question: as `values_f1`, but 0 if nothing is
expected.
"""

VALUES = ("values_precision", VALUES_RECALL, VALUES_F1, VALUES_WRONG, TEXT2SPARQL_F1)
"""Metrics of reference steps with ``score: values_f1``, which compares results as sets of
values.
"""

EXECUTABLE = "executable"
"""Whether the last query of a response runs: 1 if it returns something, 0 if it fails or there is
none. Only with ``execute``.
"""

STEP_METRICS = ("steps_score", *TOOL_CALLS, *VALUES, EXECUTABLE)
"""Metrics of the steps, which need no judge."""

ANSWER_MATCH = "answer_match"
"""The metric of answers that needs no judge. A result has this key if it applies, null without a
value.
"""


class Measure(Struct, frozen=True, kw_only=True):
    """A metric, which has one value in a result or a retrieval step.

    Attributes:
        name: its key.
        low: the least value.
        high: the greatest value.
        lower_is_better: whether lower values are better.
        is_primary: whether comparisons decide it by default.
        section: the section of the configuration that turns it on, if a judge computes it.
        of_step: whether it belongs to single retrieval steps.
        is_conditional: whether it applies to some responses only, such as those with a retrieval
            step, so that its absence says nothing.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    lower_is_better: bool = False
    is_primary: bool = False
    section: str | None = None
    of_step: bool = False
    is_conditional: bool = False


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure(name="steps_score", is_primary=True),
        *(
            Measure(name=name, lower_is_better=name == VALUES_WRONG)
            for name in (*TOOL_CALLS, *VALUES, EXECUTABLE)
        ),
        Measure(name=ANSWER_MATCH, is_primary=True),
        *(Measure(name=name, high=inf, lower_is_better=True) for name in RESOURCES),
        *(
            Measure(
                name=name,
                low=metric.low,
                high=metric.high,
                lower_is_better=metric.lower_is_better,
                is_primary=name in metric.primary,
                section=metric.name,
                of_step=metric.of_step,
                is_conditional=not metric.counts_unanswered,
            )
            for metric in JUDGED
            for name in metric.values
        ),
    )
}
"""All metrics of results and retrieval steps by name, in the order in which aggregates show them.

Only costs, and what users define, are not listed: custom evaluations, metrics in code and metrics
of ragas.
"""

RETRIEVAL_METRICS = tuple(measure.name for measure in MEASURES.values() if measure.of_step)
"""Metrics of a single retrieval step."""

RESULT_METRICS = tuple(measure.name for measure in MEASURES.values() if not measure.of_step)
"""Metrics of a result, which are not of one of its steps."""

CONDITIONAL_METRICS = {
    measure.name for measure in MEASURES.values() if measure.section and measure.is_conditional
}
"""Judged metrics that apply to some responses only, such as those with a retrieval step."""

BOUNDED_METRICS = frozenset(
    measure.name for measure in MEASURES.values() if (measure.low, measure.high) == (0, 1)
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
    *(measure.name for measure in MEASURES.values() if measure.is_primary),
)
"""The metrics that comparisons decide by default: one score for each way to judge an answer."""

RANKING = tuple(
    measure.name
    for measure in MEASURES.values()
    if measure.is_primary and not measure.is_conditional
)
"""The primary metrics that apply to all responses: their mean ranks results."""

_KEYS_WITHOUT_METRICS = """
    template_id question_id question_text reference_steps reference_answer status error
    actual_answer actual_steps steps_score_error sample response_id metadata judge pending matches
    diff paired_columns failure source failure_detail execution execution_error trace_problems tags
    custom_metrics answer_match_reason steps number_of_error_samples number_of_success_samples
    error_rate repeats number_of_questions
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
"""The sections by the names of metrics, and by those of which costs are called."""


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
    """Return whether a metric is a cost that is not counted twice.

    The cost of an F1 score is the sum of two other costs, so it does not count.
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
    measure = MEASURES.get(metric)
    if measure is not None:
        return measure.low, measure.high
    if metric in {ERROR_RATE, MISSING_RATE} or is_repeat_rate(metric):
        return 0, 1
    if metric.endswith(COST):
        return 0, inf
    return -inf, inf


def lower_is_better(metric: str) -> bool:
    """Return whether lower values of a metric are better.

    Of the output of a custom evaluation or a metric in code, higher values are.
    """
    measure = MEASURES.get(metric)
    if measure is not None:
        return measure.lower_is_better
    return metric == ERROR_RATE or metric.endswith(COST)


def fits_64_bits(value: float) -> bool:
    """Return whether an integer, as int or float, fits in 64 bits, with a sign or without."""
    return -(2**63) <= value < 2**64
