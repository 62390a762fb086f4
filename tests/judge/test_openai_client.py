"""The client against a real server: what it sends, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import orjson
import pytest

from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig
from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.endpoint import endpoint_of
from graphrag_eval_async.judge.setup import check
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.cases import each
from tests.conftest import leaving_nothing
from tests.deadlines import WAIT_SECONDS, in_time, killing, running
from tests.judge.support import Opened
from tests.judge_server import FAULTS, JudgeServer, Never, Reply, completion, error, reply_to

if TYPE_CHECKING:
    from tests.judge_server import Fault, Request

KEY = "sk-secret-0123456789"
MESSAGES = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Zoë?"}]
SCHEMA = {
    "title": "Verdict",
    "type": "object",
    "properties": {"value": {"type": "integer"}, "reasons": {"type": "array", "items": {"type": "string"}}},
    "required": ["value", "reasons"],
    "additionalProperties": False,
}
VERDICT = {"value": 0, "reasons": ["text"]}
VARIABLES = [
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY"),
    *("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
    *("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"),
]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def generation(**changes: Any) -> GenerationConfig:
    return GenerationConfig(**{"provider": "openai", "model": "gpt-4o", "api_key": KEY} | changes)


def embedding(**changes: Any) -> EmbeddingConfig:
    return EmbeddingConfig(**{"provider": "openai", "model": "text-embedding-3-small"} | changes)


async def asked(judge: Opened) -> Any:
    return (await judge.complete(MESSAGES, SCHEMA))[0]


async def body_of(**changes: Any) -> Any:
    """What is sent by a configuration."""
    async with JudgeServer() as server:
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url, **changes)))
        await asked(judge)
        await judge.aclose()
        return server.requests[0].body


async def test_a_completion() -> None:
    async with JudgeServer() as server, leaving_nothing():
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url)))
        reply, usage = await judge.complete(MESSAGES, SCHEMA)
        await judge.aclose()
        (request,) = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "gpt-4o",
            "messages": MESSAGES,
            "temperature": 0.0,
            "max_tokens": 4096,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "Verdict", "strict": True, "schema": SCHEMA},
            },
        }
    assert reply == VERDICT
    assert usage == TokenUsage(server.counts.input_tokens, server.counts.output_tokens)


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, {"temperature": 0.0, "max_tokens": 4096}),
        ({"temperature": None, "max_tokens": None}, {}),
        ({"temperature": 0.5}, {"temperature": 0.5, "max_tokens": 4096}),
        ({"model": "o3-mini"}, {"temperature": 0.0, "max_tokens": 4096}),
        ({"max_tokens": 9}, {"temperature": 0.0, "max_tokens": 9}),
        ({"parameters": {"max_completion_tokens": 9}}, {"temperature": 0.0, "max_completion_tokens": 9}),
        ({"parameters": {"max_tokens": 9}}, {"temperature": 0.0, "max_tokens": 9}),
        (
            {"parameters": {"temperature": None, "seed": 7, "extra": {"a": [None]}}},
            {"temperature": None, "max_tokens": 4096, "seed": 7, "extra": {"a": [None]}},
        ),
    ],
)
async def test_the_parameters_of_a_model(changes: dict[str, Any], sent: dict[str, Any]) -> None:
    body = await body_of(**changes)
    for name in ("model", "messages", "response_format"):
        del body[name]
    assert body == sent


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, [(0.0, None), (0.3, 1), (0.3, 2)]),
        ({"temperature": 0.5}, [(0.5, None), (0.5, 1), (0.5, 2)]),
        ({"temperature": None, "parameters": {"seed": 7}}, [(None, 7), (None, 8), (None, 9)]),
        ({"temperature": 0.0, "parameters": {"seed": None}}, [(0.0, None)] * 3),
    ],
)
async def test_variations_differ_unless_configured(changes: dict[str, Any], sent: list[Any]) -> None:
    async with JudgeServer() as server:
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url, **changes)))
        for variation in range(3):
            await judge.complete(MESSAGES, SCHEMA, variation=variation)
        await judge.aclose()
        bodies = [request.body for request in server.requests]
    assert [(body.get("temperature"), body.get("seed")) for body in bodies] == sent


async def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    async with JudgeServer() as server:
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url)))
        with pytest.raises(JudgeError, match="invalid_request: the request cannot be encoded"):
            await judge.complete([{"role": "user", "content": "\ud800"}], SCHEMA)
        await judge.aclose()
        assert server.counts.requests == 0


async def test_embeddings() -> None:
    async with JudgeServer() as server, leaving_nothing():
        llm = LLMConfig(
            generation=generation(base_url=server.base_url),
            embedding=embedding(parameters={"dimensions": 16, "user": None}),
        )
        judge = Opened(llm)
        vectors, usage = await judge.embed(("a", "b", "a"))
        await judge.aclose()
        (request,) = server.requests
        assert request.path == "/v1/embeddings"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "text-embedding-3-small",
            "input": ["a", "b", "a"],
            "encoding_format": "float",
            "dimensions": 16,
            "user": None,
        }
    assert vectors[0] == vectors[2] != vectors[1]
    assert usage == TokenUsage(server.counts.embedding_tokens)


async def test_embeddings_from_elsewhere() -> None:
    async with JudgeServer() as of_llm, JudgeServer() as of_embeddings, leaving_nothing():
        llm = LLMConfig(
            generation=generation(base_url=of_llm.base_url),
            embedding=embedding(base_url=of_embeddings.base_url, api_key="another-key"),
        )
        judge = Opened(llm)
        await asked(judge)
        await judge.embed(["a"])
        await judge.aclose()
        assert [request.path for request in of_llm.requests] == ["/v1/chat/completions"]
        (request,) = of_embeddings.requests
        assert request.headers["authorization"] == "Bearer another-key"


async def test_azure() -> None:
    async with JudgeServer() as server, leaving_nothing():
        llm = LLMConfig(
            generation=generation(
                provider="azure", model="my-gpt", base_url=server.origin, api_version="2024-10-21"
            ),
            embedding=embedding(provider="azure", model="my-ada"),
        )
        judge = Opened(llm)
        assert await asked(judge) == VERDICT
        await judge.embed(["a"])
        await judge.aclose()
        first, second = server.requests
    assert first.path == "/openai/deployments/my-gpt/chat/completions"
    assert second.path == "/openai/deployments/my-ada/embeddings"
    for request in (first, second):
        assert request.query == "api-version=2024-10-21"
        assert request.headers["api-key"] == KEY
        assert "authorization" not in request.headers


@pytest.mark.parametrize("api_key", [KEY, None])
async def test_a_token_of_azure_is_used_if_there_is_no_key(
    api_key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "the-token")
    async with JudgeServer() as server:
        config = generation(
            provider="azure", model="m", base_url=server.origin, api_version="1", api_key=api_key
        )
        judge = Opened(LLMConfig(generation=config))
        await asked(judge)
        await judge.aclose()
        headers = server.requests[0].headers
    assert headers.get("api-key") == api_key
    assert headers.get("authorization") == (None if api_key else "Bearer the-token")


async def test_extra_headers() -> None:
    async with JudgeServer() as server:
        config = generation(base_url=server.base_url, extra_headers={"X-Title": "a judge"})
        judge = Opened(LLMConfig(generation=config, embedding=embedding()))
        await asked(judge)
        await judge.embed(["a"])
        await judge.aclose()
        assert [request.headers["x-title"] for request in server.requests] == ["a judge"] * 2
        assert "extra_headers" not in server.requests[0].body
    assert "a judge" not in repr(config)


async def test_azure_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JudgeServer(FAULTS["401"]) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.origin)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
        judge = Opened(LLMConfig(generation=GenerationConfig(provider="azure", model="m")))
        with pytest.raises(JudgeError, match=r"Incorrect API key provided: \*\*\*\."):
            await asked(judge)
        await judge.aclose()
        assert server.requests[0].headers["api-key"] == KEY


@pytest.mark.parametrize("own_key", [None, KEY])
async def test_server_and_key_from_the_environment(
    own_key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with JudgeServer(FAULTS["401"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", own_key or "")
        judge = Opened(LLMConfig(generation=generation(api_key=None)))
        with pytest.raises(JudgeError) as caught:
            await asked(judge)
        await judge.aclose()
        assert server.requests[0].headers["authorization"] == f"Bearer {own_key or 'unused'}"
    assert KEY not in str(caught.value)


@each(
    ("llm", "problems"),
    [
        (
            LLMConfig(generation=generation(api_key=None), embedding=embedding()),
            ["llm.generation.api_key: missing", "llm.embedding.api_key: missing"],
        ),
        (
            LLMConfig(generation=GenerationConfig(provider="azure", model="m")),
            [
                *("llm.generation.base_url: missing", "llm.generation.api_version: missing"),
                "llm.generation.api_key: missing: set it here or in the environment variable AZURE_",
            ],
        ),
        (LLMConfig(embedding=embedding(base_url="localhost:80")), ["llm.embedding.base_url: expected"]),
        (LLMConfig(generation=generation(api_key="sk\n")), ["llm.generation.api_key: expected ASCII"]),
        (LLMConfig(generation=generation(api_key="sk-é")), ["llm.generation.api_key: expected ASCII"]),
    ],
)
def test_what_is_missing_is_named(llm: LLMConfig, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check(llm)
    assert len(caught.value.problems) == len(problems)
    for found, expected in zip(caught.value.problems, problems, strict=True):
        assert found.startswith(expected)


def test_a_key_from_the_environment_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with pytest.raises(ConfigError, match="here or in OPENAI_API_KEY") as caught:
        check(LLMConfig(generation=generation(api_key=None)))
    assert KEY not in str(caught.value)


def test_the_package_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'graphrag-eval-async\[llm\]'"):
        check(LLMConfig(generation=generation()))


def test_the_sdk_is_imported_when_a_judge_is_opened() -> None:
    script = """
