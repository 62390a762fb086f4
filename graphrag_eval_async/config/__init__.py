"""The configuration: which metrics are judged, by which models, within which limits."""

from graphrag_eval_async.config.llm import (
    EmbeddingConfig,
    GenerationConfig,
    LimitsConfig,
    LLMConfig,
    PricingConfig,
)
from graphrag_eval_async.config.load import load_config
from graphrag_eval_async.config.model import (
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
    Config,
    ContextRelevanceConfig,
    CustomEvaluationConfig,
    ExecuteConfig,
    FaithfulnessConfig,
    OutputConfig,
    RagasAnswerCorrectnessConfig,
    RetrievalAnswerConfig,
    RetrievalContextConfig,
    SparqlGroundednessConfig,
    StepsConfig,
)
from graphrag_eval_async.config.secrecy import secrets

__all__ = [
    "AnswerCorrectnessConfig",
    "AnswerRelevanceConfig",
    "Config",
    "ContextRelevanceConfig",
    "CustomEvaluationConfig",
    "EmbeddingConfig",
    "ExecuteConfig",
    "FaithfulnessConfig",
    "GenerationConfig",
    "LLMConfig",
    "LimitsConfig",
    "OutputConfig",
    "PricingConfig",
    "RagasAnswerCorrectnessConfig",
    "RetrievalAnswerConfig",
    "RetrievalContextConfig",
    "SparqlGroundednessConfig",
    "StepsConfig",
    "load_config",
    "secrets",
]
