"""Judges that users give in code: clients of the SDK, models by name, and judges of their own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

import openai
import pytest

from graphrag_eval_async import (
    ConfigError,
    GraphragEvalWarning,
    JudgeUnavailable,
    OpenAIJudge,
    UsageError,
    evaluate_stream,
)
from tests.judged.support import KEY, PRICING, REPLIES, config, response, sensible, templates
from tests.support.judge_server import JudgeServer, Reply, completion, error
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.judge_server import Request

WRONG_ARGUMENTS: dict[str, dict[str, Any]] = {
    "OpenAIJudge.temperature: expected a number from 0 to 2, got 9": {"temperature": 9},
    "OpenAIJudge.max_tokens: expected an integer": {"max_tokens": "many"},
    "OpenAIJudge.messages: may not be given": {"messages": []},
    "OpenAIJudge.stop: cannot be written as JSON": {"stop": object()},
    "OpenAIJudge.parameters: each parameter is an argument of its own: write "
    "OpenAIJudge(client, model, **parameters)": {"parameters": {"seed": 7}},
    "OpenAIJudge.embedding_model: expected a string": {"embedding_model": 3},
    "OpenAIJudge.embedding_parameters.input: may not be given": {
        "embedding_model": "e",
        "embedding_parameters": {"input": "x"},
    },
}
"""Arguments of a judge, by the beginning of the error."""

METRICS: dict[str, Any] = {"answer_correctness": {}, "answer_relevance": {"mode": "joint"}}
SEED: dict[str, Any] = {"seed": 7, "top_k": 3}
JOINT = {"questions": ["what was asked"], "noncommittal": False}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if "OPENAI" in name or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)


def client_of(server: JudgeServer, **options: Any) -> openai.AsyncOpenAI:
    settings: dict[str, Any] = {"api_key": KEY, "base_url": server.base_url, "max_retries": 0}
    return openai.AsyncOpenAI(**{**settings, **options})


def configured(server: JudgeServer, tmp_path: Path, name: str = "calls") -> dict[str, Any]:
    """The models of `given_by` in a configuration, with a cache."""
    settings = config(server, cache=str(tmp_path / f"{name}.sqlite"), answer_correctness={})
    settings["llm"]["generation"] |= {"model": "gpt-4o-mini", "parameters": SEED}
    return settings


async def results_of(settings: Any, **more: Any) -> tuple[list[dict[str, Any]], Any]:
    """The results of two records, and the usage of the judge."""
    responses = [response(0), response(1)]
    async with evaluate_stream(templates(2), responses, config=settings, **more) as stream:
        results = [result async for result in stream]
    return sorted(results, key=lambda result: result["question_id"]), stream.usage


@pytest.mark.parametrize(
    "way", ["judge", "client", "mapping", "judge with the defaults", "judge with floats"]
)
async def test_a_client_gives_what_the_configuration_gives(way: str, tmp_path: Path) -> None:
    """Results, prices, hashes and keys in the cache are the same."""
    async with leaving_nothing(), JudgeServer(sensible) as server:
        settings = configured(server, tmp_path, name=way)
        expected, usage = await results_of(settings)
        assert usage.attempts == 2
        sent = server.requests[0].body
        assert (sent["seed"], sent["top_k"], sent["model"]) == (7, 3, "gpt-4o-mini")

        async with client_of(server) as client:
            judge: Any = OpenAIJudge(client, "gpt-4o-mini", **SEED)
            if way == "judge with the defaults":
                judge = OpenAIJudge(client, "gpt-4o-mini", temperature=0, max_tokens=4096, **SEED)
            if way == "judge with floats":
                judge = OpenAIJudge(client, "gpt-4o-mini", seed=7, top_k=3.0)
            if way == "client":
                judge = client
                del settings["llm"]["generation"]["provider"]
            else:
                del settings["llm"]["generation"]
            if way == "mapping":
                judge = {"generation": judge}
            found, usage = await results_of(settings, judge=judge)
            assert usage.cache_hits == 2
            assert [result["judge"] for result in found] == [expected[0]["judge"]] * 2
            del settings["llm"]["cache"]
            found, usage = await results_of(settings, judge=judge)
            assert usage.attempts == 2
            assert not client.is_closed()
        assert found == expected
        assert server.requests[-1].body == server.requests[1].body


@pytest.mark.ragas
async def test_the_names_of_models_are_those_of_the_configuration() -> None:
    async with leaving_nothing(), JudgeServer(sensible) as server, client_of(server) as client:
        judge = OpenAIJudge(client, "gpt-4o-mini", embedding_model="text-embedding-3-small")
        [result, _], usage = await results_of({}, judge=judge)
    # As with both models in a configuration, answer relevance is on.
    assert result["judge"]["model"] == "gpt-4o-mini"
    assert result["judge"]["embedding"] == "text-embedding-3-small"
    assert {"answer_f1", "answer_relevance"} <= result.keys()
    # The list prices of OpenAI, at another address.
    tokens = (usage.input_tokens, usage.output_tokens, usage.embedding_tokens)
    prices = (0.15e-6, 0.6e-6, 0.02e-6)
    assert usage.dollars == pytest.approx(
        sum(count * price for count, price in zip(tokens, prices, strict=True))
    )


class Wrapper:
    """A wrapper that hides the class of a client, as tracers may."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.parametrize("wrap", [lambda client: client, Wrapper], ids=["plain", "wrapped"])
