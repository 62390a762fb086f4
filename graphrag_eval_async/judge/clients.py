"""Endpoints of models, and clients that send requests to them."""

from __future__ import annotations

import os
import re
import ssl
import zlib
from base64 import b64encode
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from urllib.request import proxy_bypass_environment as is_excluded  # type: ignore[attr-defined]

from graphrag_eval_async.config.load import wrong_with_url
from graphrag_eval_async.errors import ConfigError, JudgeError, needs
from graphrag_eval_async.judge.calls import Rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from urllib.parse import SplitResult

    from graphrag_eval_async.config import (
        EmbeddingConfig,
        GenerationConfig,
        LimitsConfig,
        LLMConfig,
    )
    from graphrag_eval_async.judge.calls import Way

OPENAI_URL = "https://api.openai.com/v1"
AZURE_URL = "AZURE_OPENAI_ENDPOINT"
# Sent to self-hosted servers: most need no key, but some require a header with one.
NO_KEY = "unused"
IDLE_SECONDS = 5.0  # How long an idle connection is kept: few servers close one earlier.
MAX_ERROR_BYTES = 1 << 16  # Maximum bytes read from the body of an error response.

FIXED_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json",
    "User-Agent": "graphrag-eval-async",
}
ACCOUNT_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers from environment variables, as the SDK sends them."""

GZIP_OR_ZLIB = 47  # zlib's `wbits` value to detect gzip or zlib by the header.


class Endpoint(NamedTuple):
    """Where a model is served, from the configuration and the environment; "" for a missing
    value.
    """

    provider: str
    base_url: str
    api_key: str
    api_version: str
    extra_headers: tuple[tuple[str, str], ...] = ()
    is_token: bool = False  # The key is a token of Microsoft Entra ID.

    def path(self, model: str, method: str) -> str:
        """Return the path of a method, such as "/embeddings"."""
        return (
            f"/deployments/{quote(model, safe='')}{method}" if self.provider == "azure" else method
        )

    def __repr__(self) -> str:
        return f"{self.provider} at {self.base_url}"

    def problems(self, key: str) -> Iterator[str]:
        """Yield what prevents calls of the model at `key`."""
        azure = self.provider == "azure"
        if not self.base_url:
            yield (
                f"{key}.base_url: missing: set the endpoint of the Azure resource, here or in "
                f"{AZURE_URL}"
            )
        elif wrong := wrong_with_url(self.base_url):
            yield f"{key}.base_url: {wrong}"
        if azure and not self.api_version:
            yield (
                f"{key}.api_version: missing: Azure requires it; set it here or in "
                "OPENAI_API_VERSION"
            )
        variable = "AZURE_OPENAI_API_KEY" if azure else "OPENAI_API_KEY"
        if not self.api_key:
            yield f"{key}.api_key: missing: set it here or in the environment variable {variable}"
        elif not re.fullmatch("[!-~]+", self.api_key):
            yield (
                f"{key}.api_key: expected ASCII characters without white space, here or in "
                f"{variable}"
            )


def endpoint_of(llm: LLMConfig, model: GenerationConfig | EmbeddingConfig) -> Endpoint:
    """Return where a configured model is served.

    An embedding model takes missing settings from the LLM if both have the same provider and base
    URL, so that no key goes to another server. Settings still missing come from the SDK's
    environment variables.
    """
    other = llm.generation
    models: list[GenerationConfig | EmbeddingConfig] = [model]
    if (
        other is not None
        and other.provider == model.provider
        and model.base_url in {None, other.base_url}
    ):
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


def import_aiohttp() -> Any:
    """Return the package aiohttp, which is imported with the first judge."""
    try:
        import aiohttp
    except ImportError as error:
        raise ConfigError(
            [f"llm: aiohttp cannot be imported ({error}); it {needs('llm')}"]
        ) from error
    return aiohttp


class Client:
    """Sends requests to an endpoint, at a fifth of the CPU time of the SDK's client.

    It has no timeouts, follows no redirects and keeps no cookies: a malformed one breaks the next
    request. Requests without a reply raise `errors`; after those that are `unsent`, nothing is
    billed.
    """

    def __init__(self, endpoint: Endpoint, limits: LimitsConfig) -> None:
        """Open no connection yet."""
        self._aiohttp = aiohttp = import_aiohttp()
        self.errors: tuple[Any, ...] = (aiohttp.ClientError, OSError)
        self.unsent: tuple[Any, ...] = (aiohttp.ClientConnectorError, aiohttp.ClientResponseError)
        self._max_bytes = limits.max_reply_bytes
        self._base, self._query = endpoint.base_url.rstrip("/"), ""
        headers = {"Authorization": f"Bearer {endpoint.api_key}"}
        if endpoint.provider == "azure":
            version = quote(endpoint.api_version, safe="")
            self._base, self._query = f"{self._base}/openai", f"?api-version={version}"
            if not endpoint.is_token:  # It takes keys in a header of its own.
                headers = {"api-key": endpoint.api_key}
        for name, variable in ACCOUNT_HEADERS.items():
            headers |= {name: value} if (value := os.environ.get(variable)) else {}
        self._is_tls = self._base.startswith("https:")
        try:
            self._proxy, credentials = proxy_of(self._base)
        except ValueError as error:
            raise ConfigError([f"llm: the proxy of the environment: {error}"]) from None
        self._proxy_headers = credentials if self._is_tls else {}
        # Those of the session would be sent to the proxy, too.
        self._headers = aiohttp.typedefs.CIMultiDict(FIXED_HEADERS | headers)
        self._headers.update(dict(endpoint.extra_headers) | ({} if self._is_tls else credentials))
        self._tls = _certificates() if self._is_tls else True
        closed = aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError
        self._closed: tuple[Any, ...] = closed if limits.max_attempts > 1 else ()
        self._sessions: dict[bool, Any] = {}

    def _session(self, is_anew: bool) -> Any:
        """Return the session, which belongs to the event loop, or one that reuses no connection."""
        if (opened := self._sessions.get(is_anew)) is not None:
            return opened
        aiohttp, trace = self._aiohttp, self._aiohttp.TraceConfig()

        async def reused(_: Any, context: Any, __: Any) -> None:
            context.trace_request_ctx.append(True)

        trace.on_connection_reuseconn.append(reused)
        keeping = {"force_close": True} if is_anew else {"keepalive_timeout": IDLE_SECONDS}
        session = self._sessions[is_anew] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, **keeping),
            trace_configs=[trace],
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
        )
        return session

    async def post(self, path: str, body: bytes, way: Way) -> tuple[int, Mapping[str, str], bytes]:
        """Return the status, headers and body of the reply; `JudgeError` if that is too long or
        corrupt.

        Raises `Rewritten` if the server closed an idle connection just as the request was sent on
        it.
        """
        reuses: list[bool] = []
        try:
            async with self._session(way.is_anew).post(
                f"{self._base}{path}{self._query}",
                data=body,
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                trace_request_ctx=reuses,
            ) as response:
                reuses.clear()
                return response.status, response.headers, await _body(response, self._max_bytes)
        except self._closed as error:
            if not reuses:
                raise
            way.is_anew = True
            raise Rewritten("unavailable", str(error)) from None

    async def aclose(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()


def _certificates() -> ssl.SSLContext:
    """Return the certificates to trust: those of the environment, or those of the system and of
    certifi.
    """
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or directory:
        try:
            return ssl.create_default_context(cafile=file or None, capath=directory or None)
        except OSError as error:
            raise ConfigError([f"llm: SSL_CERT_FILE: {file}: {error}"]) from None
    import certifi  # Not each system has certificates.

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def proxy_of(url: str) -> tuple[str | None, dict[str, str]]:
    """Return the proxy of the environment for a URL, without its password, and the header that
    holds it.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    if proxy_bypass(parts.netloc) or _is_direct(parts, proxies.get("no", "")):
        return None, {}
    text = proxies.get(parts.scheme) or proxies.get("all")
    if not text:
        return None, {}
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    place = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
    if proxy.username is None:
        return place, {}
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return place, {"Proxy-Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


def _is_direct(url: SplitResult, excluded: str) -> bool:
    """Whether NO_PROXY names a host in a form that the standard library does not know."""
    names = [entry.strip().rpartition("://")[2].rstrip("/") for entry in excluded.split(",")]
    for name in names:
        with suppress(ValueError):  # Of names that are no addresses.
            if ip_address(url.hostname or "") in ip_network(name.strip("[]"), strict=False):
                return True
    suffixes = ",".join(name.removeprefix("*.") for name in names)
    return "*" in names or bool(is_excluded(url.netloc, {"no": suffixes}))


async def _body(response: Any, max_bytes: int) -> bytes:
    """Return the decompressed body of a response; of an error, at most its beginning."""
    is_success = 200 <= response.status < 300
    limit = max_bytes if is_success else MAX_ERROR_BYTES
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            break
    coding = response.headers.get("Content-Encoding", "").lower()
    if coding in {"gzip", "x-gzip", "deflate"} and len(body) <= limit:
        try:
            body[:] = zlib.decompressobj(GZIP_OR_ZLIB).decompress(body, limit + 1)
        except zlib.error as error:
            if is_success:
                raise JudgeError(
                    "unavailable", f"the reply cannot be decompressed: {error}"
                ) from None
    if len(body) > limit and is_success:
        text = f"the reply is longer than {limit} bytes; raise llm.limits.max_reply_bytes"
        raise JudgeError("invalid_reply", text, reply="", final=True)
    return bytes(body[:limit])
