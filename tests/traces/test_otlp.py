from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import UsageError
from graphrag_eval_async.traces.otlp import responses_from_otlp
from tests.traces.otlp import (
    ARGS,
    ASKED,
    CALLS,
    GEN_AI,
    MODELS,
    OPENINFERENCE,
    RETURNED,
    ROOT,
    SAID,
    TRACE,
    line,
    model,
    pairs,
    raised,
    root,
    span,
    tool,
)
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

ROOTLESS = "the root span is missing, and maybe others"


def one(*spans: dict[str, Any], **options: Any) -> dict[str, Any]:
    [response] = responses_from_otlp([line(*spans)], **options)
    return response


EXPECTED = {
    "question_id": "q1",
    "id": TRACE,
    "actual_answer": ANSWER,
    "actual_steps": STEPS,
    "trace_format": "otlp",
    "trace_id": TRACE,
    "span_id": ROOT,
    "elapsed_sec": 7.5,
    "input_tokens": 20,
    "output_tokens": 10,
    "total_tokens": 30,
}
NAMES = {"gen_ai": "gen_ai.conversation.id", "openinference": "session.id"}
SAMPLES = {"gen_ai": GEN_AI, "openinference": OPENINFERENCE}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("as_text", [False, True])
def test_the_scenario(name: str, as_text: bool) -> None:
    lines: list[Any] = [line(each) for each in SAMPLES[name]]
    lines = [json.dumps(each).encode() for each in lines] if as_text else lines
    [response] = responses_from_otlp(lines, question_id=NAMES[name])
    assert response == EXPECTED


def test_messages_alone() -> None:
    response = one(*MODELS, root(), failed=[PROBLEM])
    assert response["actual_steps"] == STEPS
    assert (response["actual_answer"], response["question"]) == (ANSWER, QUESTION)


def test_both_conventions_in_one_trace_tell_each_call_once() -> None:
    inner = [
        each | {"spanId": f"b{at}", "parentSpanId": f"{11 + at:016x}"}
        for at, each in enumerate(OPENINFERENCE[:2])
    ]
    response = one(*GEN_AI, *inner, *OPENINFERENCE[2:4], question_id="gen_ai.conversation.id")
    assert response["actual_steps"] == STEPS


def test_messages_of_other_writers() -> None:
    results = [
        {"type": "tool_call_response", "id": "call_1", "name": "sparql_query", "result": json.loads(RESULTS)},
        {"type": "tool_call_response", "id": "call_2", "name": "retrieval_search", "result": PROBLEM},
    ]
    history = [ASKED, CALLS, {"role": "user", "parts": results}, SAID]
    agent = root(**{"pydantic_ai.all_messages": json.dumps(history)})
    response = one(agent, failed=[PROBLEM])
    assert response["actual_steps"] == STEPS
    assert (response["actual_answer"], response["question"]) == (ANSWER, QUESTION)


def event(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": f"gen_ai.{name}", "attributes": pairs(attributes)}


def test_events_of_old_versions() -> None:
    calls = [
        {"id": step["id"], "type": "function", "function": {"name": step["name"], "arguments": args}}
        for step, args in zip(STEPS, ARGS, strict=True)
    ]
    events = [
        event("user.message", content=QUESTION),
        event("assistant.message", tool_calls=json.dumps(calls)),
        event("tool.message", id="call_1", content=RESULTS),
        event("tool.message", id="call_2", content=PROBLEM),
        event("choice", index=0, message=json.dumps({"role": "assistant", "content": ANSWER})),
    ]
    attributes = {"gen_ai.system": "openai", "gen_ai.usage.prompt_tokens": 3}
    response = one(span(1, "chat", attributes, parent=None, events=events), failed=[PROBLEM])
    assert response["actual_steps"] == STEPS
    assert (response["actual_answer"], response["question"]) == (ANSWER, QUESTION)
    assert response["input_tokens"] == 3


def test_question_and_answer_as_the_root_tells_them() -> None:
    told = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    response = one(span(ROOT, "chain", told, parent=None), OPENINFERENCE[0])
    assert (response["question"], response["actual_answer"]) == (QUESTION, ANSWER)


def test_a_user_who_is_told_to_go_on_does_not_end_the_turn() -> None:
    """Frameworks put words into the mouth of the user, such as that an answer does not fit a schema."""
    again = {"role": "user", "parts": [{"type": "text", "content": "Answer as JSON."}]}
    models = [*MODELS, model(2, [ASKED, CALLS, *RETURNED, SAID, again], [SAID])]
    response = one(*models, failed=[PROBLEM])
    assert (response["actual_steps"], response["question"]) == (STEPS, QUESTION)


DOCUMENTS = [{"id": "d1", "score": 0.9, "text": "Feeder F7"}, {"id": "d2", "score": 0.5}]


@pytest.mark.parametrize(
    ("kind", "prefix", "name"),
    [
        ("RETRIEVER", "retrieval.documents", "retrieval"),
        ("RERANKER", "reranker.output_documents", "rerank"),
    ],
)
def test_retrievers_and_rerankers_of_openinference(kind: str, prefix: str, name: str) -> None:
    attributes = {
        "openinference.span.kind": kind,
        "input.value": "feeders",
        f"{prefix}.1.document.id": "d2",
        f"{prefix}.1.document.score": 0.5,
        f"{prefix}.0.document.id": "d1",
        f"{prefix}.0.document.content": "Feeder F7",
        f"{prefix}.0.document.score": 0.9,
    }
    [step] = one(span(5, "Retriever", attributes))["actual_steps"]
    assert (step["name"], step["args"]) == (name, {"query": "feeders"})
    assert json.loads(step["output"]) == DOCUMENTS


@pytest.mark.parametrize(
    ("more", "status", "output"),
    [
        ({}, "success", RESULTS),
        ({"status": {"code": 1}}, "success", RESULTS),
        ({"status": {"code": 2, "message": "no"}}, "error", RESULTS),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, "error", RESULTS),
        (raised("no") | {"status": {}}, "error", RESULTS),
    ],
)
def test_what_tells_an_error(more: dict[str, Any], status: str, output: str) -> None:
    [step] = one(tool(0, **more))["actual_steps"]
    assert (step["status"], step["output"]) == (status, output)


