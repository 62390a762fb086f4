"""Metrics: their names in the order in which aggregates show them, their ranges, and their keys."""

RESULT_METRICS = (
    "steps_score",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "elapsed_sec",
    "answer_recall",
    "answer_precision",
    "answer_f1",
    "answer_relevance",
    "ragas_answer_correctness",
)
RETRIEVAL_METRICS = (
    "retrieval_answer_recall",
    "retrieval_answer_precision",
    "retrieval_answer_f1",
    "retrieval_context_recall",
    "retrieval_context_precision",
    "retrieval_context_f1",
)
"""Metrics of a single retrieval step."""

BOUNDED_METRICS = frozenset(
    {"steps_score", "answer_recall", "answer_precision", "answer_f1", *RETRIEVAL_METRICS}
)
"""Metrics defined to be from 0 to 1. A cosine similarity is not, nor is a metric computed from one."""

COST = "_cost"
"""Suffix of the names of costs, which are in US dollars."""

ERROR_RATE = "error_rate"
"""Name of the share of responses that are errors; not a key of a result."""

RESOURCES = frozenset({"input_tokens", "output_tokens", "total_tokens", "elapsed_sec"})
"""Metrics of what answers consume, besides costs; less is better."""

RESULT_KEYS = frozenset(
    {
        *RESULT_METRICS,
        *RETRIEVAL_METRICS,
        *("template_id", "question_id", "question_text", "reference_steps", "reference_answer"),
        *("status", "error", "actual_answer", "actual_steps", "steps_score_error"),
        *("sample", "response_id", "metadata", "judge", "pending", "matches", "failure", "source"),
        "trace_problems",
        *("answer_reference_claims_count", "answer_actual_claims_count", "answer_matching_claims_count"),
        *("answer_correctness_reason", "answer_eval_error", "answer_correctness_cost"),
        *("answer_relevance_reason", "answer_relevance_error", "answer_relevance_cost"),
        *(f"{metric}{suffix}" for metric in RETRIEVAL_METRICS for suffix in ("_reason", "_error", COST)),
        *("retrieval_answer_error", "retrieval_answer_cost"),
        *("retrieval_context_error", "retrieval_context_cost"),
        *(
            f"ragas_answer_correctness{suffix}"
            for suffix in ("", "_tp", "_fp", "_fn", "_similarity", "_error", COST)
        ),
        *("steps", "number_of_error_samples", "number_of_success_samples"),  # of aggregates
    }
)
"""Keys of results, their steps and groups of aggregates. Outputs of custom evaluations may not use them."""

_POSITIONS = {metric: i for i, metric in enumerate(RESULT_METRICS + RETRIEVAL_METRICS)}


def metric_position(metric: str) -> tuple[int, str]:
    """Sort key that puts the metrics in their fixed order, followed by costs by name."""
    return _POSITIONS.get(metric, len(_POSITIONS)), metric


def is_bounded(name: str) -> bool:
    """Whether a built-in metric is defined to be from 0 to 1."""
    return name in BOUNDED_METRICS


def is_score(name: str) -> bool:
    """Whether a metric measures the quality of answers, not their cost."""
    return name not in RESOURCES and not name.endswith(COST)


def may_be_bounded(name: str) -> bool:
    """Whether a metric is bounded, or may be the output of a custom evaluation."""
    return name in BOUNDED_METRICS or not (name in RESULT_KEYS or name.endswith(COST))


def is_metric(name: str) -> bool:
    """Whether a key of this name is a metric in every result or retrieval step."""
    return name in _POSITIONS or name.endswith(COST)


def may_be_metric(name: str) -> bool:
    """Whether a result may have a metric of this name, built in or an output of a custom evaluation."""
    return is_metric(name) or name not in RESULT_KEYS


_SECTIONS = {
    **dict.fromkeys(("answer_recall", "answer_precision", "answer_f1"), "answer_correctness"),
    **{name: name for name in ("answer_correctness", "answer_relevance", "ragas_answer_correctness")},
    **{metric: metric.rpartition("_")[0] for metric in RETRIEVAL_METRICS},
}


def section_of(metric: str) -> str | None:
    """The configuration section that enables a built-in metric or its cost; None if it needs no judge."""
    return _SECTIONS.get(metric.removesuffix(COST))


def fits(value: float) -> bool:
    """Whether an int, or a float with an integer value, fits in 64 bits, signed or unsigned."""
    return -(2**63) <= value < 2**64
