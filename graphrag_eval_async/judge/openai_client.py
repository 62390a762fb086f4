"""The judge for servers that speak the OpenAI protocol; uses the openai package."""

from __future__ import annotations

import asyncio
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson
from msgspec import UNSET

from graphrag_eval_async.config import secrets
from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.openai_endpoint import INSTALL, Sdk, endpoint_of
from graphrag_eval_async.judge.openai_replies import (
    Response,
    Scrubber,
    Target,
    failure_of,
    read_completion,
    read_embeddings,
)
from graphrag_eval_async.judge.protocol import SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.errors import Failure
    from graphrag_eval_async.judge.openai_endpoint import Endpoint
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage

T = TypeVar("T")

REASONING = re.compile(r"(ft:)?(o\d|gpt-5)")
"""Models that reject `temperature` and `max_tokens`."""

LIMITS = {"max_tokens", "max_completion_tokens"}

LARGE = 1 << 17
"""Size in bytes above which a reply takes milliseconds to read."""


def check(llm: LLMConfig) -> None:
    """Check that the models can be called, as far as possible without a request.

    Raises:
        ConfigError: the SDK is not installed, or a key is missing.
    """
    if find_spec("openai") is None:
        raise ConfigError([f"llm: needs the package openai: {INSTALL}"])
    problems = [
        problem
        for name, model in (("generation", llm.generation), ("embedding", llm.embedding))
        if model is not None
        for problem in endpoint_of(llm, model).problems(f"llm.{name}")
    ]
    if problems:
        raise ConfigError(problems)


def open_judge(llm: LLMConfig) -> OpenAIJudge:
    """Open the judge of a configuration. Importing the SDK takes a second: call this in a thread.

    Raises:
        ConfigError: as for `check`; or the SDK cannot be imported.
    """
    check(llm)
    sdk = Sdk()
    scrub = Scrubber(secrets(llm))
    clients: dict[Endpoint, Any] = {}

    def remote(name: str, model: GenerationConfig | EmbeddingConfig | None) -> _Remote | None:
        if model is None:
            return None
        endpoint = endpoint_of(llm, model)
        if endpoint not in clients:
            clients[endpoint] = sdk.client(endpoint, llm.limits)
        target = Target(f"llm.{name}", model.model, endpoint.base_url)
        return _Remote(sdk, clients[endpoint], target, scrub)

    return OpenAIJudge(llm, remote("generation", llm.generation), remote("embedding", llm.embedding))


class OpenAIJudge:
    """A `Judge` whose calls are requests to a server that speaks the OpenAI protocol.

    Attributes:
        model: the name of the LLM.
    """

    def __init__(self, llm: LLMConfig, generation: _Remote | None, embedding: _Remote | None) -> None:
        """See `open_judge`."""
        self.model = "" if llm.generation is None else llm.generation.model
        self._generation = generation
        self._embedding = embedding
        self._of_completions = {} if llm.generation is None else _of_completions(llm.generation)
        self._of_embeddings = (
            {"model": llm.embedding.model} | llm.embedding.parameters if llm.embedding else {}
        )
        self._takes_schemas = True

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage | None]:
        """See `Judge`.

        Raises:
            SchemaRefused: the server does not support schemas; later calls send the schema as text.
            JudgeError: there is no reply.
        """
        remote = self._generation
        assert remote is not None  # noqa: S101  (`load_config` requires what the metrics call)
        with_schema = self._takes_schemas
        asked = _with_schema(messages, schema) if with_schema else _with_schema_as_text(messages, schema)
        response = await remote.post("/chat/completions", asked | self._of_completions)
        if response.is_success:
            return await _read(read_completion, response)
        failure = failure_of(response, remote.target)
        if with_schema and response.refuses_schemas:
            self._takes_schemas = False
            raise SchemaRefused(failure.message)
        raise failure

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage | None]:
        """See `Judge`."""
        remote = self._embedding
        assert remote is not None  # noqa: S101
        body = {"input": list(texts), "encoding_format": "float"} | self._of_embeddings
        response = await remote.post("/embeddings", body)
        if response.is_success:
            return await _read(read_embeddings, response)
        raise failure_of(response, remote.target)

    async def aclose(self) -> None:
        """Close all connections; closing twice does nothing."""
        for remote in (self._generation, self._embedding):
            if remote is not None:
                await remote.client.close()


class _Remote(NamedTuple):
    """One model of one server."""

    sdk: Sdk
    client: Any
    target: Target
    scrub: Scrubber

    async def post(self, path: str, body: Mapping[str, Any]) -> Response:
        """Return the server's response, whatever its status.

        Uses the SDK's `post`: the checks and models of `create` take half the CPU time of a call. Errors do
        not chain the SDK's exception, whose text or request may hold the API key.
        """
        response = None
        try:
            response = await self.client.post(path, cast_to=self.sdk.response, body=body)
        except self.sdk.status_error as error:
            response = error.response
        except self.sdk.error as error:
            failure = self._no_reply(error)
        except (TypeError, ValueError) as error:
            failure = JudgeError("invalid_request", self.scrub(f"the request cannot be encoded: {error}"))
        if response is None:
            raise failure
        return Response(response.status_code, response.headers, response.content, self.scrub)

    def _no_reply(self, error: Exception) -> JudgeError:
        """Return the error for a failed connection.

        Looks at the cause, not the SDK's type, which calls a connection reset on aiohttp a timeout.
        """
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, JudgeError):  # The body was too long or corrupt.
            return cause
        kind: Failure = "timeout" if isinstance(cause, TimeoutError) else "unavailable"
        return JudgeError(kind, self.scrub(f"{self.target.base_url}: {type(cause).__name__}: {cause}"))


async def _read(read: Callable[[Response], T], response: Response) -> T:
    """Read a response, in a thread if it is large."""
    return await asyncio.to_thread(read, response) if len(response.body) > LARGE else read(response)


def _of_completions(config: GenerationConfig) -> dict[str, Any]:
    """Return the parameters shared by all requests for completions."""
    reasoning = REASONING.match(config.model.rpartition("/")[2])
    body: dict[str, Any] = {"model": config.model}
    temperature = config.temperature
    if temperature is UNSET:
        temperature = None if reasoning else 0.0
    if temperature is not None:
        body["temperature"] = temperature
    if config.max_tokens is not None and not LIMITS & config.parameters.keys():
        body["max_completion_tokens" if reasoning else "max_tokens"] = config.max_tokens
    return body | config.parameters


def _with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name": schema["title"], "strict": True, "schema": schema}
    return {"messages": messages, "response_format": {"type": "json_schema", "json_schema": described}}


def _with_schema_as_text(messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    text = f"Reply with a JSON object that fits this JSON Schema:\n{orjson.dumps(schema).decode()}"
    return {
        "messages": [{"role": "system", "content": text}, *messages],
        "response_format": {"type": "json_object"},
    }
