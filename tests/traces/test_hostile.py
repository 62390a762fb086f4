"""Histories and traces that are long."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from graphrag_eval_async.traces import responses_from_otlp
from graphrag_eval_async.traces.format import read_trace
from tests.traces.otlp import line, span

COUNT = 10_000
CALLS = [{"id": f"c{n}", "function": {"name": "a", "arguments": "{}"}} for n in range(COUNT)]
RESULTS = [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in range(COUNT)]
NAMES = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
HISTORIES: dict[str, list[Any]] = {
    "openai": [{"role": "assistant", "tool_calls": CALLS}, *RESULTS],
    "langchain": [  # All start before any ends, in the reverse order.
        *(
            {"event": "on_tool_start", "name": "a", "run_id": f"{n}", "data": {"input": {}}}
            for n in range(COUNT)
        ),
        *({"event": "on_tool_end", "name": "a", "run_id": f"{n}", "data": {}} for n in range(COUNT)[::-1]),
    ],
    "otlp": [  # Each is below the last.
        span(n, "t", NAMES | {"gen_ai.tool.call.id": f"c{n}"}, parent=f"{n - 1:016x}")
        for n in range(1, COUNT + 1)
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_time_is_linear_in_the_calls(name: str) -> None:
    given = HISTORIES[name]
    began = process_time()
    is_otlp = name == "otlp"
    [response] = (
        responses_from_otlp([line(*given)]) if is_otlp else [read_trace(given, name, question_id="q1")]
    )
    assert len(response["actual_steps"]) == COUNT
    assert process_time() - began < 5, "ten times what it takes"
