"""What a configuration holds: which metrics are judged, by which models, within which limits."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML file."""


class GenerationConfig(Section, frozen=True, kw_only=True):
    """The LLM that judges.

    Attributes:
        provider: "openai", which with a `base_url` is any server that speaks the OpenAI protocol, or "azure".
        model: the model's name, with azure the deployment's.
        temperature: None leaves it to the server; where it is not given it is 0, but for models that refuse it.
        max_tokens: of one reply; None leaves it to the server.
        base_url: absent: the SDK's own.
        api_key: absent: from the environment, as the SDK does.
        api_version: for azure.
        parameters: go into the body of each request as they are.
    """

    provider: Literal["openai", "azure"]
    model: str
    temperature: float | None | UnsetType = UNSET
    max_tokens: int | None = 4096
    base_url: str | None = None
    api_key: str | None = None
    api_version: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class EmbeddingConfig(Section, frozen=True, kw_only=True):
    """The model of embeddings; what it leaves out of the connection is the generation's, if of one provider."""

    provider: Literal["openai", "azure"]
    model: str
    base_url: str | None = None
    api_key: str | None = None
    api_version: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class LimitsConfig(Section, frozen=True, kw_only=True):
    """How hard the judge may be pressed, and for how long."""

    max_concurrency: int = 32
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    call_timeout_sec: float = 60.0
    result_timeout_sec: float = 300.0
    max_attempts: int = 5
    budget_usd: float | None = None


class PricingConfig(Section, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens; one that is given takes the place of the list's."""

    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    embedding_usd_per_million: float | None = None


class LLMConfig(Section, frozen=True, kw_only=True):
    """The judge. `cache` is the path of an SQLite file that keeps finished calls."""

    generation: GenerationConfig | None = None
    embedding: EmbeddingConfig | None = None
    limits: LimitsConfig = LimitsConfig()
    pricing: PricingConfig = PricingConfig()
    cache: str | None = None


class StepsConfig(Section, frozen=True, kw_only=True):
    """Which groups of reference steps are scored."""

    groups: Literal["last", "all"] = "last"


class AnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """Claims of the two answers: recall, precision, F1. `prompt` takes the place of the built-in one."""

    enabled: bool = True
    prompt: str | None = None


class AnswerRelevanceConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer relevancy; `strictness` is the number of questions that are generated."""

    enabled: bool = True
    strictness: int = 3


class RetrievalAnswerConfig(Section, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against the reference answer."""

    enabled: bool = True


class RetrievalContextConfig(Section, frozen=True, kw_only=True):
    """The same against the texts of the matched reference step."""

    enabled: bool = True


class RagasAnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer correctness: an F-score of statements and the similarity of the answers, by `weights`."""

    enabled: bool = True
    weights: tuple[float, float] = (0.75, 0.25)
    beta: float = 1.0
    threshold: float | None = None


class OutputConfig(Section, frozen=True, kw_only=True):
    """One output of a custom evaluation."""

    type: Literal["number", "string"]
    description: str


class CustomEvaluationConfig(Section, frozen=True, kw_only=True):
    """One call of the judge with instructions of the user's own, and what it returns."""

    name: str
    inputs: tuple[
        Literal["question", "reference_answer", "reference_steps", "actual_answer", "actual_steps"], ...
    ]
    instructions: str
    outputs: dict[str, str | OutputConfig]
    steps_name: str | None = None
    steps_keys: tuple[str, ...] | None = None


class Config(Section, frozen=True, kw_only=True):
    """A configuration; the layout is that of the YAML file.

    A metric is judged if its section is there and enabled. Where there is none at all, nor a custom
    evaluation, the judge of `llm` judges answer correctness, and relevance too if it has an embedding model.
    """

    llm: LLMConfig | None = None
    steps: StepsConfig = StepsConfig()
    answer_correctness: AnswerCorrectnessConfig | None = None
    answer_relevance: AnswerRelevanceConfig | None = None
    retrieval_answer: RetrievalAnswerConfig | None = None
    retrieval_context: RetrievalContextConfig | None = None
    ragas_answer_correctness: RagasAnswerCorrectnessConfig | None = None
    custom_evaluations: tuple[CustomEvaluationConfig, ...] = ()
