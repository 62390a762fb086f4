from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.traces import (
    response_from_langchain,
    response_from_trace,
    responses_from_otlp,
)
from tests.traces.frameworks.support import check, exported
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

pytest.importorskip("langgraph.prebuilt", reason="needs the extra test-traces")
pytest.importorskip("openinference.instrumentation.langchain", reason="needs the extra test-traces")

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd, dumps
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, messages_to_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

USAGE = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}


@tool
def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


@tool
def retrieval_search(text: str, k: int) -> str:
    """Search texts."""
    raise ConnectionError(PROBLEM)


class Model(BaseChatModel):
    """Says what it is told to say."""

    messages: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next(self.messages))])


def script() -> Iterator[AIMessage]:
    calls = [{key: step[key] for key in ("name", "args", "id")} for step in STEPS]
    yield AIMessage("", tool_calls=calls, usage_metadata=USAGE)
    yield AIMessage(ANSWER, usage_metadata=USAGE)


def graph(*, handle: bool = True) -> Any:
    model = Model(messages=script())

    async def speak(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", speak)
    builder.add_node("tools", ToolNode([sparql_query, retrieval_search], handle_tool_errors=handle))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


def asked() -> dict[str, list[BaseMessage]]:
    return {"messages": [HumanMessage(QUESTION)]}


FORMS: list[Any] = [
    lambda state: state,
    lambda state: state["messages"],
    lambda state: messages_to_dict(state["messages"]),
    lambda state: [message.model_dump() for message in state["messages"]],
    lambda state: [dumpd(message) for message in state["messages"]],
    dumps,
]


@pytest.mark.parametrize("read", [response_from_langchain, response_from_trace])
async def test_the_final_state(read: Any) -> None:
    state = await graph().ainvoke(asked())
    for form in FORMS:
        response = read(form(state))
        await check(response)
        assert (response["input_tokens"], response["output_tokens"], response["total_tokens"]) == (
            40,
            10,
            50,
        )


async def test_events() -> None:
    events = [event async for event in graph().astream_events(asked(), version="v2")]
    for form in (events, json.loads(dumps(events))):
        response = response_from_langchain(form)
        await check(response)
        assert response["total_tokens"] == 50


async def test_its_spans(tmp_path: Path) -> None:
    """As OpenInference writes them."""
    path = tmp_path / "spans.jsonl"
    instrumentor = LangChainInstrumentor()
    with exported(path) as provider:
        instrumentor.instrument(tracer_provider=provider)
        await graph().ainvoke(asked())
        instrumentor.uninstrument()
    [response] = responses_from_otlp(path.read_text().splitlines())
    await check(response)
    assert response["total_tokens"] == 50


async def test_a_tool_that_ends_the_run() -> None:
    """Since version 1 of LangGraph, an exception in a tool is raised, and there is no message of
    it.
    """
    events: list[Any] = []
    with suppress(ConnectionError):
        async for event in graph(handle=False).astream_events(asked(), version="v2"):
            events.append(event)  # noqa: PERF401
    # The other tool may have been cancelled.
    step = response_from_langchain(events)["actual_steps"][1]
    assert (step["name"], step["status"], step["output"]) == ("retrieval_search", "error", PROBLEM)
