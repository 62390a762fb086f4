"""The names of keys: of metrics, in the order in which aggregates show them, and of all else in a result."""

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
"""Those of a single retrieval step."""

BOUNDED_METRICS = frozenset(
    {"steps_score", "answer_recall", "answer_precision", "answer_f1", *RETRIEVAL_METRICS}
)
"""Those from 0 to 1 by their definition: a cosine is none, nor what is made of one."""

COST = "_cost"
"""How the names of costs end, in US dollars."""

ERROR_RATE = "error_rate"
"""No key of a result, but a name for the share of responses that are errors."""

RESOURCES = frozenset({"input_tokens", "output_tokens", "total_tokens", "elapsed_sec"})
"""What answers take, besides costs; the less the better."""

RESULT_KEYS = frozenset(
    {
        *RESULT_METRICS,
        *RETRIEVAL_METRICS,
        *("template_id", "question_id", "question_text", "reference_steps", "reference_answer"),
        *("status", "error", "actual_answer", "actual_steps", "steps_score_error"),
        *("sample", "response_id", "metadata", "judge", "pending", "matches", "failure", "source"),
        *("answer_reference_claims_count", "answer_actual_claims_count", "answer_matching_claims_count"),
        *("answer_correctness_reason", "answer_eval_error", "answer_correctness_cost"),
        *("answer_relevance_reason", "answer_relevance_error", "answer_relevance_cost"),
        *(f"{metric}{suffix}" for metric in RETRIEVAL_METRICS for suffix in ("_reason", "_error", COST)),
        *(
            f"ragas_answer_correctness{suffix}"
            for suffix in ("", "_tp", "_fp", "_fn", "_similarity", "_error", COST)
        ),
        *("steps", "number_of_error_samples", "number_of_success_samples"),  # of aggregates
    }
)
"""What a result, a step of it or a group of the aggregates may have: names that no user's output may take."""
