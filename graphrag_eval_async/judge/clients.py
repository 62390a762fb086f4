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
    """How to reach the server of a model, from the configuration and the environment.

    A missing value is "".
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

    def find_problems(self, section: str, *, is_given_by_name: bool) -> Iterator[str]:
        """Yield each problem that prevents requests to the server, with the setting to change.

        Args:
            section: where the model is configured, such as "llm.generation".
            is_given_by_name: whether the user gives only the name of the model, in code: then there
                is no section to change.
        """
        place = "here or in the environment variable"
        if is_given_by_name:
            place = "in the environment variable"
        is_azure = self.provider == "azure"

        # The address: only Azure has no default.
        if not self.base_url:
            yield (
                f"{section}.base_url: missing: set the endpoint of the Azure resource {place} "
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
                f"{section}.api_version: missing: Azure requires it; set it {place} "
                "OPENAI_API_VERSION"
            )

        # The key goes into a header, so it may only have characters that headers can hold.
        key_variable = "OPENAI_API_KEY"
        if is_azure:
            key_variable = "AZURE_OPENAI_API_KEY"
        if not self.api_key:
            yield f"{section}.api_key: missing: set it {place} {key_variable}"
        elif not re.fullmatch("[!-~]+", self.api_key):
            yield (
                f"{section}.api_key: expected ASCII characters without white space, {place} "
                f"{key_variable}"
            )

    def open_client(self, max_reply_bytes: int) -> Any:
        """Return a client of the SDK without retries and timeouts, since `Sender` has both.

        The SDK reads proxies, certificates, and the organization and project of the account from
        environment variables.

        Args:
            max_reply_bytes: maximum bytes of a reply, compressed and decompressed.

        Raises:
            ConfigError: the SDK is missing, or an environment variable names an unusable
                certificate file or proxy.
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

    Settings that the model lacks are taken from `llm.generation` if both have the same provider and
    base URL, so that no key goes to another server. Settings that are then still missing come from
    the SDK's environment variables.

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
    """Return how to reach OpenAI, or another server that speaks the protocol of OpenAI.

    Without an address, the server is OpenAI's. Other servers get a placeholder if there is no key,
    since most need none, but the SDK does.

    Args:
        sections: the sections of the configuration; the first that has a setting counts.
    """
    base_url = _find_setting("base_url", sections, "OPENAI_BASE_URL")
    api_key = _find_setting("api_key", sections, "OPENAI_API_KEY")
    has_no_address = base_url == ""
    if has_no_address:
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
    """Return how to reach an Azure resource, by a key or, if there is none, by a token.

    Args:
        sections: the sections of the configuration; the first that has a setting counts.
    """
    api_key = _find_setting("api_key", sections, "AZURE_OPENAI_API_KEY")
    token = ""
    if not api_key:
        # A token of Microsoft Entra ID.
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
    """Return a setting from the first section that has it.

    If no section has the setting, return the environment variable `variable`; "" if it is not set.
    """
    for section in sections:
        value: str | None = getattr(section, name)
        if value:
            return value
    return os.environ.get(variable, "")


