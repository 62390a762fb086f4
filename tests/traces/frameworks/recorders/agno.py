"""Agno: the output of an agent with a model of OpenAI, whose replies are scripted."""

from __future__ import annotations

import json

import httpx
from agno.agent import Agent
from agno.models.openai import OpenAIChat

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


def sparql_query(query: str) -> str:
    """Run a query."""
    del query
    return RESULTS


def retrieval_search(text: str, k: int) -> str:
    """Search documents, which fails."""
    del text, k
    raise ValueError(PROBLEM)


def _reply(request: httpx.Request) -> httpx.Response:
    """Return the next reply of the model: first its calls, then its answer."""
    messages = json.loads(request.content)["messages"]
    message: dict[str, object] = {"role": "assistant", "content": ANSWER}
    reason = "stop"
    if messages[-1]["role"] != "tool":
        reason = "tool_calls"
        calls = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for id_, name, args in CALLS
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    return httpx.Response(
        200,
        json={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
        },
    )


async def record() -> list[Recording]:
    """Return the recorded histories."""
    client = httpx.AsyncClient(transport=httpx.MockTransport(_reply))
    model = OpenAIChat(id="scripted", api_key="none", http_client=client)
    agent = Agent(model=model, tools=[sparql_query, retrieval_search], telemetry=False)
    output = await agent.arun(QUESTION)
    return [Recording(framework("agno"), "openai", "output of Agno", json.loads(output.to_json()))]
