"""smolagents: the steps in the memory of an agent."""

from __future__ import annotations

from typing import Any

from smolagents import ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)
from smolagents.monitoring import TokenUsage

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework, plain
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


@tool
def sparql_query(query: str) -> str:
    """Run a query.

    Args:
        query: a query
    """
    return RESULTS


@tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts.

    Args:
        text: a text
        k: a number
    """
    raise ConnectionError(PROBLEM)


class Scripted(Model):
    """Makes one call a turn, or all in the first, then answers."""

    def __init__(self, turns: list[Any]) -> None:
        super().__init__()
        self.turns = iter(turns)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        calls = [
            ChatMessageToolCall(
                id=id_,
                type="function",
                function=ChatMessageToolCallFunction(name=name, arguments=args),
            )
            for id_, name, args in next(self.turns)
        ]
        return ChatMessage(
            role=MessageRole.ASSISTANT, content="", tool_calls=calls, token_usage=TokenUsage(20, 5)
        )


def result(turns: list[Any]) -> Any:
    """Run the agent with what the model calls in each turn; return its result without prompts."""
    agent = ToolCallingAgent(
        tools=[sparql_query, retrieval_search], model=Scripted(turns), verbosity_level=0
    )
    whole = plain(agent.run(QUESTION, return_full_result=True).dict())
    whole["steps"] = [
        {key: value for key, value in step.items() if key != "model_input_messages"}
        for step in whole["steps"]
        if "system_prompt" not in step
    ]
    return whole


async def record() -> list[Recording]:
    """Return the recorded histories."""
    name = framework("smolagents")
    answer = [("call_3", "final_answer", {"answer": ANSWER})]
    one_by_one = result([[CALLS[0]], [CALLS[1]], answer])
    return [
        Recording(name, "smolagents", "steps", one_by_one["steps"]),
        Recording(name, "smolagents", "result", one_by_one),
    ]
