"""Clients of the package openai: those made for configured models, and those that users bring."""

from __future__ import annotations

import os
import re
import sys
import warnings
import zlib
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from graphrag_eval_async.config.load import wrong_with_url
from graphrag_eval_async.errors import ConfigError, JudgeError, UsageError, needs, warn_caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig

OPENAI_URL = "https://api.openai.com/v1"
AZURE_URL_VARIABLE = "AZURE_OPENAI_ENDPOINT"

AZURE_V1_PATH = "/openai/v1"
"""The path of Azure's API v1, which has the protocol of OpenAI and needs no API version."""

NO_KEY = "unused"
"""Sent to servers of one's own: most need no key, but the SDK requires one."""

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables with the path of certificates."""

MAX_CONNECTIONS = 1_000_000
"""No limit: `RateLimiter` limits requests, and the SDK's default of 1,000 would delay some."""

MAX_ERROR_BYTES = 1 << 16
"""Maximum bytes that are read of the body of an error."""

RAW_CLIENTS = ("WithRawResponse", "WithStreamedResponse")
"""The ends of the names of the SDK's classes whose methods do not return replies."""

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
        """Yield what prevents requests to the server, with the setting to change.

        Args:
            section: where the model is configured, such as "llm.generation".
        """
        is_azure = self.provider == "azure"
        key_variable = "OPENAI_API_KEY"
        if is_azure:
            key_variable = "AZURE_OPENAI_API_KEY"

        # The address: only Azure has no default.
        if not self.base_url:
            yield (
                f"{section}.base_url: missing: set the endpoint of the Azure resource, here or in "
                f"{AZURE_URL_VARIABLE}"
            )
        else:
            problem = wrong_with_url(self.base_url)
            if problem is not None:
                yield f"{section}.base_url: {problem}"
            elif is_azure and self.base_url.rstrip("/").endswith(AZURE_V1_PATH):
                yield (
                    f"{section}.base_url: expected the endpoint of the Azure resource, without "
                    f"{AZURE_V1_PATH}; to use its API v1, write provider: openai"
                )

        if is_azure and not self.api_version:
            yield (
                f"{section}.api_version: missing: Azure requires it; set it here or in "
                "OPENAI_API_VERSION"
            )

        # The key, which goes into a header.
        if not self.api_key:
            yield (
                f"{section}.api_key: missing: set it here or in the environment variable "
                f"{key_variable}"
            )
        elif not re.fullmatch("[!-~]+", self.api_key):
            yield (
                f"{section}.api_key: expected ASCII characters without white space, here or in "
                f"{key_variable}"
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
            raise ConfigError([f"llm: {_describe_environment_problem(error)}"]) from None

        options: dict[str, Any] = {
            "max_retries": 0,
            "timeout": None,
            "default_headers": dict(self.extra_headers),
            "http_client": http_client,
        }
        if self.provider == "openai":
            return openai.AsyncOpenAI(base_url=self.base_url, api_key=self.api_key, **options)
        if self.is_token:
            options["azure_ad_token"] = self.api_key
        else:
            options["api_key"] = self.api_key
        client = openai.AsyncAzureOpenAI(
            azure_endpoint=self.base_url, api_version=self.api_version, **options
        )
        if not self.is_token:
            # The SDK has read a token from the environment, which it would send in place of the
            # key.
            client._azure_ad_token = None
        return client


def connection_of(llm: LLMConfig, model: GenerationConfig | EmbeddingConfig) -> Connection:
    """Return how to reach the server of a configured model.

    A model takes missing settings from `llm.generation` if both have the same provider and base
    URL, so that no key goes to another server. Settings still missing come from the SDK's
    environment variables.

    Args:
        llm: the whole section `llm`.
        model: the section of the model.
    """
    sections: list[GenerationConfig | EmbeddingConfig] = [model]
    if llm.generation is not None and share_server(model, llm.generation):
        sections.append(llm.generation)

    if model.provider == "azure":
        return _azure_connection(sections)
    return _openai_connection(sections)


def share_server(model: GenerationConfig | EmbeddingConfig, generation: GenerationConfig) -> bool:
    """Return whether a model has the same server as `llm.generation`, or names no server."""
    if model.provider != generation.provider:
        return False
    return model.base_url is None or model.base_url == generation.base_url


def _openai_connection(sections: Sequence[GenerationConfig | EmbeddingConfig]) -> Connection:
    """Return how to reach OpenAI, or another server with its protocol.

    Args:
        sections: the sections of the configuration to take each setting from, the first first.
    """
    base_url = _find_setting("base_url", sections, "OPENAI_BASE_URL")
    api_key = _find_setting("api_key", sections, "OPENAI_API_KEY")
    is_openai = base_url == ""
    if is_openai:
        base_url = OPENAI_URL
    elif not api_key:
        api_key = NO_KEY
    return Connection(
        provider="openai",
        base_url=base_url,
        api_key=api_key,
        api_version="",
        extra_headers=_find_headers(sections),
    )


def _azure_connection(sections: Sequence[GenerationConfig | EmbeddingConfig]) -> Connection:
    """Return how to reach an Azure resource, with a key or else a token of Microsoft Entra ID.

    Args:
        sections: the sections of the configuration to take each setting from, the first first.
    """
    api_key = _find_setting("api_key", sections, "AZURE_OPENAI_API_KEY")
    token = ""
    if not api_key:
        token = os.environ.get("AZURE_OPENAI_AD_TOKEN", "")
    return Connection(
        provider="azure",
        base_url=_find_setting("base_url", sections, AZURE_URL_VARIABLE),
        api_key=api_key or token,
        api_version=_find_setting("api_version", sections, "OPENAI_API_VERSION"),
        extra_headers=_find_headers(sections),
        is_token=token != "",
    )


def _find_setting(
    name: str, sections: Sequence[GenerationConfig | EmbeddingConfig], variable: str
) -> str:
    """Return a setting from the first section that has it, else from the environment, else ""."""
    for section in sections:
        value: str | None = getattr(section, name)
        if value:
            return value
    return os.environ.get(variable, "")


def _find_headers(
    sections: Sequence[GenerationConfig | EmbeddingConfig],
) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the extra headers in the first section that has any."""
    for section in sections:
        if section.extra_headers:
            return tuple((name, str(value)) for name, value in section.extra_headers.items())
    return ()


def check_connections(llm: LLMConfig, judge: str) -> None:
    """Check that the models of a judge can be called, as far as possible without a request.

    Args:
        llm: the section `llm` of the configuration.
        judge: the name of the judge.

    Raises:
        ConfigError: the extra is missing, or a key, or the address of a server.
    """
    if find_spec("openai") is None:
        raise ConfigError([f"llm: {needs('llm')}"])
    problems: list[str] = []
    models = {llm.key(judge): llm.model(judge), "llm.embedding": llm.embedding}
    for section, model in models.items():
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


def _describe_environment_problem(error: Exception) -> str:
    """Return in words what is wrong with the variables of the environment for an HTTP client.

    Args:
        error: why the client could not be made.
    """
    for variable in CERTIFICATE_VARIABLES:
        path = os.environ.get(variable)
        if path and not os.path.exists(path):
            return f"{variable}: {path} does not exist"
    return f"the certificates or the proxy of the environment: {error}"


def _ignore_deprecations() -> None:
    """Ignore the deprecation warnings that the SDK's transport causes, for the whole process.

    One is aiohttp's for the password of a proxy. A user who turns warnings into errors cannot mend
    them. They come with requests, so no context can hold them.
    """
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=TRANSPORTS)


def _open_http_client(openai: Any, max_reply_bytes: int) -> Any:
    """Return an HTTP client for the SDK, over aiohttp if that is installed, with bounded replies.

    Args:
        openai: the SDK.
        max_reply_bytes: reading a longer reply raises a `JudgeError`.
    """

    async def bound_long_body(response: Any) -> None:
        if not _is_short(response, max_reply_bytes):
            response.stream = _bound_body(response, max_reply_bytes)

    # The class is one of the SDK's HTTP package, which differs by version.
    limits_class = type(openai.DEFAULT_CONNECTION_LIMITS)
    options = {
        "limits": limits_class(max_connections=MAX_CONNECTIONS),
        "timeout": None,
        # A redirected request would arrive without its body.
        "follow_redirects": False,
        # `_bound_body` decompresses it.
        "headers": {"Accept-Encoding": "gzip"},
        "event_hooks": {"response": [bound_long_body]},
    }
    _ignore_deprecations()
    try:
        return openai.DefaultAioHttpClient(**options)
    except RuntimeError:
        # The SDK was installed without its extra aiohttp.
        return openai.DefaultAsyncHttpxClient(**options)


def _is_short(response: Any, max_reply_bytes: int) -> bool:
    """Return whether the headers of a response promise a short, uncompressed body.

    The transport checks that a body has the promised length.
    """
    if "Content-Encoding" in response.headers:
        return False
    length = response.headers.get("Content-Length", "")
    return length.isdecimal() and int(length) <= max_reply_bytes


def _bound_body(response: Any, max_reply_bytes: int) -> Any:
    """Return the body of a response as a stream of bounded length, decompressed.

    Reading the stream raises a `JudgeError` as soon as the body is too long, compressed or not. Of
    the body of an error, it only yields the beginning.

    Args:
        response: the response; its header for compression is removed, or the client would
            decompress the body once more.
        max_reply_bytes: maximum bytes of a body.
    """
    read: Callable[[Any, int], AsyncIterator[bytes]] = _read_bounded
    is_error = response.status_code >= 300
    if is_error:
        read = _read_beginning
    pieces = read(response.stream, max_reply_bytes)

    coding = response.headers.get("Content-Encoding", "").lower()
    is_compressed = coding in {"gzip", "x-gzip", "deflate"}
    if is_compressed:
        del response.headers["Content-Encoding"]
        pieces = read(_decompress(pieces, max_reply_bytes), max_reply_bytes)

    # The stream must be of the SDK's HTTP package, which differs by version.
    package_name = type(response).__module__.partition(".")[0]
    package = sys.modules[package_name]
    changed_stream = _make_stream_class(package.AsyncByteStream)
    return changed_stream(response.stream, pieces)


@cache
def _make_stream_class(base: type[Any]) -> type[Any]:
    """Return a subclass of an HTTP package's class of streams that yields changed pieces.

    Args:
        base: the class of streams, such as `httpx.AsyncByteStream`.
    """

    class ChangedStream(base):  # type: ignore[misc]
        """A stream that yields the pieces that it is given, and closes the original stream."""

        def __init__(self, original: Any, pieces: AsyncIterator[bytes]) -> None:
            self._original = original
            self._pieces = pieces

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._pieces

        async def aclose(self) -> None:
            await self._original.aclose()

    return ChangedStream


async def _decompress(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the decompressed pieces of a body, and stop once they have more than `max_bytes`.

    Raises:
        JudgeError: the body cannot be decompressed.
    """
    decompressor = zlib.decompressobj(GZIP_OR_ZLIB)
    remaining = max_bytes + 1
    async for piece in pieces:
        try:
            # A small piece may decompress to gigabytes.
            decompressed = decompressor.decompress(piece, remaining)
        except zlib.error as error:
            problem = f"the reply cannot be decompressed: {error}"
            raise JudgeError("unavailable", problem) from None
        yield decompressed
        remaining -= len(decompressed)
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


async def _read_beginning(pieces: AsyncIterator[bytes], _: int) -> AsyncIterator[bytes]:
    """Yield the first pieces of the body of an error, up to `MAX_ERROR_BYTES` and one piece more.

    If the body cannot be decompressed, it ends: the status says enough.
    """
    size = 0
    try:
        async for piece in pieces:
            yield piece
            size += len(piece)
            if size > MAX_ERROR_BYTES:
                return
    except JudgeError:
        return


def is_client(judge: object) -> bool:
    """Return whether an object is a client of the package openai, or wraps one."""
    return hasattr(getattr(judge, "chat", None), "completions")


def check_client(client: Any) -> None:
    """Check that an object is an asynchronous client of the package openai, or wraps one.

    Raises:
        UsageError: it is none.
    """
    name = type(client).__name__
    if name.endswith(RAW_CLIENTS):
        raise UsageError(
            f"OpenAIJudge: expected a client itself, without with_raw_response or "
            f"with_streaming_response, got {name}"
        )
    # The module openai has the attributes of a client, too.
    if not is_client(client) or isinstance(client, ModuleType):
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
    """Return the provider that a configuration would have for a client.

    A wrapper hides the class of the SDK's client for Azure, but not its API version, which no other
    client has.
    """
    api_version = getattr(client, "_api_version", None)
    if isinstance(api_version, str):
        return "azure"
    return "openai"
