"""Spans of OpenTelemetry, also missing, repeated, out of order, or of another type: nothing is
lost.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.traces import responses_from_otlp
from graphrag_eval_async.traces.format import read_trace
from tests.support.cpu import affordable
from tests.support.json_values import JSON, replaced
from tests.traces.otlp import GEN_AI, OPENINFERENCE, ROOT, TRACE, line, span, tool
from tests.traces.scenario import ANSWER, PROBLEM, STEPS

INNER = [
    each | {"spanId": f"b{at}", "parentSpanId": f"{11 + at:016x}"}
    for at, each in enumerate(OPENINFERENCE[:2])
]
SAMPLES = {"gen_ai": GEN_AI, "openinference": OPENINFERENCE}
ALL = {**SAMPLES, "mixed": [*GEN_AI, *INNER, *OPENINFERENCE[2:4]]}
QUICK = settings(max_examples=150)


def told_by(response: dict[str, Any]) -> str:
    return json.dumps([response["actual_steps"], response.get("trace_problems", [])])


@QUICK
@given(
    st.sampled_from([*ALL.values()]).flatmap(
        lambda spans: st.lists(st.sampled_from(spans), min_size=1)
    )
)
def test_spans_that_are_missing_repeat_or_come_in_any_order(chosen: list[dict[str, Any]]) -> None:
    [response] = responses_from_otlp([line(each) for each in chosen])
    ids = [step["id"] for step in response["actual_steps"] if "id" in step]
    assert len(ids) == len(set(ids))
    told = told_by(response)
    for number in ("1", "2"):
        if f"call_{number}" in json.dumps(chosen):
            assert f"call_{number}" in told
    [again] = responses_from_otlp([line(*chosen)])
    assert again == response


PATHS = st.integers(1, 14).flatmap(
    lambda depth: st.lists(st.integers(0, 20), min_size=depth, max_size=depth)
)


@QUICK
@given(st.sampled_from([*ALL.values()]), st.lists(st.tuples(PATHS, JSON), min_size=1, max_size=4))
def test_anything_of_any_type(
    spans: list[dict[str, Any]], changes: list[tuple[list[int], Any]]
) -> None:
    lines: Any = [line(each) for each in spans]
    for path, by in changes:
        lines = replaced(lines, path, by)
    for response in responses_from_otlp(lines, question_id="session.id"):
        assert isinstance(response["actual_steps"], list)
        for step in response["actual_steps"]:
            assert isinstance(step["name"], str)
            assert isinstance(step.get("output", ""), str)


BAD = st.sampled_from(["x", -1, [None], ["x"], {"code": "x", "attributes": 5}])
FIELDS = (
    "status",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "events",
    "droppedAttributesCount",
    "resource",
)


@QUICK
@given(st.data())
def test_one_field_that_is_not_otlp_costs_nothing_else(data: st.DataObject) -> None:
    spans = data.draw(st.sampled_from([*SAMPLES.values()]))
    lines = json.loads(json.dumps([line(each) for each in spans]))
    resource = data.draw(st.sampled_from(lines))["resourceSpans"][0]
    [span] = resource["scopeSpans"][0]["spans"]
    field, bad = data.draw(st.sampled_from([*FIELDS, "attribute", "twice"])), data.draw(BAD)
    if field == "attribute":
        span["attributes"].insert(data.draw(st.integers(0, 3)), bad)
    elif field == "twice":
        span["attributes"].append(data.draw(st.sampled_from(span["attributes"])))
    else:
        (resource if field == "resource" else span)[field] = bad
    [response] = responses_from_otlp(lines)
    # Their times may be lost.
    steps = sorted(response["actual_steps"], key=lambda step: str(step["id"]))
    steps[1]["output"] = PROBLEM  # The text of an exception may be lost.
    assert (steps, response["actual_answer"]) == (STEPS, ANSWER)
    assert response["trace_problems"]


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


@QUICK
@given(st.sampled_from([*ALL]), st.data())
def test_the_scenario_in_any_order(name: str, data: st.DataObject) -> None:
    spans = data.draw(st.permutations(ALL[name]))
    key = "gen_ai.conversation.id" if name == "gen_ai" else "session.id"
    for lines in (
        [line(each) for each in spans],
        [json.dumps(line(each)).encode() for each in spans],
    ):
        [response] = responses_from_otlp(lines, question_id=key)
        if name == "mixed":
            assert (response["actual_steps"], response["actual_answer"]) == (STEPS, ANSWER)
        else:
            assert response == EXPECTED


def test_what_is_skipped_is_counted() -> None:
    lines: list[Any] = [{"resourceLogs": []}, {"resourceMetrics": []}, "no JSON", "", b"[]", {}]
    lines += [{"resourceSpans": 3}, {"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}, None]}]}]
    lines += [line(span(1, "GET /", {}, trace="ab")), line(tool(0))]
    found = responses_from_otlp(lines)
    assert len(list(found)) == 1
    assert found.skipped == {
        "lines of resourceLogs": 1,
        "lines of resourceMetrics": 1,
        "lines that are not JSON": 1,
        "lines without resourceSpans": 2,
        "parts of lines that are not OTLP": 3,
        "traces without a span of an agent": 1,
    }


COUNT = 10_000
EVENTS = [{"name": "a", "run_id": f"{n}", "data": {}} for n in range(COUNT)]
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}


def test_time_is_linear_in_the_calls() -> None:
    chain = [
        span(n, "t", TOOL | {"gen_ai.tool.call.id": f"c{n}"}, parent=f"{n - 1:016x}")
        for n in range(1, COUNT + 1)
    ]
    lines = line(*chain)
    lines["resourceSpans"][0]["resource"]["attributes"] = [5] * COUNT
    began = [each | {"event": "on_tool_start"} for each in EVENTS]  # All, before any ends.
    ended = [each | {"event": "on_tool_end"} for each in EVENTS[::-1]]
    with affordable(len(json.dumps([lines, began, ended]))):
        responses = [
            *responses_from_otlp([lines]),
            read_trace([*began, *ended], "langchain", question_id="q1"),
        ]
    assert [len(response["actual_steps"]) for response in responses] == [COUNT] * 2
