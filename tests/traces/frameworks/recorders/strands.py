"""Strands Agents: messages, as Bedrock Converse has them, and spans."""

from __future__ import annotations

import json
from typing import Any

from strands import Agent, tool
from strands.models import Model

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework, plain
from tests.traces.frameworks.recorders.spans import collect_spans, collected_lines
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


class Scripted(Model):
    """Calls both tools, then answers."""

    turn = 0

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        yield {}

    async def stream(self, *_: Any, **__: Any) -> Any:
        self.turn += 1
        yield {"messageStart": {"role": "assistant"}}
        if self.turn == 1:
            for call_id, name, args in CALLS:
                start = {"toolUse": {"name": name, "toolUseId": call_id}}
                yield {"contentBlockStart": {"start": start}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": ANSWER}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
        usage = {"inputTokens": 20, "outputTokens": 5, "totalTokens": 25}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


@tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


async def record() -> list[Recording]:
    """Return the recorded histories."""
    collect_spans()
    agent = Agent(model=Scripted(), tools=[sparql_query, retrieval_search], callback_handler=None)
    await agent.invoke_async(QUESTION)
    name = framework("strands-agents")
    return [
        Recording(name, "bedrock", "messages of Strands", plain(agent.messages)),
        Recording(name, "otlp", "spans of Strands", collected_lines()),
    ]
