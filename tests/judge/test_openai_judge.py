"""The client against a real server: what it sends, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import gzip
import os
import tracemalloc
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig
from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.clients import check_connections, connection_of
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judge.support import opened
from tests.support.deadlines import WAIT_SECONDS
from tests.support.judge_server import JudgeServer, Reply, completion
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from graphrag_eval_async.judge.session import JudgeSession

KEY = "sk-secret-0123456789"
MESSAGES = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Zoë?"}]
SCHEMA = {
    "title": "Verdict",
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["value", "reasons"],
    "additionalProperties": False,
}
VERDICT = {"value": 0, "reasons": ["text"]}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if "OPENAI" in name or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)


def generation(**changes: Any) -> GenerationConfig:
    return GenerationConfig(**{"provider": "openai", "model": "gpt-4o", "api_key": KEY} | changes)


def embedding(**changes: Any) -> EmbeddingConfig:
    return EmbeddingConfig(**{"provider": "openai", "model": "text-embedding-3-small"} | changes)


def models_at(base_url: str, **changes: Any) -> AbstractAsyncContextManager[JudgeSession]:
    return opened(LLMConfig(generation=generation(base_url=base_url, **changes)))


async def asked(models: JudgeSession) -> Any:
    return (await models.first.judge.complete(MESSAGES, SCHEMA))[0]


async def bodies(count: int, **changes: Any) -> list[Any]:
    """What is sent for so many replies to the same messages."""
    async with JudgeServer() as server, leaving_nothing():
        async with models_at(server.base_url, **changes) as models:
            for variation in range(count):
                reply, usage = await models.first.judge.complete(
                    MESSAGES, SCHEMA, variation=variation
                )
                assert reply == VERDICT
        counts = server.counts
        assert count > 1 or usage == TokenUsage(counts.input_tokens, counts.output_tokens)
        for request in server.requests:
            assert request.path == "/v1/chat/completions"
            assert request.headers["authorization"] == f"Bearer {KEY}"
        return [request.body for request in server.requests]


FREE = {"seed": 7, "extra": {"a": [None]}}


async def test_the_parameters_of_a_model() -> None:
    described = {"name": "Verdict", "strict": True, "schema": SCHEMA}
    form = {"type": "json_schema", "json_schema": described}
    whole = {"model": "gpt-4o", "messages": MESSAGES, "response_format": form}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"temperature": 0.0, "max_tokens": 4096}),
        ({"temperature": None, "max_tokens": None}, {}),
        ({"temperature": 0.5}, {"temperature": 0.5, "max_tokens": 4096}),
        (
            {"parameters": {"max_completion_tokens": 9}},
            {"temperature": 0.0, "max_completion_tokens": 9},
        ),
        ({"parameters": {"temperature": None} | FREE}, {"max_tokens": 4096} | FREE),
    ]
    for changes, sent in cases:
        assert await bodies(1, **changes) == [whole | sent]


async def test_variations_differ_unless_configured() -> None:
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, [(0.0, None), (0.3, 1), (0.3, 2)]),
        ({"temperature": 0.5}, [(0.5, None), (0.5, 1), (0.5, 2)]),
        ({"temperature": None, "parameters": {"seed": 7}}, [(None, 7), (None, 8), (None, 9)]),
    ]
    for changes, sent in cases:
        found = [(body.get("temperature"), body.get("seed")) for body in await bodies(3, **changes)]
        assert found == sent


async def test_azure() -> None:
    async with JudgeServer() as server, leaving_nothing():
        azure: Any = {"provider": "azure", "model": "my-gpt", "api_version": "2024 &x=1"}
        ada = embedding(provider="azure", model="my-ada", parameters={"dimensions": 16})
        llm = LLMConfig(generation=generation(base_url=server.origin, **azure), embedding=ada)
        async with opened(llm) as models:
            assert await asked(models) == VERDICT
            vectors, usage = await models.embedder.judge.embed(("a", "b", "a"))
        first, second = server.requests
    assert first.path == "/openai/deployments/my-gpt/chat/completions"
    assert second.path == "/openai/deployments/my-ada/embeddings"
    assert vectors[0] == vectors[2] != vectors[1]
    assert usage == TokenUsage(server.counts.embedding_tokens)
    sent = {
        "model": "my-ada",
        "input": ["a", "b", "a"],
        "encoding_format": "float",
        "dimensions": 16,
    }
    assert second.body == sent
    for request in (first, second):
        assert request.query == "api-version=2024+%26x%3D1"
        assert request.headers["api-key"] == KEY
        assert "authorization" not in request.headers


@pytest.mark.parametrize("place", ["configuration", "environment"])
async def test_a_key_for_azure_wins_over_a_token(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-of-the-environment")
    azure: Any = {"provider": "azure", "api_version": "2024-10-21"}
    if place == "environment":
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        azure["api_key"] = None
    async with (
        JudgeServer() as server,
        leaving_nothing(),
        models_at(server.origin, **azure) as models,
    ):
        assert await asked(models) == VERDICT
    [request] = server.requests
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


async def test_without_a_key_azure_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-of-the-environment")
    azure: Any = {"provider": "azure", "api_version": "2024-10-21", "api_key": None}
    async with (
        JudgeServer() as server,
        leaving_nothing(),
        models_at(server.origin, **azure) as models,
    ):
        assert await asked(models) == VERDICT
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer token-of-the-environment"


@pytest.mark.parametrize("end", ["/openai/v1", "/openai/v1/"])
def test_the_address_of_the_api_v1_of_azure_is_refused(end: str) -> None:
    azure: Any = {"provider": "azure", "api_version": "2024-10-21"}
    base_url = f"https://mine.openai.azure.com{end}"
    llm = LLMConfig(generation=generation(base_url=base_url, **azure))
    expected = (
        "llm.generation.base_url: expected the endpoint of the Azure resource, without "
        "/openai/v1; to use its API v1, write provider: openai"
    )
    with pytest.raises(ConfigError) as caught:
        check_connections(llm, "generation", is_given_by_name=False)
    assert [*caught.value.problems] == [expected]


def test_what_is_missing_is_named() -> None:
    keyless = LLMConfig(generation=generation(api_key=None), embedding=embedding())
    azure = LLMConfig(generation=generation(provider="azure", api_key=None))
    for llm, problems in [
        (keyless, ["llm.generation.api_key: missing", "llm.embedding.api_key: missing"]),
        (
            azure,
            [f"llm.generation.{key}: missing" for key in ("base_url", "api_version", "api_key")],
        ),
        (
            LLMConfig(embedding=embedding(base_url="localhost:80")),
            ["llm.embedding.base_url: expected"],
        ),
        (
            LLMConfig(generation=generation(api_key="sk-é")),
            ["llm.generation.api_key: expected ASCII"],
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            check_connections(llm, "generation", is_given_by_name=False)
        for found, expected in zip(caught.value.problems, problems, strict=True):
            assert found.startswith(expected)


def test_a_key_goes_to_its_own_server_only() -> None:
    here, there = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
    llm = LLMConfig(generation=generation(base_url=here))
    assert connection_of(llm, embedding(base_url=there)).api_key == "unused"
    assert connection_of(llm, embedding(base_url=here)).api_key == KEY


async def test_a_proxy_of_the_environment_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JudgeServer(lambda _: Reply(b"", 502)) as proxy, leaving_nothing():
        monkeypatch.setenv("HTTPS_PROXY", proxy.origin.replace("//", "//user:word@"))
        async with models_at("https://judge.invalid/v1") as models:
            with pytest.raises(JudgeError, match=r"unavailable: (?!.*word)"):
                await asked(models)
        (request,) = proxy.requests
        assert request.path == "judge.invalid:443"
        assert request.headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"
        assert KEY not in str(request.headers)


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        (
            "SSL_CERT_FILE",
            "/no/such/file.pem",
            "llm: SSL_CERT_FILE: /no/such/file.pem does not exist",
        ),
        ("HTTPS_PROXY", "ftp://127.0.0.1:1", "llm: the certificates or the proxy"),
    ],
)
async def test_what_is_wrong_in_the_environment_is_an_error_of_the_configuration(
    variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=problem):
        async with models_at("https://judge.invalid/v1"):
            pass


@pytest.mark.parametrize(
    ("variable", "is_named"), [("HTTP_PROXY", True), ("all_proxy", True), ("HTTPS_PROXY", False)]
)
async def test_without_a_connection_the_proxy_of_the_environment_is_named(
    variable: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    async with models_at("http://judge.invalid/v1") as models:
        with pytest.raises(JudgeError) as caught:
            await asked(models)
    names_variable = f"the environment has a proxy in {variable}" in str(caught.value)
    assert names_variable == is_named


async def test_a_host_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JudgeServer() as server, leaving_nothing():
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        async with models_at(server.base_url) as models:
            assert await asked(models) == VERDICT


MIB = 1 << 20
DEFLATE = zlib.compressobj(9, wbits=31)
BOMB = b"".join([*(DEFLATE.compress(b" " * MIB) for _ in range(100)), DEFLATE.flush()])
"""A hundred kilobytes that inflate to 100 MiB."""


async def test_a_reply_that_is_too_large_is_an_error() -> None:
    async def told(reply: Reply, **limits: Any) -> Any:
        async with JudgeServer(lambda _: reply) as server:
            one = generation(base_url=server.base_url)
            async with opened(LLMConfig(generation=one, limits=LimitsConfig(**limits))) as models:
                return await asked(models)

    body, zipped = completion(VERDICT).body + b" " * 200, (("Content-Encoding", "gzip"),)
    for reply in (Reply(body), Reply(gzip.compress(body), headers=zipped)):
        assert await told(reply, max_reply_bytes=len(body)) == VERDICT
        with pytest.raises(JudgeError, match="longer than 100 bytes; raise"):
            await told(reply, max_reply_bytes=100)
    for reply in (Reply(b" " * (8 * MIB)), Reply(BOMB, headers=zipped)):
        tracemalloc.start()
        with pytest.raises(JudgeError, match="longer than 2097152 bytes"):
            await told(reply)
        # The server of the test holds the body, too.
        assert tracemalloc.get_traced_memory()[1] < 4 * 8 * MIB
        tracemalloc.stop()


HEADS = {
    "without an end": b"",
    "chunked": b"Transfer-Encoding: chunked\r\n",
    "with a huge length": b"Content-Length: 99999999999999\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_a_reply_without_an_end_is_refused(head: bytes) -> None:
    """The client reads little more than the limit, and then closes the connection."""
    piece = b" " * (1 << 16)
    if b"chunked" in head:
        piece = b"10000\r\n" + piece + b"\r\n"
    sent_bytes = 0

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent_bytes
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + b"\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(piece)
                await writer.drain()
                sent_bytes += len(piece)

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(WAIT_SECONDS):
        one = generation(base_url=f"http://127.0.0.1:{port}/v1")
        async with opened(LLMConfig(generation=one)) as models:
            with pytest.raises(JudgeError, match="longer than 2097152 bytes"):
                await asked(models)
    # Buffers of the system hold a part of what was sent.
    assert sent_bytes < 32 * MIB
