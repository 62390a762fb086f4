"""Evaluate each run of a LangChain or LangGraph agent as it ends, by a callback handler.

pip install '.[examples]' && python examples/langchain_handler.py
"""

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from graphrag_eval_async import evaluate_stream, load_reference
from graphrag_eval_async.traces import response_from_langchain

REFERENCE = load_reference(Path(__file__).with_name("reference.yaml"))


class LangChainHandler(BaseCallbackHandler):
    """Calls `send` with a response for each run that ends. A run's metadata has its
    `question_id`.
    """

    run_inline = True  # On the event loop, in the order of the calls.

    def __init__(self, send: Callable[[dict[str, Any]], object]) -> None:
        self._send = send
        self._roots: dict[UUID, UUID] = {}
        self._questions: dict[UUID, str | None] = {}
        self._events: dict[UUID, list[dict[str, Any]]] = {}
        self._queries: dict[UUID, str] = {}

    def _note(self, event: str, about: dict[str, Any], **data: Any) -> None:
        """Keep what a callback tells in the form of `astream_events`."""
        run, parent = about["run_id"], about.get("parent_run_id")
        root = self._roots[run] = self._roots.get(parent, run)
        if root not in self._events:
            self._events[root] = []
            self._questions[root] = (about.get("metadata") or {}).get("question_id")
        parents = [] if parent is None else [str(parent)]
        told = {
            "event": event,
            "run_id": str(run),
            "parent_ids": parents,
            "name": about.get("name"),
        }
        self._events[root].append(told | {"data": data})

    def _end(self, about: dict[str, Any], **more: Any) -> None:
        root = about["run_id"]
        if root in self._events:
            events, question = self._events.pop(root), self._questions.pop(root)
            self._roots = {run: other for run, other in self._roots.items() if other != root}
            self._send(response_from_langchain(events, question_id=question) | more)

    def on_chain_start(self, _: Any, inputs: Any, **about: Any) -> None:
        self._note("on_chain_start", about, input=inputs)

    def on_chain_end(self, outputs: Any, **about: Any) -> None:
        self._note("on_chain_end", about, output=outputs)
        self._end(about)

    def on_chain_error(self, error: BaseException, **about: Any) -> None:
        self._end(about, error=repr(error))

    def on_llm_end(self, response: Any, **about: Any) -> None:
        self._note("on_chat_model_end", about, output=response.generations[0][0].message)

    def on_tool_start(self, serialized: dict[str, Any], text: str, **about: Any) -> None:
        given = about.get("inputs") or text
        self._note("on_tool_start", about | {"name": serialized["name"]}, input=given)

    def on_tool_end(self, output: Any, **about: Any) -> None:
        self._note("on_tool_end", about, output=output)

    def on_retriever_start(self, _: Any, query: str, **about: Any) -> None:
        self._queries[about["run_id"]] = query

    def on_retriever_end(self, documents: Any, **about: Any) -> None:
        query = self._queries.pop(about["run_id"], None)
        self._note("on_retriever_end", about, input=query, output=documents)

    def on_tool_error(self, error: BaseException, **about: Any) -> None:
        self._note("on_tool_error", about, error=error, tool_call_id=about.get("tool_call_id"))


@tool
def operator_lookup(substation: str) -> str:
    """Say who operates a substation."""
    return {"Lindau": "Nordnett"}[substation]


def agent() -> Any:
    """Stands for your agent: a graph whose model always asks for one tool, then answers."""

    def model(state: MessagesState) -> dict[str, Any]:
        if state["messages"][-1].type == "tool":
            return {"messages": [AIMessage(f"It is operated by {state['messages'][-1].content}.")]}
        substation = "Lindau" if "Lindau" in state["messages"][-1].text else "Bergheim"
        call = {"name": "operator_lookup", "args": {"substation": substation}, "id": "call_1"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([operator_lookup]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


async def run_agent(responses: MemoryObjectSendStream[dict[str, Any]]) -> None:
    graph, handler = agent(), LangChainHandler(responses.send_nowait)
    async with responses:
        for question in REFERENCE:
            config: Any = {"callbacks": [handler], "metadata": {"question_id": question.id}}
            with suppress(KeyError):
                await graph.ainvoke({"messages": [HumanMessage(question.text)]}, config)


async def main() -> None:
    send, receive = anyio.create_memory_object_stream[dict[str, Any]](math.inf)
    async with anyio.create_task_group() as tasks, evaluate_stream(REFERENCE, receive) as stream:
        tasks.start_soon(run_agent, send)
        async for result in stream:
            print(f"{result['question_id']:24} {result['status']:8} {result.get('steps_score')}")


if __name__ == "__main__":
    anyio.run(main)
