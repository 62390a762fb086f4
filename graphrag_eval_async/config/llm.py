"""The sections of a configuration for the models that judge, and the limits on their use."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from graphrag_eval_async.catalogue.sections import GENERATION, Amount, Name, Text
from graphrag_eval_async.config.secrecy import masked

Count = Annotated[int, Meta(ge=1, le=2**53, description="an integer of 1 or more")]
Positive = Annotated[float, Meta(gt=0, le=1e15, description="a number above 0")]
Rate = Annotated[float, Meta(ge=0.001, le=1e15, description="a number of 0.001 or more")]

Key = Annotated[
    str,
    Meta(
        pattern=r"\A[!-~]+\Z",
        description="ASCII characters without white space, as in HTTP headers",
    ),
]
Header = Annotated[str, Meta(pattern=r"\A[ -~]*\Z", description="printable ASCII, on one line")]
Headers: TypeAlias = dict[Key, Header]

OTHER_SERVERS = "vLLM, Ollama, a LiteLLM proxy, Anthropic, Gemini or Mistral"
"""Servers with OpenAI's protocol, as errors name them."""

Provider = Annotated[
    Literal["openai", "azure"],
    Meta(description=f'"azure", or "openai", which with a base_url is also for {OTHER_SERVERS}'),
]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML file. Its repr hides secrets; `load_config` checks it."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the keys and values that rich and `repr` show, without secrets."""
        return [(name, masked(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


class ModelConfig(Section, frozen=True, kw_only=True):
    """A model on a server.

    Attributes:
        provider: "azure", or "openai" for OpenAI and, with a `base_url`, any server with its
            protocol.
        model: name of the model; for azure, of the deployment.
        base_url: address of the server. Default: the environment variable OPENAI_BASE_URL, or else
            https://api.openai.com/v1; for azure, AZURE_OPENAI_ENDPOINT. `api_base` in a file means
            the same.
        api_key: key for the server. Default: the environment variable OPENAI_API_KEY; for azure,
            AZURE_OPENAI_API_KEY.
        api_version: version of the API, for azure. Default: the environment variable
            OPENAI_API_VERSION.
        extra_headers: HTTP headers to add to each request.
        parameters: fields to add to the body of each request; unknown keys of the section are
            added, too. Values read from the environment are text. If the server refuses a
            parameter, the error names it.
    """

    provider: Provider = "openai"
    model: Text
    base_url: Text | None = None
    api_key: Key | None = None
    api_version: Text | None = None
    extra_headers: Headers = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)


class GenerationConfig(ModelConfig, frozen=True, kw_only=True):
    """The LLM that judges.

    Replies are requested as strict JSON Schema. If the server refuses this, other formats are tried
    in turn: JSON Schema that is not strict, a tool call, JSON, and plain text. A warning names the
    format in use.

    Attributes:
        temperature: from 0 to 2; null leaves it to the server. Default: 0, unless the server
            refuses it.
        max_tokens: limit of one reply, in tokens; null leaves it to the server. Default: 4096,
            unless the server refuses it.
    """

    temperature: (
        Annotated[float, Meta(ge=0, le=2, description="a number from 0 to 2")] | UnsetType | None
    ) = UNSET
    max_tokens: Count | UnsetType | None = UNSET


class EmbeddingConfig(ModelConfig, frozen=True, kw_only=True):
    """The embedding model.

    If `provider` is the same as for the generation model, and `base_url` is the same or missing,
    connection settings default to those of that model.
    """


class LimitsConfig(Section, frozen=True, kw_only=True):
    """Limits on rate, time and cost of the judge's calls.

    Attributes:
        max_concurrency: limit of requests in flight. It is halved after a 429, and then grows back.
        requests_per_minute: rate limit; null means none.
        tokens_per_minute: limit of input and output tokens together; null means none. Tokens are
            estimated first, then corrected by the server's count.
        call_timeout_sec: time for one attempt, in seconds, from connecting to the last byte.
        result_timeout_sec: time for all metrics of one result, in seconds, from its first request.
        max_attempts: attempts per request, including the first. Repeats after an unusable reply are
            counted separately. Attempts before long pauses that the server asks for do not count.
        budget_usd: limit of the cost of a run, in US dollars; null means no limit. Earlier runs of
            the same journal count. A call is sent only if its estimated cost fits, beside the calls
            in flight.
        max_failed_calls: the run ends if this many calls of one kind (completions or embeddings)
            fail before any succeeds. Until one succeeds, other calls wait. With null, the run never
            ends for this reason.
        max_outage_sec: the run ends if no call succeeds for this many seconds; with null, it never
            does.
        max_pause_sec: the run ends if the server asks for a longer pause, in seconds.
        max_reply_bytes: limit of one reply in bytes, both compressed and decompressed.
    """

    max_concurrency: Count = 32
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    call_timeout_sec: Positive = 60.0
    result_timeout_sec: Positive = 300.0
    max_attempts: Count = 5
    budget_usd: Amount | None = None
    max_failed_calls: Count | None = 10
    max_outage_sec: Positive | None = 300.0
    max_pause_sec: Positive = 600.0
    max_reply_bytes: Count = 2 << 20


class PricingConfig(Section, frozen=True, kw_only=True):
    """Prices of the models, which override the list prices of the package genai-prices.

    Attributes:
        input_usd_per_million: US dollars per million input tokens of the generation model.
        output_usd_per_million: US dollars per million output tokens of the generation model.
        embedding_usd_per_million: US dollars per million tokens of the embedding model.
        cached_usd_per_million: US dollars per million cached input tokens of the generation model.
    """

    input_usd_per_million: Amount | None = None
    output_usd_per_million: Amount | None = None
    embedding_usd_per_million: Amount | None = None
    cached_usd_per_million: Amount | None = None


class JudgeConfig(GenerationConfig, frozen=True, kw_only=True):
    """One of several LLMs that judge.

    If `provider` is the same as for the generation model, and `base_url` is the same or missing,
    connection settings default to those of that model.
    """

    pricing: PricingConfig = PricingConfig()


class LLMConfig(Section, frozen=True, kw_only=True):
    """The models that judge, and the limits on their use.

    Attributes:
        generation: the LLM.
        judges: other LLMs, by name; `judges` of a metric lists these names.
        embedding: the embedding model, for metrics that need one.
        cache: path of an SQLite file that stores finished calls; several processes may share it.
    """

    generation: GenerationConfig | None = None
    judges: dict[Name, JudgeConfig] = field(default_factory=dict)
    embedding: EmbeddingConfig | None = None
    limits: LimitsConfig = LimitsConfig()
    pricing: PricingConfig = PricingConfig()
    cache: Text | None = None

    def model(self, name: str) -> GenerationConfig | None:
        """Return the LLM of a judge; None if it is not configured."""
        if name == GENERATION:
            return self.generation
        return self.judges.get(name)

    def key(self, name: str) -> str:
        """Return the key of the section in which the LLM of a judge is configured."""
        if name in self.judges:
            return f"llm.judges.{name}"
        return "llm.generation"
