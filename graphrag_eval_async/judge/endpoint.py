"""Endpoints of models, and clients that send requests to them."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from graphrag_eval_async.config.load import is_key, wrong_with_url
from graphrag_eval_async.errors import ConfigError, JudgeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
        """Return the path of a method, such as "/embeddings"."""
        return f"/deployments/{quote(model, safe='')}{method}" if self.provider == "azure" else method

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


def import_sdk() -> Any:
    """Return the package openai; importing it takes a second."""
    try:
        import openai
    except ImportError as error:
        raise ConfigError([f"llm: openai cannot be imported ({error}): {INSTALL}"]) from error
    return openai


class Client:
    """Sends requests to an endpoint as the SDK's client would.

    Leaves out the SDK's checks and models of requests and replies: they take most of the CPU time of a call.

    Attributes:
        errors: exceptions of requests without a reply.
    """

    def __init__(self, endpoint: Endpoint, limits: LimitsConfig) -> None:
        """Open no connection yet; imports the SDK, which takes a second."""
        openai = import_sdk()
        # From 3.0 on the SDK builds on httpx2.
        httpx = import_module(type(openai.DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0])
        self.errors: tuple[Any, ...] = (httpx.HTTPError, OSError)
        self._max_bytes = limits.max_reply_bytes
        self._http = _http_client(openai, httpx, limits.max_concurrency + SPARE_CONNECTIONS)
        azure = f"{endpoint.base_url.rstrip('/')}/openai"
        sdk = openai.AsyncOpenAI(
            base_url=azure if endpoint.provider == "azure" else endpoint.base_url,
            api_key=endpoint.api_key,
            http_client=self._http,
        )
        headers = httpx.Headers(sdk.auth_headers)
        headers.update({name: text for name, text in sdk.default_headers.items() if isinstance(text, str)})
        if endpoint.provider == "azure" and not endpoint.is_token:  # It takes keys in a header of its own.
            del headers["Authorization"]
            headers["api-key"] = endpoint.api_key
        headers.update({"Accept-Encoding": "gzip", **dict(endpoint.extra_headers)})
        self._request = partial(httpx.Request, "POST", headers=headers)
        query = endpoint.api_version and f"?api-version={endpoint.api_version}"
        self._url = cache(lambda path: sdk.base_url.join(path.removeprefix("/") + query))

    async def post(self, path: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Return the status, headers and body of the reply to a request.

        Raises:
            JudgeError: the body is too long or corrupt.
        """
        CONNECTION.set("new")
        response = await self._http.send(self._request(self._url(path), content=body), stream=True)
        CONNECTION.set("answered")
        try:
            return response.status_code, response.headers, await _body(response, self._max_bytes)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def _http_client(openai: Any, httpx: Any, connections: int) -> Any:
    """Return an HTTP client on aiohttp, which needs half the CPU time, or on httpx if it is missing.

    It has no timeouts, follows no redirects and keeps no cookies: a malformed one breaks the next request.
    """
    options: dict[str, Any] = {
        "limits": httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        "timeout": None,
        "follow_redirects": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    }
    with suppress(RuntimeError):
        client = openai.DefaultAioHttpClient(**options)
        for transport in filter(None, (client._transport, *client._mounts.values())):
            _watch_reuse(transport)
        return client
    return openai.DefaultAsyncHttpxClient(**options)


def _watch_reuse(transport: Any) -> None:
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


async def _body(response: Any, max_bytes: int) -> bytes:
    """Return the decompressed body of a response; of an error, at most its beginning."""
    limit = max_bytes if response.is_success else MAX_ERROR_BYTES
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > limit:
            break
    if response.headers.get("content-encoding") in {"gzip", "x-gzip", "deflate"} and len(body) <= limit:
        try:
            body[:] = zlib.decompressobj(GZIP_OR_ZLIB).decompress(body, limit + 1)
        except zlib.error as error:
            if response.is_success:
                raise JudgeError("unavailable", f"the reply cannot be decompressed: {error}") from None
    if len(body) > limit and response.is_success:
        text = f"the reply is longer than {limit} bytes; raise llm.limits.max_reply_bytes"
        raise JudgeError("invalid_reply", text, reply="", final=True)
    return bytes(body[:limit])
