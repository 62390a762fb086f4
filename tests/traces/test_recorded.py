"""Histories that real frameworks recorded of the scenario; `frameworks/recorders` makes them."""

from __future__ import annotations

import copy
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import TraceError, evaluate_stream, run_evaluation_sync
from graphrag_eval_async.traces import TraceFormat, response_from_trace, responses_from_otlp
from tests.support.json_values import JSON, replaced
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, REFERENCE, STEPS

RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()
]
HISTORIES = [
    pytest.param(
        recording["format"],
        recording["history"],
        id=f"{recording['framework']}: {recording['form']}",
    )
    for recording in RECORDED
    if recording["format"] != "otlp"
]
each_history = pytest.mark.parametrize(("name", "history"), HISTORIES)

WITHOUT_QUESTION = {"mcp"}
WITHOUT_ANSWER = {"mcp"}


def of_other_formats(name: str) -> list[str]:
    return [other for other in ("openai", "anthropic", "gemini", "vercel") if other != name]


@each_history
def test_each_call_is_a_step_with_its_result(name: str, history: Any) -> None:
    before = copy.deepcopy(history)
    response = response_from_trace(history, question_id="q1", failed=[PROBLEM])
    assert history == before
    assert response["trace_format"] == name
    assert "trace_problems" not in response

    steps = response["actual_steps"]
    keys = ("name", "args", "status")
    assert [[step[key] for key in keys] for step in steps] == [
        [step[key] for key in keys] for step in STEPS
    ]
    assert steps[0]["output"] == STEPS[0]["output"]
    assert PROBLEM in steps[1]["output"] or name == "mcp"  # Its server hides what was raised.
    assert response.get("actual_answer") == (None if name in WITHOUT_ANSWER else ANSWER)
    assert response.get("total_tokens") in (None, 50)


@each_history
def test_text_and_format_by_name_give_the_same_response(name: str, history: Any) -> None:
    response = response_from_trace(history, question_id="q1")
    assert response_from_trace(orjson.dumps(history), question_id="q1") == response
    line = {"payload": history, "question_id": "q1"}
    converted = TraceFormat(name=name, select="payload").convert(line)
    for key in ("id", "model"):
        converted.pop(key, None)  # That of the object that holds the history.
    assert converted == response
    for other in of_other_formats(name):
        with pytest.raises(TraceError, match=f"its format is {name}, not {other}"):
            TraceFormat(name=other, select="payload").convert(line)


@pytest.mark.parametrize(
    "history", [pytest.param(case.values[1], id=case.id) for case in HISTORIES]
)
def test_a_line_of_a_log_is_scored(history: Any) -> None:
    format_ = TraceFormat(name="auto", select="payload", failed=[PROBLEM])
    line: dict[str, Any] = {"payload": history}
    response = response_from_trace(history)
    if response.get("question") != QUESTION:
        line["question_id"] = "q1"
    [result] = run_evaluation_sync(REFERENCE, [line], format=format_)
    assert (result["question_id"], result["steps_score"]) == ("q1", 1)


QUERY = {"query": "SELECT ?f WHERE { ?f grid:leaves grid:Harbour }"}
ASKED = {"role": "user", "content": QUESTION}
ANSWERED = {"role": "assistant", "content": ANSWER}


def between(*messages: Any) -> list[Any]:
    return [ASKED, *messages, ANSWERED]


