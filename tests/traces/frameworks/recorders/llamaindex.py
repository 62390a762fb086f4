"""LlamaIndex: the events of a `FunctionAgent`."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS


class Scripted(FunctionCallingLLM):
    """Calls both tools, then answers."""

    turn: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def get_tool_calls_from_response(self, response: Any, *_: Any, **__: Any) -> Any:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [ToolSelection(**call) for call in calls]

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> Any:
        return {}

    async def achat_with_tools(self, *_: Any, **__: Any) -> Any:
        self.turn += 1
        calls = []
        if self.turn == 1:
            calls = [
                {"tool_id": id_, "tool_name": name, "tool_kwargs": args}
                for id_, name, args in CALLS
            ]
        message = ChatMessage(
            role="assistant",
            content="" if calls else ANSWER,
            additional_kwargs={"tool_calls": calls},
        )
        return ChatResponse(message=message)

    def chat(self, *_: Any, **__: Any) -> Any: ...

    async def achat(self, *_: Any, **__: Any) -> Any: ...

    def complete(self, *_: Any, **__: Any) -> Any: ...

    async def acomplete(self, *_: Any, **__: Any) -> Any: ...

    def stream_chat(self, *_: Any, **__: Any) -> Any: ...

    async def astream_chat(self, *_: Any, **__: Any) -> Any: ...

    def stream_complete(self, *_: Any, **__: Any) -> Any: ...

    async def astream_complete(self, *_: Any, **__: Any) -> Any: ...


def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


async def record() -> list[Recording]:
    """Return the recorded histories."""
    agent = FunctionAgent(tools=[sparql_query, retrieval_search], llm=Scripted(), streaming=False)
    run = agent.run(user_msg=QUESTION)
    events = [json.loads(event.model_dump_json()) async for event in run.stream_events()]
    await run
    return [Recording(framework("llama-index-core"), "llamaindex", "events", events)]
