"""AutoGen: the result of a task."""

from __future__ import annotations

import json

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


async def record() -> list[Recording]:
    """Return the recorded histories."""
    usage = RequestUsage(prompt_tokens=20, completion_tokens=5)
    calls = [
        FunctionCall(id=id_, name=name, arguments=json.dumps(args)) for id_, name, args in CALLS
    ]
    client = ReplayChatCompletionClient(
        [
            CreateResult(finish_reason="function_calls", usage=usage, cached=False, content=calls),
            CreateResult(finish_reason="stop", usage=usage, cached=False, content=ANSWER),
        ],
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": False,
            "family": "unknown",
            "structured_output": False,
        },
    )
    agent = AssistantAgent(
        "grid",
        model_client=client,
        tools=[sparql_query, retrieval_search],
        reflect_on_tool_use=True,
    )
    result = await agent.run(task=QUESTION)
    state = json.loads(json.dumps(await agent.save_state()))
    name = framework("autogen-agentchat")
    return [
        Recording(name, "autogen", "task result", result.model_dump(mode="json")),
        Recording(name, "autogen", "saved state of an agent", state),
    ]
