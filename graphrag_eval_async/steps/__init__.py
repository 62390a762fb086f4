"""Scoring an agent's steps against the reference's: pure, synchronous, one comparator per module."""

from graphrag_eval_async.steps.budget import QUICK_STEPS, STEPS, Budget
from graphrag_eval_async.steps.comparators import (
    Comparator,
    PreparedStep,
    accepted_names,
    check_step,
    compares_by_name,
    needs_execution,
    prepare_step,
)
from graphrag_eval_async.steps.failure import Facts, failure_of, right_answer
from graphrag_eval_async.steps.matching import StepsScore, score_steps, usable_names
from graphrag_eval_async.steps.retrieval import average_precision, recall_at_k
from graphrag_eval_async.steps.similarity import compare_queries, sparql_of

__all__ = [
    "QUICK_STEPS",
    "STEPS",
    "Budget",
    "Comparator",
    "Facts",
    "PreparedStep",
    "StepsScore",
    "accepted_names",
    "average_precision",
    "check_step",
    "compare_queries",
    "compares_by_name",
    "failure_of",
    "needs_execution",
    "prepare_step",
    "recall_at_k",
    "right_answer",
    "score_steps",
    "sparql_of",
    "usable_names",
]