UNKNOWN = {
    "a key of calls": (
        between({"role": "assistant", "toolRequests": [{"name": "sparql_query"}]}),
        "message 2 has the key 'toolRequests', which is neither a call nor a result in the formats",
    ),
    "a kind of block": (
        between({"role": "assistant", "content": [{"type": "tool_invocation", "n": 1}]}),
        "message 2 has the type 'tool_invocation', which is neither",
    ),
    "a key of a block": (
        between({"role": "assistant", "content": [{"type": "x", "functionUse": {"n": 1}}]}),
        "message 2 has the key 'functionUse', which is neither",
    ),
    "calls without a name": (
        between({"role": "assistant", "tool_calls": [{"id": "c", "function_id": 1}]}),
        "message 2 has a call in 'tool_calls' without a name, .*; it has 'id', 'function_id'",
    ),
    "results without content": (
        between({"role": "tool", "tool_call_id": "c", "answer": "rows"}),
        "message 2 is the result of a tool without the key 'content'",
    ),
    "a call of a newer version of a known format": (
        [
            {"role": "user", "content": [{"text": QUESTION}]},
            {"role": "assistant", "content": [{"toolUse2": {"name": "sparql_query"}}]},
        ],
        "message 2 has the key 'toolUse2', .* in the format bedrock",
    ),
    "calls that are no list": (
        between({"role": "assistant", "tool_calls": "sparql_query()"}),
        "message 2 has no list at 'tool_calls', where calls are in the formats",
    ),
    "steps of a message": (
        [ASKED, {**ANSWERED, "steps": [{"name": "sparql_query"}]}],
        "message 2 has the key 'steps', which is neither",
    ),
    "a role of results": (
        between({"role": "tool_result", "content": "rows"}),
        "message 2 has the role 'tool_result', which is neither",
    ),
    "calls beside a question and an answer": (
        {"input": QUESTION, "output": ANSWER, "tool_calls": [{"name": "sparql_query"}]},
        "its history has no calls, but it has the key 'tool_calls'",
    ),
    **{
        f"a log of the run beside a question and an answer: {key}": (
            {"input": QUESTION, "output": ANSWER, key: value},
            f"its history has no calls, but it has the key '{key}'",
        )
        for key, value in {
            "trajectory": [{"thought": "I search."}],
            "trace": {"children": [{"kind": "query"}]},
            "child_spans": [{"span_id": "s"}],
            "tool_runs": [{"query": "ASK {}"}],
            "observations": [{"kind": "query"}],
            "agentHistory": [["query", "rows"]],
            "history": [{"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}],
            "anything": [{"name": "sparql_query", "result": "rows"}],
            "other": [{"tool": "sparql_query"}],
            "tools": [{"tool_name": "sparql_query", "result": "rows"}],
        }.items()
    },
    **{
        f"calls where a history is read: {key}": (
            {"input": QUESTION, "output": ANSWER, key: [call]},
            f"a call that is not in the formats openai, .*: an object with the keys '{first_key}'",
        )
        for key, call, first_key in (
            ("events", {"type": "TOOL", "id": "s"}, "type"),
            ("items", {"name": "sparql_query", "output": "rows"}, "name"),
        )
    },
    "calls beside messages": (
        {"messages": [ASKED, ANSWERED], "ran": [{"name": "sparql_query", "result": "rows"}]},
        "its history has no calls, but it has the key 'ran'",
    ),
    "steps that were written as text": (
        {"input": QUESTION, "output": ANSWER, "intermediate_steps": [["AgentAction()", "rows"]]},
        "its history has no calls, but it has the key 'intermediate_steps'",
    ),
    "a message alone, as in a log with a message a line": (
        ASKED,
        "it is one message of the user, not a history",
    ),
    "an event of ADK alone": (
        {"author": "user", "content": {"role": "user", "parts": [{"text": QUESTION}]}},
        "it is one message of the user, not a history",
    ),
    "a conversation among other objects in a list": (
        [{"metadata": {"x": 1}}, {"messages": [ASKED, ANSWERED]}],
        "no known format; it has a list, first of the keys 'metadata'",
    ),
    "several conversations in a list": (
        [{"messages": [ASKED, ANSWERED]}, {"messages": [ANSWERED, ASKED]}],
        "no known format; it has a list, first of the keys 'messages'",
    ),
    "nothing of any format": ({"x": 1}, "no known format; it has the keys 'x'. Known are openai, "),
    "several calls in a step of smolagents": (
        [
            {"task": QUESTION},
            {"step_number": 1, "tool_calls": [{"id": "1"}, {"id": "2"}], "observations": "a"},
        ],
        "step 1 has 2 calls, whose results smolagents writes as one text",
    ),
}


@pytest.mark.parametrize(("history", "message"), UNKNOWN.values(), ids=UNKNOWN)
async def test_calls_of_unknown_shape_are_a_reject_that_names_them(
    history: Any, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        response_from_trace(history, question_id="q1")
    line = {"payload": history, "question_id": "q1"}
    format_ = TraceFormat(select="payload")
    async with evaluate_stream(REFERENCE, [line], format=format_) as stream:
        assert [result async for result in stream] == []
    assert stream.rejects.counts == {"not_a_trace": 1}
    assert re.search(message, stream.rejects[0].message)


NO_STEPS = (
    "no steps, only a question and an answer; with LangChain, return_intermediate_steps=True "
    "writes them"
)
HARMLESS_FIELDS: dict[str, Any] = {
    "nothing": {},
    "earlier messages": {"history": [{"role": "user", "content": "Hello"}, ANSWERED]},
    "messages of LangChain": {"chat_history": [{"type": "human", "content": "Hello"}]},
    "ids of runs": {"runs": ["r1"], "trace": {"id": "t", "url": "https://example.org/t"}},
    "offered tools": {"tools": [{"type": "function", "function": {"name": "sparql_query"}}]},
    "words that end alike": {"blogs": [{"title": "a"}], "returns": [{"rate": 1}]},
    "documents": {"contexts": [{"name": "a.txt", "text": "Feeders"}], "tags": ["a"]},
}


@pytest.mark.parametrize("fields", HARMLESS_FIELDS.values(), ids=HARMLESS_FIELDS)
@pytest.mark.parametrize("format_name", ["auto", "openai", "langchain"])
def test_a_question_and_an_answer_without_steps_are_a_problem_of_the_trace(
    format_name: str, fields: dict[str, Any]
) -> None:
    line = {"question_id": "q1", "input": QUESTION, "output": ANSWER, **fields}
    [result] = run_evaluation_sync(REFERENCE, [line], format=format_name)
    assert result["steps_score"] == 0
    assert result["trace_problems"] == [NO_STEPS]
    in_messages = {"question_id": "q1", "messages": [ASKED, ANSWERED], **fields}
    [result] = run_evaluation_sync(REFERENCE, [in_messages], format=format_name)
    assert "trace_problems" not in result


CALL = {"toolCallId": "call_1", "toolName": "sparql_query", "args": QUERY}
OTHER_FORMS: dict[str, Any] = {
    "calls beside the content, as the AI SDK wrote them until version 4": between(
        {
            "role": "assistant",
            "content": "",
            "toolInvocations": [{**CALL, "state": "result", "result": "rows"}],
        }
    ),
    "contents of Gemini without ids, in camel case": [
        {"parts": [{"text": QUESTION}]},
        {"role": "model", "parts": [{"functionCall": {"name": "sparql_query", "args": QUERY}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "sparql_query", "response": {"output": "rows"}}}
            ],
        },
        {"role": "model", "parts": [{"text": "I think.", "thought": True}, {"text": ANSWER}]},
    ],
    "messages of Chat Completions with their calls as text": [
        ASKED,
        {
            "role": "assistant",
            "tool_calls": json.dumps(
                [{"id": "a", "function": {"name": "sparql_query", "arguments": json.dumps(QUERY)}}]
            ),
        },
        {"role": "tool", "tool_call_id": "a", "content": "rows"},
        ANSWERED,
    ],
    "a request to Bedrock and its response": {
        "request": {
            "messages": [
                {"role": "user", "content": [{"text": QUESTION}]},
                {
                    "role": "assistant",
                    "content": [
                        {"text": "I look it up."},
                        {"toolUse": {"toolUseId": "a", "name": "sparql_query", "input": QUERY}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "rows"}]}}],
                },
            ]
        },
        "response": {"output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}},
    },
    "what onFinish of the AI SDK gets, beside the prompt": {
        "messages": [ASKED],
        "response": {
            "content": [{"type": "text", "text": ANSWER}],
            "finishReason": "stop",
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool-call",
                            "toolCallId": "a",
                            "toolName": "sparql_query",
                            "input": QUERY,
                        }
                    ],
                },
                {
                    "role": "tool",
                    "content": [
                        {
                            "type": "tool-result",
                            "toolCallId": "a",
                            "toolName": "sparql_query",
                            "output": {"type": "text", "value": "rows"},
                        }
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
            ],
        },
    },
    "functions of Chat Completions, before there were tools": [
        ASKED,
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "sparql_query", "arguments": json.dumps(QUERY)},
        },
        {"role": "function", "name": "sparql_query", "content": "rows"},
        ANSWERED,
    ],
    "a tool that the provider of a model of the AI SDK runs": [
        ASKED,
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool-call",
                    "toolCallId": "a",
                    "toolName": "sparql_query",
                    "input": QUERY,
                    "providerExecuted": True,
                },
                {
                    "type": "tool-result",
                    "toolCallId": "a",
                    "toolName": "sparql_query",
                    "output": {"type": "text", "value": "rows"},
                },
                {"type": "text", "text": ANSWER},
            ],
        },
    ],
    "a call, its result and the answer in one message of OpenTelemetry's conventions": [
        ASKED,
        {
            "role": "assistant",
            "content": [
                {"type": "tool_call", "id": "a", "name": "sparql_query", "arguments": QUERY},
                {"type": "tool_call_response", "id": "a", "response": "rows"},
                {"type": "text", "text": ANSWER},
            ],
        },
    ],
    "messages of Ollama and its response": {
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "sparql_query", "arguments": QUERY}}],
            },
            {"role": "tool", "tool_name": "sparql_query", "content": "rows"},
        ],
        "response": {"model": "m", "done": True, "message": ANSWERED},
    },
    "a log of invocations of Bedrock": {
        "schemaType": "ModelInvocationLog",
        "input": {
            "inputBodyJson": {
                "messages": [
                    {"role": "user", "content": [{"text": QUESTION}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"toolUse": {"toolUseId": "a", "name": "sparql_query", "input": QUERY}}
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {"toolResult": {"toolUseId": "a", "content": [{"text": "rows"}]}}
                        ],
                    },
                ]
            }
        },
        "output": {
            "outputBodyJson": {
                "output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}
            }
        },
    },
    "messages in a session of Strands": [
        {"message_id": 0, "message": {"role": "user", "content": [{"text": QUESTION}]}},
        {
            "message_id": 1,
            "message": {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "a", "name": "sparql_query", "input": QUERY}}
                ],
            },
        },
        {
            "message_id": 2,
            "message": {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "a",
                            "content": [{"text": "rows"}],
                            "status": "success",
                        }
                    }
                ],
            },
        },
        {"message_id": 3, "message": {"role": "assistant", "content": [{"text": ANSWER}]}},
    ],
}


