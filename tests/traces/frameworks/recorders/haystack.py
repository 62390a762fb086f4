"""Haystack: messages of an agent."""

from __future__ import annotations

import os
from typing import Annotated, Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import tool

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS

META = {"usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}}


@tool
def sparql_query(query: Annotated[str, "a query"]) -> str:
    """Run a query."""
    return RESULTS


@tool
def retrieval_search(text: Annotated[str, "a text"], k: Annotated[int, "a number"]) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


@component
class Scripted:
    """Calls both tools, then answers."""

    turn = 0

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        self.turn += 1
        if self.turn > 1:
            return {"replies": [ChatMessage.from_assistant(ANSWER, meta=META)]}
        calls = [ToolCall(id=id_, tool_name=name, arguments=args) for id_, name, args in CALLS]
        return {"replies": [ChatMessage.from_assistant(tool_calls=calls, meta=META)]}


async def record() -> list[Recording]:
    """Return the recorded histories."""
    agent = Agent(chat_generator=Scripted(), tools=[sparql_query, retrieval_search])
    state = agent.run(messages=[ChatMessage.from_user(QUESTION)])
    messages = [message.to_dict() for message in state["messages"]]
    return [Recording(framework("haystack-ai"), "haystack", "messages", messages)]
