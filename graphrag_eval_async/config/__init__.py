"""The configuration: which metrics are judged, by which models, within which limits."""

from graphrag_eval_async.config.llm import (
    EmbeddingConfig,
    GenerationConfig,
    LimitsConfig,
    LLMConfig,
    PricingConfig,
)
from graphrag_eval_async.config.load import load_config
from graphrag_eval_async.config.model import Config, ExecuteConfig
from graphrag_eval_async.config.secrecy import secrets

__all__ = [
    "Config",
    "EmbeddingConfig",
    "ExecuteConfig",
    "GenerationConfig",
    "LLMConfig",
    "LimitsConfig",
    "PricingConfig",
    "load_config",
    "secrets",
]