@pytest.mark.parametrize("history", OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_other_forms_of_the_same_formats(history: Any) -> None:
    response = response_from_trace(history)
    [step] = response["actual_steps"]
    assert (step["name"], step["args"], step["status"]) == ("sparql_query", QUERY, "success")
    assert step["output"] == "rows"
    assert (response["question"], response["actual_answer"]) == (QUESTION, ANSWER)
    assert "trace_problems" not in response


@pytest.mark.parametrize(
    ("response", "output"),
    [
        ({"error": PROBLEM}, PROBLEM),
        ({"status": "error", "error_message": PROBLEM}, None),
    ],
    ids=["error", "status and error_message"],
)
def test_failures_in_responses_of_gemini(response: dict[str, str], output: str | None) -> None:
    history = [
        {"role": "model", "parts": [{"function_call": {"name": "search", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"function_response": {"name": "search", "response": response}}],
        },
    ]
    [step] = response_from_trace(history, question_id="q1")["actual_steps"]
    assert (step["status"], step["output"]) == (
        "error",
        output or json.dumps(response, separators=(",", ":")),
    )


def test_results_of_functions_without_ids_are_paired_in_order() -> None:
    messages: list[dict[str, Any]] = []
    for number in range(3):
        arguments = json.dumps({"n": number})
        messages += [
            {"role": "assistant", "function_call": {"name": "search", "arguments": arguments}},
            {"role": "function", "name": "search", "content": f"row {number}"},
        ]
    response = response_from_trace(between(*messages))
    assert response["trace_format"] == "openai"
    assert [(step["args"], step["output"]) for step in response["actual_steps"]] == [
        ({"n": number}, f"row {number}") for number in range(3)
    ]


@pytest.mark.parametrize(
    ("code_key", "result_key"),
    [("executableCode", "codeExecutionResult"), ("executable_code", "code_execution_result")],
)
@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("OUTCOME_OK", "success"),
        ("OUTCOME_FAILED", "error"),
        ("OUTCOME_DEADLINE_EXCEEDED", "error"),
    ],
)
def test_code_that_gemini_runs_is_a_step(
    code_key: str, result_key: str, outcome: str, status: str
) -> None:
    code = {"language": "PYTHON", "code": "print(7)"}
    history = [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {
            "role": "model",
            "parts": [
                {"text": "I compute it."},
                {code_key: code},
                {result_key: {"outcome": outcome, "output": "7\n"}},
                {"text": ANSWER},
            ],
        },
    ]
    response = response_from_trace(history)
    [step] = response["actual_steps"]
    assert (step["name"], step["args"], step["status"]) == ("code_execution", code, status)
    assert step["output"] == "7\n"
    assert (response["trace_format"], response["actual_answer"]) == ("gemini", ANSWER)
    assert "trace_problems" not in response


