from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.traces import response_from_openai, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import ANSWER, CHAT, ITEMS, PROBLEM, QUESTION, RESULTS

pytest.importorskip("agents", reason="needs the extra test-traces")

import httpx2 as httpx
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from agents.tracing import TracingProcessor, set_trace_processors
from openai import AsyncOpenAI

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

UNSAID = "An error occurred while running the tool"


@function_tool
def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


@function_tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


def answer(request: httpx.Request) -> httpx.Response:
    """What the API of OpenAI answers: first two calls, then a text."""
    body = json.loads(request.content)
    if request.url.path.endswith("/chat/completions"):
        message = CHAT[-1] if body["messages"][-1]["role"] == "tool" else CHAT[1]
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        made = {"object": "chat.completion", "choices": [{"message": message}], "usage": usage}
    else:
        is_done = body["input"][-1].get("type") == "function_call_output"
        items = (
            ITEMS[-1:]
            if is_done
            else [item for item in ITEMS if item.get("type") == "function_call"]
        )
        details = {"input_tokens_details": {}, "output_tokens_details": {}}
        usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, **details}
        made = {"object": "response", "id": "r1", "output": items, "usage": usage}
    return httpx.Response(200, json=made)


def client() -> AsyncOpenAI:
    transport = httpx.MockTransport(answer)
    return AsyncOpenAI(api_key="none", http_client=httpx.AsyncClient(transport=transport))


MODELS: dict[str, Any] = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


class Kept(TracingProcessor):
    def __init__(self) -> None:
        self.items: list[Any] = []

    def on_trace_end(self, trace: Any) -> None:
        self.items.append(trace.export())

    on_span_end = on_trace_end

    def on_trace_start(self, *_: Any) -> None:
        pass

    on_span_start = shutdown = force_flush = on_trace_start


async def run(api: str) -> tuple[Any, list[Any]]:
    """The result of a run, and its spans."""
    set_trace_processors([kept := Kept()])
    model = MODELS[api](model="m", openai_client=client())
    agent: Any = Agent(name="kg", model=model, tools=[sparql_query, retrieval_search])
    return await Runner.run(agent, [ITEMS[0]]), kept.items


@pytest.mark.parametrize("api", MODELS)
async def test_runs_of_the_agents_sdk(api: str) -> None:
    run_result, spans = await run(api)
    state = run_result.to_state()
    for read in (response_from_openai, response_from_trace):
        await check(read(run_result.to_input_list()), why=UNSAID)
        for form in (state.to_json(), state.to_string()):
            response = read(form)
            await check(response, why=UNSAID)
            assert response["total_tokens"] == 50
    response, is_chat = response_from_openai(spans), api == "chat"
    await check(
        response, ids=False, why=UNSAID, question=is_chat, answer=ANSWER if is_chat else None
    )
    assert response["total_tokens"] == 50
    assert response["trace_id"].startswith("trace_")


async def test_objects_of_chat_completions() -> None:
    sdk, messages = client(), [{"role": "user", "content": QUESTION}]
    made = (await sdk.chat.completions.create(model="m", messages=messages)).choices[0].message
    messages += [made, *CHAT[2:-1]]
    last = await sdk.chat.completions.create(model="m", messages=messages)
    for end in (last.choices[0].message, last.choices[0]):
        await check(response_from_openai([*messages, end], failed=[PROBLEM]))
