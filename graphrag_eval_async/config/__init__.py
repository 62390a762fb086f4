"""The configuration: which metrics are judged, by which models, within which limits."""

from graphrag_eval_async.config.load import config_for, load_config
from graphrag_eval_async.config.model import (
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
)
from graphrag_eval_async.config.secrecy import secrets

__all__ = [
    "AnswerCorrectnessConfig",
    "AnswerRelevanceConfig",
    "Config",
    "CustomEvaluationConfig",
    "EmbeddingConfig",
    "GenerationConfig",
    "LLMConfig",
    "LimitsConfig",
    "OutputConfig",
    "PricingConfig",
    "RagasAnswerCorrectnessConfig",
    "RetrievalAnswerConfig",
    "RetrievalContextConfig",
    "StepsConfig",
    "config_for",
    "load_config",
    "secrets",
]
