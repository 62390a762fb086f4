"""Endpoints of models, and the SDK's client for an endpoint."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from graphrag_eval_async.config.load import is_key, wrong_with_url
from graphrag_eval_async.errors import ConfigError, JudgeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterator

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig

INSTALL = "pip install 'graphrag-eval-async[llm]'"
OPENAI_URL = "https://api.openai.com/v1"
AZURE_URL = "AZURE_OPENAI_ENDPOINT"
NO_KEY = "unused"
"""Sent to self-hosted servers: most need no key, but the SDK requires one."""

SPARE_CONNECTIONS = 16
"""Connections beyond the maximum concurrency, for those that are being closed."""

MAX_ERROR_BYTES = 1 << 16
"""Maximum bytes read from the body of an error response."""

GZIP_OR_ZLIB = 47
"""zlib's `wbits` value to detect gzip or zlib by the header."""


CONNECTION: ContextVar[str] = ContextVar("CONNECTION", default="new")
"""The connection of a task's last request: "new", "reused" (on aiohttp), or "answered" when a reply began."""


class Endpoint(NamedTuple):
    """Where a model is served, from the configuration and the environment; "" for a missing value.

    `is_token` says that the key is a token of Microsoft Entra ID.
    """

    provider: str
    base_url: str
    api_key: str
    api_version: str
    extra_headers: tuple[tuple[str, str], ...] = ()
    is_token: bool = False

    def path(self, model: str, method: str) -> str:
        """Return the path of a method, such as "/embeddings", below that of `root`."""
        return f"/deployments/{quote(model, safe='')}{method}" if self.provider == "azure" else method

    @property
    def root(self) -> str:
        """The URL below which all methods are."""
        return f"{self.base_url.rstrip('/')}/openai" if self.provider == "azure" else self.base_url

    def __repr__(self) -> str:
        return f"{self.provider} at {self.base_url}"

    def problems(self, key: str) -> Iterator[str]:
        """Yield what prevents calls of the model at `key`."""
        azure = self.provider == "azure"
        if not self.base_url:
            yield f"{key}.base_url: missing: set the endpoint of the Azure resource, here or in {AZURE_URL}"
        elif wrong := wrong_with_url(self.base_url):
            yield f"{key}.base_url: {wrong}"
        if azure and not self.api_version:
            yield f"{key}.api_version: missing: Azure requires it; set it here or in OPENAI_API_VERSION"
        variable = "AZURE_OPENAI_API_KEY" if azure else "OPENAI_API_KEY"
        if not self.api_key:
            yield f"{key}.api_key: missing: set it here or in the environment variable {variable}"
        elif not is_key(self.api_key):
            yield f"{key}.api_key: expected ASCII characters without white space, here or in {variable}"


def endpoint_of(llm: LLMConfig, model: GenerationConfig | EmbeddingConfig) -> Endpoint:
    """Return where a configured model is served.

    An embedding model takes missing settings from the LLM if both have the same provider and base URL, so
    that no key goes to another server. Settings still missing come from the SDK's environment variables.
    """
    other = llm.generation
    models: list[GenerationConfig | EmbeddingConfig] = [model]
    if other is not None and other.provider == model.provider and model.base_url in {None, other.base_url}:
        models.append(other)

    def first(name: str, *variables: str) -> str:
        values = [*(getattr(each, name) for each in models), *map(os.environ.get, variables)]
        return next(filter(None, values), "")

    headers = next(filter(None, (each.extra_headers for each in models)), {})
    extra_headers = tuple((name, str(value)) for name, value in headers.items())
    if model.provider == "azure":
        key = first("api_key", "AZURE_OPENAI_API_KEY")
        token = "" if key else os.environ.get("AZURE_OPENAI_AD_TOKEN", "")
        base_url, version = first("base_url", AZURE_URL), first("api_version", "OPENAI_API_VERSION")
        return Endpoint("azure", base_url, key or token, version, extra_headers, bool(token))
    base_url = first("base_url", "OPENAI_BASE_URL")
    api_key = first("api_key", "OPENAI_API_KEY") or (NO_KEY if base_url else "")
    return Endpoint("openai", base_url or OPENAI_URL, api_key, "", extra_headers)


