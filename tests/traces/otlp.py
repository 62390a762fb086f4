"""The scenario as spans of OpenTelemetry."""

from __future__ import annotations

import json
from typing import Any

from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROOT = "00000000000000a0"
ARGS = [json.dumps(step["args"]) for step in STEPS]


def value(of: Any) -> dict[str, Any]:
    """An `AnyValue`."""
    if isinstance(of, bool):
        return {"boolValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    if isinstance(of, float):
        return {"doubleValue": of}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(each) for each in of]}}
    if isinstance(of, dict):
        return {"kvlistValue": {"values": pairs(of)}}
    return {"stringValue": of}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(each)} for key, each in attributes.items()]


def span(
    number: int | str,
    name: str,
    attributes: dict[str, Any],
    *,
    start: float = 0,
    end: float = 9,
    parent: str | None = ROOT,
    trace: str = TRACE,
    **more: Any,
) -> dict[str, Any]:
    """A span; times are in seconds."""
    span_id = number if isinstance(number, str) else f"{number:016x}"
    times = {"startTimeUnixNano": str(int(1e18 + start * 1e9)), "endTimeUnixNano": str(int(1e18 + end * 1e9))}
    above = {} if parent is None else {"parentSpanId": parent}
    found = {"traceId": trace, "spanId": span_id, "name": name, "kind": 1, **times, **above}
    return found | {"attributes": pairs(attributes), "status": {}} | more


def line(*spans: dict[str, Any], **resource: Any) -> dict[str, Any]:
    scope = {"scope": {"name": "demo"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": pairs(resource)}, "scopeSpans": [scope]}]}


def raised(message: str) -> dict[str, Any]:
    attributes = {"exception.type": "ConnectionError", "exception.message": message}
    return {"events": [{"name": "exception", "attributes": pairs(attributes)}], "status": {"code": 2}}


def root(**attributes: Any) -> dict[str, Any]:
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "q1", **attributes}
    return span(ROOT, "invoke_agent grid", told, start=0, end=7.5, parent=None)


def tool(number: int, **more: Any) -> dict[str, Any]:
    step = STEPS[number]
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": step["name"],
        "gen_ai.tool.call.id": step["id"],
        "gen_ai.tool.call.arguments": step["args"] if number else ARGS[0],
    }
    if number:
        attributes["error.type"] = "ConnectionError"
        more = raised(PROBLEM) | more
    else:
        attributes["gen_ai.tool.call.result"] = RESULTS
    return span(11 + number, f"execute_tool {step['name']}", attributes, start=3 - number, end=4, **more)


ASKED = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
CALLS = {
    "role": "assistant",
    "parts": [
        {"type": "tool_call", "id": "call_1", "name": "sparql_query", "arguments": STEPS[0]["args"]},
        {"type": "tool_call", "id": "call_2", "name": "retrieval_search", "arguments": ARGS[1]},
    ],
}
RETURNED = [
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": RESULTS}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_2", "response": PROBLEM}]},
]
SAID = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}


def model(number: int, given: list[Any], made: list[Any], *, as_text: bool = True) -> dict[str, Any]:
    def form(messages: list[Any]) -> Any:
        return json.dumps(messages) if as_text else messages

    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": form(given),
        "gen_ai.output.messages": form(made),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    return span(20 + number, "chat", attributes, start=1 + 4 * number, end=1.5 + 5 * number)


MODELS = [model(0, [ASKED], [CALLS]), model(1, [ASKED, CALLS, *RETURNED], [SAID], as_text=False)]

# What an agent writes that has both; the second tool starts first.
GEN_AI = [tool(1), tool(0), *MODELS, root(**{"gen_ai.usage.input_tokens": 20})]


def flat(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at, message in enumerate(messages):
        for key, each in message.items():
            found[f"{prefix}.{at}.message.{key}"] = each
    return found


OI_ASKED = {"role": "user", "content": QUESTION}
OI_CALLS: dict[str, Any] = {"role": "assistant"}
for at, step in enumerate(STEPS):
    OI_CALLS[f"tool_calls.{at}.tool_call.id"] = step["id"]
    OI_CALLS[f"tool_calls.{at}.tool_call.function.name"] = step["name"]
    OI_CALLS[f"tool_calls.{at}.tool_call.function.arguments"] = ARGS[at]
OI_RETURNED = [
    {"role": "tool", "tool_call_id": "call_1", "content": RESULTS},
    {"role": "tool", "tool_call_id": "call_2", "content": f"Error: ConnectionError('{PROBLEM}')"},
]
OI_SAID = {"role": "assistant", "content": ANSWER}
LANGCHAIN: dict[str, Any] = {
    "type": "tool",
    "data": {"content": RESULTS, "name": "sparql_query", "tool_call_id": "call_1", "status": "success"},
}


def oi_model(number: int, given: list[Any], made: list[Any]) -> dict[str, Any]:
    attributes = {
        "openinference.span.kind": "LLM",
        **flat("llm.input_messages", given),
        **flat("llm.output_messages", made),
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 5,
        "llm.token_count.total": 15,
    }
    return span(20 + number, "ChatModel", attributes, start=1 + 4 * number, end=1.5 + 5 * number)


OPENINFERENCE = [
    span(
        11,
        "sparql_query",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "sparql_query",
            "input.value": STEPS[0]["args"]["query"],  # A single argument is bare text.
            "output.value": json.dumps(LANGCHAIN),
            "output.mime_type": "application/json",
        },
        start=3,
        end=4,
        status={"code": 1},
    ),
    span(
        12,
        "retrieval_search",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "retrieval_search",
            "input.value": ARGS[1],
            "input.mime_type": "application/json",
        },
        start=2,
        end=4,
        **raised(PROBLEM),
    ),
    oi_model(0, [OI_ASKED], [OI_CALLS]),
    oi_model(1, [OI_ASKED, OI_CALLS, *OI_RETURNED], [OI_SAID]),
    span(
        ROOT,
        "grid",
        {"openinference.span.kind": "AGENT", "session.id": "q1", "input.value": QUESTION},
        end=7.5,
        parent=None,
    ),
]
