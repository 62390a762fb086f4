from __future__ import annotations

import json
from typing import Any

from graphrag_eval_async import response_from_openai
from tests.traces.histories import ARGS, CHAT, USER
from tests.traces.scenario import ANSWER, PROBLEM, QUERY, RESULTS, STEPS


def span(number: int, start: int, **more: Any) -> dict[str, Any]:
    step = STEPS[number]
    times = {
        "started_at": f"2026-11-22T10:00:0{start}.5+00:00",
        "ended_at": f"2026-11-22T10:00:0{start + 2}+00:00",
    }
    data = {"type": "function", "name": step["name"], "input": ARGS[number], "output": step["output"]}
    return {"object": "trace.span", "id": step["id"], **times, "span_data": data, "error": None, **more}


def test_spans_of_the_agents_sdk() -> None:
    failed = span(1, 2, error={"message": "Error running tool (non-fatal)", "data": None})
    answer = {
        "object": "trace.span",
        "started_at": "2026-11-22T10:00:05+00:00",
        "ended_at": "2026-11-22T10:00:06+00:00",
        "span_data": {
            "type": "generation",
            "input": CHAT[:-1],
            "output": [CHAT[-1]],
            "usage": {"input_tokens": 10, "output_tokens": 5},
        },
    }
    spans = [{"object": "trace", "id": "trace_a6"}, failed, span(0, 1), answer]
    response = response_from_openai(spans, question_id="q1")
    assert response["actual_steps"] == STEPS
    assert response["actual_answer"] == ANSWER
    assert response["question_id"] == "q1"
    assert response["trace_id"] == "trace_a6"
    assert response["elapsed_sec"] == 4.5
    assert (response["input_tokens"], response["output_tokens"], response["total_tokens"]) == (10, 5, 15)
    assert "trace_problems" not in response


def test_what_is_missing_or_broken_is_kept_and_said() -> None:
    history = [
        USER,
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "function": {"name": "sparql_query", "arguments": "{no JSON"}},
                {"id": "b", "function": {"name": "sparql_query", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": RESULTS},
        {"role": "tool", "tool_call_id": "a", "content": "again"},
        {"role": "tool", "tool_call_id": "z", "content": "whose?"},
    ]
    response = response_from_openai(history, question_id="q1")
    assert response["actual_steps"] == [
        {"name": "sparql_query", "id": "a", "args": "{no JSON", "status": "success", "output": RESULTS},
        {
            "name": "sparql_query",
            "id": "b",
            "args": {},
            "status": "error",
            "error": "the trace has no result of this call",
        },
        {"name": "unknown", "id": "z", "status": "success", "output": "whose?"},
    ]
    assert response["trace_problems"] == [
        "sparql_query a: arguments are not JSON",
        "a: more than one result; the first counts",
        "z: a result without a call",
        "sparql_query b: no result",
    ]
    assert "actual_answer" not in response


def test_only_the_last_turn_counts() -> None:
    again = [*CHAT, USER, {"role": "assistant", "content": "As before."}]
    response = response_from_openai(again, question_id="q1")
    assert (response["actual_steps"], response["actual_answer"]) == ([], "As before.")
    assert response["trace_problems"] == ["2 calls of earlier turns skipped; turn='all' keeps them"]
    assert len(response_from_openai(again, question_id="q1", turn="all")["actual_steps"]) == 2


def test_ids_that_repeat_pair_in_order() -> None:
    turn = CHAT[1:4]
    response = response_from_openai([USER, *turn, *turn, CHAT[-1]], question_id="q1", failed=[PROBLEM])
    assert response["actual_steps"] == STEPS * 2


def test_names_of_tools_and_a_function_that_tells_failures() -> None:
    response = response_from_openai(
        CHAT,
        question_id="q1",
        step_names={"sparql_query": "query"},
        failed=lambda name, output: name == "query" and output == RESULTS,
    )
    assert [(step["name"], step["status"]) for step in response["actual_steps"]] == [
        ("query", "error"),
        ("retrieval_search", "success"),
    ]


def test_custom_tools_and_hosted_tools() -> None:
    items: list[Any] = [
        USER,
        {"type": "custom_tool_call", "call_id": "c1", "name": "sparql_query", "input": QUERY},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": RESULTS},
        {
            "type": "file_search_call",
            "id": "c2",
            "queries": ["feeders"],
            "results": [{"file_id": "f", "text": "Feeder F7", "score": 0.5}],
            "status": "completed",
        },
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c3", "output": "README"},
        {"type": "reasoning", "summary": []},
    ]
    steps = response_from_openai(items, question_id="q1")["actual_steps"]
    assert [(step["name"], step["args"], step["status"]) for step in steps] == [
        ("sparql_query", {"input": QUERY}, "success"),
        ("file_search", {"queries": ["feeders"]}, "success"),
        ("shell", {"action": {"commands": ["ls"]}}, "success"),
    ]
    assert json.loads(steps[1]["output"]) == items[3]["results"]
