"""The configuration: which metrics are judged, by which models, within which limits."""

from graphrag_eval_async.config.llm import EmbeddingConfig as EmbeddingConfig
from graphrag_eval_async.config.llm import GenerationConfig as GenerationConfig
from graphrag_eval_async.config.llm import JudgeConfig as JudgeConfig
from graphrag_eval_async.config.llm import LimitsConfig as LimitsConfig
from graphrag_eval_async.config.llm import LLMConfig as LLMConfig
from graphrag_eval_async.config.llm import PricingConfig as PricingConfig
from graphrag_eval_async.config.load import load_config as load_config
from graphrag_eval_async.config.model import AnswerCorrectnessConfig as AnswerCorrectnessConfig
from graphrag_eval_async.config.model import AnswerRelevanceConfig as AnswerRelevanceConfig
from graphrag_eval_async.config.model import Config as Config
from graphrag_eval_async.config.model import ContextRelevanceConfig as ContextRelevanceConfig
from graphrag_eval_async.config.model import CustomEvaluationConfig as CustomEvaluationConfig
from graphrag_eval_async.config.model import ExecuteConfig as ExecuteConfig
from graphrag_eval_async.config.model import FaithfulnessConfig as FaithfulnessConfig
from graphrag_eval_async.config.model import OutputConfig as OutputConfig
from graphrag_eval_async.config.model import (
    RagasAnswerCorrectnessConfig as RagasAnswerCorrectnessConfig,
)
from graphrag_eval_async.config.model import RetrievalAnswerConfig as RetrievalAnswerConfig
from graphrag_eval_async.config.model import RetrievalContextConfig as RetrievalContextConfig
from graphrag_eval_async.config.model import SparqlGroundednessConfig as SparqlGroundednessConfig
from graphrag_eval_async.config.model import StepsConfig as StepsConfig
from graphrag_eval_async.config.secrecy import secrets as secrets
