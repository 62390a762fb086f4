"""Spans that are missing, repeated, out of order, cut or of another type: nothing is lost or raises."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.traces.otlp import responses_from_otlp
from tests.traces.otlp import GEN_AI, OPENINFERENCE, line, model
from tests.traces.scenario import ANSWER, PROBLEM, STEPS
from tests.traces.test_formats import JSON, replaced

INNER = [
    each | {"spanId": f"b{at}", "parentSpanId": f"{11 + at:016x}"}
    for at, each in enumerate(OPENINFERENCE[:2])
]
SAMPLES = {"gen_ai": GEN_AI, "openinference": OPENINFERENCE}
ALL = {**SAMPLES, "mixed": [*GEN_AI, *INNER, *OPENINFERENCE[2:4]]}
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def told_by(response: dict[str, Any]) -> str:
    return json.dumps([response["actual_steps"], response.get("trace_problems", [])])


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_spans_that_are_missing_repeat_or_come_in_any_order(name: str, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(ALL[name]), min_size=1, max_size=8))
    [response] = responses_from_otlp([line(each) for each in chosen])
    ids = [step["id"] for step in response["actual_steps"] if "id" in step]
    assert len(ids) == len(set(ids))
    told = told_by(response)
    for number in ("1", "2"):
        if f"call_{number}" in json.dumps(chosen):
            assert f"call_{number}" in told
    [again] = responses_from_otlp([line(*chosen)])
    assert again == response


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_the_order_of_spans_does_not_matter(name: str, data: st.DataObject) -> None:
    spans = data.draw(st.permutations(ALL[name]))
    [response] = responses_from_otlp([line(each) for each in spans], question_id="session.id")
    assert response["actual_steps"] == STEPS
    assert response["actual_answer"] == ANSWER
    assert response["elapsed_sec"] == 7.5


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_anything_of_any_type(name: str, data: st.DataObject) -> None:
    lines: Any = [line(each) for each in ALL[name]]
    for _ in range(data.draw(st.integers(1, 4))):
        depth = data.draw(st.integers(1, 14))
        path = data.draw(st.lists(st.integers(0, 20), min_size=depth, max_size=depth))
        lines = replaced(lines, path, data.draw(JSON))
    for response in responses_from_otlp(lines, question_id="session.id"):
        assert isinstance(response["actual_steps"], list)
        for step in response["actual_steps"]:
            assert isinstance(step["name"], str)
            assert isinstance(step.get("output", ""), str)


BAD = st.sampled_from(["x", -1, [None], ["x"], {"code": "x", "attributes": 5}])
FIELDS = ("status", "startTimeUnixNano", "endTimeUnixNano", "events", "resource", "droppedAttributesCount")


@pytest.mark.parametrize("name", SAMPLES)
@QUICK
@given(data=st.data())
def test_one_field_that_is_not_otlp_costs_nothing_else(name: str, data: st.DataObject) -> None:
    spans = json.loads(json.dumps(SAMPLES[name]))
    broken = data.draw(st.sampled_from(spans))
    field, bad = data.draw(st.sampled_from([*FIELDS, "attribute", "twice"])), data.draw(BAD)
    if field == "attribute":
        broken["attributes"].insert(data.draw(st.integers(0, 3)), bad)
    elif field == "twice":
        broken["attributes"].append(data.draw(st.sampled_from(broken["attributes"])))
    elif field != "resource":
        broken[field] = bad
    lines = [line(each) for each in spans]
    if field == "resource":
        lines[0]["resourceSpans"][0]["resource"] = bad
    [response] = responses_from_otlp(lines)
    steps = sorted(response["actual_steps"], key=lambda step: str(step["id"]))  # Their times may be lost.
    steps[1]["output"] = PROBLEM  # The text of an exception may be lost.
    assert steps == STEPS
    assert response["actual_answer"] == ANSWER
    assert response["trace_problems"]


PARTS = st.one_of(
    st.builds(lambda number: {"type": "tool_call", "id": f"c{number}", "name": "t"}, st.integers(0, 3)),
    st.builds(
        lambda number: {"type": "tool_call_response", "id": f"c{number}", "response": f"r{number}"},
        st.integers(0, 3),
    ),
    st.just({"type": "text", "content": "Hm."}),
)


@QUICK
@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.lists(PARTS, max_size=3)), max_size=8
    ),
    st.lists(st.integers(0, 8), min_size=1, max_size=3),
)
def test_histories_in_any_order(told: list[tuple[str, list[Any]]], cuts: list[int]) -> None:
    messages = [{"role": role, "parts": parts} for role, parts in told]
    cuts = [*cuts, len(messages)]
    spans = [model(number, messages[:cut], []) for number, cut in enumerate(cuts)]
    [response] = responses_from_otlp([line(*spans)], turn="all")
    text = told_by(response)
    counts = Counter(step["id"] for step in response["actual_steps"])
    calls = Counter(part["id"] for _, parts in told for part in parts if part["type"] == "tool_call")
    for number in range(4):
        assert counts[f"c{number}"] >= calls[f"c{number}"]
        assert (f"r{number}" in json.dumps(messages)) == (f"r{number}" in text)
