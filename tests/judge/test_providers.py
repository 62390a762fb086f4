"""What is learned of each server with OpenAI's protocol."""

from __future__ import annotations

import warnings
from typing import Any

import openai
import pytest

from graphrag_eval_async import GraphragEvalWarning, JudgeError, OpenAIJudge
from graphrag_eval_async.judge.failures import DialectChanged
from tests.judge.support import VERDICT, message
from tests.support.judge_server import JudgeServer, Reply, completion, error
from tests.support.judge_server.dialects import format_of
from tests.support.judge_server.providers import PROVIDERS, Provider, asked_with

ATTEMPTS = 6
"""More than any server needs."""


def judge_at(server: JudgeServer, **parameters: Any) -> OpenAIJudge:
    client = openai.AsyncOpenAI(api_key="k", base_url=server.base_url, max_retries=0)
    return OpenAIJudge(client, "m", **parameters)


async def ask(judge: OpenAIJudge, variation: int = 0) -> Any:
    """The reply to a request, which is sent again as long as the judge writes it in another way."""
    for _ in range(ATTEMPTS):
        try:
            reply, _ = await judge.complete(message(), VERDICT.schema, variation=variation)
        except DialectChanged:
            continue
        return reply
    raise AssertionError("the judge keeps changing how it writes requests")


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
async def test_how_requests_to_a_server_are_written(provider: Provider) -> None:
    sent = {"temperature": 0.3, "max_tokens": 4096, "seed": 1}
    for name, newer_name in provider.changed.items():
        value = sent.pop(name)
        if newer_name is not None:
            sent[newer_name] = value

    async with JudgeServer(provider.script) as server:
        judge = judge_at(server)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert await ask(judge, variation=1) == {"value": 0}
            learned = len(server.requests)
            assert await ask(judge, variation=1) == {"value": 0}
        await judge.client.close()
        last = server.requests[-1]
        assert len(server.requests) == learned + 1, "it has learned how to write requests"
    assert format_of(last.body) == provider.format
    assert asked_with(last) == sent
    # One warning for each thing that it has learned.
    departures = len(provider.changed) + (provider.format != "json_schema")
    assert [each.category for each in warned] == [GraphragEvalWarning] * departures


async def test_a_refused_parameter_of_the_user_is_an_error_before_any_format_changes() -> None:
    def script(request: Any) -> Reply:
        if "top_k" in request.body:
            return error(400, "Unrecognized request argument supplied: top_k")
        return completion({"value": 1})

    async with JudgeServer(script) as server:
        judge = judge_at(server, top_k=3)
        with pytest.raises(JudgeError, match=r"change or remove OpenAIJudge\.top_k") as caught:
            await ask(judge)
        await judge.client.close()
        assert caught.value.kind == "invalid_request"
        assert len(server.requests) == 1


async def test_arguments_and_fields_are_sent_as_the_sdk_sends_them() -> None:
    async with JudgeServer(lambda _: completion({"value": 1})) as server:
        extra: Any = {"extra_body": {"guided": True}, "extra_headers": {"X-Team": "eval"}}
        judge = judge_at(server, top_p=0.5, top_k=3, **extra)
        await ask(judge)
        await judge.client.close()
        [request] = server.requests
    assert request.headers["x-team"] == "eval"
    assert asked_with(request) == {
        "temperature": 0.0,
        "max_tokens": 4096,
        "top_p": 0.5,
        "top_k": 3,
        "guided": True,
    }