def test_attributes_that_were_cut_are_kept_as_text() -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "sparql_query",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.arguments": ARGS[0][:20],
        "gen_ai.tool.call.result": RESULTS[:20],
    }
    cut = model(0, [ASKED], [])
    cut["attributes"][1]["value"]["stringValue"] = "[{"
    response = one(span(5, "execute_tool", attributes), cut)
    [step] = response["actual_steps"]
    assert (step["args"], step["output"], step["status"]) == (ARGS[0][:20], RESULTS[:20], "success")
    assert response["trace_problems"] == [
        "sparql_query call_1: the result is not the JSON that it begins as, perhaps cut",
        "sparql_query call_1: arguments are not JSON",
        'gen_ai.input.messages: no list of messages, perhaps cut: "[{"',
        ROOTLESS,
    ]


def test_content_that_was_not_captured_is_said() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "sparql_query"}
    response = one(span(5, "execute_tool", attributes))
    assert response["actual_steps"] == [
        {"name": "sparql_query", "args": {}, "status": "success", "output": ""}
    ]
    assert response["trace_problems"] == [
        "a span of a tool without arguments and result: is the capture of content on?",
        ROOTLESS,
    ]


def test_integers_are_texts_or_numbers() -> None:
    numbers = [
        {"intValue": "7"},
        {"intValue": 7},
        {"intValue": "99999999999999999999"},
        {"doubleValue": "NaN"},
    ]
    arguments = {
        "kvlistValue": {"values": [{"key": str(at), "value": each} for at, each in enumerate(numbers)]}
    }
    given = tool(0)
    given["attributes"][3]["value"] = arguments
    given |= {"startTimeUnixNano": 10**18, "endTimeUnixNano": float(10**18 + 10**9)}
    response = one(given)
    assert response["actual_steps"][0]["args"] == {"0": 7, "1": 7, "2": "99999999999999999999", "3": "NaN"}
    assert response["elapsed_sec"] == 1


def test_calls_of_earlier_turns() -> None:
    earlier = {"type": "tool_call", "id": "call_0", "name": "sparql_query", "arguments": {"query": "ASK {}"}}
    before = [
        {"role": "user", "parts": [{"type": "text", "content": "Is there a harbour?"}]},
        {"role": "assistant", "parts": [earlier]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_0", "response": "true"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
    ]
    models = [model(0, [*before, ASKED], [CALLS]), model(1, [*before, ASKED, CALLS, *RETURNED], [SAID])]
    response = one(*models, tool(0), tool(1), root())
    assert (response["actual_steps"], response["question"]) == (STEPS, QUESTION)
    assert response["trace_problems"] == ["1 call of earlier turns skipped; turn='all' keeps them"]
    response = one(*models, tool(0), tool(1), root(), turn="all")
    assert [step["id"] for step in response["actual_steps"]] == ["call_0", "call_1", "call_2"]


def test_ids_that_repeat_are_calls_of_their_own() -> None:
    again = {"type": "tool_call", "id": "call_1", "name": "sparql_query", "arguments": {"query": "ASK {}"}}
    history = [ASKED, CALLS, *RETURNED, {"role": "assistant", "parts": [again]}]
    yes = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "true"}]}
    response = one(*MODELS[:1], model(1, history[:-1], history[-1:]), model(2, [*history, yes], [SAID]))
    assert [(step["id"], step["output"]) for step in response["actual_steps"]] == [
        ("call_1", RESULTS),
        ("call_2", PROBLEM),
        ("call_1", "true"),
    ]


