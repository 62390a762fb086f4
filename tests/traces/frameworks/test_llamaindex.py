from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.traces import response_from_llamaindex, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

pytest.importorskip("llama_index.core", reason="needs the extra test-traces")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


def speak(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    if any(message.role == "tool" for message in messages):
        return ChatMessage(role="assistant", blocks=[TextBlock(text=ANSWER)])
    calls = [
        ToolCallBlock(tool_call_id=step["id"], tool_name=step["name"], tool_kwargs=step["args"])
        for step in STEPS
    ]
    return ChatMessage(role="assistant", blocks=calls)


async def run() -> tuple[list[Any], list[ChatMessage]]:
    """The events of a run, and the history of the chat."""
    model = MockFunctionCallingLLM(response_generator=speak)
    agent = FunctionAgent(llm=model, tools=[sparql_query, retrieval_search], streaming=False)
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    handler = agent.run(QUESTION, memory=memory)
    events = [event async for event in handler.stream_events()]
    await handler
    return events, memory.get_all()


@pytest.mark.parametrize("read", [response_from_llamaindex, response_from_trace])
async def test_events_and_the_history_of_the_chat(read: Any) -> None:
    events, history = await run()
    for items, failed in ((events, []), (history, [PROBLEM])):
        dumped = [item.model_dump() for item in items]
        parsed = [json.loads(item.model_dump_json()) for item in items]
        for form in (items, dumped, parsed):
            await check(read(form, failed=failed))
