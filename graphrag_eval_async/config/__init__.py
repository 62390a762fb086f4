"""The configuration: which metrics are judged, by which models, within which limits."""

from graphrag_eval_async.catalogue.judged import AnswerCorrectnessConfig as AnswerCorrectnessConfig
from graphrag_eval_async.catalogue.judged import AnswerRelevanceConfig as AnswerRelevanceConfig
from graphrag_eval_async.catalogue.judged import ContextRelevanceConfig as ContextRelevanceConfig
from graphrag_eval_async.catalogue.judged import FaithfulnessConfig as FaithfulnessConfig
from graphrag_eval_async.catalogue.judged import (
    RagasAnswerCorrectnessConfig as RagasAnswerCorrectnessConfig,
)
from graphrag_eval_async.catalogue.judged import RetrievalAnswerConfig as RetrievalAnswerConfig
from graphrag_eval_async.catalogue.judged import RetrievalContextConfig as RetrievalContextConfig
from graphrag_eval_async.catalogue.judged import (
    SparqlGroundednessConfig as SparqlGroundednessConfig,
)
from graphrag_eval_async.config.llm import EmbeddingConfig as EmbeddingConfig
from graphrag_eval_async.config.llm import GenerationConfig as GenerationConfig
from graphrag_eval_async.config.llm import JudgeConfig as JudgeConfig
from graphrag_eval_async.config.llm import LimitsConfig as LimitsConfig
from graphrag_eval_async.config.llm import LLMConfig as LLMConfig
from graphrag_eval_async.config.llm import PricingConfig as PricingConfig
from graphrag_eval_async.config.load import load_config as load_config
from graphrag_eval_async.config.model import Config as Config
from graphrag_eval_async.config.model import CustomEvaluationConfig as CustomEvaluationConfig
from graphrag_eval_async.config.model import ExecuteConfig as ExecuteConfig
from graphrag_eval_async.config.model import OutputConfig as OutputConfig
from graphrag_eval_async.config.model import RagasMetricConfig as RagasMetricConfig
from graphrag_eval_async.config.model import StepsConfig as StepsConfig
from graphrag_eval_async.config.secrecy import as_written as as_written
from graphrag_eval_async.config.secrecy import secrets as secrets
