"""The scenario in every format."""

from __future__ import annotations

import json
from typing import Any

from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

SPARQL, SEARCH = STEPS
ARGS = [json.dumps(step["args"]) for step in STEPS]
USER = {"role": "user", "content": QUESTION}


def chat_call(step: dict[str, Any]) -> dict[str, Any]:
    function = {"name": step["name"], "arguments": json.dumps(step["args"])}
    return {"id": step["id"], "type": "function", "function": function}


def item_call(number: int) -> dict[str, Any]:
    step = STEPS[number]
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": step["id"], "name": step["name"]}
    return call | {"arguments": ARGS[number], "status": "completed"}


CHAT: list[Any] = [
    USER,
    {"role": "assistant", "content": None, "tool_calls": [chat_call(SPARQL), chat_call(SEARCH)]},
    {"role": "tool", "tool_call_id": "call_1", "content": RESULTS},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": PROBLEM}]},
    {"role": "assistant", "content": ANSWER},
]
ANSWERED = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
ITEMS: list[Any] = [
    USER,
    item_call(0),
    item_call(1),
    {"type": "function_call_output", "call_id": "call_1", "output": RESULTS},
    {
        "type": "function_call_output",
        "call_id": "call_2",
        "output": [{"type": "input_text", "text": PROBLEM}],
    },
    ANSWERED,
]
HOSTED: list[Any] = [
    USER,
    {"type": "mcp_call", "id": "call_1", "name": "sparql_query", "arguments": ARGS[0], "output": RESULTS},
    {
        "type": "mcp_call",
        "id": "call_2",
        "name": "retrieval_search",
        "arguments": ARGS[1],
        "output": None,
        "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": PROBLEM}]},
        "status": "failed",
    },
    ANSWERED,
]
STATE = {
    "$schemaVersion": "1.21",
    "generated_items": [
        {"type": "tool_call_item", "raw_item": item_call(0), "tool_name": "sparql_query"},
        {"type": "tool_call_item", "raw_item": item_call(1), "tool_name": "retrieval_search"},
        {"type": "tool_call_output_item", "raw_item": ITEMS[3], "output": RESULTS},
        {"type": "tool_call_output_item", "raw_item": ITEMS[4], "output": PROBLEM},
        {"type": "message_output_item", "raw_item": ANSWERED},
    ],
}


# LangChain: the keys of each message, and the four ways in which they are written.

CALLS = [
    {"name": step["name"], "args": step["args"], "id": step["id"], "type": "tool_call"} for step in STEPS
]
MESSAGES: list[tuple[str, str, dict[str, Any]]] = [
    ("human", "HumanMessage", {"content": QUESTION}),
    (
        "ai",
        "AIMessage",
        {
            "content": "",
            "tool_calls": CALLS,
            "invalid_tool_calls": [],
            "usage_metadata": {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47},
        },
    ),
    ("tool", "ToolMessage", {"content": RESULTS, "tool_call_id": "call_1", "name": "sparql_query"}),
    (
        "tool",
        "ToolMessage",
        {"content": PROBLEM, "tool_call_id": "call_2", "name": "retrieval_search", "status": "error"},
    ),
    ("ai", "AIMessage", {"content": [{"type": "text", "text": ANSWER}], "tool_calls": []}),
]
LANGCHAIN: dict[str, Any] = {
    "messages_to_dict": [{"type": kind, "data": keys | {"type": kind}} for kind, _, keys in MESSAGES],
    "model_dump": [keys | {"type": kind} for kind, _, keys in MESSAGES],
    "dumpd": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": keys}
        for _, name, keys in MESSAGES
    ],
    "state": {"messages": [keys | {"type": kind} for kind, _, keys in MESSAGES]},
}


def event(kind: str, name: str, run: str, *, root: bool = False, **data: Any) -> dict[str, Any]:
    parents = [] if root else ["run-0"]
    return {"event": kind, "name": name, "run_id": run, "parent_ids": parents, "data": data}


EVENTS: list[Any] = [
    event("on_chain_start", "graph", "run-0", root=True, input={"messages": [USER]}),
    event("on_chat_model_end", "model", "run-1", output=LANGCHAIN["dumpd"][1]),
    event("on_tool_start", "retrieval_search", "run-3", input=SEARCH["args"]),
    event("on_tool_start", "sparql_query", "run-2", input=SPARQL["args"]),
    event("on_tool_error", "retrieval_search", "run-3", error=PROBLEM, tool_call_id="call_2"),
    event("on_tool_end", "sparql_query", "run-2", output=LANGCHAIN["dumpd"][2]),
    event("on_chat_model_end", "model", "run-4", output=LANGCHAIN["model_dump"][4]),
    event("on_chain_end", "graph", "run-0", root=True, output=LANGCHAIN["state"]),
]

