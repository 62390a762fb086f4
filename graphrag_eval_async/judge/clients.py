"""Clients of the package openai: those made for configured models, and those that users bring."""

from __future__ import annotations

import os
import re
import sys
import warnings
import zlib
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from graphrag_eval_async.config.load import wrong_with_url
from graphrag_eval_async.errors import ConfigError, JudgeError, UsageError, needs, warn_caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig

OPENAI_URL = "https://api.openai.com/v1"
AZURE_URL = "AZURE_OPENAI_ENDPOINT"

NO_KEY = "unused"
"""Sent to servers of one's own: most need no key, but the SDK requires one."""

MAX_CONNECTIONS = 1_000_000
"""No limit: `RateLimiter` limits requests, and the SDK's default of 1,000 would delay some."""

MAX_ERROR_BYTES = 1 << 16
"""Maximum bytes that are read of the body of an error."""

TRANSPORTS = r"(openai\._vendor|httpx_aiohttp)\b"
"""The modules that connect the SDK to aiohttp, in its newer and older versions."""

GZIP_OR_ZLIB = 47
"""zlib's `wbits` value to detect gzip or zlib by the header."""


class Connection(NamedTuple):
    """How to reach the server of a model, from the configuration and the environment; "" for a
    missing value.
    """

    provider: Literal["openai", "azure"]
    base_url: str
    api_key: str
    api_version: str
    extra_headers: tuple[tuple[str, str], ...] = ()
    is_token: bool = False
    """Whether the key is a token of Microsoft Entra ID."""

    def __repr__(self) -> str:
        return f"{self.provider} at {self.base_url}"

    def find_problems(self, section: str) -> Iterator[str]:
        """Yield what prevents calls of the model that is configured at `section`."""
        is_azure = self.provider == "azure"
        if not self.base_url:
            yield (
                f"{section}.base_url: missing: set the endpoint of the Azure resource, here or in "
                f"{AZURE_URL}"
            )
        else:
            problem = wrong_with_url(self.base_url)
            if problem is not None:
                yield f"{section}.base_url: {problem}"
        if is_azure and not self.api_version:
            yield (
                f"{section}.api_version: missing: Azure requires it; set it here or in "
                "OPENAI_API_VERSION"
            )
        variable = "AZURE_OPENAI_API_KEY" if is_azure else "OPENAI_API_KEY"
        if not self.api_key:
            yield (
                f"{section}.api_key: missing: set it here or in the environment variable {variable}"
            )
        elif not re.fullmatch("[!-~]+", self.api_key):
            yield (
                f"{section}.api_key: expected ASCII characters without white space, here or in "
                f"{variable}"
            )

    def open_client(self, max_reply_bytes: int) -> Any:
        """Return a client of the SDK that retries nothing and has no timeouts, as `Sender` does.

        Proxies and certificates, and the organization and the project of the account, come from the
        SDK's environment variables.

        Args:
            max_reply_bytes: maximum bytes of a reply, compressed and decompressed.

        Raises:
            ConfigError: the SDK is missing, or the environment names a file or a proxy that is
                none.
        """
        openai = import_openai()
        try:
            http_client = _open_http_client(openai, max_reply_bytes)
        except (OSError, ValueError) as error:
            problem = f"llm: the certificates or the proxy of the environment: {error}"
            raise ConfigError([problem]) from None
        options: dict[str, Any] = {
            "max_retries": 0,
            "timeout": None,
            "default_headers": dict(self.extra_headers),
            "http_client": http_client,
        }
        if self.provider == "openai":
            return openai.AsyncOpenAI(base_url=self.base_url, api_key=self.api_key, **options)
        options["azure_ad_token" if self.is_token else "api_key"] = self.api_key
        return openai.AsyncAzureOpenAI(
            azure_endpoint=self.base_url, api_version=self.api_version, **options
        )


