"""Evaluate question-answering agents over knowledge graphs while they run."""

from graphrag_eval_async.aggregates import RunningAggregates
from graphrag_eval_async.batch import compute_aggregates, run_evaluation
from graphrag_eval_async.config import (
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
    Config,
    CustomEvaluationConfig,
    EmbeddingConfig,
    GenerationConfig,
    LimitsConfig,
    LLMConfig,
    OutputConfig,
    PricingConfig,
    RagasAnswerCorrectnessConfig,
    RetrievalAnswerConfig,
    RetrievalContextConfig,
    StepsConfig,
    load_config,
)
from graphrag_eval_async.errors import (
    AggregationError,
    ConfigError,
    GraphragEvalError,
    JudgeError,
    JudgeUnavailable,
    MissingResponses,
    ReferenceDataError,
    RejectedResponse,
    RejectedResponses,
    SourceError,
    UsageError,
)
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.judge import Judge, JudgeUsage, TokenUsage
from graphrag_eval_async.records import Question, Reject, Rejects
from graphrag_eval_async.reference import Reference, load_reference
from graphrag_eval_async.steps import average_precision, recall_at_k
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

__all__ = [
    "AggregationError",
    "AnswerCorrectnessConfig",
    "AnswerRelevanceConfig",
    "Config",
    "ConfigError",
    "CustomEvaluationConfig",
    "EmbeddingConfig",
    "EvaluationStream",
    "Evaluator",
    "GenerationConfig",
    "GraphragEvalError",
    "Judge",
    "JudgeError",
    "JudgeUnavailable",
    "JudgeUsage",
    "LLMConfig",
    "LimitsConfig",
    "MissingResponses",
    "OutputConfig",
    "PricingConfig",
    "Question",
    "RagasAnswerCorrectnessConfig",
    "Reference",
    "ReferenceDataError",
    "Reject",
    "RejectedResponse",
    "RejectedResponses",
    "Rejects",
    "RetrievalAnswerConfig",
    "RetrievalContextConfig",
    "RunningAggregates",
    "SourceError",
    "StepsConfig",
    "TokenUsage",
    "UsageError",
    "average_precision",
    "compute_aggregates",
    "evaluate_stream",
    "load_config",
    "load_reference",
    "recall_at_k",
    "run_evaluation",
]
