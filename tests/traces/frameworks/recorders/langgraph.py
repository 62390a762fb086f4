"""LangGraph's updates, LangChain's `intermediate_steps`, and a tree of runs as LangSmith has it."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import ToolException, tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.traces.frameworks.recorders.scenario import CALLS, USAGE, Recording, framework, plain
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS

OF_RUNS = (
    "id",
    "name",
    "run_type",
    "start_time",
    "end_time",
    "events",
    "error",
    "inputs",
    "outputs",
    "parent_run_id",
    "trace_id",
    "dotted_order",
)


@tool
def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


@tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ToolException(PROBLEM)


class Scripted(BaseChatModel):
    """Calls both tools, then answers."""

    turn: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        self.turn += 1
        message = AIMessage(ANSWER, usage_metadata=USAGE)
        if self.turn == 1:
            calls = [{"name": name, "args": args, "id": id_} for id_, name, args in CALLS]
            message = AIMessage("", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])


def graph() -> Any:
    model = Scripted()

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call)
    builder.add_node("tools", ToolNode([sparql_query, retrieval_search], handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


def asked() -> dict[str, Any]:
    return {"messages": [HumanMessage(QUESTION)]}


def tree(run: Any) -> dict[str, Any]:
    """Return a run and those below it as the API of LangSmith has them."""
    found = plain({key: getattr(run, key, None) for key in OF_RUNS})
    if found["error"]:
        found["error"] = found["error"].partition("Traceback")[0]  # It has paths of the machine.
    return found | {"child_runs": [tree(child) for child in run.child_runs]}


def intermediate_steps() -> list[Recording]:
    """Return what an `AgentExecutor` returns, if `langchain-classic` is installed."""
    try:
        from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
    except ImportError:
        return []
    retrieval_search.handle_tool_error = True
    prompt = ChatPromptTemplate.from_messages(
        [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
    )
    tools = [sparql_query, retrieval_search]
    executor = AgentExecutor(
        agent=create_tool_calling_agent(Scripted(), tools, prompt),
        tools=tools,
        return_intermediate_steps=True,
        stream_runnable=False,
    )
    result = executor.invoke({"input": QUESTION})
    dumped = [[action.model_dump(), seen] for action, seen in result["intermediate_steps"]]
    name = framework("langchain-classic")
    return [
        Recording(
            name, "langchain", "intermediate_steps as dumps has them", json.loads(dumps(result))
        ),
        Recording(name, "langchain", "intermediate_steps", result | {"intermediate_steps": dumped}),
    ]


async def record() -> list[Recording]:
    """Return the recorded histories."""
    retrieval_search.handle_tool_error = False
    name = framework("langgraph")
    modes: dict[str, Any] = {
        "updates": "updates",
        "updates and values": ["updates", "values"],
        "values": "values",
        "values and messages": ["values", "messages"],
    }
    recordings = []
    for form, mode in modes.items():
        chunks = [chunk async for chunk in graph().astream(asked(), stream_mode=mode)]
        recordings.append(Recording(name, "langchain", form, json.loads(dumps(chunks))))

    collector = RunCollectorCallbackHandler()
    await graph().ainvoke(asked(), {"callbacks": [collector]})
    runs = tree(collector.traced_runs[0])
    recordings.append(Recording(framework("langsmith"), "langsmith", "tree of runs", runs))
    return [*recordings, *intermediate_steps()]
