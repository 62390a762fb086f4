"""The judge for servers that speak the OpenAI protocol; uses the openai package."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from warnings import warn

from graphrag_eval_async.config import secrets
from graphrag_eval_async.config.llm import GENERATION
from graphrag_eval_async.errors import ConfigError, GraphragEvalWarning, JudgeError
from graphrag_eval_async.judge.dialect import Dialect, Variant
from graphrag_eval_async.judge.openai_endpoint import CONNECTION, INSTALL, Sdk, endpoint_of
from graphrag_eval_async.judge.openai_replies import read_completion, read_embeddings
from graphrag_eval_async.judge.openai_response import Response, Scrubber, failure_of
from graphrag_eval_async.judge.protocol import ConnectionLost, TryAgain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.errors import Failure
    from graphrag_eval_async.judge.openai_endpoint import Endpoint
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage

T = TypeVar("T")
SendVariant: TypeAlias = "Callable[[Variant], Awaitable[tuple[Any, TokenUsage | None]]]"

CLOSED = {"ServerDisconnectedError", "ClientOSError", "RemoteProtocolError", "ReadError"}
"""Exceptions of transports when the server has closed a connection, beside those of the standard library."""

LARGE = 1 << 17
"""Size in bytes above which a reply takes milliseconds to read."""


def check(llm: LLMConfig, name: str = GENERATION) -> None:
    """Check that the judge `name` can be called, as far as possible without a request."""
    if find_spec("openai") is None:
        raise ConfigError([f"llm: needs the package openai: {INSTALL}"])
    problems = [
        problem
        for key, model in ((llm.key(name), llm.model(name)), ("llm.embedding", llm.embedding))
        if model is not None
        for problem in endpoint_of(llm, model).problems(key)
    ]
    if problems:
        raise ConfigError(problems)


def open_judge(llm: LLMConfig, name: str = GENERATION) -> OpenAIJudge:
    """Open the judge `name` of a configuration. Importing the SDK takes a second: call this in a thread."""
    check(llm, name)
    sdk = Sdk()
    scrub = Scrubber(secrets(llm))
    clients: dict[Endpoint, Any] = {}

    def remote(key: str, model: GenerationConfig | EmbeddingConfig | None) -> _Remote | None:
        if model is None:
            return None
        endpoint = endpoint_of(llm, model)
        if endpoint not in clients:
            clients[endpoint] = sdk.client(endpoint, llm.limits)
        return _Remote(sdk, clients[endpoint], endpoint, key, model, scrub, llm.limits.max_attempts > 1)

    return OpenAIJudge(remote(llm.key(name), llm.model(name)), remote("llm.embedding", llm.embedding))


class OpenAIJudge:
    """A `Judge` whose calls are requests to a server that speaks the OpenAI protocol."""

    def __init__(self, generation: _Remote | None, embedding: _Remote | None) -> None:
        """See `open_judge`."""
        self.model = "" if generation is None else generation.model
        remotes = {"generation": generation, "embedding": embedding}
        self._remotes = {name: remote for name, remote in remotes.items() if remote is not None}

    def where(self, kind: str) -> str:
        """Return the model and address that serve a kind of calls, without secrets."""
        return self._remotes["embedding" if kind == "embedding" else "generation"].where

    @property
    def learned(self) -> dict[str, Any]:
        """What the servers of the models accept, if it differs from the defaults, as JSON."""
        return {name: found for name, remote in self._remotes.items() if (found := remote.dialect.learned)}

    def expected(self, schema: Mapping[str, Any] | None, variation: int = 0) -> dict[str, Any]:
        """Return how a request would be written now, by `Dialect.written`; for embeddings without schema."""
        remote = self._remotes.get("embedding" if schema is None else "generation")
        if remote is None:
            return {}
        variant = Variant() if schema is None else Variant.of(schema, variation)
        return remote.dialect.written(remote.dialect.updated(variant))

    def recall(self, learned: Any) -> None:
        """Start with what `learned` was for the same models earlier."""
        for name, remote in self._remotes.items():
            remote.dialect.recall(learned.get(name) if isinstance(learned, dict) else None)

    async def complete(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        variation: int = 0,
        written: dict[str, Any] | None = None,
    ) -> tuple[Any, TokenUsage | None]:
        """See `Judge`.

        `written` is set to how the request was written that was answered, as by `Dialect.written`, and gets
        "repaired" if other text had to be removed from the reply.

        Raises:
            TryAgain: the server refuses this format or a default parameter.
            JudgeError: there is no reply.
        """
        remote = self._remotes["generation"]  # `load_config` requires what the metrics call.

        async def send(variant: Variant) -> tuple[Any, TokenUsage | None]:
            variant = remote.dialect.updated(variant)
            body = remote.dialect.completion(messages, variant)
            response = await remote.post("/chat/completions", body, variant, send)
            try:
                read = partial(read_completion, limit=remote.limit)
                value, usage, is_repaired = await _read(read, response)
            except JudgeError as error:
                other = None
                if error.kind == "invalid_reply" and error.reply and "{" not in error.reply:
                    other = remote.dialect.after_prose(variant, error.message)
                if other is None:
                    raise
                raise TryAgain(error, partial(send, other)) from None
            has_more = isinstance(value, dict) and value.keys() - schema["properties"].keys()
            remote.accepted(variant, written)
            if written is not None and (is_repaired or has_more):
                written["repaired"] = True
            return value, usage

        return await send(Variant.of(schema, variation))

    async def embed(
        self, texts: Sequence[str], *, written: dict[str, Any] | None = None
    ) -> tuple[list[list[float]], TokenUsage | None]:
        """See `Judge`, and for `written`, `complete`."""
        remote = self._remotes["embedding"]

        async def send(variant: Variant) -> tuple[list[list[float]], TokenUsage | None]:
            variant = remote.dialect.updated(variant)
            body = {"input": list(texts)} | remote.dialect.parameters(variant)
            response = await remote.post("/embeddings", body, variant, send)
            remote.accepted(variant, written)
            return await _read(read_embeddings, response)

        return await send(Variant())

    async def aclose(self) -> None:
        """Close all connections; closing twice does nothing."""
        for remote in self._remotes.values():
            await remote.client.close()


class _Remote:
    """One model of one server."""

    def __init__(
        self,
        sdk: Sdk,
        client: Any,
        endpoint: Endpoint,
        key: str,
        model: GenerationConfig | EmbeddingConfig,
        scrub: Scrubber,
        reopens: bool,
    ) -> None:
        self.client = client
        self.model = model.model
        self.dialect = Dialect(model)
        self.limit = f"{key}.{self.dialect.limit}"
        self.where = scrub(f"{model.model} at {endpoint.base_url}")
        self._sdk = sdk
        self._endpoint = endpoint
        self._key = key
        self._options = sdk.options(endpoint)
        self._scrub = scrub
        self._reopens = reopens

    async def post(
        self, method: str, body: Mapping[str, Any], variant: Variant, send: SendVariant
    ) -> Response:
        """Return the server's response with success status.

        Uses the SDK's `post`: the checks and models of `create` take half the CPU time of a call. Errors do
        not chain the SDK's exception, whose text or request may hold the API key. `send` sends the request
        written in another way.

        Raises:
            TryAgain: the request may succeed if it is written in another way, or sent again.
            JudgeError: the request failed.
        """
        found: Any = None
        CONNECTION.set("new")
        path = self._endpoint.path(self.model, method)
        try:
            found = await self.client.post(path, cast_to=self._sdk.response, body=body, options=self._options)
        except self._sdk.status_error as error:
            found = error.response
        except self._sdk.error as error:
            failure = self._no_reply(error, variant, send)
        except (TypeError, ValueError) as error:
            failure = JudgeError("invalid_request", self._scrub(f"the request cannot be encoded: {error}"))
        if found is None:
            raise failure
        response = Response(found.status_code, found.headers, found.content, self._scrub).unmasked
        if response.is_success:
            return response
        failure = failure_of(response, self._key, self.where)
        other = self.dialect.after_refusal(response, body, variant)
        if other is None:
            if (name := self.dialect.refused(response, body, variant)) is not None:
                text = f"{failure.message}; change or remove {self._key}.{name}"
                failure = JudgeError(failure.kind, text, final=failure.final)
            raise failure
        raise TryAgain(failure, partial(send, other), counts=other.errors > variant.errors)

    def accepted(self, variant: Variant, written: dict[str, Any] | None) -> None:
        """Remember what the server accepted, warn of it once, and set `written` as in `complete`."""
        for text in self.dialect.accepted(variant):
            warn(f"judge {self.where}: {text}", GraphragEvalWarning, stacklevel=2)
        if written is not None:
            written.clear()
            written.update(self.dialect.written(variant))

    def _no_reply(self, error: Exception, variant: Variant, send: SendVariant) -> JudgeError:
        """Return the error for a failed connection; `TryAgain` if the server may have closed an idle one.

        Looks at the cause, not the SDK's type, which calls a connection reset on aiohttp a timeout.
        """
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, JudgeError):  # The body was too long or corrupt.
            return cause
        kind: Failure = "timeout" if isinstance(cause, TimeoutError) else "unavailable"
        text = self._scrub(f"{self._endpoint.base_url}: {type(cause).__name__}: {cause}")
        is_closed, connection = isinstance(cause, ConnectionResetError | BrokenPipeError), CONNECTION.get()
        if not is_closed and type(cause).__name__ not in CLOSED and connection != "answered":
            return JudgeError(kind, text)
        failure = ConnectionLost(kind, text)
        if connection == "reused" and self._reopens and not variant.is_reopened:
            return TryAgain(failure, partial(send, variant._replace(is_reopened=True)))
        return failure


async def _read(read: Callable[[Response], T], response: Response) -> T:
    """Read a response, in a thread if it is large."""
    return await asyncio.to_thread(read, response) if len(response.body) > LARGE else read(response)
