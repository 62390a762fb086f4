"""Histories that are long, or of which parts are of the wrong type."""

from __future__ import annotations

import copy
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.traces.adapters import read_trace
from tests.traces.histories import HISTORIES

COUNT = 10_000


def chat_calls(count: int) -> list[Any]:
    return [{"id": f"c{n}", "function": {"name": "a", "arguments": "{}"}} for n in range(count)]


def chat_results(count: int) -> list[Any]:
    return [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in range(count)]


def chat(count: int) -> list[Any]:
    return [{"role": "assistant", "tool_calls": chat_calls(count)}, *chat_results(count)]


def results_first(count: int) -> list[Any]:
    return [*chat_results(count), {"role": "assistant", "tool_calls": chat_calls(count)[::-1]}]


def llama_events(count: int) -> list[Any]:
    calls = [{"tool_name": "a", "tool_kwargs": {}, "tool_id": str(n)} for n in range(count)]
    return [*calls, *(call | {"tool_output": {"content": "x"}} for call in calls[::-1])]


def model_and_tool_events(count: int) -> list[Any]:
    calls = [{"name": "a", "args": {}, "id": str(n)} for n in range(count)]
    asked = {"event": "on_chat_model_end", "data": {"output": {"type": "ai", "tool_calls": calls}}}
    return [asked, *tool_events(count)]


def tool_events(count: int) -> list[Any]:
    """All start before any ends, in the reverse order."""
    runs = [{"name": "a", "run_id": f"run {n}"} for n in range(count)]
    outputs = [{"type": "tool", "tool_call_id": str(n), "content": "x"} for n in range(count)]
    starts = [{"event": "on_tool_start", **run, "data": {"input": {}}} for run in runs]
    ends = [
        {"event": "on_tool_end", **run, "data": {"output": output}}
        for run, output in zip(runs, outputs, strict=True)
    ]
    return [*starts, *ends[::-1]]


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("openai", chat),
        ("openai", results_first),
        ("llamaindex", llama_events),
        ("langchain", tool_events),
        ("langchain", model_and_tool_events),
    ],
)
def test_time_is_linear_in_the_calls(name: str, history: Any) -> None:
    given = history(COUNT)
    began = process_time()
    response = read_trace(given, name, question_id="q1")
    took = process_time() - began
    assert len(response["actual_steps"]) == COUNT
    assert "trace_problems" not in response
    assert took < 3, "ten times what it takes"


@pytest.mark.parametrize("calls", [5, "x", {"a": 1}, True])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai", lambda calls: {"role": "assistant", "content": "x", "tool_calls": calls}),
        ("langchain", lambda calls: {"type": "ai", "content": "x", "tool_calls": calls}),
        ("langchain", lambda calls: {"type": "ai", "content": "x", "invalid_tool_calls": calls}),
        (
            "llamaindex",
            lambda calls: {"role": "assistant", "content": "x", "additional_kwargs": {"tool_calls": calls}},
        ),
    ],
)
def test_calls_that_are_no_list_are_a_problem(name: str, message: Any, calls: Any) -> None:
    response = read_trace([message(calls)], name, question_id="q1")
    assert response["actual_answer"] == "x"
    assert response["trace_problems"][0].startswith("calls that are no list: ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai", {"role": "assistant", "content": "x", "tool_calls": ["lost?"]}),
        ("langchain", {"type": "ai", "content": "x", "tool_calls": ["lost?"]}),
        ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": "x"}, 5]}),
        ("pydantic-ai", {"kind": "response", "parts": [5, {"part_kind": "text", "content": "x"}]}),
        ("mcp", {"jsonrpc": "2.0", "id": 1}),
    ],
)
def test_members_of_the_wrong_type_are_a_problem(name: str, message: Any) -> None:
    whole = next(history for format_, _, history in HISTORIES if format_ == name)
    whole = whole["messages"] if isinstance(whole, dict) else whole
    assert "trace_problems" not in read_trace(whole, name, question_id="q1")
    assert read_trace([*whole, message], name, question_id="q1")["trace_problems"]


CUT = frozenset(
    {
        "args",
        "arguments",
        "content",
        "id",
        "input",
        "output",
        "query",
        "run_id",
        "text",
        "tool_call_id",
        "tool_id",
        "tool_use_id",
    }
)


def texts_in(value: Any) -> list[tuple[dict[str, Any], str]]:
    """Where the texts stand that may be cut: the object that holds each, and its key there."""
    if isinstance(value, list):
        return [found for child in value for found in texts_in(child)]
    if not isinstance(value, dict):
        return []
    own = [(value, key) for key in value if key in CUT and isinstance(value[key], str)]
    return own + [found for child in value.values() for found in texts_in(child)]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_texts_that_are_cut_lose_no_call_and_no_result(data: st.DataObject) -> None:
    name, _, whole = data.draw(st.sampled_from(HISTORIES))
    history = copy.deepcopy(whole)
    places = texts_in(history)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = holder[key][: data.draw(st.integers(0, 12))]
    steps = read_trace(history, name, question_id="q1")["actual_steps"]
    assert {"sparql_query", "retrieval_search"} <= {step["name"] for step in steps}
