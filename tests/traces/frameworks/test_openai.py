from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.traces import response_from_openai, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

pytest.importorskip("agents", reason="needs the extra test-traces")

import httpx2 as httpx
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner, function_tool
from agents.tracing import TracingProcessor, set_trace_processors
from openai import AsyncOpenAI

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

UNSAID = "An error occurred while running the tool"
USAGE = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}


@function_tool
def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


@function_tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


def completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": None, **message},
    }
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return head | {"choices": [choice], "usage": usage}


def model_response(output: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": USAGE | details}
    return head | more | {"output": output}


def answer(request: httpx.Request) -> httpx.Response:
    """What the API of OpenAI answers: first two calls, then a text."""
    body = json.loads(request.content)
    if request.url.path.endswith("/chat/completions"):
        functions = [{"name": step["name"], "arguments": json.dumps(step["args"])} for step in STEPS]
        calls = [
            {"id": step["id"], "type": "function", "function": function}
            for step, function in zip(STEPS, functions, strict=True)
        ]
        is_done = body["messages"][-1]["role"] == "tool"
        return httpx.Response(200, json=completion({"content": ANSWER} if is_done else {"tool_calls": calls}))
    is_done = isinstance(body["input"], list) and body["input"][-1].get("type") == "function_call_output"
    called = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": step["id"],
            "name": step["name"],
            "arguments": json.dumps(step["args"]),
            "status": "completed",
        }
        for number, step in enumerate(STEPS)
    ]
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    said = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
    return httpx.Response(200, json=model_response([said] if is_done else called))


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


@pytest.fixture
def kept() -> Iterator[Kept]:
    processor = Kept()
    set_trace_processors([processor])
    yield processor
    set_trace_processors([])


async def run(api: str) -> Any:
    model = MODELS[api](model="m", openai_client=client())
    agent: Any = Agent(name="kg", model=model, tools=[sparql_query, retrieval_search])
    return await Runner.run(agent, QUESTION, run_config=RunConfig(workflow_name="kg"))


FORMS: dict[str, Any] = {
    "items": lambda found: found.to_input_list(),
    "state": lambda found: found.to_state().to_json(),
    "state as text": lambda found: found.to_state().to_string(),
}


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", [response_from_openai, response_from_trace])
@pytest.mark.usefixtures("kept")
async def test_runs_of_the_agents_sdk(api: str, form: str, read: Any) -> None:
    response = read(FORMS[form](await run(api)))
    await check(response, why=UNSAID)
    assert response.get("total_tokens") == (None if form == "items" else 50)


@pytest.mark.parametrize("api", MODELS)
async def test_spans_of_the_agents_sdk(api: str, kept: Kept) -> None:
    await run(api)
    response = response_from_openai(kept.items)
    await check(
        response, ids=False, why=UNSAID, question=api == "chat", answer=ANSWER if api == "chat" else None
    )
    assert response["total_tokens"] == 50
    assert response["trace_id"].startswith("trace_")


async def test_objects_of_chat_completions() -> None:
    sdk, messages = client(), [{"role": "user", "content": QUESTION}]
    made = (await sdk.chat.completions.create(model="m", messages=messages)).choices[0].message
    messages += [made]
    for call in made.tool_calls:
        text = RESULTS if call.function.name == "sparql_query" else f"Error: {PROBLEM}"
        messages += [{"role": "tool", "tool_call_id": call.id, "content": text}]
    last = await sdk.chat.completions.create(model="m", messages=messages)
    await check(response_from_openai([*messages, last.choices[0].message]))
    await check(response_from_openai([*messages, *last.choices]))