import sys
from graphrag_eval_async.config import GenerationConfig, LLMConfig
from graphrag_eval_async.judge.endpoint import Client, endpoint_of
from graphrag_eval_async.judge.setup import check
llm = LLMConfig(generation=GenerationConfig(provider="openai", model="m", api_key="k"))
check(llm)
print({"openai", "aiohttp", "httpx", "httpx2", "pydantic"} & {*sys.modules})
Client(endpoint_of(llm, llm.generation), llm.limits)
print("openai" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.stdout == "set()\nTrue\n"


def test_nothing_shows_a_secret() -> None:
    judge = Opened(LLMConfig(generation=generation()))
    assert KEY not in repr(judge)
    assert KEY not in repr(vars(judge))


@pytest.mark.parametrize("url", ["http://name:passw0rd@h/v1", "http://h/v1?key=passw0rd"])
def test_a_password_in_a_url_of_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ConfigError) as caught:
        check(LLMConfig(generation=generation()))
    assert "llm.generation.base_url: may hold no user, password" in str(caught.value)
    assert "passw0rd" not in str(caught.value)


@pytest.mark.parametrize("provider", ["openai", "azure"])
async def test_no_log_holds_a_key(provider: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    async with JudgeServer(
        lambda request: error(401, KEY) if request.attempt else reply_to(request)
    ) as server:
        model = GenerationConfig(
            provider=provider, model="m", base_url=server.base_url, api_key=KEY, api_version="2024-10-21"
        )
        judge = Opened(LLMConfig(generation=model))
        assert await asked(judge) == VERDICT
        with pytest.raises(JudgeError):
            await asked(judge)
        await judge.aclose()
    assert len(caplog.records) >= 2
    assert KEY not in caplog.text


async def test_a_server_that_repeats_the_key() -> None:
    def script(request: Request) -> Reply:
        return completion({"value": 0, "reasons": [request.headers["authorization"], "unused"]})

    async with JudgeServer(script) as server:
        for key, told in [(KEY, "Bearer ***"), (None, "Bearer unused")]:
            judge = Opened(LLMConfig(generation=generation(base_url=server.base_url, api_key=key)))
            assert (await asked(judge))["reasons"] == [told, "unused"]
            await judge.aclose()


async def test_cookies_are_not_kept() -> None:
    def script(request: Request) -> Reply:
        return replace(reply_to(request), headers=(("Set-Cookie", "a=b\x01c"), ("Set-Cookie", "d=e")))

    async with JudgeServer(script) as server:
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url)))
        for _ in range(2):
            assert await asked(judge) == VERDICT
        await judge.aclose()
        assert "cookie" not in server.requests[1].headers