def test_what_only_one_side_has() -> None:
    call = {"type": "tool_call", "id": "a", "name": "sparql_query", "arguments": {}}
    result = {"type": "tool_call_response", "id": "z", "response": "whose?"}
    messages = [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    response = one(model(0, messages, []))
    assert [(step["name"], step["id"], step["status"]) for step in response["actual_steps"]] == [
        ("sparql_query", "a", "error"),
        ("unknown", "z", "success"),
    ]
    assert response["trace_problems"] == [
        "z: a result without a call",
        ROOTLESS,
        "sparql_query a: no result",
    ]


def test_costs_and_tokens_are_not_counted_twice() -> None:
    def cost(number: int, parent: str, dollars: float) -> dict[str, Any]:
        attributes = {"openinference.span.kind": "LLM", "llm.cost.total": dollars, "llm.token_count.total": 4}
        return span(number, "llm", attributes, parent=parent)

    above = root(**{"llm.cost.total": 0.75, "gen_ai.usage.input_tokens": 8})
    response = one(above, cost(1, ROOT, 0.25), cost(2, ROOT, 0.5), cost(3, f"{2:016x}", 0.5))
    assert response["cost_usd"] == 0.75
    assert response["total_tokens"] == 8
    assert one(above)["cost_usd"] == 0.75


def test_tokens_of_embeddings_do_not_count() -> None:
    attributes = {"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 500}
    assert one(span(1, "embeddings", attributes), *MODELS)["input_tokens"] == 20


def test_an_agent_that_failed() -> None:
    response = one(tool(0), root() | raised("no more credit"))
    assert response["error"] == "no more credit"
    assert response["actual_steps"] == STEPS[:1]


def test_where_the_question_id_may_be() -> None:
    name = "question"
    spans = [root(), tool(0)]
    for at in (0, 1):
        marked = [dict(each) for each in spans]
        marked[at]["attributes"] = [*marked[at]["attributes"], *pairs({name: 7})]
        assert one(*marked, question_id=name)["question_id"] == "7"
    [response] = responses_from_otlp([line(*spans, question="q3")], question_id=name)
    assert response["question_id"] == "q3"
    response = one(*spans, question_id=name)
    assert "question_id" not in response
    assert response["trace_problems"] == ["no span has the attribute question"]


def with_trace(number: int, spans: list[dict[str, Any]], delay: int = 0) -> list[dict[str, Any]]:
    def later(each: dict[str, Any]) -> dict[str, Any]:
        keys = ("startTimeUnixNano", "endTimeUnixNano")
        return {key: str(int(each[key]) + delay * 10**9) for key in keys}

    return [each | {"traceId": f"{number:032x}"} | later(each) for each in spans]


def test_traces_of_a_conversation() -> None:
    first, second = with_trace(1, [tool(0), root()]), with_trace(2, GEN_AI, delay=60)
    [response] = responses_from_otlp([line(*second), line(*first)], group_by="conversation")
    assert (response["id"], response["trace_id"]) == ("q1", f"{2:032x}")
    assert response["actual_steps"] == STEPS
    assert response["elapsed_sec"] == 7.5
    marked = [
        each | {"attributes": [*each["attributes"], *pairs({"q": at})]}
        for at, each in enumerate([first[0], second[0]])
    ]
    spans = [marked[0], *first[1:], marked[1], *second[1:]]
    [response] = responses_from_otlp([line(*spans)], group_by="conversation", question_id="q")
    assert response["question_id"] == "1"
    [response] = responses_from_otlp([line(*second, *first)], group_by="conversation", turn="all")
    assert [step["id"] for step in response["actual_steps"]] == ["call_1", "call_1", "call_2"]


def test_conversations_within_a_trace() -> None:
    agents = []
    for number in (1, 2):
        agent = root(**{"gen_ai.conversation.id": f"c{number}"}) | {
            "spanId": f"a{number}",
            "parentSpanId": ROOT,
        }
        agents += [agent, tool(0) | {"spanId": f"b{number}", "parentSpanId": f"a{number}"}]
    batch = span(ROOT, "batch", {}, parent=None)
    found = responses_from_otlp([line(batch, *agents)], group_by="conversation")
    assert [(response["id"], response["actual_steps"]) for response in found] == [
        ("c1", STEPS[:1]),
        ("c2", STEPS[:1]),
    ]
    assert found.skipped == {"traces without a span of an agent": 1}


def test_what_is_skipped_is_counted() -> None:
    lines: list[Any] = [
        {"resourceLogs": []},
        {"resourceMetrics": []},
        "no JSON",
        "",
        b"[]",
        {"resourceSpans": 3},
        {"resourceSpans": [{"scopeSpans": [None, {"spans": ["x"]}]}]},
        {},
        line(span(1, "GET /", {}, trace="ab")),
        line(tool(0)),
    ]
    found = responses_from_otlp(lines)
    assert len(list(found)) == 1
    assert found.skipped == {
        "lines of resourceLogs": 1,
        "lines of resourceMetrics": 1,
        "lines that are not JSON": 1,
        "lines without resourceSpans": 2,
        "lines with spans that are not OTLP": 2,
        "traces without a span of an agent": 1,
    }


def test_an_option_that_cannot_be() -> None:
    with pytest.raises(TypeError):
        one(tool(0), turns="last")
    with pytest.raises(UsageError, match="group_by: expected"):
        responses_from_otlp([], group_by="span")  # type: ignore[arg-type]
