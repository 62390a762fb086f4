"""Evaluate question-answering agents over knowledge graphs while they run."""

from graphrag_eval_async.aggregates import RunningAggregates
from graphrag_eval_async.batch import compute_aggregates, run_evaluation
from graphrag_eval_async.errors import (
    AggregationError,
    GraphragEvalError,
    MissingResponses,
    ReferenceDataError,
    RejectedResponse,
    RejectedResponses,
    SourceError,
    UsageError,
)
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.records import Question, Reject, Rejects
from graphrag_eval_async.reference import Reference, load_reference
from graphrag_eval_async.steps import average_precision, recall_at_k
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

__all__ = [
    "AggregationError",
    "EvaluationStream",
    "Evaluator",
    "GraphragEvalError",
    "MissingResponses",
    "Question",
    "Reference",
    "ReferenceDataError",
    "Reject",
    "RejectedResponse",
    "RejectedResponses",
    "Rejects",
    "RunningAggregates",
    "SourceError",
    "UsageError",
    "average_precision",
    "compute_aggregates",
    "evaluate_stream",
    "load_reference",
    "recall_at_k",
    "run_evaluation",
]