async def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JudgeServer() as proxy, leaving_nothing():
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        judge = Opened(LLMConfig(generation=generation(base_url="http://judge.invalid/v1")))
        assert await asked(judge) == VERDICT
        await judge.aclose()
        assert proxy.requests[0].path == "http://judge.invalid/v1/chat/completions"


async def test_the_default_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("openai.DefaultAioHttpClient", missing)
    async with JudgeServer(FAULTS["never"]) as server, leaving_nothing():
        llm = LLMConfig(
            generation=generation(base_url=server.base_url), limits=LimitsConfig(max_concurrency=20)
        )
        judge = Opened(llm)
        await cancelled_in_flight(server, judge, 20)
        assert server.counts.most_in_flight == 20
        server.script = reply_to
        assert await asyncio.gather(*(asked(judge) for _ in range(20))) == [VERDICT] * 20
        server.script = FAULTS["reset mid-body"]
        with pytest.raises(JudgeError, match="unavailable"):
            await asked(judge)
        server.script = FAULTS["never"]
        await cancelled_in_flight(server, judge, 3)
        await judge.aclose()
        await server.until(lambda: server.counts.connections == 0)


async def cancelled_in_flight(server: JudgeServer, judge: Opened, count: int) -> None:
    calls = [asyncio.create_task(asked(judge)) for _ in range(count)]
    await server.until(lambda: server.counts.in_flight == count)
    for call in calls:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * count
    await server.until(lambda: server.counts.in_flight == 0)


