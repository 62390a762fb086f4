"""Evaluate question-answering agents over knowledge graphs while they run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphrag_eval_async.aggregates import Last, Seconds
    from graphrag_eval_async.batch import (
        calibrate,
        compare,
        compute_aggregates,
        plan_questions,
        run_evaluation,
    )
    from graphrag_eval_async.blocking import run_evaluation_sync
    from graphrag_eval_async.config import (
        AnswerCorrectnessConfig,
        AnswerRelevanceConfig,
        Config,
        ContextRelevanceConfig,
        CustomEvaluationConfig,
        EmbeddingConfig,
        ExecuteConfig,
        FaithfulnessConfig,
        GenerationConfig,
        LimitsConfig,
        LLMConfig,
        OutputConfig,
        PricingConfig,
        RagasAnswerCorrectnessConfig,
        RetrievalAnswerConfig,
        RetrievalContextConfig,
        SparqlGroundednessConfig,
        StepsConfig,
        load_config,
    )
    from graphrag_eval_async.errors import (
        AggregationError,
        ConfigError,
        ExecutionUnavailable,
        GraphragEvalError,
        GraphragEvalWarning,
        JournalError,
        JournalLocked,
        JournalMismatch,
        JudgeError,
        JudgeUnavailable,
        MissingResponses,
        ReferenceDataError,
        RejectedResponse,
        RejectedResponses,
        SourceError,
        TraceError,
        UsageError,
        WorkerError,
    )
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.inference.compared import Comparison
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.judge import Judge, JudgeUsage, TokenUsage
    from graphrag_eval_async.monitor.dashboard import Dashboard
    from graphrag_eval_async.monitor.otel import OtelSink
    from graphrag_eval_async.monitor.prometheus import PrometheusCollector
    from graphrag_eval_async.records import Line, LongLine, Position, Question, Reject, Rejects
    from graphrag_eval_async.records.tabular import results_to_rows
    from graphrag_eval_async.reference import Reference, load_reference
    from graphrag_eval_async.reference.authoring import reference_step_from_sparql, save_reference
    from graphrag_eval_async.scale import EvaluatedFile, evaluate_file
    from graphrag_eval_async.scale.ray.evaluation import DatasetEvaluation, evaluate_dataset
    from graphrag_eval_async.scale.redis.results import redis_results, watch_redis
    from graphrag_eval_async.scale.redis.source import redis_stream
    from graphrag_eval_async.sinks.journal import Journal
    from graphrag_eval_async.sources import Follower, Lag, follow_jsonl, read_jsonl
    from graphrag_eval_async.sources.receiving import receive_otlp
    from graphrag_eval_async.steps import average_precision, recall_at_k
    from graphrag_eval_async.stream import EvaluationStream, evaluate_agent, evaluate_stream
    from graphrag_eval_async.stream.until import Decision
    from graphrag_eval_async.traces import (
        TraceFormat,
        response_from_anthropic,
        response_from_langchain,
        response_from_llamaindex,
        response_from_mcp,
        response_from_openai,
        response_from_pydantic_ai,
        response_from_trace,
        responses_from_otlp,
    )

_MODULES = {
    "aggregates": "Last Seconds",
    "reference.authoring": "reference_step_from_sparql save_reference",
    "batch": "calibrate compare compute_aggregates plan_questions run_evaluation",
    "blocking": "run_evaluation_sync",
    "config": (
        "AnswerCorrectnessConfig AnswerRelevanceConfig Config CustomEvaluationConfig EmbeddingConfig "
        "ExecuteConfig "
        "GenerationConfig LLMConfig LimitsConfig OutputConfig PricingConfig RagasAnswerCorrectnessConfig "
        "ContextRelevanceConfig FaithfulnessConfig SparqlGroundednessConfig "
        "RetrievalAnswerConfig RetrievalContextConfig StepsConfig load_config"
    ),
    "errors": (
        "AggregationError ConfigError ExecutionUnavailable GraphragEvalError GraphragEvalWarning "
        "JournalError JournalLocked "
        "JournalMismatch JudgeError JudgeUnavailable MissingResponses ReferenceDataError RejectedResponse "
        "RejectedResponses SourceError TraceError UsageError WorkerError"
    ),
    "evaluator": "Evaluator",
    "inference.compared": "Comparison",
    "inference.running": "RunningAggregates",
    "inference.until": "Until",
    "judge": "Judge JudgeUsage TokenUsage",
    "monitor.dashboard": "Dashboard",
    "monitor.otel": "OtelSink",
    "monitor.prometheus": "PrometheusCollector",
    "records": "Line LongLine Position Question Reject Rejects",
    "records.tabular": "results_to_rows",
    "reference": "Reference load_reference",
    "scale": "EvaluatedFile evaluate_file",
    "scale.redis.results": "redis_results watch_redis",
    "scale.redis.source": "redis_stream",
    "scale.ray.evaluation": "DatasetEvaluation evaluate_dataset",
    "sinks.journal": "Journal",
    "sources": "Follower Lag follow_jsonl read_jsonl",
    "sources.receiving": "receive_otlp",
    "steps": "average_precision recall_at_k",
    "stream": "EvaluationStream evaluate_agent evaluate_stream",
    "stream.until": "Decision",
    "traces": (
        "TraceFormat response_from_anthropic response_from_langchain response_from_llamaindex "
        "response_from_mcp response_from_openai response_from_pydantic_ai response_from_trace "
        "responses_from_otlp"
    ),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AggregationError",
    "AnswerCorrectnessConfig",
    "AnswerRelevanceConfig",
    "Comparison",
    "Config",
    "ConfigError",
    "ContextRelevanceConfig",
    "CustomEvaluationConfig",
    "Dashboard",
    "DatasetEvaluation",
    "Decision",
    "EmbeddingConfig",
    "EvaluatedFile",
    "EvaluationStream",
    "Evaluator",
    "ExecuteConfig",
    "ExecutionUnavailable",
    "FaithfulnessConfig",
    "Follower",
    "GenerationConfig",
    "GraphragEvalError",
    "GraphragEvalWarning",
    "Journal",
    "JournalError",
    "JournalLocked",
    "JournalMismatch",
    "Judge",
    "JudgeError",
    "JudgeUnavailable",
    "JudgeUsage",
    "LLMConfig",
    "Lag",
    "Last",
    "LimitsConfig",
    "Line",
    "LongLine",
    "MissingResponses",
    "OtelSink",
    "OutputConfig",
    "Position",
    "PricingConfig",
    "PrometheusCollector",
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
    "Seconds",
    "SourceError",
    "SparqlGroundednessConfig",
    "StepsConfig",
    "TokenUsage",
    "TraceError",
    "TraceFormat",
    "Until",
    "UsageError",
    "WorkerError",
    "average_precision",
    "calibrate",
    "compare",
    "compute_aggregates",
    "evaluate_agent",
    "evaluate_dataset",
    "evaluate_file",
    "evaluate_stream",
    "follow_jsonl",
    "load_config",
    "load_reference",
    "plan_questions",
    "read_jsonl",
    "recall_at_k",
    "receive_otlp",
    "redis_results",
    "redis_stream",
    "reference_step_from_sparql",
    "response_from_anthropic",
    "response_from_langchain",
    "response_from_llamaindex",
    "response_from_mcp",
    "response_from_openai",
    "response_from_pydantic_ai",
    "response_from_trace",
    "responses_from_otlp",
    "results_to_rows",
    "run_evaluation",
    "run_evaluation_sync",
    "save_reference",
    "watch_redis",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: most programs need few of them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