class Sdk:
    """The openai package, imported on demand.

    Attributes:
        error: base class of network and server errors.
        status_error: the subclass for error responses.
        response: the type of HTTP responses.
    """

    def __init__(self) -> None:
        """Import the package, which takes a second."""
        try:
            import openai
        except ImportError as error:
            raise ConfigError([f"llm: openai cannot be imported ({error}): {INSTALL}"]) from error
        self._openai = openai
        # From 3.0 on the SDK builds on httpx2.
        self._httpx = import_module(type(openai.DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0])
        self.response: Any = self._httpx.Response
        self.status_error = openai.APIStatusError
        self.error = openai.OpenAIError

    def client(self, endpoint: Endpoint, limits: LimitsConfig) -> Any:
        """Return a client without retries, redirects or timeouts."""
        return self._openai.AsyncOpenAI(
            base_url=endpoint.root,
            api_key=endpoint.api_key,
            default_headers=dict(endpoint.extra_headers),
            default_query={"api-version": endpoint.api_version} if endpoint.api_version else None,
            max_retries=0,
            timeout=None,
            http_client=self._http_client(limits.max_concurrency + SPARE_CONNECTIONS, limits.max_reply_bytes),
        )

    def options(self, endpoint: Endpoint) -> Any:
        """Return the options of each request: Azure takes keys in a header of its own."""
        if endpoint.provider == "azure" and not endpoint.is_token:
            return {"headers": {"api-key": endpoint.api_key, "Authorization": self._openai.Omit()}}
        return {}

    def _http_client(self, connections: int, max_bytes: int) -> Any:
        """Return an HTTP client on aiohttp, which needs half the CPU time, or on httpx if it is missing."""
        limits = self._httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        # Store no cookies: a malformed one would break the next request.
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        options = {"limits": limits, "timeout": None, "follow_redirects": False, "cookies": cookies}
        options |= {"headers": {"Accept-Encoding": "gzip"}}
        options |= {"event_hooks": {"response": [partial(self._read_body, max_bytes=max_bytes)]}}
        with suppress(RuntimeError):
            client = self._openai.DefaultAioHttpClient(**options)
            for transport in filter(None, (client._transport, *client._mounts.values())):
                _tell_of_reuse(transport)
            return client
        return self._openai.DefaultAsyncHttpxClient(**options)

    async def _read_body(self, response: Any, *, max_bytes: int) -> None:
        """Decompress and truncate the body of a response before the SDK reads it."""
        CONNECTION.set("answered")
        compressed = response.headers.pop("content-encoding", "") in {"gzip", "x-gzip", "deflate"}
        body = bytearray()
        limit = max_bytes if response.is_success else MAX_ERROR_BYTES
        pieces = _decompressed(response.stream, limit) if compressed else response.stream
        try:
            async for piece in pieces:
                body += piece
                if len(body) > limit:
                    raise too_long(limit)
        except JudgeError:
            if response.is_success:
                raise
        finally:
            await response.stream.aclose()
        response.stream = self._httpx.ByteStream(bytes(body[:limit]))


def _tell_of_reuse(transport: Any) -> None:
    """Have a transport on aiohttp set `CONNECTION` when it reuses one; its own retries are for GET only."""
    from aiohttp import TraceConfig

    async def reuse(*_: Any) -> None:
        CONNECTION.set("reused")

    def get_client() -> Any:
        session = open_session()
        session.trace_configs.append(trace)
        return session

    trace, open_session = TraceConfig(), transport.get_client
    trace.on_connection_reuseconn.append(reuse)
    trace.freeze()
    transport.get_client = get_client


async def _decompressed(pieces: AsyncIterable[bytes], limit: int) -> AsyncIterator[bytes]:
    """Decompress `pieces`, and yield pieces of at most `limit` + 1 bytes.

    Raises:
        JudgeError: the data is corrupt, or longer than `limit` even when compressed.
    """
    decompress = zlib.decompressobj(GZIP_OR_ZLIB).decompress
    read = 0
    async for piece in pieces:
        read += len(piece)
        if read > limit:
            raise too_long(limit)
        try:
            yield decompress(piece, limit + 1)
        except zlib.error as error:
            text = f"the reply cannot be decompressed: {error}"
            raise JudgeError("unavailable", text) from None


def too_long(limit: int) -> JudgeError:
    """Return the error for a reply of more than `limit` bytes."""
    text = f"the reply is longer than {limit} bytes; raise llm.limits.max_reply_bytes"
    return JudgeError("invalid_reply", text, reply="", final=True)
