"""The scenario as spans of OpenTelemetry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROOT = "00000000000000a0"
ARGS = [json.dumps(step["args"]) for step in STEPS]


def value(of: Any) -> dict[str, Any]:
    """An `AnyValue`."""
    if isinstance(of, int):
        return {"intValue": str(of)}
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
    times = {
        "startTimeUnixNano": str(int(1e18 + start * 1e9)),
        "endTimeUnixNano": str(int(1e18 + end * 1e9)),
    }
    above = {} if parent is None else {"parentSpanId": parent}
    found = {"traceId": trace, "spanId": span_id, "name": name, "kind": 1, **times, **above}
    return found | {"attributes": pairs(attributes), "status": {}} | more


def line(*spans: dict[str, Any], **resource: Any) -> dict[str, Any]:
    scope = {"scope": {"name": "demo"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": pairs(resource)}, "scopeSpans": [scope]}]}


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
        raised = {"exception.type": "ConnectionError", "exception.message": PROBLEM}
        more |= {
            "events": [{"name": "exception", "attributes": pairs(raised)}],
            "status": {"code": 2},
        }
    else:
        attributes["gen_ai.tool.call.result"] = RESULTS
    return span(
        11 + number, f"execute_tool {step['name']}", attributes, start=3 - number, end=4, **more
    )


ASKED = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
CALLS = {
    "role": "assistant",
    "parts": [
        {
            "type": "tool_call",
            "id": "call_1",
            "name": "sparql_query",
            "arguments": STEPS[0]["args"],
        },
        {"type": "tool_call", "id": "call_2", "name": "retrieval_search", "arguments": ARGS[1]},
    ],
}
RETURNED = [
    {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call_1", "response": RESULTS}],
    },
    {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call_2", "response": PROBLEM}],
    },
]
SAID = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}


def model(
    number: int, given: list[Any], made: list[Any], *, as_text: bool = True
) -> dict[str, Any]:
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


OPENINFERENCE = [
    json.loads(each)
    for each in Path(__file__).with_name("openinference.jsonl").read_text().splitlines()
]


def spans(number: int) -> list[dict[str, Any]]:
    """Those of one more trace, in the order in which they end: the root comes last."""
    trace = f"{number:032x}"
    return json.loads(json.dumps(GEN_AI).replace(TRACE, trace))  # type: ignore[no-any-return]


IDS = [f"{number:032x}" for number in (1, 2, 3)]
"""The ids of the first traces of `spans`."""