ANTHROPIC: list[Any] = [
    USER,
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look it up."},
            *(
                {"type": "tool_use", "id": step["id"], "name": step["name"], "input": step["args"]}
                for step in STEPS
            ),
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": RESULTS},
            {
                "type": "tool_result",
                "tool_use_id": "call_2",
                "is_error": True,
                "content": [{"type": "text", "text": PROBLEM}],
            },
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
]


def named(step: dict[str, Any]) -> dict[str, Any]:
    return {"tool_name": step["name"], "tool_call_id": step["id"]}


PYDANTIC_AI: dict[str, Any] = {
    version: [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": QUESTION}]},
        {
            "kind": "response",
            "usage": {"input_tokens": 40, "output_tokens": 7},
            "parts": [
                {"part_kind": "tool-call", **named(SPARQL), "args": SPARQL["args"]},
                {"part_kind": "tool-call", **named(SEARCH), "args": ARGS[1]},
            ],
        },
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "tool-return",
                    **named(SPARQL),
                    "content": json.loads(RESULTS),
                    "outcome": "success",
                },
                {**named(SEARCH), "content": PROBLEM, **failed},
            ],
        },
        {"kind": "response", "parts": [{"part_kind": "text", "content": ANSWER}]},
    ]
    for version, failed in [
        ("version 1", {"part_kind": "retry-prompt"}),
        ("version 2", {"part_kind": "tool-return", "outcome": "retried"}),
    ]
}


def llama_result(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "tool_name": step["name"],
        "tool_kwargs": step["args"],
        "tool_id": step["id"],
        "tool_output": {
            "blocks": [{"block_type": "text", "text": step["output"]}],
            "raw_output": step["output"],
            "is_error": step["status"] == "error",
        },
    }


def llama_call(step: dict[str, Any]) -> dict[str, Any]:
    return {"tool_name": step["name"], "tool_kwargs": step["args"], "tool_id": step["id"]}


def llama_blocks(text: str) -> list[dict[str, Any]]:
    return [{"block_type": "text", "text": text}]


LLAMAINDEX: list[Any] = [
    {"input": [{"role": "user", "blocks": llama_blocks(QUESTION)}], "current_agent_name": "kg"},
    {
        "response": {"role": "assistant", "blocks": llama_blocks("I look it up.")},
        "current_agent_name": "kg",
        "tool_calls": [llama_call(SPARQL), llama_call(SEARCH)],
    },
    llama_call(SPARQL),
    llama_call(SEARCH),
    llama_result(SPARQL),
    llama_result(SEARCH),
    {
        "response": {"role": "assistant", "blocks": llama_blocks(ANSWER)},
        "current_agent_name": "kg",
        "tool_calls": [llama_call(SPARQL), llama_call(SEARCH)],  # Those of the whole run.
    },
]
LLAMA_HISTORY: list[Any] = [
    {"role": "user", "blocks": llama_blocks(QUESTION)},
    {
        "role": "assistant",
        "blocks": [{"block_type": "tool_call", **named(step), "tool_kwargs": step["args"]} for step in STEPS],
    },
    *(
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": step["id"]},
            "blocks": llama_blocks(step["output"]),
        }
        for step in STEPS
    ),
    {"role": "assistant", "blocks": llama_blocks(ANSWER)},
]

MCP: list[Any] = [
    {"jsonrpc": "2.0", "id": 0, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 0, "result": {"tools": []}},
    *(
        {
            "jsonrpc": "2.0",
            "id": step["id"],
            "method": "tools/call",
            "params": {"name": step["name"], "arguments": step["args"]},
        }
        for step in STEPS
    ),
    {
        "jsonrpc": "2.0",
        "id": "call_1",
        "result": {"content": [{"type": "text", "text": RESULTS}], "isError": False},
    },
    {
        "jsonrpc": "2.0",
        "id": "call_2",
        "result": {"content": [{"type": "text", "text": PROBLEM}], "isError": True},
    },
]

HISTORIES: list[tuple[str, str, Any]] = [
    ("openai", "chat", CHAT),
    ("openai", "responses", ITEMS),
    ("openai", "hosted tools", HOSTED),
    ("openai", "run state", STATE),
    *(("langchain", name, history) for name, history in LANGCHAIN.items()),
    ("langchain", "events", EVENTS),
    ("anthropic", "messages", ANTHROPIC),
    *(("pydantic-ai", name, history) for name, history in PYDANTIC_AI.items()),
    ("llamaindex", "events", LLAMAINDEX),
    ("llamaindex", "chat history", LLAMA_HISTORY),
    ("mcp", "messages", MCP),
]
"""Format, which of its forms, and the history."""

WITHOUT_ANSWER = {"mcp"}
WITHOUT_QUESTION = {"mcp", "run state"}
