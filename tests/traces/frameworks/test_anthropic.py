from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.traces import response_from_anthropic, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import ANTHROPIC

pytest.importorskip("anthropic", reason="needs the extra test-traces")

import httpx2 as httpx
from anthropic import AsyncAnthropic

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def answer(request: httpx.Request) -> httpx.Response:
    """What the Messages API answers: first two calls, then a text."""
    said = ANTHROPIC[len(json.loads(request.content)["messages"])]
    return httpx.Response(200, json=said | {"usage": {"input_tokens": 20, "output_tokens": 5}})


async def test_messages() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    sdk, messages = AsyncAnthropic(api_key="none", http_client=http), [ANTHROPIC[0]]
    made = await sdk.messages.create(model="m", max_tokens=99, messages=messages)
    sent: Any = [*messages, {"role": "assistant", "content": made.content}, ANTHROPIC[2]]
    last = await sdk.messages.create(model="m", max_tokens=99, messages=sent)
    dumped = [message.model_dump(mode="json") for message in (made, last)]
    for first, end in ((made, last), dumped):
        for read in (response_from_anthropic, response_from_trace):
            response = read([*messages, first, ANTHROPIC[2], end])
            await check(response)
            assert response["total_tokens"] == 50
