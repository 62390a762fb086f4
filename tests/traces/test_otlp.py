from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.traces.otlp import responses_from_otlp
from tests.traces.otlp import GEN_AI, OPENINFERENCE, ROOT, TRACE, line, span, tool
from tests.traces.scenario import ANSWER, STEPS

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


def test_what_is_skipped_is_counted() -> None:
    lines: list[Any] = [
        {"resourceLogs": []},
        {"resourceMetrics": []},
        "no JSON",
        "",
        b"[]",
        {"resourceSpans": 3},
        {"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}, None]}]},
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
        "parts of lines that are not OTLP": 3,
        "traces without a span of an agent": 1,
    }