def _find_headers(
    sections: Sequence[GenerationConfig | EmbeddingConfig],
) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the extra headers in the first section that has any.

    They are a tuple of pairs, since connections are used as keys of a dict.
    """
    for section in sections:
        if section.extra_headers:
            return tuple((name, str(value)) for name, value in section.extra_headers.items())
    return ()


def check_connections(llm: LLMConfig, judge: str, *, is_given_by_name: bool) -> None:
    """Check, without a request, that the package openai and the settings of a judge are there.

    These are the settings of the judge's own model and of the embedding model.

    Args:
        llm: the section `llm` of the configuration.
        judge: the name of the judge.
        is_given_by_name: whether the user gives only the name of the judge's model, in code.

    Raises:
        ConfigError: the package, a key, or the address of a server is missing or invalid.
    """
    if find_spec("openai") is None:
        raise ConfigError([f"llm: {needs('llm')}"])
    problems: list[str] = []
    generation = llm.model(judge)
    if generation is not None:
        connection = connection_of(llm, generation)
        problems += connection.find_problems(llm.key(judge), is_given_by_name=is_given_by_name)
    if llm.embedding is not None:
        connection = connection_of(llm, llm.embedding)
        problems += connection.find_problems("llm.embedding", is_given_by_name=False)
    if problems:
        raise ConfigError(problems)


def import_openai() -> Any:
    """Return the package openai, which takes half a second to import.

    Raises:
        ConfigError: the package cannot be imported.
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

    Aiohttp warns of the password of a proxy, for example. Users who turn warnings into errors
    cannot avoid these. They appear with later requests, so `catch_warnings` around the creation of
    the client would not be enough.
    """
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=TRANSPORTS)


def _open_http_client(openai: Any, max_reply_bytes: int) -> Any:
    """Return an HTTP client for the SDK, which limits the length of replies.

    The client uses aiohttp if the SDK was installed with this extra, otherwise httpx.

    Args:
        openai: the SDK, a module.
        max_reply_bytes: reading a longer reply raises a `JudgeError`.
    """

    async def bound_long_body(response: Any) -> None:
        """Replace the stream of a response by one of limited length, unless the body is short."""
        if not _is_short(response, max_reply_bytes):
            response.stream = _bound_body(response, max_reply_bytes)

    # The class is one of the SDK's HTTP package, which differs by version.
    limits_class = type(openai.DEFAULT_CONNECTION_LIMITS)
    options = {
        "limits": limits_class(max_connections=MAX_CONNECTIONS),
        "timeout": None,
        # A redirected request would arrive without its body.
        "follow_redirects": False,
        # `_bound_body` decompresses gzip itself, and knows no newer compressions.
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
    """Return the body of a response as a decompressed stream of limited length.

    Reading the stream raises a `JudgeError` as soon as the body is too long, compressed or
    decompressed. If the response is an error, the stream yields only the beginning of the body.

    Args:
        response: the response. If the body is compressed, the header that says so is removed, or
            the client would decompress the body again.
        max_reply_bytes: maximum bytes of a body.
    """
    limit: Callable[[Any, int], AsyncIterator[bytes]] = _read_bounded
    is_error = response.status_code >= 300
    if is_error:
        limit = _read_beginning
    pieces = limit(response.stream, max_reply_bytes)

    coding = response.headers.get("Content-Encoding", "").lower()
    is_compressed = coding in {"gzip", "x-gzip", "deflate"}
    if is_compressed:
        del response.headers["Content-Encoding"]
        decompressed = _decompress(pieces, max_reply_bytes)
        # A short compressed body may become a long one, so that the limit is for both.
        pieces = limit(decompressed, max_reply_bytes)

    # The client takes only streams of its own HTTP package. That depends on the SDK's version, so
    # the package is found by the class of the response.
    package_name = type(response).__module__.partition(".")[0]
    package = sys.modules[package_name]
    stream_class = _make_stream_class(package.AsyncByteStream)
    return stream_class(response.stream, pieces)


@cache
def _make_stream_class(base: type[Any]) -> type[Any]:
    """Return a class of streams whose objects yield given pieces in place of an original stream.

    Args:
        base: the base class, such as `httpx.AsyncByteStream`. The result is cached for each base.
    """

    class ChangedStream(base):  # type: ignore[misc]
        """A stream that yields `pieces`, and closes the stream `original` when it is closed."""

        def __init__(self, original: Any, pieces: AsyncIterator[bytes]) -> None:
            self._original = original
            self._pieces = pieces

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._pieces

        async def aclose(self) -> None:
            await self._original.aclose()

    return ChangedStream


async def _decompress(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the decompressed pieces of a body; stop when they have more than `max_bytes` together.

    Raises:
        JudgeError: the body cannot be decompressed.
    """
    decompressor = zlib.decompressobj(GZIP_OR_ZLIB)
    # One byte more than allowed lets the reader notice that the body is too long.
    remaining = max_bytes + 1
    async for piece in pieces:
        try:
            # A small piece may decompress to gigabytes, so the output is limited.
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
        JudgeError: the pieces have more than `max_bytes` together.
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
    """Yield the pieces of an error's body until they have more than `MAX_ERROR_BYTES` together.

    The second argument is ignored; `_read_bounded` takes a limit there. If the body cannot be
    decompressed, this stops without an error, since the status of the response says enough.
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
        UsageError: the object is no such client, or the client is synchronous.
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
    """Warn if the user's client itself repeats failed requests, as it does by default."""
    retries = getattr(client, "max_retries", 0)
    if isinstance(retries, int) and retries > 0:
        warn_caller(
            f"the judge's client retries failed requests itself (max_retries={retries}): these "
            f"attempts are neither counted nor priced; make it with max_retries=0, or pass "
            f"client.with_options(max_retries=0)"
        )


def address_of(client: Any) -> str:
    """Return the address that a client sends requests to, without a slash at the end.

    A wrapper that hides the address gets "the client's server".
    """
    return str(getattr(client, "base_url", "the client's server")).rstrip("/")


def provider_of(client: Any) -> Literal["openai", "azure"]:
    """Return "azure" for the SDK's client for Azure, or a wrapper of it, otherwise "openai".

    A wrapper hides the client's class, but not its API version, which no other client has.
    """
    api_version = getattr(client, "_api_version", None)
    if isinstance(api_version, str):
        return "azure"
    return "openai"
