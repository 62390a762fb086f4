"""What real frameworks were seen to write beyond the scenario."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import (
    TraceError,
    response_from_anthropic,
    response_from_langchain,
    response_from_llamaindex,
    response_from_openai,
    response_from_pydantic_ai,
    responses_from_otlp,
)
from tests.traces.histories import CHAT, EVENTS, event
from tests.traces.otlp import line, span
from tests.traces.scenario import ANSWER, QUESTION, RESULTS

USER = {"role": "user", "content": QUESTION}


def steps(response: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(step["name"], step["status"], step.get("output")) for step in response["actual_steps"]]


def test_what_a_tool_of_pydantic_ai_shows_the_model_is_no_question() -> None:
    named = {"tool_name": "look", "tool_call_id": "c"}
    shown = {"part_kind": "user-prompt", "content": ["Here is the picture:"]}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": QUESTION}]},
        {"kind": "response", "parts": [{"part_kind": "tool-call", **named, "args": {}}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", **named, "content": "rows"}, shown]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": ANSWER}]},
    ]
    response = response_from_pydantic_ai(messages)
    assert (response["question"], steps(response)) == (QUESTION, [("look", "success", "rows")])


@pytest.mark.parametrize(("text", "count"), [("Another question?", 0), ("image", 1)])
def test_an_image_after_the_result_of_a_tool_is_no_question(text: str, count: int) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    content: Any = [image] if text == "image" else text
    messages = [*CHAT[:4], {"role": "user", "content": content}, CHAT[-1]]
    assert len(response_from_openai(messages)["actual_steps"]) == count * 2


def test_two_calls_of_llamaindex_with_one_id() -> None:
    def events(query: str) -> list[dict[str, Any]]:
        call = {"tool_name": "look", "tool_kwargs": {"query": query}, "tool_id": "look"}
        blocks = [{"block_type": "text", "text": f"rows of {query}"}]
        return [call, call | {"tool_output": {"blocks": blocks, "is_error": False}}]

    response = response_from_llamaindex([*events("a"), *events("b")])
    assert steps(response) == [("look", "success", "rows of a"), ("look", "success", "rows of b")]


def test_whole_answers_of_the_apis() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    answer = {"choices": [{"message": CHAT[-1]}], "usage": usage}
    for history in ([*CHAT[:-1], answer], {"messages": CHAT[:-1], **answer}):
        response = response_from_openai(history)
        assert (response["actual_answer"], response["total_tokens"]) == (ANSWER, 5)
        assert len(response["actual_steps"]) == 2
    assert "unknown kind odd" in response_from_openai([USER, {"type": "odd"}])["trace_problems"][0]


def test_failed_texts_where_a_mark_is_absent() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "Sorry, no."}
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    messages = [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert steps(response_from_anthropic(messages, failed=["Sorry"]))[0][1] == "error"
    messages[2] = {"role": "user", "content": [result | {"is_error": False}]}
    assert steps(response_from_anthropic(messages, failed=["Sorry"]))[0][1] == "success"


@pytest.mark.parametrize(("turn", "tokens"), [("last", 3), ("all", 8)])
def test_tokens_are_those_of_the_turns_that_count(turn: Any, tokens: int) -> None:
    def turn_of(count: int) -> list[Any]:
        usage = {"input_tokens": count, "output_tokens": 0}
        return [USER, {"role": "assistant", "content": ANSWER, "usage": usage}]

    response = response_from_anthropic([*turn_of(5), *turn_of(3)], turn=turn)
    assert response["input_tokens"] == tokens


def test_errors_of_the_agents_sdk() -> None:
    head = {"object": "trace.span", "started_at": "2026-01-01T00:00:00", "ended_at": "2026-01-01T00:00:01"}
    raised = {"message": "Error running tool", "data": {"error": "boom"}}
    tool = {
        **head,
        "id": "s1",
        "error": raised,
        "span_data": {"type": "function", "name": "look", "output": ""},
    }
    usage = {"sdk_span_type": "turn", "usage": {"input_tokens": 7, "output_tokens": 1}}
    turn = {**head, "id": "s2", "error": None, "span_data": {"type": "custom", "data": usage}}
    agent = {**head, "id": "s3", "error": {"message": "Max turns exceeded"}, "span_data": {"type": "agent"}}
    traces = [{"object": "trace", "id": f"trace_{number}"} for number in (1, 2)]
    response = response_from_openai([traces[0], tool, turn, agent])
    assert (steps(response), response["error"]) == ([("look", "error", "boom")], "Max turns exceeded")
    assert response["total_tokens"] == 8
    assert "2 traces, read as one" in response_from_openai([*traces, tool])["trace_problems"][0]


def test_several_runs_in_one_trace() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent"}
    runs = [span(number, "invoke_agent", agent, parent="0" * 15 + "9") for number in (1, 2)]
    [response] = responses_from_otlp([line(span(9, "harness", {}), *runs)])
    assert response["trace_problems"][0].startswith("2 runs of agents in one trace")


def test_retrievers_and_commands_of_langchain() -> None:
    document = {"lc": 1, "kwargs": {"id": "d1", "page_content": "Feeder F7."}}
    message = {"lc": 1, "id": ["m", "ToolMessage"], "kwargs": {"content": "done", "tool_call_id": "c"}}
    ids = {"parent_ids": ["r"], "metadata": {}}
    events = [
        {"event": "on_retriever_end", "run_id": "a", **ids, "data": {"input": "q", "output": [document]}},
        {"event": "on_tool_start", "name": "move", "run_id": "b", **ids, "data": {"input": {}}},
        {
            "event": "on_tool_end",
            "name": "move",
            "run_id": "b",
            **ids,
            "data": {"output": {"update": {"messages": [message]}}},
        },
    ]
    retrieval, command = response_from_langchain(events)["actual_steps"]
    assert (retrieval["name"], retrieval["args"]) == ("retrieval", {"query": "q"})
    assert json.loads(retrieval["output"])[0]["id"] == "d1"
    assert (command["name"], command["output"]) == ("move", "done")


@pytest.mark.parametrize(
    ("content", "artifact", "output"),
    [
        ("1 row", json.loads(RESULTS), RESULTS),
        ("1 row", RESULTS, RESULTS),
        ([{"type": "text", "text": "1 row"}], [{"f": "F7"}], '[{"f":"F7"}]'),
        ("Feeder F7.", [{"id": "d1", "page_content": "Feeder F7.", "type": "Document"}], None),
        ("Feeder F7.", [{"lc": 1, "kwargs": {"id": "d1", "page_content": "Feeder F7."}}], None),
        (
            "1 row",
            {"rows": json.loads(RESULTS)},
            json.dumps({"rows": json.loads(RESULTS)}, separators=(",", ":")),
        ),
        (RESULTS, {"head": "other"}, RESULTS),
        (RESULTS, {"rows": 1}, RESULTS),
        ("1 row", {"rows": 1}, "1 row"),
        ("1 row", None, "1 row"),
    ],
)
def test_artifacts_of_langchain_with_rows_where_the_content_has_none(
    content: Any, artifact: Any, output: str | None
) -> None:
    output = output or '[{"id":"d1","text":"Feeder F7.","metadata":null}]'
    told = {"type": "tool", "content": content, "artifact": artifact, "tool_call_id": "c", "name": "look"}
    call = {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {}, "id": "c"}]}
    ended = event("on_tool_end", "look", "r", output=told, input={})
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "look", "output.value": json.dumps(told)}
    [of_span] = responses_from_otlp([line(span(1, "look", attributes))])
    for response in (response_from_langchain([call, told]), response_from_langchain([ended]), of_span):
        assert steps(response) == [("look", "success", output)]


def test_events_of_version_1_are_refused_by_name() -> None:
    events = [each | {"parent_ids": []} for each in EVENTS]
    for history in (events, [{key: each[key] for key in each if key != "parent_ids"} for each in events]):
        with pytest.raises(TraceError, match=r'version="v1".* use version="v2"'):
            response_from_langchain(history)
    assert len(response_from_langchain([*EVENTS, *EVENTS], turn="all")["actual_steps"]) == 4