async def test_two_hundred_calls_at_a_time() -> None:
    waiting: list[Request] = []

    def script(request: Request) -> Reply | Fault:
        waiting.append(request)
        return completion(VERDICT, latency=0.01) if len(waiting) > 200 else Never()

    async with JudgeServer(script) as server, leaving_nothing():
        llm = LLMConfig(
            generation=generation(base_url=server.base_url), limits=LimitsConfig(max_concurrency=200)
        )
        judge = Opened(llm)
        await cancelled_in_flight(server, judge, 200)
        assert server.counts.most_in_flight == 200
        await server.until(lambda: server.counts.connections == 0)
        assert await asyncio.gather(*(asked(judge) for _ in range(200))) == [VERDICT] * 200
        await judge.aclose()
        await judge.aclose()
        await server.until(lambda: server.counts.connections == 0)
        assert (server.counts.replies, server.counts.requests) == (200, 400)


async def test_a_connection_serves_many_calls() -> None:
    async with JudgeServer() as server:
        judge = Opened(LLMConfig(generation=generation(base_url=server.base_url)))
        for _ in range(5):
            await asked(judge)
        assert server.counts.most_connections == 1
        await judge.aclose()


async def test_a_judge_that_was_never_used() -> None:
    async with leaving_nothing():
        judge = await asyncio.to_thread(Opened, LLMConfig(generation=generation(), embedding=embedding()))
        await judge.aclose()
        await judge.aclose()


def test_the_server_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "tests.judge_server", "--faults", "0.5", "--seed", "1", "--names", "500"]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with killing(process, "the server's address"):
            base_url = process.stdout.readline().strip()
        failed, served = asyncio.run(in_time(judged)(base_url, 40))
        assert failed > 0 < served
        with urlopen(base_url.replace("/v1", "/stats"), timeout=WAIT_SECONDS) as response:  # noqa: S310
            counts = orjson.loads(response.read())
        process.communicate("", WAIT_SECONDS)
    assert process.returncode == 0
    assert counts["requests"] == failed + served == 40
    assert counts["statuses"] == {"200": served, "500": failed}
    assert counts["completions"] == served


async def judged(base_url: str, count: int) -> tuple[int, int]:
    judge = Opened(LLMConfig(generation=generation(base_url=base_url)))
    replies = await asyncio.gather(*(asked(judge) for _ in range(count)), return_exceptions=True)
    await judge.aclose()
    return len(replies) - replies.count(VERDICT), replies.count(VERDICT)


def test_a_key_goes_to_its_own_server_only() -> None:
    here, there = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
    llm = LLMConfig(generation=generation(base_url=here))
    assert endpoint_of(llm, embedding(base_url=there)).api_key == "unused"
    assert endpoint_of(llm, embedding(base_url=here)).api_key == KEY