async def test_azure(wrap: Callable[[Any], Any], tmp_path: Path) -> None:
    async with leaving_nothing(), JudgeServer(sensible) as server:
        settings = configured(server, tmp_path)
        connection = {
            "provider": "azure",
            "base_url": server.origin,
            "api_key": KEY,
            "api_version": "2024-10-21",
        }
        settings["llm"]["generation"] = connection | {"model": "mine"}
        expected, _ = await results_of(settings)
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=server.origin, api_key=KEY, api_version="2024-10-21", max_retries=0
        ) as client:
            settings["llm"].pop("generation")
            found, usage = await results_of(settings, judge=OpenAIJudge(wrap(client), "mine"))
        assert usage.cache_hits == 2
        assert [result["judge"] for result in found] == [expected[0]["judge"]] * 2
        for request in server.requests:
            assert request.path == "/openai/deployments/mine/chat/completions"
            assert request.query == "api-version=2024-10-21"


@pytest.mark.parametrize(
    "judge_of",
    [
        lambda client: OpenAIJudge(client, "gpt-4o-mini"),
        lambda client: {"generation": OpenAIJudge(client, "gpt-4o-mini"), "big": "openai/gpt-4o"},
        lambda client: {"generation": client, "big": "openai/gpt-4o"},
        lambda client: client,
    ],
    ids=["judge", "judge and name", "client and name", "client"],
)
async def test_configured_models_at_the_server_of_a_client_use_the_client(
    judge_of: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the environment must not go to the server of the user's client."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")

    def script(request: Request) -> Any:
        if request.is_chat and "AnswerClaims" not in str(request.body):
            return completion(JOINT)
        return sensible(request)

    settings = {
        "llm": {
            "generation": {"model": "gpt-4o-mini"},
            "embedding": {"model": "text-embedding-3-small"},
            "judges": {"big": {"model": "gpt-4o"}},
        },
        "answer_correctness": {"judges": ["generation", "big"]},
        "answer_relevance": {"mode": "joint"},
    }
    async with leaving_nothing(), JudgeServer(script) as server, client_of(server) as client:
        [result, _], _ = await results_of(settings, judge=judge_of(client))
    assert {"answer_f1", "answer_relevance"} <= result.keys()
    models = {request.body["model"] for request in server.requests}
    assert models == {"gpt-4o-mini", "gpt-4o", "text-embedding-3-small"}
    keys = {request.headers["authorization"] for request in server.requests}
    assert keys == {f"Bearer {KEY}"}


async def test_a_configured_model_at_another_server_does_not_use_the_client() -> None:
    async with leaving_nothing(), JudgeServer(sensible) as server, JudgeServer(sensible) as other:
        settings = {
            "llm": {
                "judges": {
                    "big": {"model": "gpt-4o", "base_url": other.base_url, "api_key": "sk-other"}
                }
            },
            "answer_correctness": {"judges": ["generation", "big"]},
        }
        async with client_of(server) as client:
            [result, _], _ = await results_of(settings, judge=OpenAIJudge(client, "gpt-4o-mini"))
    assert "answer_f1" in result
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert {request.headers["authorization"] for request in other.requests} == {"Bearer sk-other"}


async def test_a_model_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with leaving_nothing(), JudgeServer(sensible) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        settings = {"llm": {"generation": {"provider": "openai", "model": "gpt-4o-mini"}}}
        expected, _ = await results_of(settings)
        assert (await results_of(None, judge="openai/gpt-4o-mini"))[0] == expected
        assert (await results_of({}, judge={"generation": "openai/gpt-4o-mini"}))[0] == expected


async def test_the_retries_of_a_client_are_warned_of_once() -> None:
    async with JudgeServer(sensible) as server, client_of(server, max_retries=2) as client:
        panel = {"answer_correctness": {"judges": ["generation", "other"]}}
        judge = OpenAIJudge(client, "gpt-4o-mini")
        with pytest.warns(GraphragEvalWarning) as warned:
            [result, _], _ = await results_of(panel, judge={"generation": judge, "other": judge})
        assert "answer_f1" in result
        assert client.max_retries == 2
    assert len(warned) == 1
    assert "max_retries=2" in str(warned[0].message)
    assert "client.with_options(max_retries=0)" in str(warned[0].message)


def test_a_client_needs_a_model() -> None:
    client = openai.AsyncOpenAI(api_key=KEY)
    with pytest.raises(
        UsageError, match=r"OpenAIJudge\(client, model=\.\.\.\), or llm\.generation"
    ):
        evaluate_stream(templates(1), [], judge=client)
    with pytest.raises(UsageError, match=r"llm\.judges\.other\.model"):
        evaluate_stream(templates(1), [], judge={"generation": "openai/x", "other": client})


@pytest.mark.parametrize("problem", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named_as_the_user_wrote_it(problem: str) -> None:
    client = openai.AsyncOpenAI(api_key=KEY)
    judge = OpenAIJudge(client, "m", **WRONG_ARGUMENTS[problem])
    with pytest.raises(UsageError) as caught:
        evaluate_stream(templates(1), [], judge=judge)
    assert str(caught.value).startswith(problem)


def test_a_missing_embedding_model_is_named_as_the_user_can_write_it() -> None:
    settings = {"answer_relevance": {"mode": "joint"}}
    judge = OpenAIJudge(openai.AsyncOpenAI(api_key=KEY), "m")
    with pytest.raises(ConfigError, match=r"needs llm\.embedding or OpenAIJudge\.embedding_model$"):
        evaluate_stream(templates(1), [], config=settings, judge=judge)


@pytest.mark.ragas
def test_a_metric_of_ragas_names_a_missing_embedding_model_as_the_user_can_write_it() -> None:
    settings = {"ragas": {"similarity": "SemanticSimilarity"}}
    judge = OpenAIJudge(openai.AsyncOpenAI(api_key=KEY), "m")
    expected = r"ragas\.similarity: needs llm\.embedding or OpenAIJudge\.embedding_model$"
    with pytest.raises(ConfigError, match=expected):
        evaluate_stream(templates(1), [], config=settings, judge=judge)


@pytest.mark.parametrize(
    ("model", "problems"),
    [
        (
            "openai/m",
            ["llm.generation.api_key: missing: set it in the environment variable OPENAI_API_KEY"],
        ),
        (
            "azure/m",
            [
                (
                    "llm.generation.base_url: missing: set the endpoint of the Azure resource in "
                    "the environment variable AZURE_OPENAI_ENDPOINT"
                ),
                (
                    "llm.generation.api_version: missing: Azure requires it; set it in the "
                    "environment variable OPENAI_API_VERSION"
                ),
                (
                    "llm.generation.api_key: missing: set it in the environment variable "
                    "AZURE_OPENAI_API_KEY"
                ),
            ],
        ),
    ],
    ids=["openai", "azure"],
)
def test_a_model_that_is_given_by_name_gets_its_settings_from_the_environment(
    model: str, problems: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate_stream(templates(1), [], judge=model)
    assert caught.value.problems == problems


def test_a_missing_judge_is_named_as_the_user_can_write_it() -> None:
    judge = OpenAIJudge(openai.AsyncOpenAI(api_key=KEY), "m")
    with pytest.raises(
        ConfigError, match=r'needs llm\.generation or judge={"generation": \.\.\.}$'
    ):
        evaluate_stream(templates(1), [], config={"answer_correctness": {}}, judge={"a": judge})


def test_an_embedding_model_is_no_judge() -> None:
    client = openai.AsyncOpenAI(api_key=KEY)
    judges: dict[str, Any] = {"generation": OpenAIJudge(client, "m"), "embedding": client}
    with pytest.raises(UsageError, match=r"OpenAIJudge\(client, model=\.\.\., embedding_model"):
        evaluate_stream(templates(1), [], judge=judges)


@pytest.mark.parametrize("status", [401, 404, 503])
@pytest.mark.parametrize("way", ["judge", "client", "own"])
async def test_advice_names_what_the_user_gave(way: str, status: int) -> None:
    """Nothing of a client can be set in the configuration."""
    refused = Reply(b"{}", status)
    settings: dict[str, Any] = {
        "llm": {
            "generation": {"model": "m"},
            "limits": {"max_failed_calls": 1, "max_attempts": 1},
        },
        "answer_correctness": {},
    }
    async with JudgeServer(lambda _: refused) as server, client_of(server) as client:
        judge: Any = client
        if way == "judge":
            judge = OpenAIJudge(client, "m")
        elif way == "own":
            judge = OwnJudge(client)
        with pytest.raises(JudgeUnavailable) as caught:
            await results_of(settings, judge=judge)
    advice = str(caught.value).rpartition("; ")[2]
    if way == "own":
        assert advice == "check the judge that you gave, and that its server works"
        return
    section = {"judge": "OpenAIJudge", "client": "llm.generation"}[way]
    assert (
        advice
        == {
            401: "check the client's api_key and its permissions",
            404: f"check {section}.model and the client's base_url",
            503: "check the client's base_url, and that the server works",
        }[status]
    )


async def test_a_refused_parameter_of_embeddings_is_named_as_the_user_wrote_it() -> None:
    def script(request: Request) -> Any:
        if request.is_chat:
            return completion(JOINT)
        return error(400, "Unsupported parameter: 'dimensions'")

    settings = {"answer_relevance": {"mode": "joint"}}
    async with JudgeServer(script) as server, client_of(server) as client:
        judge = OpenAIJudge(
            client, "m", embedding_model="e", embedding_parameters={"dimensions": 3}
        )
        [result, _], _ = await results_of(settings, judge=judge)
    end = "; change or remove OpenAIJudge.embedding_parameters.dimensions"
    assert result["answer_relevance_error"].endswith(end)


async def test_an_unknown_embedding_model_is_named() -> None:
    def script(request: Request) -> Any:
        return completion(JOINT) if request.is_chat else error(404, "unknown")

    settings = {"answer_relevance": {"mode": "joint"}}
    async with JudgeServer(script) as server, client_of(server) as client:
        judge = OpenAIJudge(client, "m", embedding_model="e")
        with pytest.raises(JudgeUnavailable, match=r": e at .*check OpenAIJudge\.embedding_model"):
            await results_of(settings, judge=judge)


RUN_TWICE = """
import sys

import openai

from graphrag_eval_async import OpenAIJudge, run_evaluation_sync
from tests.judged.support import response, templates

client = openai.AsyncOpenAI(
    api_key="key",
    base_url=sys.argv[1],
    max_retries=0,
    http_client=openai.DefaultAioHttpClient(),
)
for _ in range(2):
    [result] = run_evaluation_sync(
        templates(1),
        [response(0)],
        config={"answer_correctness": {}},
        judge=OpenAIJudge(client, "m"),
    )
    print(result["answer_f1"], flush=True)
"""
"""Two event loops, of which the first one is closed with connections of the client open."""


async def test_a_client_of_an_event_loop_that_has_ended() -> None:
    async with JudgeServer(sensible) as server, asyncio.timeout(60):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            RUN_TWICE,
            server.base_url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    assert output.count(b"\n") == 1
    assert re.search(
        rb"JudgeUnavailable: .* another event loop: make a new client for each run", errors
    )


def test_a_client_must_be_asynchronous() -> None:
    with pytest.raises(UsageError, match="OpenAI is not asynchronous; use AsyncOpenAI"):
        OpenAIJudge(openai.OpenAI(api_key=KEY), "gpt-4o-mini")
    with pytest.raises(UsageError, match="expected a client of the package openai"):
        OpenAIJudge(object(), "gpt-4o-mini")


@pytest.mark.parametrize(
    ("judge", "problem"),
    [
        (openai, "expected a client of the package openai, such as AsyncOpenAI(), got module"),
        (
            openai.AsyncOpenAI(api_key=KEY).with_raw_response,
            "expected a client itself, without with_raw_response or with_streaming_response",
        ),
        (
            openai.AsyncOpenAI(api_key=KEY).with_streaming_response,
            "expected a client itself, without with_raw_response or with_streaming_response",
        ),
    ],
    ids=["module", "raw", "streaming"],
)
def test_what_only_looks_like_a_client_is_refused(judge: Any, problem: str) -> None:
    settings = {"llm": {"generation": {"model": "gpt-4o-mini"}}, "answer_correctness": {}}
    with pytest.raises(UsageError, match=re.escape(f"OpenAIJudge: {problem}")):
        evaluate_stream(templates(1), [], config=settings, judge=judge)
    with pytest.raises(UsageError, match=re.escape(f"OpenAIJudge: {problem}")):
        OpenAIJudge(judge, "gpt-4o-mini")


def test_an_embedding_model_needs_a_client_with_embeddings() -> None:
    class Client:
        chat = openai.AsyncOpenAI(api_key=KEY).chat

    judge = OpenAIJudge(Client(), "gpt-4o-mini", embedding_model="text-embedding-3-small")
    expected = r"OpenAIJudge\.embedding_model: the client has no embeddings, got Client"
    with pytest.raises(UsageError, match=expected):
        evaluate_stream(templates(1), [], judge=judge)


async def test_a_closed_client_ends_the_run_at_once() -> None:
    client = openai.AsyncOpenAI(api_key=KEY, base_url="http://127.0.0.1:1/v1", max_retries=0)
    await client.close()
    settings = {"llm": {"pricing": PRICING}, "answer_correctness": {}}
    stream = evaluate_stream(
        templates(1),
        [response(0)],
        config=settings,
        judge=OpenAIJudge(client, "m"),
        on_fatal="continue",
    )
    async with asyncio.timeout(60), stream:
        [result] = [result async for result in stream]
    assert "the client is closed" in result["answer_eval_error"]
    assert stream.usage.attempts == 1
    assert stream.usage.dollars == 0
    assert stream.usage.timed_out_dollars == 0


async def test_what_a_client_does_not_take_is_quoted() -> None:
    class Completions:
        async def create(self, *, model: str, messages: Any) -> Any:
            raise AssertionError((model, messages))

    class Chat:
        completions = Completions()

    class Client:
        chat = Chat()

    settings: dict[str, Any] = {"answer_correctness": {}}
    [result, _], _ = await results_of(settings, judge=OpenAIJudge(Client(), "m"))
    problem = result["answer_eval_error"]
    assert problem.startswith("invalid_request: the client does not take the request: ")
    assert "unexpected keyword argument" in problem


def test_a_wrong_provider_names_the_servers_that_work() -> None:
    servers = r"vLLM, Ollama, a LiteLLM proxy, Anthropic, Gemini or Mistral"
    with pytest.raises(ConfigError, match=rf"judge: expected .*{servers}"):
        evaluate_stream(templates(1), [], judge="anthropic/claude-sonnet-4-5")
    settings = {"llm": {"generation": {"provider": "anthropic", "model": "claude-sonnet-4-5"}}}
    with pytest.raises(ConfigError, match=rf"llm\.generation\.provider: expected .*{servers}"):
        evaluate_stream(templates(1), [], config=settings)


class OwnJudge:
    """A judge that returns the `usage` of the SDK as it came."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def complete(self, messages: Any, schema: Any) -> Any:
        reply = await self.client.chat.completions.create(model="m", messages=messages)
        return REPLIES[schema["title"]], reply.usage


async def test_the_usage_object_of_the_sdk_is_counted() -> None:
    async with JudgeServer(lambda _: completion("{}")) as server, client_of(server) as client:
        _, usage = await results_of({"answer_correctness": {}}, judge=OwnJudge(client))
    assert (usage.unmetered, usage.input_tokens, usage.output_tokens) == (0, 200, 40)


async def test_warnings_of_the_transport_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as aiohttp's for the password of a proxy."""
    async with JudgeServer(sensible) as server:
        monkeypatch.setenv("HTTP_PROXY", server.origin.replace("//", "//user:word@"))
        monkeypatch.setenv("NO_PROXY", "")
        settings = {
            "llm": {"generation": {"model": "m", "base_url": "http://judge.invalid/v1"}},
            "answer_correctness": {},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results, _ = await results_of(settings)
        assert [result["answer_f1"] for result in results] == [pytest.approx(2 / 3)] * 2
        assert server.requests[0].path == "http://judge.invalid/v1/chat/completions"


@pytest.mark.parametrize("is_ours", [True, False])
async def test_no_connection_is_no_timeout(is_ours: bool) -> None:
    settings: dict[str, Any] = {
        "llm": {
            "generation": {"model": "m", "base_url": "http://127.0.0.1:1/v1"},
            "limits": {"max_attempts": 1},
        },
        "answer_correctness": {},
    }
    async with openai.AsyncOpenAI(
        api_key=KEY, base_url="http://127.0.0.1:1/v1", max_retries=0
    ) as client:
        judge = None if is_ours else OpenAIJudge(client, "m")
        [result, _], usage = await results_of(settings, judge=judge)
    assert result["answer_eval_error"].startswith("unavailable: http://127.0.0.1:1/v1: Conn")
    assert "imed out" not in result["answer_eval_error"]
    assert usage.timed_out_dollars == 0


async def test_a_timeout_of_a_client_is_a_timeout() -> None:
    def script(request: Request) -> Any:
        return sensible(request)

    async with JudgeServer(script, latency=5) as server, client_of(server, timeout=0.05) as client:
        settings: dict[str, Any] = {
            "llm": {"limits": {"max_attempts": 1}},
            "answer_correctness": {},
        }
        async with asyncio.timeout(60):
            [result, _], _ = await results_of(settings, judge=OpenAIJudge(client, "m"))
    assert result["answer_eval_error"].startswith("timeout: ")
