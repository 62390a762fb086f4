"""The client against a real server: what it sends, and that nothing of it stays."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from typing import Any

import pytest

from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig
from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.clients import endpoint_of, proxy_of
from graphrag_eval_async.judge.session import check
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judge.support import Opened
from tests.support.cases import each
from tests.support.judge_server import JudgeServer, Reply, completion
from tests.support.loop import leaving_nothing

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


def judge_at(base_url: str, **changes: Any) -> Opened:
    return Opened(LLMConfig(generation=generation(base_url=base_url, **changes)))


async def asked(judge: Opened) -> Any:
    return (await judge.complete(MESSAGES, SCHEMA))[0]


async def bodies(count: int, **changes: Any) -> list[Any]:
    """What is sent for so many replies to the same messages."""
    async with JudgeServer() as server, leaving_nothing():
        judge = judge_at(server.base_url, **changes)
        for variation in range(count):
            reply, usage = await judge.complete(MESSAGES, SCHEMA, variation=variation)
            assert reply == VERDICT
        await judge.aclose()
        counts = server.counts
        assert count > 1 or usage == TokenUsage(counts.input_tokens, counts.output_tokens)
        for request in server.requests:
            assert request.path == "/v1/chat/completions"
            assert request.headers["authorization"] == f"Bearer {KEY}"
        return [request.body for request in server.requests]


FREE = {"temperature": None, "seed": 7, "extra": {"a": [None]}}


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
        ({"parameters": FREE}, {"max_tokens": 4096} | FREE),
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
        judge = Opened(
            LLMConfig(generation=generation(base_url=server.origin, **azure), embedding=ada)
        )
        assert await asked(judge) == VERDICT
        vectors, usage = await judge.embed(("a", "b", "a"))
        await judge.aclose()
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
        assert request.query == "api-version=2024%20%26x%3D1"
        assert request.headers["api-key"] == KEY
        assert "authorization" not in request.headers


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
            check(llm)
        for found, expected in zip(caught.value.problems, problems, strict=True):
            assert found.startswith(expected)


def test_a_key_goes_to_its_own_server_only() -> None:
    here, there = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
    llm = LLMConfig(generation=generation(base_url=here))
    assert endpoint_of(llm, embedding(base_url=there)).api_key == "unused"
    assert endpoint_of(llm, embedding(base_url=here)).api_key == KEY


async def test_a_proxy_of_the_environment_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JudgeServer(lambda _: Reply(b"", 502)) as proxy, leaving_nothing():
        monkeypatch.setenv("HTTPS_PROXY", proxy.origin.replace("//", "//user:word@"))
        judge = judge_at("https://judge.invalid/v1")
        with pytest.raises(JudgeError, match=r"unavailable: (?!.*word)"):
            await asked(judge)
        await judge.aclose()
        (request,) = proxy.requests
        assert request.path == "judge.invalid:443"
        assert request.headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"
        assert KEY not in str(request.headers)


@each(
    ("url", "direct", "proxied"),
    [
        (
            "http://127.0.0.1:80/v1",
            "127.0.0.1, 127.0.0.0/8, 127.0.0.1:80, x,*, *",
            "127.0.0.1:8, ::/0, localhost",
        ),
        ("http://[::1]:80/v1", "::1, [::1], [::1]:80, ::/64", "::2, [::1]:8, 0.0.0.0/0"),
        (
            "https://Api.ex.test/v1",
            "API.EX.TEST, ex.test, .ex.test, *.ex.test",
            "x.test, pi.ex.test, ",
        ),
    ],
)
def test_hosts_without_a_proxy(
    url: str, direct: str, proxied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy:1")
    for names, proxy in ((direct, None), (proxied, "http://proxy:1")):
        for excluded in names.split(", "):
            monkeypatch.setenv("NO_PROXY", excluded)
            assert proxy_of(url)[0] == proxy, excluded


MIB = 1 << 20
DEFLATE = zlib.compressobj(9, wbits=31)
BOMB = b"".join([*(DEFLATE.compress(b" " * MIB) for _ in range(100)), DEFLATE.flush()])
"""A hundred kilobytes that inflate to 100 MiB."""


async def test_a_reply_that_is_too_large_is_an_error() -> None:
    async def told(reply: Reply, **limits: Any) -> Any:
        async with JudgeServer(lambda _: reply) as server:
            one = generation(base_url=server.base_url)
            judge = Opened(LLMConfig(generation=one, limits=LimitsConfig(**limits)))
            try:
                return await asked(judge)
            finally:
                await judge.aclose()

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