def connection_of(llm: LLMConfig, model: GenerationConfig | EmbeddingConfig) -> Connection:
    """Return how to reach the server of a configured model.

    A model takes missing settings from `llm.generation` if both have the same provider and base
    URL, so that no key goes to another server. Settings still missing come from the SDK's
    environment variables.
    """
    sections: list[GenerationConfig | EmbeddingConfig] = [model]
    generation = llm.generation
    if (
        generation is not None
        and generation.provider == model.provider
        and model.base_url in {None, generation.base_url}
    ):
        sections.append(generation)

    def first(name: str, *variables: str) -> str:
        configured = [getattr(section, name) for section in sections]
        in_environment = [os.environ.get(variable) for variable in variables]
        return next(filter(None, [*configured, *in_environment]), "")

    headers = next((section.extra_headers for section in sections if section.extra_headers), {})
    extra_headers = tuple((name, str(value)) for name, value in headers.items())
    if model.provider == "azure":
        api_key = first("api_key", "AZURE_OPENAI_API_KEY")
        token = "" if api_key else os.environ.get("AZURE_OPENAI_AD_TOKEN", "")
        return Connection(
            provider="azure",
            base_url=first("base_url", AZURE_URL),
            api_key=api_key or token,
            api_version=first("api_version", "OPENAI_API_VERSION"),
            extra_headers=extra_headers,
            is_token=bool(token),
        )
    base_url = first("base_url", "OPENAI_BASE_URL")
    default_key = NO_KEY if base_url else ""
    return Connection(
        provider="openai",
        base_url=base_url or OPENAI_URL,
        api_key=first("api_key", "OPENAI_API_KEY") or default_key,
        api_version="",
        extra_headers=extra_headers,
    )


def check_connections(llm: LLMConfig, judge: str) -> None:
    """Check that the models of a judge can be called, as far as possible without a request.

    Raises:
        ConfigError: the extra is missing, or a key, or the address of a server.
    """
    if find_spec("openai") is None:
        raise ConfigError([f"llm: {needs('llm')}"])
    problems: list[str] = []
    for section, model in ((llm.key(judge), llm.model(judge)), ("llm.embedding", llm.embedding)):
        if model is not None:
            problems += connection_of(llm, model).find_problems(section)
    if problems:
        raise ConfigError(problems)


def import_openai() -> Any:
    """Return the package openai, which takes half a second to import.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        import openai
    except ImportError as error:
        problem = f"llm: openai cannot be imported ({error}); it {needs('llm')}"
        raise ConfigError([problem]) from error
    return openai


def _ignore_deprecations() -> None:
    """Ignore the deprecation warnings that the SDK's transport causes, such as aiohttp's for the
    password of a proxy: a user who turns warnings into errors cannot mend them.

    They come with requests, so no context can hold them.
    """
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=TRANSPORTS)


def _open_http_client(openai: Any, max_reply_bytes: int) -> Any:
    """Return the SDK's HTTP client, over aiohttp where it is installed, with bounded replies."""

    async def bound(response: Any) -> None:
        if not _is_short(response, max_reply_bytes):
            response.stream = _bounded_stream(response, max_reply_bytes)

    # The class of the SDK's HTTP package, which differs by version.
    limits_class = type(openai.DEFAULT_CONNECTION_LIMITS)
    options = {
        "limits": limits_class(max_connections=MAX_CONNECTIONS),
        "timeout": None,
        # A redirected request would arrive without its body.
        "follow_redirects": False,
        # `_bounded_stream` decompresses it.
        "headers": {"Accept-Encoding": "gzip"},
        "event_hooks": {"response": [bound]},
    }
    _ignore_deprecations()
    try:
        return openai.DefaultAioHttpClient(**options)
    except RuntimeError:  # The SDK was installed without its extra aiohttp.
        return openai.DefaultAsyncHttpxClient(**options)


def _is_short(response: Any, max_reply_bytes: int) -> bool:
    """Whether a response says that it is short enough, which its transport checks."""
    length = response.headers.get("Content-Length", "")
    is_compressed = "Content-Encoding" in response.headers
    return length.isdecimal() and int(length) <= max_reply_bytes and not is_compressed


