"""The structs of a configuration: metrics, models and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from graphrag_eval_async.config.secrecy import Shown, shown

if TYPE_CHECKING:
    from collections.abc import Callable

Text = Annotated[str, Meta(pattern=r"\S", description="a string that is not empty")]
Name = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z", description="1 to 64 letters, digits, _ and -")
]
Count = Annotated[int, Meta(ge=1, le=2**53, description="an integer of 1 or more")]
Positive = Annotated[float, Meta(gt=0, le=1e15, description="a number above 0")]
Rate = Annotated[float, Meta(ge=0.001, le=1e15, description="a number of 0.001 or more")]
Amount = Annotated[float, Meta(ge=0, le=1e9, description="a number from 0 to a billion")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Input: TypeAlias = Literal["question", "reference_answer", "reference_steps", "actual_answer", "actual_steps"]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML file. Its repr hides secrets; `load_config` checks it."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, Shown(shown(name, getattr(self, name)))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={text}" for name, text in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


class GenerationConfig(Section, frozen=True, kw_only=True):
    """The LLM that judges.

    Attributes:
        provider: "azure", or "openai" for OpenAI and, with a `base_url`, any server with its protocol.
        model: name of the model; for azure, of the deployment.
        temperature: from 0 to 2. None leaves it to the server. Default: 0, except for models that refuse it.
        max_tokens: limit for one reply; None leaves it to the server.
        base_url: default: that of the SDK.
        api_key: default: from the environment, as the SDK does.
        api_version: for azure; default: the environment variable OPENAI_API_VERSION.
        parameters: copied into the body of each request; values read from the environment are text. In
            a file, so are other keys of the section, and `api_base` is another name of `base_url`.
    """

    provider: Literal["openai", "azure"]
    model: Text
    temperature: Annotated[float, Meta(ge=0, le=2, description="a number from 0 to 2")] | UnsetType | None = (
        UNSET
    )
    max_tokens: Count | None = 4096
    base_url: Text | None = None
    api_key: Text | None = None
    api_version: Text | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class EmbeddingConfig(Section, frozen=True, kw_only=True):
    """The embedding model.

    If the generation model has the same provider, and this one has no `base_url` or the same, missing
    connection settings are taken from the generation model.
    """

    provider: Literal["openai", "azure"]
    model: Text
    base_url: Text | None = None
    api_key: Text | None = None
    api_version: Text | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class LimitsConfig(Section, frozen=True, kw_only=True):
    """Limits on rate, time and cost of the judge's calls.

    Attributes:
        max_concurrency: requests in flight over the whole stream.
        requests_per_minute: None means no limit.
        tokens_per_minute: input and output together; None means no limit.
        call_timeout_sec: for one attempt, in seconds.
        result_timeout_sec: for all metrics of one result, in seconds.
        max_attempts: attempts per request, including the first. A request that repeats one with an unusable
            reply has attempts of its own; long pauses that the server asks for do not count.
        budget_usd: US dollars over the whole stream; None means no limit.
        max_reply_bytes: of one reply, as sent and decompressed.
    """

    max_concurrency: Count = 32
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    call_timeout_sec: Positive = 60.0
    result_timeout_sec: Positive = 300.0
    max_attempts: Count = 5
    budget_usd: Amount | None = None
    max_reply_bytes: Count = 2 << 20


class PricingConfig(Section, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens; they override the built-in list."""

    input_usd_per_million: Amount | None = None
    output_usd_per_million: Amount | None = None
    embedding_usd_per_million: Amount | None = None


class LLMConfig(Section, frozen=True, kw_only=True):
    """The judge; `cache` is the path of an SQLite file that stores finished calls."""

    generation: GenerationConfig | None = None
    embedding: EmbeddingConfig | None = None
    limits: LimitsConfig = LimitsConfig()
    pricing: PricingConfig = PricingConfig()
    cache: Text | None = None


class StepsConfig(Section, frozen=True, kw_only=True):
    """How reference steps are scored.

    Attributes:
        groups: which groups of them.
        strict_types: score tables with untyped cells (CSV, Markdown, lists of objects) 0 where SPARQL results
            are expected.
    """

    groups: Literal["last", "all"] = "last"
    strict_types: bool = False


class AnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """Recall, precision and F1 of the answers' claims; `prompt` replaces the built-in one."""

    enabled: bool = True
    prompt: Text | None = None


class AnswerRelevanceConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer relevancy; `strictness` is the number of questions to generate, from 1 to 20."""

    enabled: bool = True
    strictness: Annotated[int, Meta(ge=1, le=20, description="an integer from 1 to 20")] = 3


class RetrievalAnswerConfig(Section, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against the reference answer."""

    enabled: bool = True


class RetrievalContextConfig(Section, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against those of the matched reference step."""

    enabled: bool = True


class RagasAnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer correctness: the weighted mean of an F-score of statements and the answers' similarity.

    Attributes:
        enabled: whether it is judged.
        weights: of the F-score and of the similarity, relative to their sum.
        beta: of the F-score; above 1, recall counts for more. At most a million.
        threshold: from 0 to 1; makes the score 1 from here on, and 0 below.
    """

    enabled: bool = True
    weights: Annotated[tuple[Amount, Amount], Meta(description="a list of 2 numbers")] = (0.75, 0.25)
    beta: Annotated[float, Meta(gt=0, le=1e6, description="a number above 0, at most a million")] = 1.0
    threshold: Share | None = None


class OutputConfig(Section, frozen=True, kw_only=True):
    """One output of a custom evaluation."""

    type: Literal["number", "string"]
    description: str


class CustomEvaluationConfig(Section, frozen=True, kw_only=True):
    """One call of the judge with the user's own instructions and outputs.

    Attributes:
        name: 1 to 64 letters, digits, _ and -; results have the keys ``<name>_error`` and ``<name>_cost``.
        inputs: what the judge sees.
        instructions: what the judge is told.
        outputs: by key of the result: a description, or a description and a type.
        steps_name: show only steps of this name; None shows all.
        steps_keys: show only these keys of each step; None shows all.
    """

    name: Name
    inputs: Annotated[tuple[Input, ...], Meta(min_length=1, description="a list that is not empty")]
    instructions: Text
    outputs: Annotated[
        dict[Name, str | OutputConfig], Meta(min_length=1, description="a mapping that is not empty")
    ]
    steps_name: Text | None = None
    steps_keys: (
        Annotated[tuple[Text, ...], Meta(min_length=1, description="a list that is not empty")] | None
    ) = None


class Config(Section, frozen=True, kw_only=True):
    """A configuration, laid out like the YAML file.

    A metric is judged if its section is present and enabled. With no metric sections and no custom
    evaluations, `llm` judges answer correctness, and with an embedding model also answer relevance.
    `turned_on`, in the file the key ``metrics: all``, turns on all of them whose models are there and whose
    section does not say ``enabled: false``, except RAGAS answer correctness, another way to judge the first.

    `aliases` has, by the name of a step in the reference set, other names that agents give it.
    """

    llm: LLMConfig | None = None
    steps: StepsConfig = StepsConfig()
    aliases: dict[Text, tuple[Text, ...]] = field(default_factory=dict)
    turned_on: Literal["all"] | None = field(default=None, name="metrics")
    answer_correctness: AnswerCorrectnessConfig | None = None
    answer_relevance: AnswerRelevanceConfig | None = None
    retrieval_answer: RetrievalAnswerConfig | None = None
    retrieval_context: RetrievalContextConfig | None = None
    ragas_answer_correctness: RagasAnswerCorrectnessConfig | None = None
    custom_evaluations: tuple[CustomEvaluationConfig, ...] = ()

    @property
    def metrics(self) -> dict[str, Any]:
        """The sections of built-in metrics that are present, by name."""
        sections = {name: getattr(self, name) for name in METRICS}
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def embedding_metrics(self) -> list[str]:
        """The names of those that need an embedding model."""
        correctness = self.ragas_answer_correctness
        embed = {
            "answer_relevance": self.answer_relevance is not None,
            "ragas_answer_correctness": correctness is not None and correctness.weights[1] > 0,
        }
        return [name for name in METRICS if embed.get(name)]


METRICS: dict[str, Callable[[], Section]] = {
    "answer_correctness": AnswerCorrectnessConfig,
    "answer_relevance": AnswerRelevanceConfig,
    "retrieval_answer": RetrievalAnswerConfig,
    "retrieval_context": RetrievalContextConfig,
    "ragas_answer_correctness": RagasAnswerCorrectnessConfig,
}
"""The sections of `Config` that are metrics, by name."""
