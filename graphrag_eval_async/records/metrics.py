"""The names of the keys that are metrics, in the order in which aggregates show them."""

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

COST = "_cost"
"""How the names of costs end, in US dollars."""