CALL_PART = {"toolCallId": "c", "toolName": "sparql_query", "args": QUERY, "input": QUERY}
REFUSED: dict[str, tuple[Any, str]] = {
    "a whole log of Inspect": ({"eval": {"task": "t"}, "samples": [{}]}, "jq -c"),
    "an output of CrewAI": (
        {"raw": ANSWER, "tasks_output": [{"raw": ANSWER}]},
        "openinference-instrumentation-crewai",
    ),
    "messages of LlamaIndex": (
        [{"role": "tool", "blocks": [{"block_type": "text", "text": "rows"}]}],
        "stream_events",
    ),
    "a history of Cohere's API version 1": (
        [{"role": "USER", "message": QUESTION}, {"role": "CHATBOT", "message": ANSWER}],
        "ClientV2",
    ),
    "observations of Langfuse": (
        [{"id": "o", "traceId": "t", "type": "TOOL", "startTime": "2026-11-29T09:00:00Z"}],
        "otlp",
    ),
    "observations of Langfuse: as its API lists them": (
        {
            "data": [
                {"id": "o", "traceId": "t", "type": "TOOL", "startTime": "2026-11-29T09:00:00Z"}
            ]
        },
        "otlp",
    ),
    "observations of Langfuse: in an export to files": (
        {
            "id": "o",
            "trace_id": "t",
            "type": "AGENT",
            "start_time": "2026-11-29T09:00:00Z",
            "input": [ASKED],
            "output": ANSWERED,
        },
        "otlp",
    ),
    "a trace of Langfuse": ({"id": "t", "projectId": "p", "observations": [{}]}, "otlp"),
    "a trace of Langfuse: with its observations": (
        {
            "id": "t",
            "name": "agent",
            "input": QUESTION,
            "output": ANSWER,
            "observations": [{"id": "o", "type": "TOOL", "name": "sparql_query"}],
        },
        "otlp",
    ),
    "a trace of Langfuse: with the ids of its observations": (
        {
            "id": "t",
            "input": QUESTION,
            "output": ANSWER,
            "htmlPath": "/project/p/traces/t",
            "observations": ["o"],
        },
        "otlp",
    ),
    "the output of a task of CrewAI": (
        {
            "raw": ANSWER,
            "agent": "grid",
            "output_format": "raw",
            "messages": [ASKED, ANSWERED],
            "tool_failures": [],
        },
        "openinference-instrumentation-crewai",
    ),
    "the output of an agent of CrewAI": (
        {"raw": ANSWER, "agent_role": "grid", "messages": [ASKED, ANSWERED], "plan": None},
        "openinference-instrumentation-crewai",
    ),
    "events of CrewAI": (
        [{"type": "tool_usage_finished", "event_id": "e", "tool_name": "sparql_query"}],
        "openinference-instrumentation-crewai",
    ),
    "one run of LangSmith": (
        {
            "id": "r",
            "run_type": "chain",
            "inputs": {"messages": [ASKED]},
            "outputs": {"messages": [ASKED, ANSWERED]},
            "events": [{"name": "start", "time": "2026-11-29T09:00:00Z"}],
        },
        "load_child_runs",
    ),
    "a result of Strands": (
        {
            "type": "agent_result",
            "message": {"role": "assistant", "content": [{"text": ANSWER}]},
            "stop_reason": "end_turn",
        },
        "agent.messages",
    ),
    "parts of a stream of the AI SDK": (
        [{"type": "start"}, {"type": "start-step"}, {"type": "tool-input-available", **CALL_PART}],
        "response.messages",
    ),
    "parts of a stream of the AI SDK: version 4": (
        [
            {"type": "step-start", "messageId": "m", "request": {}},
            {"type": "tool-call", **CALL_PART},
        ],
        "response.messages",
    ),
    "steps of the AI SDK": (
        [{"stepType": "initial", "text": "", "toolCalls": [{"type": "tool-call", **CALL_PART}]}],
        "response.messages",
    ),
    "steps of the AI SDK: from version 5 on": (
        [
            {
                "content": [
                    {"type": "tool-call", "toolCallId": "c", "toolName": "s", "input": {}},
                    {"type": "tool-result", "toolCallId": "c", "toolName": "s", "output": "rows"},
                ],
                "finishReason": "tool-calls",
                "response": {"messages": [ANSWERED]},
            }
        ],
        "response.messages",
    ),
    "intermediate steps of LangChain": (
        [[{"tool": "sparql_query", "tool_input": "ASK {}", "log": ""}, "rows"]],
        "whole result",
    ),
    "chunks of an AgentExecutor": (
        [{"actions": [{"tool": "sparql_query"}], "messages": []}, {"output": ANSWER}],
        "return_intermediate_steps",
    ),
    "chunks of LangGraph in the mode messages": (
        [[{"type": "ai", "content": "Feed"}, {"langgraph_node": "model", "langgraph_step": 1}]],
        "updates",
    ),
    "chunks of LangGraph in the mode debug": (
        [{"step": 1, "type": "task", "timestamp": "2026-11-29T09:00:00Z", "payload": {"id": "t"}}],
        "updates",
    ),
    "chunks of LangGraph in the mode tasks": (
        [{"id": "t", "name": "model", "input": {"messages": []}, "triggers": ["start"]}],
        "updates",
    ),
    "events of Inspect": (
        [{"event": "sample_init", "uuid": "u", "working_start": 1.5, "state": {"tools": ["x"]}}],
        "whole sample",
    ),
    "messages of smolagents": (
        [ASKED, {"role": "tool-call", "content": [{"type": "text", "text": "Calling tools"}]}],
        "get_full_steps",
    ),
    "a history of AutoGen 0.2 or AG2": (
        [
            {"role": "assistant", "name": "user", "content": QUESTION},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "s"}}]},
            {"role": "tool", "content": "rows", "tool_responses": [{"tool_call_id": "c"}]},
        ],
        "openinference-instrumentation-ag2",
    ),
    "a ChatResult of AutoGen 0.2 or AG2": (
        {
            "chat_id": 1,
            "chat_history": [
                {"role": "assistant", "name": "user", "content": QUESTION},
                {"role": "user", "name": "grid", "content": ANSWER},
            ],
            "summary": ANSWER,
            "cost": {"usage_including_cached_inference": {"total_cost": 0}},
            "human_input": [],
        },
        "openinference-instrumentation-ag2",
    ),
    "a history of Cohere's API version 1: of a request": (
        {"message": QUESTION, "chat_history": [{"role": "USER", "message": "Hello"}]},
        "ClientV2",
    ),
    "a history of Cohere's API version 1: of a response": (
        {"text": ANSWER, "generation_id": "g", "chat_history": []},
        "ClientV2",
    ),
    "an output of Agno without its messages": (
        {
            "run_id": "r",
            "session_id": "s",
            "content": ANSWER,
            "content_type": "str",
            "tools": [{"tool_call_id": "a", "tool_name": "sparql_query", "result": "rows"}],
        },
        r"to_dict\(\) with its messages",
    ),
    "a trace of MLflow": ({"info": {"trace_id": "t"}, "data": {"spans": [{}]}}, "otlp"),
    "events of a stream of Bedrock": (
        [{"messageStart": {"role": "assistant"}}, {"contentBlockStart": {"start": {}}}],
        "messages",
    ),
    "a history of Cohere's API version 1: with results": (
        [
            {"role": "USER", "message": QUESTION},
            {"role": "CHATBOT", "message": "", "tool_calls": [{"name": "s", "parameters": {}}]},
            {"role": "TOOL", "tool_results": [{"call": {"name": "s"}, "outputs": [{}]}]},
        ],
        "ClientV2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_formats_are_refused_by_name_with_what_to_export(name: str) -> None:
    history, cure = REFUSED[name]
    kind = name.partition(":")[0]
    refusal = f"no known format; it is {kind}.*{cure}"
    with pytest.raises(TraceError, match=refusal):
        response_from_trace(history)
    for format_name in ("openai", "langchain"):
        with pytest.raises(TraceError, match=f"{refusal}|its format is .*, not {format_name}"):
            TraceFormat(name=format_name).convert(history, question_id="q1")


SPANS = [
    pytest.param(recording["history"], id=recording["form"])
    for recording in RECORDED
    if recording["format"] == "otlp"
]


@pytest.mark.parametrize("lines", SPANS)
def test_spans_of_each_framework(lines: list[dict[str, Any]]) -> None:
    [response] = responses_from_otlp(lines, failed=[PROBLEM])
    assert "trace_problems" not in response
    assert (response["question"], response["actual_answer"].strip()) == (QUESTION, ANSWER)
    assert response.get("total_tokens") in (None, 50)

    steps = response["actual_steps"]
    keys = ("name", "args", "status")
    assert [[step[key] for key in keys] for step in steps] == [
        [step[key] for key in keys] for step in STEPS
    ]
    assert steps[0]["output"] == STEPS[0]["output"]
    assert PROBLEM in steps[1]["output"]
    [result] = run_evaluation_sync(REFERENCE, lines, format="otlp")
    assert result["question_id"] == "q1"
    assert result["steps_score"] == 1


WITHOUT_MODELS = [
    pytest.param(recording["history"], id=f"{recording['framework']}: {recording['form']}")
    for recording in RECORDED
    if "LangGraph by" in recording["form"] or "Traceloop" in recording["form"]
]


@pytest.mark.parametrize("lines", WITHOUT_MODELS)
def test_question_and_answer_in_the_state_of_a_graph(lines: list[dict[str, Any]]) -> None:
    lines_without_models = copy.deepcopy(lines)
    for resource_spans in lines_without_models[0]["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            scope_spans["spans"] = [
                span for span in scope_spans["spans"] if not span["name"].startswith("Scripted")
            ]
    [response] = responses_from_otlp(lines_without_models)
    assert (response["question"], response["actual_answer"]) == (QUESTION, ANSWER)
    assert [step["name"] for step in response["actual_steps"]] == [step["name"] for step in STEPS]


INPUT_AND_OUTPUT: dict[str, tuple[Any, Any]] = {
    "messages": ({"messages": [ASKED]}, {"messages": [ASKED, ANSWERED]}),
    "messages after earlier ones": (
        {"messages": [{"role": "user", "content": "Hello"}, ANSWERED, ASKED], "user": "me"},
        {"messages": [ASKED, ANSWERED], "user": "me"},
    ),
    "messages of LangChain": (
        {"messages": [{"type": "human", "content": QUESTION}]},
        {"messages": [{"type": "ai", "content": ANSWER}]},
    ),
    "a role and a text": ({"messages": [["user", QUESTION]]}, {"messages": [["ai", ANSWER]]}),
    "as Traceloop wraps an input": (
        {"inputs": {"input": QUESTION}, "tags": ["a"], "metadata": {"b": "c"}},
        {"outputs": {"output": ANSWER, "input": QUESTION}, "kwargs": {"tags": ["a", "b"]}},
    ),
    "as Traceloop wraps a question": (
        {"inputs": {"question": QUESTION, "language": "en"}, "tags": ["a"]},
        {"outputs": {"answer": ANSWER, "context": "x"}},
    ),
    "as Traceloop wraps messages": (
        {"inputs": {"messages": [ASKED]}, "tags": ["a"]},
        {"outputs": {"messages": [ANSWERED]}},
    ),
    "query among others": (
        {"query": QUESTION, "language": "en"},
        {"result": ANSWER, "query": QUESTION},
    ),
    "the only argument of a function": (
        {"args": [{"messages": [ASKED]}], "kwargs": {}},
        {"messages": [ANSWERED]},
    ),
    "a named argument": ({"state": {"question": QUESTION, "k": "3"}}, {"answer": ANSWER}),
}
ENTITIES = ("traceloop.entity.input", "traceloop.entity.output")


@pytest.mark.parametrize(
    ("span_input", "span_output"), INPUT_AND_OUTPUT.values(), ids=INPUT_AND_OUTPUT
)
@pytest.mark.parametrize(
    "names",
    [ENTITIES, ("mlflow.spanInputs", "mlflow.spanOutputs"), ("input.value", "output.value")],
    ids=["Traceloop", "MLflow", "OpenInference"],
)
def test_question_and_answer_in_the_input_and_output_of_the_outermost_span(
    names: tuple[str, str], span_input: Any, span_output: Any
) -> None:
    values = {
        "openinference.span.kind": "CHAIN",
        names[0]: json.dumps(span_input),
        names[1]: json.dumps(span_output),
    }
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]
    agent = {"traceId": "1", "spanId": "2", "parentSpanId": "1", "attributes": attributes}
    server = {"traceId": "1", "spanId": "1", "name": "POST /ask"}
    for spans in ([{**agent, "parentSpanId": None}], [server, agent]):
        line = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        [response] = responses_from_otlp([line])
        assert (response["question"], response["actual_answer"]) == (QUESTION, ANSWER)


async def test_a_log_of_inspect_in_its_own_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    async with evaluate_stream(REFERENCE, path, format="auto") as stream:
        assert [result async for result in stream] == []
    first_reject = stream.rejects[0]
    assert first_reject.reason == "invalid_utf8"
    assert re.search(r"a ZIP archive.*inspect log dump", first_reject.message)


@settings(max_examples=300)
@given(st.data())
def test_any_part_of_a_history_may_be_anything(data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(RECORDED))
    history = recording["history"]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.lists(st.integers(0, 20), max_size=12))
        history = replaced(history, path, data.draw(JSON))
    if recording["format"] == "otlp":
        responses = list(responses_from_otlp(history if isinstance(history, list) else [history]))
    else:
        try:
            responses = [response_from_trace(history)]
        except TraceError:
            return
    orjson.dumps(responses)
