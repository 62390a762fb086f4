from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.traces import response_from_anthropic, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

pytest.importorskip("anthropic", reason="needs the extra test-traces")

import httpx2 as httpx
from anthropic import AsyncAnthropic

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def answer(request: httpx.Request) -> httpx.Response:
    """What the Messages API answers: first two calls, then a text."""
    messages = json.loads(request.content)["messages"]
    calls = [
        {"type": "tool_use", "id": step["id"], "name": step["name"], "input": step["args"]} for step in STEPS
    ]
    is_done = len(messages) > 1
    content = [{"type": "text", "text": ANSWER}] if is_done else [{"type": "text", "text": "I look."}, *calls]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 20, "output_tokens": 5}
    reason = "end_turn" if is_done else "tool_use"
    return httpx.Response(200, json=head | {"content": content, "usage": usage, "stop_reason": reason})


def client() -> AsyncAnthropic:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return AsyncAnthropic(api_key="none", http_client=http)


FORMS: dict[str, Any] = {
    "objects": lambda messages: messages,
    "dumped": lambda messages: [
        message if isinstance(message, dict) else message.model_dump(mode="json") for message in messages
    ],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", [response_from_anthropic, response_from_trace])
async def test_messages(form: str, read: Any) -> None:
    sdk, messages = client(), [{"role": "user", "content": QUESTION}]
    made = await sdk.messages.create(model="m", max_tokens=99, messages=messages)
    messages.append(made)
    results = []
    for called in made.content:
        if called.type == "tool_use":
            failed = called.name == "retrieval_search"
            told = {"content": PROBLEM, "is_error": True} if failed else {"content": RESULTS}
            results.append({"type": "tool_result", "tool_use_id": called.id, **told})
    messages.append({"role": "user", "content": results})
    sent = [messages[0], {"role": "assistant", "content": made.content}, messages[2]]
    messages.append(await sdk.messages.create(model="m", max_tokens=99, messages=sent))
    response = read(FORMS[form](messages))
    await check(response)
    assert response["total_tokens"] == 50
