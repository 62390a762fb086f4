"""Histories and traces that are long."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from graphrag_eval_async import responses_from_otlp
from graphrag_eval_async.traces.adapters import read_trace
from tests.traces.otlp import line, span

COUNT = 10_000


def chat_calls(count: int) -> list[Any]:
    return [{"id": f"c{n}", "function": {"name": "a", "arguments": "{}"}} for n in range(count)]


def chat_results(count: int) -> list[Any]:
    return [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in range(count)]


def chat(count: int) -> list[Any]:
    return [{"role": "assistant", "tool_calls": chat_calls(count)}, *chat_results(count)]


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


def spans(count: int) -> list[Any]:
    """Each is below the last."""
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    return [
        span(number, "t", names | {"gen_ai.tool.call.id": f"c{number}"}, parent=f"{number - 1:016x}")
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("name", "history"), [("openai", chat), ("langchain", tool_events), ("otlp", spans)])
def test_time_is_linear_in_the_calls(name: str, history: Any) -> None:
    given = history(COUNT)
    began = process_time()
    [response] = (
        responses_from_otlp([line(*given)]) if name == "otlp" else [read_trace(given, name, question_id="q1")]
    )
    took = process_time() - began
    assert len(response["actual_steps"]) == COUNT
    assert took < 5, "ten times what it takes"
