"""What a configuration holds: which metrics are judged, by which models, within which limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from graphrag_eval_async.config.secrecy import shown

Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
Rate = Annotated[float, Meta(ge=0.001)]
Price = Annotated[float, Meta(ge=0, le=1e9)]
"""Beyond this, the cost of a call could be more than a number can hold."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML file. It shows itself without secrets; `load_config` checks it."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, shown(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


class GenerationConfig(Section, frozen=True, kw_only=True):
    """The LLM that judges.

    Attributes:
        provider: "openai", which with a `base_url` is any server that speaks the OpenAI protocol, or "azure".
        model: the model's name, with azure the deployment's.
        temperature: from 0 to 2. None leaves it to the server; where it is not given it is 0, but for models
            that refuse it.
        max_tokens: of one reply; None leaves it to the server.
        base_url: absent: the SDK's own.
        api_key: absent: from the environment, as the SDK does.
        api_version: for azure; absent: from the environment variable OPENAI_API_VERSION.
        parameters: go into the body of each request as they are; what they read from the environment is text.
    """

    provider: Literal["openai", "azure"]
    model: Text
    temperature: Annotated[float, Meta(ge=0, le=2)] | UnsetType | None = UNSET
    max_tokens: Count | None = 4096
    base_url: Text | None = None
    api_key: Text | None = None
    api_version: Text | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class EmbeddingConfig(Section, frozen=True, kw_only=True):
    """The model of embeddings.

    Without a `base_url`, or with the same, what it leaves out of the connection is the generation's, if both
    are of one provider.
    """

    provider: Literal["openai", "azure"]
    model: Text
    base_url: Text | None = None
    api_key: Text | None = None
    api_version: Text | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


class LimitsConfig(Section, frozen=True, kw_only=True):
    """How hard the judge may be pressed, and for how long.

    Attributes:
        max_concurrency: requests in flight over the whole stream.
        requests_per_minute: None is without limit.
        tokens_per_minute: of input and output; None is without limit.
        call_timeout_sec: of one attempt, in seconds.
        result_timeout_sec: of all metrics of one result, in seconds.
        max_attempts: of one request, the first included; one that repeats what got an unusable reply has as
            many of its own, and long pauses that the server asks for do not count.
        budget_usd: in US dollars, over the whole stream; None is without limit.
    """

    max_concurrency: Count = 32
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    call_timeout_sec: Positive = 60.0
    result_timeout_sec: Positive = 300.0
    max_attempts: Count = 5
    budget_usd: Annotated[float, Meta(ge=0)] | None = None


class PricingConfig(Section, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens; one that is given takes the place of the list's."""

    input_usd_per_million: Price | None = None
    output_usd_per_million: Price | None = None
    embedding_usd_per_million: Price | None = None


class LLMConfig(Section, frozen=True, kw_only=True):
    """The judge. `cache` is the path of an SQLite file that keeps finished calls."""

    generation: GenerationConfig | None = None
    embedding: EmbeddingConfig | None = None
    limits: LimitsConfig = LimitsConfig()
    pricing: PricingConfig = PricingConfig()
    cache: Text | None = None


class StepsConfig(Section, frozen=True, kw_only=True):
    """Which groups of reference steps are scored."""

    groups: Literal["last", "all"] = "last"


class AnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """Claims of the two answers: recall, precision, F1. `prompt` takes the place of the built-in one."""

    enabled: bool = True
    prompt: Text | None = None


class AnswerRelevanceConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer relevancy; `strictness`, from 1 to 20, is the number of questions that are generated."""

    enabled: bool = True
    strictness: Annotated[int, Meta(ge=1, le=20)] = 3


class RetrievalAnswerConfig(Section, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against the reference answer."""

    enabled: bool = True


class RetrievalContextConfig(Section, frozen=True, kw_only=True):
    """The same against the texts of the matched reference step."""

    enabled: bool = True


class RagasAnswerCorrectnessConfig(Section, frozen=True, kw_only=True):
    """RAGAS answer correctness: an F-score of statements and the similarity of the answers, by `weights`.

    Attributes:
        enabled: whether it is judged.
        weights: of the F-score and of the similarity, relative to their sum.
        beta: of the F-score; above 1 recall counts for more. At most a million, beyond which nothing changes.
        threshold: from 0 to 1; makes it 1 for scores of at least as much, else 0.
    """

    enabled: bool = True
    weights: tuple[Annotated[float, Meta(ge=0)], Annotated[float, Meta(ge=0)]] = (0.75, 0.25)
    beta: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None


class OutputConfig(Section, frozen=True, kw_only=True):
    """One output of a custom evaluation."""

    type: Literal["number", "string"]
    description: str


class CustomEvaluationConfig(Section, frozen=True, kw_only=True):
    """One call of the judge with instructions of the user's own, and what it returns.

    Attributes:
        name: 1 to 64 letters, digits, _ and -; results have the keys ``<name>_error`` and ``<name>_cost``.
        inputs: what the judge sees.
        instructions: what it is told.
        outputs: by key of the result, a description, or that and a type.
        steps_name: the steps that it sees are those of this name; None: all.
        steps_keys: what it sees of each step; None: all.
    """

    name: Name
    inputs: Annotated[
        tuple[
            Literal["question", "reference_answer", "reference_steps", "actual_answer", "actual_steps"], ...
        ],
        Meta(min_length=1),
    ]
    instructions: Text
    outputs: Annotated[dict[Name, str | OutputConfig], Meta(min_length=1)]
    steps_name: Text | None = None
    steps_keys: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None


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


METRICS = (
    "answer_correctness",
    "answer_relevance",
    "retrieval_answer",
    "retrieval_context",
    "ragas_answer_correctness",
)
"""The sections of `Config` that are metrics."""