def _bounded_stream(response: Any, max_reply_bytes: int) -> Any:
    """Return the body of a response, decompressed; of an error, at most its beginning.

    Reading it raises a `JudgeError` as soon as it is too long, compressed or not.
    """
    package = sys.modules[type(response).__module__.partition(".")[0]]
    coding = response.headers.get("Content-Encoding", "").lower()
    is_compressed = coding in {"gzip", "x-gzip", "deflate"}
    if is_compressed:
        # Else the client would decompress it once more.
        del response.headers["Content-Encoding"]
    read = _read_error if response.status_code >= 300 else _read_bounded
    pieces = read(response.stream, max_reply_bytes)
    if is_compressed:
        pieces = read(_inflate(pieces, max_reply_bytes), max_reply_bytes)
    return _stream_class(package.AsyncByteStream)(response.stream, pieces)


@cache
def _stream_class(base: type[Any]) -> type[Any]:
    """Return a class of streams for the HTTP package that has the class `base`."""

    class BoundedStream(base):  # type: ignore[misc]
        """Yields other pieces than the stream that it closes."""

        def __init__(self, stream: Any, pieces: AsyncIterator[bytes]) -> None:
            self._stream = stream
            self._pieces = pieces

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._pieces

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BoundedStream


async def _inflate(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a body decompressed, until they have more than `max_bytes`."""
    decompressor = zlib.decompressobj(GZIP_OR_ZLIB)
    remaining = max_bytes + 1
    async for piece in pieces:
        try:
            inflated = decompressor.decompress(piece, remaining)
        except zlib.error as error:
            problem = f"the reply cannot be decompressed: {error}"
            raise JudgeError("unavailable", problem) from None
        yield inflated
        remaining -= len(inflated)
        if remaining <= 0:
            return


async def _read_bounded(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a reply.

    Raises:
        JudgeError: they have more than `max_bytes`.
    """
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            problem = (
                f"the reply is longer than {max_bytes} bytes; raise llm.limits.max_reply_bytes"
            )
            raise JudgeError("invalid_reply", problem, reply="", final=True)
        yield piece


async def _read_error(pieces: AsyncIterator[bytes], _: int) -> AsyncIterator[bytes]:
    """Yield the first pieces of the body of an error, as far as they can be read."""
    size = 0
    try:
        async for piece in pieces:
            yield piece
            size += len(piece)
            if size > MAX_ERROR_BYTES:
                return
    except JudgeError:  # It cannot be decompressed; the status says enough.
        return


def is_client(judge: object) -> bool:
    """Whether an object is a client of the package openai, or wraps one."""
    return hasattr(getattr(judge, "chat", None), "completions")


def check_client(client: Any) -> None:
    """Check that an object is an asynchronous client of the package openai, or wraps one.

    Raises:
        UsageError: it is none.
    """
    name = type(client).__name__
    if not is_client(client):
        raise UsageError(
            f"OpenAIJudge: expected a client of the package openai, such as AsyncOpenAI(), got "
            f"{name}"
        )
    is_synchronous = hasattr(client, "__enter__") and not hasattr(client, "__aenter__")
    if is_synchronous:
        raise UsageError(f"OpenAIJudge: {name} is not asynchronous; use Async{name}")


def warn_of_retries(client: Any) -> None:
    """Warn if a client of the user's retries failed requests itself."""
    retries = getattr(client, "max_retries", 0)
    if isinstance(retries, int) and retries > 0:
        warn_caller(
            f"the judge's client retries failed requests itself (max_retries={retries}): these "
            f"attempts are neither counted nor priced; make it with max_retries=0, or pass "
            f"client.with_options(max_retries=0)"
        )


def address_of(client: Any) -> str:
    """Return the address that a client sends requests to."""
    return str(getattr(client, "base_url", "the client's server")).rstrip("/")


def provider_of(client: Any) -> Literal["openai", "azure"]:
    """Return the provider that a configuration would have for a client."""
    openai = import_openai()
    return "azure" if isinstance(client, openai.AsyncAzureOpenAI) else "openai"
